/* Stands for Metal.framework on Linux: the hierarchy of its device classes, in a real Objective-C runtime (GNU's). The
 * class and method names are Apple's private ones; everything else is made up, and nothing draws anything. */
#include "Metal.h"

#include <stdlib.h>

__attribute__((objc_root_class))
@interface Root {
    Class isa;
}
+ (id)alloc;
- (void)dealloc;
@end

@implementation Root
+ (id)alloc
{
    return class_createInstance(self, 0);
}

- (void)dealloc
{
    object_dispose(self);
}
@end

/* The abstract base. Like Apple's, a device reads its limits first, then finds out its families, and then asks itself for
 * them once for good (Apple's MTLDeviceFeatureQueries). */
@interface _MTLDevice : Root {
    long family;
    int ready;
    unsigned long memory;
    BOOL queried;
}
- (id)init;
- (void)initLimits;
- (void)initFeatureQueries;
- (void)initGPUFamilySupport;
- (BOOL)supportsFamily:(long)asked;
- (BOOL)queried;
@end

@implementation _MTLDevice
- (id)init
{
    [self initLimits];
    [self initFeatureQueries];
    return self;
}

- (void)initLimits
{
    memory = 32768;
}

- (void)initFeatureQueries
{
    [self initGPUFamilySupport];
    queried = [self supportsFamily:1009];
}

- (void)initGPUFamilySupport
{
    family = 1005;
    ready = 1;
}

- (BOOL)queried
{
    return queried;
}

- (BOOL)supportsFamily:(long)asked
{
    /* Apple families up to its own, Common 1 to 3, Mac 2, and no Metal 3. */
    if (!ready)
        return NO;
    return (asked >= 1001 && asked <= family) || (asked >= 3001 && asked <= 3003) || asked == 2002;
}
@end

/* The base lacks the second method, and so does this one. */
@interface BareDevice : _MTLDevice
@end
@implementation BareDevice
@end

@interface FullDevice : _MTLDevice
- (unsigned long)maxThreadgroupMemoryLength;
@end
@implementation FullDevice
- (unsigned long)maxThreadgroupMemoryLength
{
    return memory;
}
@end

/* What a guest has: everything inherited. */
@interface AppleParavirtDevice : FullDevice
@end
@implementation AppleParavirtDevice
@end

/* Inherits the same methods and is set up without initGPUFamilySupport. */
@interface SiblingDevice : FullDevice
@end
@implementation SiblingDevice
- (id)init
{
    family = 1005;
    ready = 1;
    memory = 32768;
    return self;
}
@end

/* Has both methods itself, and asks its parent. */
@interface OverridingDevice : FullDevice
@end
@implementation OverridingDevice
- (BOOL)supportsFamily:(long)asked
{
    return [super supportsFamily:asked];
}

- (unsigned long)maxThreadgroupMemoryLength
{
    return [super maxThreadgroupMemoryLength];
}
@end

/* Below a class that may be changed itself. */
@interface DerivedDevice : AppleParavirtDevice
@end
@implementation DerivedDevice
@end

/* Another GPU: other answers of its own. */
@interface OtherDevice : FullDevice
@end
@implementation OtherDevice
- (void)initGPUFamilySupport
{
    [super initGPUFamilySupport];
    family = 1007;
}
@end

@interface LargeDevice : FullDevice
@end
@implementation LargeDevice
- (unsigned long)maxThreadgroupMemoryLength
{
    return 131072;
}
@end

/* One whose method has other types: what is called as if it had those would read garbage. */
@interface OddDevice : _MTLDevice
@end
@implementation OddDevice
- (double)maxThreadgroupMemoryLength
{
    return 32768.0;
}
@end

/* Metal 3 follows from Apple 7. */
@interface AskingDevice : FullDevice
@end
@implementation AskingDevice
- (BOOL)supportsFamily:(long)asked
{
    if (asked == 5001)
        return [self supportsFamily:1007];
    return [super supportsFamily:asked];
}
@end

/* Like Apple's, it may not be asked for families before it has a table of them. */
@interface OrderedDevice : FullDevice {
    long *table;
}
@end
@implementation OrderedDevice
- (BOOL)supportsFamily:(long)asked
{
    /* Like Apple's, which reads the table of families without asking whether there is one. */
    if (!ready)
        *(volatile long *)table = 0;
    return [super supportsFamily:asked];
}
- (unsigned long)maxThreadgroupMemoryLength
{
    return 32768;
}
@end
/* The same, and it never knows its memory. */
@interface OrderedEmptyDevice : OrderedDevice
@end
@implementation OrderedEmptyDevice
- (unsigned long)maxThreadgroupMemoryLength
{
    return 0;
}
@end

const long metal_families[FAMILIES] = {1001, 1005, 1007, 1009, 1010, 2002, 3003, 3004, 5001};

Device metal_create(const char *class_name)
{
    Class class = objc_getClass(class_name);
    return class ? [[class alloc] init] : nil;
}

void metal_release(Device device)
{
    [(Root *)device dealloc];
}

Device MTLCreateSystemDefaultDevice(void)
{
    const char *class_name = getenv("FAKE_METAL_DEVICE");
    return metal_create(class_name ? class_name : "AppleParavirtDevice");
}

int metal_supports(Device device, long family)
{
    return [(_MTLDevice *)device supportsFamily:family];
}

void metal_answers(Device device, struct answers *answers)
{
    SEL memory = sel_registerName("maxThreadgroupMemoryLength");
    for (int i = 0; i < FAMILIES; i++)
        answers->supports[i] = [(_MTLDevice *)device supportsFamily:metal_families[i]];
    answers->queried = [(_MTLDevice *)device queried];
    answers->memory = class_getInstanceMethod(object_getClass(device), memory)
                          ? [(FullDevice *)device maxThreadgroupMemoryLength]
                          : 0;
}
