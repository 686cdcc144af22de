/* How a shim that others maintain asks capgate: it keeps its own way into Metal and takes its two answers from here.
 * Compiled and run by capgate's own tests. PREFIX is where capgate is installed. */
#include <objc/runtime.h>
#include "capgate.h"

static struct Capgate *gate;
static BOOL (*own_supports)(id, SEL, long);
static unsigned long (*own_memory)(id, SEL);
static void (*own_init)(id, SEL), (*own_limits)(id, SEL);

static BOOL supports(id device, SEL name, long family)
{
    return capgate_supports_family(gate, family, own_supports(device, name, family)) != 0;
}

static unsigned long memory(id device, SEL name)
{
    return capgate_threadgroup_memory(gate, own_memory(device, name));
}

/* Judges a device by its own answers. One whose class answers by itself was never in our hands. */
static void judge(id device)
{
    SEL family = sel_registerName("supportsFamily:"), length = sel_registerName("maxThreadgroupMemoryLength");
    Class class = object_getClass(device);
    int is_ours = class_getMethodImplementation(class, family) == (IMP)supports &&
                  class_getMethodImplementation(class, length) == (IMP)memory;
    uint64_t top = 0;
    for (long asked = 1001; asked <= 1010; asked++)
        if (own_supports(device, family, asked))
            top = (uint64_t)asked;
    capgate_device(gate, object_getClassName(device), top, is_ours ? own_memory(device, length) : 1);
}

/* Its families are known now, and what Metal asks from here on is answered as it was in the test. */
static void init(id device, SEL name)
{
    own_init(device, name);
    judge(device);
}

/* Its limits are known now, the memory among them. */
static void limits(id device, SEL name)
{
    own_limits(device, name);
    judge(device);
}

#define REPLACE(type, name, new)                                                                                       \
    (type) method_setImplementation(class_getInstanceMethod(type_of_device, sel_registerName(name)), (IMP)new)

void other_shim_start(Class type_of_device)
{
    gate = capgate_open(PREFIX);
    if (capgate_decision(gate) != CAPGATE_GRANTED)
        return; /* capgate_reason(gate) says why; the log has it too */
    own_supports = REPLACE(BOOL(*)(id, SEL, long), "supportsFamily:", supports);
    own_memory = REPLACE(unsigned long (*)(id, SEL), "maxThreadgroupMemoryLength", memory);
    own_init = REPLACE(void (*)(id, SEL), "initGPUFamilySupport", init);
    own_limits = REPLACE(void (*)(id, SEL), "initLimits", limits);
}
