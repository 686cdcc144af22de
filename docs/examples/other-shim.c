/* How a shim that others maintain asks capgate: it keeps its own way into Metal and takes its two answers from here.
 * Compiled and run by capgate's own tests. PREFIX is where capgate is installed. */
#include <objc/runtime.h>
#include "capgate.h"

static struct Capgate *gate;
static BOOL (*own_supports)(id, SEL, long);
static unsigned long (*own_memory)(id, SEL);
static void (*own_init)(id, SEL);

static BOOL supports(id device, SEL name, long family)
{
    return capgate_supports_family(gate, family, own_supports(device, name, family)) != 0;
}

static unsigned long memory(id device, SEL name)
{
    return capgate_threadgroup_memory(gate, own_memory(device, name));
}

static void init(id device, SEL name)
{
    SEL family = sel_registerName("supportsFamily:"), length = sel_registerName("maxThreadgroupMemoryLength");
    Class class = object_getClass(device);
    uint64_t top = 0;
    own_init(device, name);
    /* Asked as a program would ask, so that a class with methods of its own is seen as it is. */
    for (long asked = 1001; asked <= 1010; asked++)
        if (((BOOL(*)(id, SEL, long))class_getMethodImplementation(class, family))(device, family, asked))
            top = (uint64_t)asked;
    capgate_device(gate, object_getClassName(device), top,
                   ((unsigned long (*)(id, SEL))class_getMethodImplementation(class, length))(device, length));
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
}
