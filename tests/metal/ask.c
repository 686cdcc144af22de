/* A program that makes devices and says what it is told of them, one line for each on standard output:
 *
 *     CLASS FAMILY,FAMILY,... MEMORY [inside]
 *
 * with `inside` where the device was told that it is of family 1009 when it asked itself while it was made.
 *
 *   ask CLASS...          each device in turn
 *   ask --threads CLASS   eight devices at once, in eight threads
 *   ask --fork CLASS      one in a child that was forked and did not exec
 *   ask --child PROGRAM…  runs a program after a device was made, and waits for it
 *
 * With LATE defined Metal is not linked but opened, after a moment in which nothing of it is there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "Metal.h"

#ifdef LATE
static Device (*create)(const char *);
static void (*answers_of)(Device, struct answers *);
static const long *families;

static void find(void)
{
    void *metal = dlopen("/System/Library/Frameworks/Metal.framework/Metal", RTLD_NOW | RTLD_GLOBAL);
    if (!metal) {
        fprintf(stderr, "ask: %s\n", dlerror());
        exit(9);
    }
    create = (Device(*)(const char *))dlsym(metal, "metal_create");
    answers_of = (void (*)(Device, struct answers *))dlsym(metal, "metal_answers");
    families = dlsym(metal, "metal_families");
}
#else
#define create metal_create
#define answers_of metal_answers
#define families metal_families
static void find(void)
{
}
#endif

static void *ask(void *name)
{
    struct answers answers;
    char line[256];
    Device device = create(name);
    int at;
    if (!device) {
        fprintf(stderr, "ask: there is no %s\n", (const char *)name);
        exit(9);
    }
    answers_of(device, &answers);
    at = snprintf(line, sizeof line, "%s ", (const char *)name);
    for (int i = 0; i < FAMILIES; i++)
        if (answers.supports[i])
            at += snprintf(line + at, sizeof line - (size_t)at, "%ld,", families[i]);
    at += snprintf(line + at - 1, sizeof line - (size_t)at, " %lu%s\n", answers.memory,
                   answers.queried ? " inside" : "") - 1;
    if (write(1, line, (size_t)at) != at)
        exit(9);
    return NULL;
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    find();
    if (strcmp(mode, "--threads") == 0) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            if (pthread_create(&threads[i], NULL, ask, words[2]))
                return 9;
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    } else if (strcmp(mode, "--fork") == 0) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            ask(words[2]);
            _exit(0);
        }
        waitpid(child, &status, 0);
        return status == 0 ? 0 : 9;
    } else if (strcmp(mode, "--child") == 0) {
        int status;
        ask("AppleParavirtDevice");
        pid_t child = fork();
        if (child == 0) {
            execvp(words[2], words + 2);
            _exit(9);
        }
        waitpid(child, &status, 0);
        return status == 0 ? 0 : 9;
    } else {
        for (int i = 1; i < count; i++)
            ask(words[i]);
    }
    return 0;
}
