/* Stands for another shim: reads Lume's variables and prints its banner, and changes nothing. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void start(void)
{
    const char *family = getenv("LUME_METAL_APPLE_FAMILY_MAX");
    const char *memory = getenv("LUME_METAL_MAX_THREADGROUP_MEMORY");
    if (family)
        fprintf(stderr, "[LumeMetalCapabilities] Enabled for Apple Paravirtual device (appleFamilyMax=%s "
                        "maxThreadgroupMemory=%s)\n", family, memory ? memory : "65536");
}
