"""Small signed Mach-O files whose parts stand in the file where they would stand in memory, and cdhashes of any."""

import hashlib
import struct

import lief

LINKEDIT = 0x4000
METAL = "/System/Library/Frameworks/Metal.framework/Versions/A/Metal"


def _segment(name, at, size):
    head = struct.pack("<II16sQQQQ", 0x19, 72, name.encode(), at, size, at, size)
    return head + bytes(72 - len(head))


def _dylib(name):
    size = -(-(24 + len(name) + 1) // 8) * 8
    command = struct.pack("<6I", 0xC, size, 24, 0, 0, 0) + name.encode()
    return command + bytes(size - len(command))


class Signed:
    """For arm64, with a code directory in which `identifier` stands, and which is all that makes it another file."""

    def __init__(self, identifier, program=False, dylibs=()):
        directory = struct.pack(">I32xBB6x", 0xFADE0C02, 32, 2) + identifier.encode() + b"\0"
        self.directory = directory[:4] + struct.pack(">I", len(directory)) + directory[8:]
        self.cdhash = hashlib.sha256(self.directory).hexdigest()[:40]
        signature = struct.pack(">5I", 0xFADE0CC0, 20 + len(self.directory), 1, 0, 20) + self.directory
        commands = _segment("__TEXT", 0, LINKEDIT) + _segment("__LINKEDIT", LINKEDIT, len(signature))
        commands += b"".join(map(_dylib, dylibs)) + struct.pack("<4I", 0x1D, 16, LINKEDIT, len(signature))
        head = struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 2 if program else 6, 3 + len(dylibs), len(commands), 0, 0)
        self.bytes = (head + commands).ljust(LINKEDIT, b"\0") + signature
        self.sha256 = hashlib.sha256(self.bytes).hexdigest()


def linking_metal(identifier):
    return Signed(identifier, dylibs=[METAL])


def code_directories(data, signature):
    """The code directories of a signature, by their slots."""
    blob = data[signature.data_offset : signature.data_offset + signature.data_size]
    magic, _, count = struct.unpack_from(">III", blob)
    if magic != 0xFADE0CC0:
        raise ValueError("no embedded signature")
    found = {}
    for at in range(count):
        slot, offset = struct.unpack_from(">II", blob, 12 + 8 * at)
        magic, length = struct.unpack_from(">II", blob, offset)
        if magic == 0xFADE0C02:
            found[slot] = blob[offset : offset + length]
    return found


def cdhash_of(path):
    """The cdhash of a real file that has one slice."""
    data = open(path, "rb").read()
    signature = lief.MachO.parse(str(path)).at(0).code_signature
    return hashlib.sha256(code_directories(data, signature)[0]).hexdigest()[:40]
