"""Reads back what was built for Macs: each statement of docs/macos.md about the files themselves is checked here.

usage: read_back.py FOLDER
"""

import hashlib
import os
import re
import struct
import sys

import lief

from machofile import code_directories

BUDGET = 900 * 1024
SYSTEM = "/usr/lib/libSystem.B.dylib"
OBJC = "/usr/lib/libobjc.A.dylib"
FRAMEWORKS = "/System/Library/Frameworks"
# Rule 10: without these there is no thread, no child, no socket, and no end of a process that is not ours. (`abort` is
# what the standard library calls where it finds itself broken.)
NEVER = re.compile(
    r"^_(pthread_create|fork|vfork|posix_spawn|exec[lv]|system$|popen|socket|connect|bind$|listen|accept|sendto|recvfrom"
    r"|exit$|_exit$|kill$|raise$|signal$|sigaction|mmap|dlclose|mach_)"
)


class Wrong(Exception):
    pass


def demand(truth, what):
    if not truth:
        raise Wrong(what)


def number(at, data, form="<I"):
    return struct.unpack_from(form, data, at)[0]


class File:
    def __init__(self, path):
        self.path = path
        self.data = open(path, "rb").read()
        slices = lief.MachO.parse(path)
        demand(slices.size == 1, "has more than one slice")
        self.macho = slices.at(0)

    def section(self, segment, name):
        return next((s for s in self.macho.sections if (s.segment_name, s.name) == (segment, name)), None)

    def check_kind(self, kind):
        header = self.macho.header
        demand(header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64, "is not for arm64")
        demand(header.cpu_subtype & 0xFFFFFF == 0, "is for a special arm64")
        demand(header.file_type == kind, f"is a {header.file_type}")
        version = self.macho.build_version
        demand(version.platform == lief.MachO.BuildVersion.PLATFORMS.MACOS, "is not for macOS")
        demand(list(version.minos) == [13, 0, 0], f"needs macOS {version.minos}")

    def check_segments(self):
        for segment in self.macho.segments:
            where = f"segment {segment.name}"
            demand(segment.virtual_address % 0x4000 == 0, f"{where} begins within a page")
            # dyld demands whole pages of every segment but the last.
            if segment.name != "__LINKEDIT":
                demand(segment.virtual_size % 0x4000 == 0, f"{where} ends within a page")
            demand(segment.init_protection & 6 != 6, f"{where} can be written and executed")
            demand(segment.max_protection & 6 != 6, f"{where} could be written and executed")

    def check_links(self, allowed):
        linked = {command.name for command in self.macho.libraries} - {self.install_name()}
        demand(linked <= allowed, f"links {sorted(linked - allowed)}")

    def install_name(self):
        found = [c.name for c in self.macho.libraries if c.command == lief.MachO.LoadCommand.TYPE.ID_DYLIB]
        return found[0] if found else None

    def check_signature(self):
        """Every page hash is recomputed; the directory must cover all up to the signature, which ends the file."""
        signature = self.macho.code_signature
        end = signature.data_offset + signature.data_size
        demand(end == len(self.data), "has something behind its signature")
        directories = code_directories(self.data, signature)
        demand(list(directories) == [0], f"has code directories in slots {list(directories)}")
        directory = directories[0]
        flags, hashes, special, slots, limit = struct.unpack_from(">I I 4x I I I", directory, 12)
        size, kind, _, page = struct.unpack_from("BBBB", directory, 36)
        demand((size, kind) == (32, 2), "is not signed with SHA-256")
        demand(flags == 0x20002, f"has signature flags {flags:#x}, not those of an ad-hoc signature by a linker")
        demand(limit == signature.data_offset, "is not signed as a whole")
        pages = -(-limit // (1 << page))
        demand(slots == pages, f"has {slots} page hashes for {pages} pages")
        for at in range(slots):
            content = self.data[at << page : min((at + 1) << page, limit)]
            stored = directory[hashes + 32 * at : hashes + 32 * (at + 1)]
            demand(hashlib.sha256(content).digest() == stored, f"page {at} is not what was signed")
        demand(special == 0, "has hashes of other parts")
        return slots

    def check_paths(self, places):
        for place in places:
            demand(place.encode() not in self.data, f"holds the path {place} of the machine that built it")

    def unwinding(self):
        """Functions that can be unwound, and those of them in which a panic can be caught.

        Compact unwinding knows the handlers of Apple's languages alone, so a function with Rust's own is described in
        `__eh_frame`, where its table entry points to.
        """
        table, frames = self.section("__TEXT", "__unwind_info"), self.section("__TEXT", "__eh_frame")
        demand(table and table.size and frames and frames.size, "cannot be unwound")
        data, frames = bytes(table.content), bytes(frames.content)
        version, commons, common_count, _, _, index, count = struct.unpack_from("<7I", data)
        demand(version == 1, f"has an unwind table of version {version}")
        encodings, previous = [], -1
        for at in range(count - 1):
            first, page, _ = struct.unpack_from("<3I", data, index + 12 * at)
            demand(first > previous, "has an unwind table out of order")
            previous = first
            kind, entries, length = struct.unpack_from("<IHH", data, page)
            for entry in range(length):
                if kind == 2:
                    encodings.append(number(page + entries + 8 * entry + 4, data))
                    continue
                demand(kind == 3, f"has an unwind page of kind {kind}")
                which = number(page + entries + 4 * entry, data) >> 24
                own = number(page + 8, data, "<H")
                start = commons + 4 * which if which < common_count else page + own + 4 * (which - common_count)
                encodings.append(number(start, data))
        in_dwarf = [encoding & 0xFFFFFF for encoding in encodings if encoding >> 24 & 0xF == 3]
        return len(encodings), sum(has_handler(frames, at) for at in in_dwarf)


def has_handler(frames, at):
    """Tells whether a frame description names a personality and a table of landing pads."""
    back = number(at + 4, frames)
    start = at + 4 - back
    demand(back and number(start + 4, frames) == 0, f"has a frame description at {at:#x} without a common one")
    letters = frames[start + 9 : frames.index(0, start + 9)]
    return {b"P", b"L"} <= {bytes([letter]) for letter in letters}


def check_library(path, header):
    file = File(path)
    file.check_kind(lief.MachO.Header.FILE_TYPE.DYLIB)
    file.check_segments()
    demand(file.install_name() == "@rpath/libcapgate.dylib", f"is called {file.install_name()}")
    file.check_links({SYSTEM, OBJC})
    exports = {symbol.name for symbol in file.macho.exported_symbols}
    demand(all(name.startswith("_capgate_") for name in exports), f"exports {sorted(exports)}")
    declared = {f"_{name}" for name in re.findall(r"\b(capgate_\w+)\(", open(header).read())}
    demand(exports == declared, f"exports {sorted(exports)}, and the header has {sorted(declared)}")
    offsets = file.section("__TEXT", "__init_offsets")
    demand(offsets and offsets.size == 4, "does not have exactly one initializer")
    kinds = {s.type for s in file.macho.sections}
    others = {lief.MachO.Section.TYPE.MOD_INIT_FUNC_POINTERS, lief.MachO.Section.TYPE.MOD_TERM_FUNC_POINTERS}
    demand(not kinds & others, "has more initializers, or a terminator")
    imports = {bind.symbol.name for bind in file.macho.bindings}
    demand(not [name for name in imports if NEVER.match(name)], f"imports {sorted(filter(NEVER.match, imports))}")
    pages = file.check_signature()
    functions, handled = file.unwinding()
    demand(functions > 100 and handled > 10, f"can unwind {functions} functions, {handled} of them with a handler")
    demand(len(file.data) <= BUDGET, f"has {len(file.data)} bytes, more than {BUDGET}")
    said = (
        f"library {len(file.data) / 1024:.1f} of {BUDGET // 1024} KiB, {len(exports)} exports, {len(imports)} imports, "
        f"{pages} page hashes, {functions} functions unwind ({handled} with a handler)"
    )
    return file, said


def check_command(path):
    file = File(path)
    file.check_kind(lief.MachO.Header.FILE_TYPE.EXECUTE)
    file.check_segments()
    frameworks = {f"{FRAMEWORKS}/{name}.framework/Versions/A/{name}" for name in ("CoreFoundation", "IOKit")}
    file.check_links({SYSTEM} | frameworks)
    pages = file.check_signature()
    return file, f"command {len(file.data) / 1024:.0f} KiB, {pages} page hashes"


def main():
    folder = sys.argv[1]
    library = f"{folder}/lib/libcapgate.dylib"
    command = f"{folder}/bin/capgate"
    places = [os.getcwd(), os.path.expanduser("~") + "/", "/usr/lib/rustlib", "built elsewhere"]
    said = []
    for path, check in ((library, lambda p: check_library(p, f"{folder}/include/capgate.h")), (command, check_command)):
        try:
            file, text = check(path)
            file.check_paths(places)
        except Wrong as wrong:
            sys.exit(f"{path} {wrong}")
        said.append(text)
    print("; ".join(said))


if __name__ == "__main__":
    main()
