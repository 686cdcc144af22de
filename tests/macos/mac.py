"""What only a Mac's kernel and loader answer, found by the library with dlsym: each answer from one description."""

import errno as linux
import struct

from machine import Fault


# What `mach_task_self_` holds, and an address that no image has.
TASK = 0x203
GONE = 0x7_0000_0000


class Mac:
    """`description` has: sysctl (name to text or number), links, cdhash, executable, uuid, lists, images, setugid."""

    def __init__(self, system, description):
        self.system, self.m = system, system.m
        self.d = description
        self.mapped = []
        for name in ("sysctlbyname", "sysctl", "csops", "issetugid", "gethostuuid"):
            system.others[name] = getattr(self, name)
        for name in ("acl_get_link_np", "acl_get_entry", "acl_get_tag_type", "acl_free"):
            system.others[name] = getattr(self, name)
        system.others["mach_vm_read_overwrite"] = self.vm_read
        system.others["volumes without owners"] = description.get("ownerless", ())
        system.variables["mach_task_self_"] = self.m.put(struct.pack("<I", TASK))
        system.others["_NSGetExecutablePath"] = self.executable_path
        system.others["_dyld_image_count"] = lambda: len(self.mapped)
        system.others["_dyld_get_image_name"] = lambda: self._image(0)
        system.others["_dyld_get_image_header"] = lambda: self._image(1)
        for name in description.get("absent", ()):
            system.others.pop(name, None)
            system.variables.pop(name, None)
        for path, content in description.get("images", ()):
            self.map_image(path, content)

    def _give(self, value):
        """A value in the way of sysctl: its size is checked and then written."""
        old, length = self.m.argument(self.at), self.m.argument(self.at + 1)
        room = self.m.number(length)
        if room < len(value):
            return self.system._fail(linux.ENOMEM)
        self.m.write(old, value)
        self.m.write(length, struct.pack("<Q", len(value)))
        return 0

    def sysctlbyname(self):
        name = self.m.text(self.m.argument(0)).decode()
        if self.m.argument(3) or self.m.argument(4):
            raise Fault(f"`{name}` would be set")
        value = self.d["sysctl"].get(name)
        if value is None:
            return self.system._fail(linux.ENOENT)
        self.at = 1
        if isinstance(value, int):
            return self._give(struct.pack("<i", value))
        return self._give(value.encode() + b"\0")

    def sysctl(self):
        wanted = struct.pack("<6i", 4, 17, 0, 18, 3, 0)
        count = self.m.signed(1)
        if count != 6 or self.m.read(self.m.argument(0), 24) != wanted or self.m.argument(4) or self.m.argument(5):
            raise Fault("a sysctl other than the interface list")
        messages = b""
        for name, address in self.d.get("links", ()):
            # struct if_msghdr (112 bytes), then struct sockaddr_dl.
            link = struct.pack("<BBHBBBB", 0, 18, 1, 6, len(name), len(address), 0) + name.encode() + address
            link += bytes(-len(link) % 4)
            link = bytes([len(link)]) + link[1:]
            header = struct.pack("<HBBiiH", 112 + len(link), 5, 0x0E, 0x10, 0x8863, 1)
            messages += header + bytes(112 - len(header)) + link
        self.at = 2
        return self._give(messages)

    def csops(self):
        process, operation, to, size = (self.m.argument(n) for n in range(4))
        cdhash = self.d.get("cdhash")
        if cdhash is None or process & 0xFFFF_FFFF != 4242 or operation & 0xFFFF_FFFF != 5 or size != 20:
            return self.system._fail(linux.ESRCH)
        self.m.write(to, bytes.fromhex(cdhash))
        return 0

    def executable_path(self):
        path = self.d["executable"].encode() + b"\0"
        to, room = self.m.argument(0), self.m.argument(1)
        fits = self.m.number(room, 4) >= len(path)
        self.m.write(room, struct.pack("<I", len(path)))
        if not fits:
            return -1
        self.m.write(to, path)
        return 0

    def issetugid(self):
        return int(self.d.get("setugid", False))

    def gethostuuid(self):
        uuid = self.d.get("uuid")
        if uuid is None:
            return self.system._fail(linux.EIO)
        self.m.write(self.m.argument(0), bytes.fromhex(uuid))
        return 0

    def vm_read(self):
        task, address, size, to, copied = (self.m.argument(n) for n in range(5))
        if task & 0xFFFF_FFFF != TASK:
            raise Fault(f"memory of task {task:#x}")
        if address >= GONE and address < GONE + 0x1_0000:
            return 1  # KERN_INVALID_ADDRESS
        self.m.write(to, self.m.read(address, size))
        self.m.write(copied, struct.pack("<Q", size))
        return 0

    # Access control lists: a path with `allow` or `deny` has one entry of that kind.

    def acl_get_link_np(self):
        path, kind = self.m.text(self.m.argument(0)).decode(), self.m.argument(1) & 0xFFFF_FFFF
        if kind != 0x100:
            raise Fault(f"an access control list of kind {kind:#x}")
        entry = self.d.get("lists", {}).get(path)
        if entry is None:
            return self.system._fail(linux.ENOENT, 0)
        return self.m.put(struct.pack("<II", {"allow": 1, "deny": 2}[entry], 0))

    def acl_get_entry(self):
        which = self.m.signed(1)
        if which not in (0, -1):
            raise Fault(f"entry {which} of an access control list")
        if which != 0:
            return self.system._fail(linux.EINVAL)
        self.m.write(self.m.argument(2), struct.pack("<Q", self.m.argument(0)))
        return 0

    def acl_get_tag_type(self):
        self.m.write(self.m.argument(1), self.m.read(self.m.argument(0), 4))
        return 0

    def acl_free(self):
        self.m.release(self.m.argument(0))
        return 0

    # The loader's list

    def map_image(self, path, content):
        """An image whose parts stand in memory where they stand in the file; `None` is one that was unloaded since."""
        if content is None:
            return self.add_loaded(path, GONE)
        name = self.m.put(path.encode() + b"\0")
        header = self.m.allocate(len(content), 0x4000)
        self.m.write(header, content)
        self.mapped.append((name, header))

    def add_loaded(self, path, header):
        self.mapped.append((self.m.put(path.encode() + b"\0"), header))

    def _image(self, part):
        at = self.m.argument(0) & 0xFFFF_FFFF
        return self.mapped[at][part] if at < len(self.mapped) else 0
