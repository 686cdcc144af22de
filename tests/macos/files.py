"""Files of the host seen as files of a Mac: `/x` is `<root>/x`, and every owner is one of the Mac's."""

import errno
import os
import stat as modes
import struct

# Flags of open(2) as macOS has them.
ACCESS = 0x3
FLAGS = {
    0x4: os.O_NONBLOCK,
    0x8: os.O_APPEND,
    0x100: os.O_NOFOLLOW,
    0x200: os.O_CREAT,
    0x400: os.O_TRUNC,
    0x800: os.O_EXCL,
    0x0100_0000: os.O_CLOEXEC,
}
# Numbers of errors that differ between Linux and macOS.
ERRORS = {
    errno.EAGAIN: 35,
    errno.ELOOP: 62,
    errno.ENAMETOOLONG: 63,
    errno.ENOTSUP: 45,
    errno.ENOTEMPTY: 66,
    errno.EOVERFLOW: 84,
}


def number_of(error):
    """A Linux error number as macOS writes it."""
    return ERRORS.get(error, error)


class Files:
    def __init__(self, root, user):
        self.root = str(root)
        self.user = user
        self.owners = {}
        # Open files of the emulated process: its numbers start where the standard streams end.
        self.open = {}
        self.opened = []
        self.said = {1: bytearray(), 2: bytearray()}
        self.broken_writes = None
        # What the standard streams are: `open`, `full`, `broken` (nobody reads) or `closed`.
        self.streams = {0: "open", 1: "open", 2: "open"}
        self.places = {0: 1000, 1: 1001, 2: 1002}

    def host(self, path):
        text = os.fsdecode(path)
        if not text.startswith("/"):
            raise OSError(errno.ENOENT, "relative paths have no folder here")
        return self.root + text

    def resolve(self, path):
        """`realpath`: a link is followed within the view."""
        parts, done, hops = [p for p in os.fsdecode(path).split("/") if p not in ("", ".")], "", 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}"
            if modes.S_ISLNK(os.lstat(self.root + here).st_mode):
                hops += 1
                if hops > 32:
                    raise OSError(errno.ELOOP, "too many links")
                target = os.readlink(self.root + here)
                done = "" if target.startswith("/") else done
                parts = [p for p in target.split("/") if p not in ("", ".")] + parts
            else:
                done = here
        return done or "/"

    def do_open(self, path, flags, mode):
        host = self.host(path)
        given = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR][flags & ACCESS]
        rest = flags & ~ACCESS
        for mac, linux in FLAGS.items():
            if rest & mac:
                given |= linux
                rest &= ~mac
        if rest:
            raise AssertionError(f"open: no flag {rest:#x} is known")
        self.opened.append((os.fsdecode(path), flags))
        if os.path.lexists(host) and not flags & 0x4 and modes.S_ISFIFO(os.lstat(host).st_mode):
            raise AssertionError(f"a blocking open of the FIFO {os.fsdecode(path)}")
        # Links elsewhere are links within the view, where they are followed at all.
        if not flags & 0x100 and os.path.islink(host):
            host = self.root + self.resolve(path)
        descriptor = os.open(host, given, mode)
        number = max([2, *self.open]) + 1
        self.open[number] = (descriptor, os.fsdecode(path))
        return number

    def descriptor(self, number):
        if number not in self.open:
            raise OSError(errno.EBADF, "is not open")
        return self.open[number][0]

    def do_close(self, number):
        os.close(self.descriptor(number))
        del self.open[number]

    def close_all(self):
        for number in list(self.open):
            self.do_close(number)

    def do_write(self, number, data):
        if number in self.said:
            if self.streams[number] == "full":
                raise AssertionError("a write to a full pipe would block")
            if self.streams[number] != "open":
                broken = self.streams[number] == "broken"
                raise OSError(errno.EPIPE if broken else errno.EBADF, "nobody reads")
            self.said[number] += data
            return len(data)
        descriptor = self.descriptor(number)
        if self.broken_writes is not None:
            return self.broken_writes(descriptor, data)
        return os.write(descriptor, data)

    def own(self, path, owner):
        """From here on a file or folder belongs to that user of the Mac."""
        self.owners[os.path.normpath(self.host(os.fsencode(path)))] = owner

    def _owner(self, host):
        return self.owners.get(os.path.normpath(host), self.user)

    def do_lstat(self, path):
        host = self.host(path)
        found = os.lstat(host)
        return layout(found, self._owner(host))

    def state(self, number):
        """What poll finds: POLLOUT, POLLHUP or POLLNVAL, which have the same numbers everywhere."""
        if number not in self.streams:
            return 0x4 if number in self.open else 0x20
        return {"open": 0x4, "full": 0, "broken": 0x10, "closed": 0x20}[self.streams[number]]

    def do_fstat(self, number):
        if self.streams.get(number, "closed") != "closed":
            return pipe(self.places[number])
        descriptor, path = self.open[number] if number in self.open else (None, None)
        if descriptor is None:
            raise OSError(errno.EBADF, "is not open")
        found = os.fstat(descriptor)
        return layout(found, self._owner(self.root + path))


def pipe(place):
    """`struct stat` of a standard stream, with its inode number."""
    return struct.pack("<iHHQII", 7, modes.S_IFIFO | 0o600, 1, place, 0, 0).ljust(144, b"\0")


def layout(found, owner):
    """`struct stat` of macOS on arm64 (sys/stat.h with 64-bit inode numbers)."""
    times = b"".join(
        struct.pack("<qq", ns // 10**9, ns % 10**9)
        for ns in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns, found.st_mtime_ns)
    )
    head = struct.pack(
        "<iHHQIIii", found.st_dev & 0x7FFF_FFFF, found.st_mode, found.st_nlink, found.st_ino, owner, 20, 0, 0
    )
    tail = struct.pack("<qqiIIi16x", found.st_size, found.st_blocks, found.st_blksize, 0, 0, 0)
    laid = head + times + tail
    assert len(laid) == 144
    return laid
