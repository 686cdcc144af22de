"""A processor without a Mac: memory, calls into emulated code, and traps where emulated code calls out.

Every function of the system that the library may call is an address in one page of traps. The processor runs into it,
a Python function answers, and the `ret` that stands there goes back.
"""

from unicorn import UC_ARCH_ARM64, UC_HOOK_BLOCK, UC_HOOK_CODE, UC_MODE_ARM
from unicorn import UC_PROT_EXEC, UC_PROT_READ, UC_PROT_WRITE, Uc, UcError
from unicorn import arm64_const as arm64
from unicorn.arm64_const import UC_CPU_ARM64_MAX

PAGE = 0x4000
TRAPS = 0x7_0000_0000
TRAPS_SIZE = 0x10_0000
STACK = 0x7_1000_0000
STACK_SIZE = 0x80_0000
HEAP = 0x2_0000_0000
HEAP_SIZE = 0x1000_0000
RET = bytes.fromhex("c0035fd6")
FREED = 0xDD

X = [getattr(arm64, f"UC_ARM64_REG_X{n}") for n in range(31)]
KEPT = X[19:30] + [getattr(arm64, f"UC_ARM64_REG_D{n}") for n in range(8, 16)]
# Microseconds that one call may take at most: one that takes longer is a loop.
PATIENCE = 60_000_000


class Fault(Exception):
    """The emulated code did what it must not do: a bad access, a panic, an abort, a broken calling convention."""


class Machine:
    def __init__(self):
        self.uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
        self.uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        self.uc.mem_map(TRAPS, TRAPS_SIZE, UC_PROT_READ | UC_PROT_EXEC)
        self.uc.mem_write(TRAPS, RET * (TRAPS_SIZE // 4))
        # A page below the stack stays unmapped: an overflow is a fault.
        self.uc.mem_map(STACK, STACK_SIZE, UC_PROT_READ | UC_PROT_WRITE)
        self.uc.mem_map(HEAP, HEAP_SIZE, UC_PROT_READ | UC_PROT_WRITE)
        self.uc.hook_add(UC_HOOK_CODE, self._trapped, begin=TRAPS, end=TRAPS + TRAPS_SIZE)
        self._handlers = {}
        self._next_trap = TRAPS + 16
        self._next_heap = HEAP + 16
        self.live = {}
        self._fault = None
        self.blocks = None
        self.patience = PATIENCE

    # Traps

    def trap(self, handler):
        """The address of a new function that `handler` answers, with the machine as its argument."""
        address = self._next_trap
        self._next_trap += 4
        self._handlers[address] = handler
        return address

    def _trapped(self, uc, address, _size, _data):
        if address == TRAPS:
            return
        try:
            handler = self._handlers.get(address)
            if handler is None:
                raise Fault(f"a call to {address:#x}, which is no function")
            result = handler(self)
            if result is not None:
                uc.reg_write(X[0], result & 0xFFFF_FFFF_FFFF_FFFF)
        except Exception as problem:  # An exception must not cross the emulator's C code.
            self._fault = problem
            uc.emu_stop()

    # Calls into emulated code

    def call(self, address, *arguments):
        """Calls a function as the arm64 procedure call standard says, and checks that it keeps to it; returns x0."""
        uc = self.uc
        stack = STACK + STACK_SIZE - 0x1000
        # What a caller may leave behind: nothing that is not an argument may matter.
        for number, register in enumerate(X[:19]):
            uc.reg_write(register, 0x5EED_0000_0000_0000 + number)
        for number, register in enumerate(KEPT):
            uc.reg_write(register, 0xCA11_0000_0000_0000 + number)
        for register, value in zip(X, arguments):
            uc.reg_write(register, value & 0xFFFF_FFFF_FFFF_FFFF)
        uc.reg_write(arm64.UC_ARM64_REG_X29, 0)
        uc.reg_write(arm64.UC_ARM64_REG_SP, stack)
        uc.reg_write(arm64.UC_ARM64_REG_X30, TRAPS)
        kept = [uc.reg_read(register) for register in KEPT]
        self._fault = None
        try:
            uc.emu_start(address, TRAPS, timeout=self.patience)
        except UcError as error:
            at = uc.reg_read(arm64.UC_ARM64_REG_PC)
            raise Fault(f"{error} at {at:#x}, called from {uc.reg_read(X[30]):#x}") from None
        if self._fault is not None:
            raise self._fault
        if uc.reg_read(arm64.UC_ARM64_REG_PC) != TRAPS:
            raise Fault(f"stopped at {uc.reg_read(arm64.UC_ARM64_REG_PC):#x} without returning")
        if uc.reg_read(arm64.UC_ARM64_REG_SP) != stack:
            raise Fault("the stack pointer was not restored")
        if [uc.reg_read(register) for register in KEPT] != kept:
            raise Fault("a register that belongs to the caller was not restored")
        return uc.reg_read(X[0])

    def record(self, begin, end):
        """From here on, notes the start of every block that runs within that range."""
        self.blocks = set()
        add = self.blocks.add
        self.uc.hook_add(UC_HOOK_BLOCK, lambda _uc, address, size, _data: add((address, size)), begin=begin, end=end)

    def argument(self, number):
        return self.uc.reg_read(X[number])

    def signed(self, number):
        value = self.argument(number) & 0xFFFF_FFFF
        return value - (1 << 32) if value >> 31 else value

    def on_stack(self, number):
        """An argument after the dots of a C function: on Apple's arm64 these are on the stack, eight bytes each."""
        stack = self.uc.reg_read(arm64.UC_ARM64_REG_SP)
        return int.from_bytes(self.read(stack + 8 * number, 8), "little")

    # Memory

    def read(self, address, size):
        return bytes(self.uc.mem_read(address, size)) if size else b""

    def write(self, address, data):
        if data:
            self.uc.mem_write(address, bytes(data))

    def number(self, address, size=8):
        return int.from_bytes(self.read(address, size), "little")

    def text(self, address):
        found = bytearray()
        while True:
            # Up to the end of the page, beyond which nothing may be mapped.
            piece = self.read(address, 64 - address % 64)
            end = piece.find(0)
            if end >= 0:
                return bytes(found + piece[:end])
            found += piece
            address += len(piece)

    def allocate(self, size, alignment=16):
        """A block of the heap, filled with what was never written there."""
        address = -(-self._next_heap // alignment) * alignment
        # Blocks never touch one another, and none is given out twice: a use after free reads what `free` left.
        self._next_heap = address + size + 16
        if self._next_heap > HEAP + HEAP_SIZE:
            raise Fault("the heap is full")
        self.write(address, b"\xaa" * size)
        self.live[address] = size
        return address

    def release(self, address):
        if address == 0:
            return
        if address not in self.live:
            raise Fault(f"{address:#x} was freed, which no allocation gave")
        size = self.live.pop(address)
        self.write(address, bytes([FREED]) * size)

    def keep(self):
        """Everything that may change; `bring_back` undoes what happened since."""
        kept = [(HEAP, self.read(HEAP, self._next_heap - HEAP))]
        for begin, end, protection in self.uc.mem_regions():
            if protection & UC_PROT_WRITE and begin not in (HEAP, STACK):
                kept.append((begin, self.read(begin, end - begin + 1)))
        return kept, self._next_heap, dict(self.live)

    def bring_back(self, kept):
        blocks, self._next_heap, live = kept
        self.live = dict(live)
        for address, data in blocks:
            self.write(address, data)

    def put(self, data):
        """A block of the heap with that content."""
        address = self.allocate(len(data))
        self.write(address, data)
        return address
