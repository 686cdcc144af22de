#include <stdio.h>
#include "capgate.h"
int main(int c, char **w)
{
    struct Capgate *g = capgate_open(w[1]);
    capgate_device(g, "AppleParavirtDevice", 1005, 32768);
    /* another device, never shown to capgate: family none, 16 KiB of its own */
    printf("%d %llu\n", capgate_supports_family(g, 1001, 0), (unsigned long long)capgate_threadgroup_memory(g, 16384));
    return 0;
}
