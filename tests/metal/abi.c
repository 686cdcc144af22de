/* The C interface from C: what every call does with nothing, with what never was a handle, and with one that is closed;
 * then what it says of a real one, from eight threads at once. Prints one line for each finding that is not as it must
 * be, and then what it was told.
 *
 *     abi PREFIX
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "capgate.h"

static int faults;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: %s\n", __LINE__, #condition);                                                             \
            faults++;                                                                                                  \
        }                                                                                                              \
    } while (0)

static void nothing(struct Capgate *none)
{
    EXPECT(capgate_decision(none) == CAPGATE_STOCK);
    EXPECT(strcmp(capgate_reason(none), "not-open") == 0);
    EXPECT(*capgate_detail(none) == 0);
    EXPECT(*capgate_profile(none) == 0);
    EXPECT(capgate_apple_family_max(none) == 0);
    EXPECT(capgate_max_threadgroup_memory(none) == 0);
    EXPECT(capgate_device(none, NULL, 1005, 32768) == CAPGATE_STOCK);
    EXPECT(capgate_supports_family(none, 1009, 0) == 0);
    EXPECT(capgate_supports_family(none, 1009, 7) == 1);
    EXPECT(capgate_threadgroup_memory(none, 32768) == 32768);
    EXPECT(*capgate_last_error() != 0);
    capgate_close(none);
}

static void *use(void *gate)
{
    for (int i = 0; i < 1000; i++) {
        EXPECT(capgate_supports_family(gate, 3003, 1) == 1);
        EXPECT(capgate_supports_family(gate, 5001, 0) == 0);
        EXPECT(capgate_supports_family(gate, 1010, 0) == 0);
        EXPECT(capgate_supports_family(gate, -1, 0) == 0);
        EXPECT(capgate_threadgroup_memory(gate, 1 << 20) == 1 << 20);
    }
    return NULL;
}

int main(int count, char **words)
{
    static int local;
    pthread_t threads[8];
    EXPECT(count == 2);
    EXPECT(strlen(capgate_version()) >= 5);
    EXPECT(*capgate_last_error() == 0);
    nothing(NULL);
    nothing((struct Capgate *)&local);
    nothing((struct Capgate *)-1);
    EXPECT(capgate_open(NULL) == NULL);
    EXPECT(strcmp(capgate_last_error(), "the prefix is null") == 0);
    EXPECT(capgate_open("") == NULL);
    EXPECT(capgate_open("prefix") == NULL);
    EXPECT(strstr(capgate_last_error(), "is not an absolute path") != NULL);
    EXPECT(capgate_open("/nowhere") == NULL);
    EXPECT(capgate_open("/tmp") == NULL);

    struct Capgate *gate = capgate_open(words[1]);
    EXPECT(gate != NULL);
    EXPECT(capgate_supports_family(gate, 1009, 0) == 0);
    EXPECT(capgate_threadgroup_memory(gate, 32768) == 32768);
    printf("%d %s %s %llu %llu\n", capgate_decision(gate), capgate_reason(gate), capgate_profile(gate),
           (unsigned long long)capgate_apple_family_max(gate), (unsigned long long)capgate_max_threadgroup_memory(gate));
    printf("device %d", capgate_device(gate, "AppleParavirtDevice", 1005, 32768));
    printf(" %d %llu\n", capgate_supports_family(gate, 1009, 0),
           (unsigned long long)capgate_threadgroup_memory(gate, 32768));
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&threads[i], NULL, use, gate) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("other device %d", capgate_device(gate, NULL, 1007, 32768));
    printf(" %d %llu\n", capgate_supports_family(gate, 1009, 0),
           (unsigned long long)capgate_threadgroup_memory(gate, 32768));

    struct Capgate *second = capgate_open(words[1]);
    EXPECT(second != NULL && second != gate);
    capgate_close(gate);
    nothing(gate);
    capgate_close(second);
    return faults ? 9 : 0;
}
