"""An Objective-C runtime in memory, as far as the library uses one, and the classes of Metal's devices in it.

Classes, selectors and methods are blocks of the machine's heap; tables in Python say what they mean. The originals of
the two answers are arm64 code or traps; the library's replacements are the real code of the dylib.
"""

import struct

from machine import PAGE, TRAPS, Fault

METAL = "/System/Library/Frameworks/Metal.framework/Metal"
CODE = 0x6_0000_0000

# -[_MTLDevice initGPUFamilySupport]: writes 1005 behind the `isa`, as its answers depend on it.
#   mov w8, #1005 ; str w8, [x0, #8] ; ret
INIT = bytes.fromhex("a87d8052" "080800b9" "c0035fd6")
# -[_MTLDevice supportsFamily:]: Apple families 1001 up to the device's own, Common 3001..3003, Mac 2002.
#   ldr w8, [x0, #8] ; cmp x2, x8 ; b.hi 1f ; sub x9, x2, #1001 ; cmp x9, #9 ; b.hi 1f ; mov w0, #1 ; ret
#   1: sub x9, x2, #3001 is out of an immediate's reach: mov w9, #3001 ; sub x9, x2, x9 ; cmp x9, #2 ; cset w0, ls
#   mov w9, #2002 ; cmp x2, x9 ; csinc w0, w0, wzr, ne ; ret
SUPPORTS_FAMILY = struct.pack(
    "<15I",
    0xB9400808,
    0xEB08005F,
    0x540000C8,
    0xD10FA449,
    0xF100253F,
    0x54000068,
    0x52800020,
    0xD65F03C0,
    0x52817729,
    0xCB090049,
    0xF100093F,
    0x1A9F87E0,
    0x5280FA49,
    0xEB09005F,
    0x1A9F1400,
) + bytes.fromhex("c0035fd6")


def returning(number):
    """A method that returns a number: movz x0, low ; movk x0, high, lsl #16 ; ret."""
    low, high = number & 0xFFFF, number >> 16
    return struct.pack("<III", 0xD2800000 | low << 5, 0xF2A00000 | high << 5, 0xD65F03C0)


class Class:
    def __init__(self, name, parent, address):
        self.name, self.parent, self.address = name, parent, address
        self.methods = {}


class Runtime:
    """`absent` names functions of the runtime that dlsym does not find."""

    FUNCTIONS = (
        "objc_getClass",
        "object_getClass",
        "class_getName",
        "sel_registerName",
        "class_getInstanceMethod",
        "class_getSuperclass",
        "method_getImplementation",
        "method_setImplementation",
        "method_getTypeEncoding",
        "class_addMethod",
        "class_getMethodImplementation",
    )

    def __init__(self, system, absent=()):
        self.system, self.m = system, system.m
        self.classes, self.by_address = {}, {}
        self.selectors, self.methods = {}, {}
        # Traps of ours that the library may be asked to call, and additions that must fail.
        self.refuse_adding = ()
        self.changes = []
        self.m.uc.mem_map(CODE, PAGE)
        self.next_code = CODE
        self.forward = self.code(bytes.fromhex("200000d4"))
        for name in self.FUNCTIONS:
            if name not in absent:
                system.others[name] = getattr(self, name)

    def code(self, instructions):
        address = self.next_code
        self.m.write(address, instructions)
        self.next_code += len(instructions)
        return address

    # What the harness says and asks

    def selector(self, name):
        if name not in self.selectors:
            self.selectors[name] = self.m.put(name.encode() + b"\0")
        return self.selectors[name]

    def define(self, name, parent, methods):
        found = Class(name, parent and self.classes[parent], self.m.put(bytes(64)))
        found.text = self.m.put(name.encode() + b"\0")
        self.classes[name] = self.by_address[found.address] = found
        for selector, (types, implementation) in methods.items():
            self._add(found, self.selector(selector), implementation, self.m.put(types.encode() + b"\0"))
        return found

    def _add(self, found, selector, implementation, types):
        method = self.m.put(struct.pack("<QQQ", selector, types, implementation))
        found.methods[selector] = method
        self.methods[method] = found

    def create(self, name):
        """An object of a class, not yet set up."""
        return self.m.put(struct.pack("<QQ", self.classes[name].address, 0))

    def lookup(self, found, selector):
        while found:
            if selector in found.methods:
                return found.methods[selector]
            found = found.parent
        return 0

    def implementation(self, name, selector):
        method = self.lookup(self.classes[name], self.selector(selector))
        return self.m.number(method + 16) if method else 0

    def send(self, device, selector, *arguments):
        """A message, dispatched as objc_msgSend does: the class's own table, then its parents'."""
        found = self._class(self.m.number(device))
        method = self.lookup(found, self.selector(selector))
        if not method:
            raise Fault(f"`{found.name}` does not recognise `{selector}`")
        return self.m.call(self.m.number(method + 16), device, self.selector(selector), *arguments)

    # What the library asks

    def _class(self, address):
        if address not in self.by_address:
            raise Fault(f"{address:#x} is no class")
        return self.by_address[address]

    def _method(self, address):
        if address not in self.methods:
            raise Fault(f"{address:#x} is no method")
        return address

    def _selector(self, address):
        if address not in self.selectors.values():
            raise Fault(f"{address:#x} is no selector")
        return address

    def objc_getClass(self):
        found = self.classes.get(self.m.text(self.m.argument(0)).decode())
        return found.address if found else 0

    def object_getClass(self):
        device = self.m.argument(0)
        return self._class(self.m.number(device)).address if device else 0

    def class_getName(self):
        return self._class(self.m.argument(0)).text

    def sel_registerName(self):
        return self.selector(self.m.text(self.m.argument(0)).decode())

    def class_getInstanceMethod(self):
        return self.lookup(self._class(self.m.argument(0)), self._selector(self.m.argument(1)))

    def class_getSuperclass(self):
        parent = self._class(self.m.argument(0)).parent
        return parent.address if parent else 0

    def method_getImplementation(self):
        return self.m.number(self._method(self.m.argument(0)) + 16)

    def method_setImplementation(self):
        method = self._method(self.m.argument(0))
        old = self.m.number(method + 16)
        self.m.write(method + 16, struct.pack("<Q", self.m.argument(1)))
        self.changes.append(("set", self.methods[method].name))
        return old

    def method_getTypeEncoding(self):
        return self.m.number(self._method(self.m.argument(0)) + 8)

    def class_addMethod(self):
        found, selector = self._class(self.m.argument(0)), self._selector(self.m.argument(1))
        name = self.m.text(selector).decode()
        if selector in found.methods or name in self.refuse_adding:
            return 0
        types = self.m.put(self.m.text(self.m.argument(3)) + b"\0")
        self._add(found, selector, self.m.argument(2), types)
        self.changes.append(("add", found.name))
        return 1

    def class_getMethodImplementation(self):
        method = self.lookup(self._class(self.m.argument(0)), self._selector(self.m.argument(1)))
        return self.m.number(method + 16) if method else self.forward


def define_metal(runtime, without=(), types=None):
    """Metal's classes, as far as a guest's device has them; `without` leaves methods out."""
    types = {"initGPUFamilySupport": "v16@0:8", "supportsFamily:": "B24@0:8q16"} | (types or {})
    types.setdefault("maxThreadgroupMemoryLength", "Q16@0:8")
    code = {
        "initGPUFamilySupport": runtime.code(INIT),
        "supportsFamily:": runtime.code(SUPPORTS_FAMILY),
        "maxThreadgroupMemoryLength": runtime.code(returning(32768)),
    }
    large = runtime.code(returning(131072))
    methods = {name: (types[name], code[name]) for name in code if name not in without}
    runtime.define("NSObject", None, {"dealloc": ("v16@0:8", runtime.code(bytes.fromhex("c0035fd6")))})
    runtime.define("_MTLDevice", "NSObject", methods)
    runtime.define("AppleParavirtDevice", "_MTLDevice", {})
    runtime.define("SiblingDevice", "_MTLDevice", {})
    own = {name: methods[name] for name in methods if name != "initGPUFamilySupport"}
    runtime.define("OverridingDevice", "_MTLDevice", own)
    runtime.define("DerivedDevice", "AppleParavirtDevice", {})
    runtime.define("LargeDevice", "_MTLDevice", {"maxThreadgroupMemoryLength": ("Q16@0:8", large)})
