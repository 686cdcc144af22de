/* What programs see of the stand-in for Metal. */
#include <objc/objc.h>
#include <objc/runtime.h>

typedef id Device;

/* 1001, 1005, 1007, 1009, 1010 (Apple), 2002 (Mac), 3003, 3004 (Common), 5001 (Metal 3). */
enum { FAMILIES = 9 };
extern const long metal_families[FAMILIES];

/* A device's own answers to supportsFamily: and maxThreadgroupMemoryLength, 0 where it has no such method. */
struct answers {
    int supports[FAMILIES];
    unsigned long memory;
    /* What it was told about 1009 when it asked itself while it was made. */
    int queried;
};

Device MTLCreateSystemDefaultDevice(void);
Device metal_create(const char *class_name);
void metal_release(Device device);
void metal_answers(Device device, struct answers *answers);
/* Its answer about one family. */
int metal_supports(Device device, long family);
