/* What macOS gives in libSystem and Linux lacks, for the tests alone: preloaded beside the library under test, it
 * answers from the files of the folder that STANDIN names. It stands in for a Mac's kernel and loader; it is never
 * installed and nothing of capgate looks for it.
 *
 *   sysctl      lines `name=text`, or `name=#number` for a value of four bytes
 *   cdhash      40 digits that csops answers; without the file csops fails
 *   executable  the path that _NSGetExecutablePath answers; without the file, that of the process
 *   uuid        32 digits that gethostuuid answers
 *   links       a line `name aa:bb:cc:dd:ee:ff` for each interface
 *   images      lines `path file [library]`: images that the loader lists, each mapped from a Mach-O file; with a third
 *               word, only while a library of that name is loaded; the file `gone` is one that was unloaded since
 *   metal       the library that is opened where Metal's framework is asked for; without the file there is none
 *   acl         paths that have an access control list with an entry that allows
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static FILE *open_part(const char *name)
{
    const char *folder = getenv("STANDIN");
    char path[4096];
    if (!folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return NULL;
    return fopen(path, "re");
}

/* The first line of a part, without its end; 0 when there is none. */
static int first_line(const char *name, char *line, size_t size)
{
    FILE *file = open_part(name);
    int found = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    if (found)
        line[strcspn(line, "\n")] = 0;
    return found;
}

static int unhex(const char *digits, unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sscanf(digits + 2 * i, "%2hhx", &bytes[i]) != 1)
            return 0;
    return 1;
}

static int hand_out(void *old, size_t *length, const void *value, size_t size)
{
    if (*length < size) {
        errno = ENOMEM;
        return -1;
    }
    memcpy(old, value, size);
    *length = size;
    return 0;
}

int sysctlbyname(const char *name, void *old, size_t *length, void *new_value, size_t new_length)
{
    char line[2048];
    FILE *file = open_part("sysctl");
    int status = -1;
    (void)new_value, (void)new_length;
    errno = ENOENT;
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = 0;
        if (strcmp(line, name) != 0)
            continue;
        value[strcspn(value, "\n")] = 0;
        if (*value == '#') {
            int number = atoi(value + 1);
            status = hand_out(old, length, &number, sizeof number);
        } else {
            status = hand_out(old, length, value, strlen(value) + 1);
        }
        break;
    }
    if (file)
        fclose(file);
    return status;
}

/* Only the interface list is ever asked for: for each interface an if_msghdr and a sockaddr_dl. */
int sysctl(int *name, unsigned count, void *old, size_t *length, void *new_value, size_t new_length)
{
    static const int wanted[6] = {4, 17, 0, 18, 3, 0};
    unsigned char list[8192] = {0};
    size_t at = 0;
    char line[256], label[32], digits[64];
    FILE *file = open_part("links");
    (void)new_value, (void)new_length;
    if (!file || count != 6 || memcmp(name, wanted, sizeof wanted) != 0) {
        if (file)
            fclose(file);
        errno = ENOENT;
        return -1;
    }
    while (fgets(line, sizeof line, file) && at + 256 < sizeof list) {
        unsigned char *message = list + at, *link = message + 112;
        if (sscanf(line, "%15s %63s", label, digits) != 2)
            continue;
        message[2] = 5, message[3] = 0x0e;
        link[1] = 18, link[2] = 1, link[4] = 6, link[5] = (unsigned char)strlen(label), link[6] = 6;
        memcpy(link + 8, label, link[5]);
        sscanf(digits, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", link + 8 + link[5], link + 9 + link[5],
               link + 10 + link[5], link + 11 + link[5], link + 12 + link[5], link + 13 + link[5]);
        uint16_t size = (uint16_t)((112 + 8 + link[5] + 6 + 3) & ~3);
        link[0] = (unsigned char)(size - 112);
        memcpy(message, &size, sizeof size);
        at += size;
    }
    fclose(file);
    return hand_out(old, length, list, at);
}

int csops(pid_t pid, unsigned operation, void *bytes, size_t size)
{
    char line[64];
    if (pid == getpid() && operation == 5 && size == 20 && first_line("cdhash", line, sizeof line) &&
        unhex(line, bytes, 20))
        return 0;
    errno = ESRCH;
    return -1;
}

int _NSGetExecutablePath(char *path, uint32_t *size)
{
    char line[4096];
    if (!first_line("executable", line, sizeof line)) {
        ssize_t length = readlink("/proc/self/exe", line, sizeof line - 1);
        if (length < 0)
            return -1;
        line[length] = 0;
    }
    if (strlen(line) + 1 > *size)
        return -1;
    strcpy(path, line);
    return 0;
}

int gethostuuid(unsigned char *id, const struct timespec *wait)
{
    char line[64];
    (void)wait;
    return first_line("uuid", line, sizeof line) && unhex(line, id, 16) ? 0 : -1;
}

/* Access control lists: one entry each, which allows. */
static char allowing;

void *acl_get_link_np(const char *path, int kind)
{
    char line[4096];
    FILE *file = open_part("acl");
    void *found = NULL;
    (void)kind;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, path) == 0)
            found = &allowing;
    }
    if (file)
        fclose(file);
    errno = ENOENT;
    return found;
}

int acl_get_entry(void *list, int at, void **entry)
{
    *entry = list;
    return at == 0 ? 0 : -1;
}

int acl_get_tag_type(void *entry, int *tag)
{
    (void)entry;
    *tag = 1;
    return 0;
}

int acl_free(void *list)
{
    (void)list;
    return 0;
}

/* A Mac's own inline function, which GNU's runtime has only in its header. */
void *object_getClass(void *object)
{
    return object ? *(void **)object : NULL;
}

void *dlopen(const char *path, int flags)
{
    static void *(*next)(const char *, int);
    char line[4096];
    if (!next)
        next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    if (path && strcmp(path, "/System/Library/Frameworks/Metal.framework/Metal") == 0)
        return first_line("metal", line, sizeof line) ? next(line, flags) : NULL;
    return next(path, flags);
}

/* The kernel reads memory of the process: what is not there is an error, no fault. */
unsigned mach_task_self_ = 0x103;

int mach_vm_read_overwrite(unsigned task, uint64_t address, uint64_t size, uint64_t to, uint64_t *copied)
{
    struct iovec here = {(void *)(uintptr_t)to, size}, there = {(void *)(uintptr_t)address, size};
    ssize_t count = task == mach_task_self_ ? process_vm_readv(getpid(), &here, 1, &there, 1, 0) : -1;
    if (count != (ssize_t)size)
        return 1; /* KERN_INVALID_ADDRESS */
    *copied = size;
    return 0;
}

/* The loader's list of images. */
enum { MOST_IMAGES = 16 };
static struct image {
    char path[1024];
    void *header;
} images[MOST_IMAGES];

static unsigned load_images(void)
{
    char line[4096], path[1024], from[1024], library[1024];
    unsigned count = 0;
    FILE *file = open_part("images");
    while (file && count < MOST_IMAGES && fgets(line, sizeof line, file)) {
        int words = sscanf(line, "%1023s %1023s %1023s", path, from, library);
        if (words < 2)
            continue;
        if (words == 3) {
            void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
            if (!loaded)
                continue;
            dlclose(loaded);
        }
        if (strcmp(images[count].path, path) != 0) {
            struct stat facts;
            int descriptor = open(from, O_RDONLY | O_CLOEXEC);
            void *header = MAP_FAILED;
            if (strcmp(from, "gone") == 0) {
                header = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                mprotect(header, 1 << 16, PROT_NONE);
            }
            if (descriptor >= 0 && fstat(descriptor, &facts) == 0)
                header = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
            if (descriptor >= 0)
                close(descriptor);
            images[count].header = header == MAP_FAILED ? NULL : header;
            strcpy(images[count].path, path);
        }
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

unsigned _dyld_image_count(void)
{
    return load_images();
}

const char *_dyld_get_image_name(unsigned at)
{
    return at < load_images() ? images[at].path : NULL;
}

const void *_dyld_get_image_header(unsigned at)
{
    return at < load_images() ? images[at].header : NULL;
}
