"""Loads a Mach-O dylib as dyld does: segments, rebases, binds, thread-local variables, initializers."""

import lief
from unicorn import UC_PROT_EXEC, UC_PROT_READ, UC_PROT_WRITE

from machine import PAGE, Fault

BASE = 0x1_0400_0000
READ_ONLY_AFTER_FIXUPS = 0x10


class Image:
    """A dylib in a machine's memory."""

    def __init__(self, machine, path, symbols):
        """`symbols` gives the address of an imported function by its name, or raises."""
        self.machine = machine
        found = lief.MachO.parse(str(path))
        self.file = found.at(0)
        data = open(path, "rb").read()
        self.slide = BASE - self.file.imagebase
        self._map(data)
        self._fix(symbols)
        self._protect()
        self.exports = {s.name: s.value + self.slide for s in self.file.exported_symbols}
        starts = self.file.function_starts.functions
        self.functions = sorted(BASE + start for start in starts)

    def _segments(self):
        for segment in self.file.segments:
            if segment.virtual_size:
                yield segment, segment.virtual_address + self.slide

    def _map(self, data):
        self.end = BASE
        for segment, address in self._segments():
            size = -(-segment.virtual_size // PAGE) * PAGE
            if address % PAGE or segment.file_offset % PAGE:
                raise Fault(f"segment {segment.name} does not begin on a page")
            self.machine.uc.mem_map(address, size, UC_PROT_READ | UC_PROT_WRITE)
            content = data[segment.file_offset : segment.file_offset + segment.file_size]
            self.machine.write(address, content)
            self.end = max(self.end, address + size)

    def _fix(self, symbols):
        write = lambda address, value: self.machine.write(
            address + self.slide, (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
        )
        self.rebases = self.binds = 0
        for fixup in self.file.relocations:
            write(fixup.address, fixup.target + self.slide)
            self.rebases += 1
        for bind in self.file.bindings:
            write(bind.address, symbols(bind.symbol.name) + bind.addend)
            self.binds += 1

    def _protect(self):
        for segment, address in self._segments():
            wanted = segment.init_protection
            if int(segment.flags) & READ_ONLY_AFTER_FIXUPS:
                wanted &= ~2
            protection = UC_PROT_READ * bool(wanted & 1) | UC_PROT_WRITE * bool(wanted & 2)
            protection |= UC_PROT_EXEC * bool(wanted & 4)
            size = -(-segment.virtual_size // PAGE) * PAGE
            self.machine.uc.mem_protect(address, size, protection)

    def section(self, segment, name):
        return next((s for s in self.file.sections if (s.segment_name, s.name) == (segment, name)), None)

    def initializers(self):
        """Addresses of the functions that dyld calls once the image is loaded."""
        found = []
        offsets = self.section("__TEXT", "__init_offsets")
        if offsets:
            content = bytes(offsets.content)
            found += [BASE + int.from_bytes(content[at : at + 4], "little") for at in range(0, len(content), 4)]
        for segment in ("__DATA", "__DATA_CONST"):
            pointers = self.section(segment, "__mod_init_func")
            if pointers:
                start = pointers.virtual_address + self.slide
                found += [self.machine.number(start + at) for at in range(0, pointers.size, 8)]
        return found

    def thread_locals(self):
        """The initial content of one thread's variables: what is initialised, then zeros."""
        data = self.section("__DATA", "__thread_data")
        zeros = self.section("__DATA", "__thread_bss")
        parts = [s for s in (data, zeros) if s]
        if not parts:
            return b""
        start = min(s.virtual_address for s in parts)
        end = max(s.virtual_address + s.size for s in parts)
        content = bytearray(end - start)
        if data:
            at = data.virtual_address - start
            content[at : at + data.size] = bytes(data.content)
        return bytes(content)

    def function_at(self, address):
        """Start and end of the function that holds an address."""
        starts = [start for start in self.functions if start <= address]
        later = [start for start in self.functions if start > address]
        text = self.section("__TEXT", "__text")
        end = later[0] if later else text.virtual_address + self.slide + text.size
        return starts[-1], end
