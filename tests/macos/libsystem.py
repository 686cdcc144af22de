"""Stand-ins for the functions of libSystem that the library imports: the same arguments, results and errors.

A name that is not here is a fault: what the library asks of a Mac is exactly this file, `mac.py` and `objc.py`.
"""

import errno as linux
import os
import struct

from files import number_of
from machine import Fault

HANDLE = 0x1234_5000
# Libraries that are loaded in every process, which dlsym may ask.
LIBRARIES = {"/usr/lib/libSystem.B.dylib": 0x1234_6000, "/usr/lib/libobjc.A.dylib": 0x1234_7000}
NOLOAD = 0x10


class LibSystem:
    def __init__(self, machine, files, environment, clock):
        self.m = machine
        self.files = files
        self.clock = clock
        self.ticks = 0
        self.environment = dict(environment)
        self.values = {}
        self.random = 0
        self.errno = machine.put(bytes(8))
        self.locked = set()
        self.blocked = self.pending = 0
        self.thread_locals = None
        self.thread_block = None
        self.slept = 0
        # Names that dlsym finds beside those imported, by other stand-ins.
        self.others = {}
        self.variables = {}
        self.asked = set()
        self.traps = {}
        self.library_path = b""
        self.image_range = (0, 0)
        self.loaders = {}

    # Linking

    def symbol(self, name):
        """The address of an imported function, by the name that a Mach-O file has for it."""
        if name not in self.traps:
            self.traps[name] = self.m.trap(self._function(name))
        return self.traps[name]

    def _function(self, name):
        plain = name.removeprefix("_").split("$")[0]
        found = getattr(self, "c_" + plain, None)
        if found is None and plain.startswith("_Unwind_"):
            return lambda m: self._never(plain)
        if found is None:
            return lambda m: self._never(name)
        return lambda m: found()

    def _never(self, name):
        raise Fault(f"`{name}` was called, for which there is no stand-in")

    def _fail(self, error, result=-1):
        self.m.write(self.errno, struct.pack("<i", number_of(error)))
        return result

    def _try(self, work, result=-1):
        try:
            return work()
        except OSError as problem:
            return self._fail(problem.errno, result)

    # Memory

    def c_malloc(self):
        return self.m.allocate(self.m.argument(0))

    def c_calloc(self):
        size = self.m.argument(0) * self.m.argument(1)
        return self.m.put(bytes(size))

    def c_realloc(self):
        old, size = self.m.argument(0), self.m.argument(1)
        new = self.m.allocate(size)
        if old:
            if old not in self.m.live:
                raise Fault(f"realloc of {old:#x}, which no allocation gave")
            self.m.write(new, self.m.read(old, min(size, self.m.live[old])))
            self.m.release(old)
        return new

    def c_posix_memalign(self):
        address = self.m.allocate(self.m.argument(2), self.m.argument(1))
        self.m.write(self.m.argument(0), struct.pack("<Q", address))
        return 0

    def c_free(self):
        self.m.release(self.m.argument(0))
        # A value that is not returned must not be used either.
        return 0xDEAD_0000

    def c_memcpy(self):
        to, source, size = (self.m.argument(n) for n in range(3))
        if size and to < source + size and source < to + size and to != source:
            raise Fault("memcpy of blocks that overlap")
        self.m.write(to, self.m.read(source, size))
        return to

    def c_memmove(self):
        to, source, size = (self.m.argument(n) for n in range(3))
        self.m.write(to, self.m.read(source, size))
        return to

    def c_memset(self):
        to, value, size = (self.m.argument(n) for n in range(3))
        self.m.write(to, bytes([value & 0xFF]) * size)
        return to

    def c_bzero(self):
        self.m.write(self.m.argument(0), bytes(self.m.argument(1)))

    def c_memcmp(self):
        size = self.m.argument(2)
        a, b = self.m.read(self.m.argument(0), size), self.m.read(self.m.argument(1), size)
        return next((x - y for x, y in zip(a, b) if x != y), 0)

    def c_strlen(self):
        return len(self.m.text(self.m.argument(0)))

    # Errors, time, identity

    def c___error(self):
        return self.errno

    def c_strerror_r(self):
        text = os.strerror(self.m.signed(0)).encode() + b"\0"
        self.m.write(self.m.argument(1), text[: self.m.argument(2)])
        return 0

    def c_clock_gettime(self):
        # Real time stands still; every look at another clock takes 50 microseconds.
        self.ticks += 50_000
        nanoseconds = self.clock * 10**9 if self.m.argument(0) == 0 else 10**12 + self.ticks
        self.m.write(self.m.argument(1), struct.pack("<qq", *divmod(nanoseconds, 10**9)))
        return 0

    def c_nanosleep(self):
        self.slept += 1
        return 0

    def c_getpid(self):
        return 4242

    def c_getppid(self):
        return 4241

    def c_getuid(self):
        return self.files.user

    def c_geteuid(self):
        return self.others.get("effective user", self.files.user)

    def c_getgid(self):
        return 20

    def c_getegid(self):
        return 20

    def c_getentropy(self):
        size = self.m.argument(1)
        if size > 256:
            return self._fail(linux.EIO)
        self.random += 1
        self.m.write(self.m.argument(0), bytes((self.random * 37 + at * 11) & 0xFF for at in range(size)))
        return 0

    # Environment

    def c_getenv(self):
        name = self.m.text(self.m.argument(0))
        if name not in self.environment:
            return 0
        key = (name, self.environment[name])
        if key not in self.values:
            self.values[key] = self.m.put(self.environment[name] + b"\0")
        return self.values[key]

    def c_setenv(self):
        self.environment[self.m.text(self.m.argument(0))] = self.m.text(self.m.argument(1))
        return 0

    def c_unsetenv(self):
        self.environment.pop(self.m.text(self.m.argument(0)), None)
        return 0

    def c__NSGetEnviron(self):
        """`char ***`: where the variables are listed, at this moment."""
        texts = [self.m.put(name + b"=" + value + b"\0") for name, value in self.environment.items()]
        listed = self.m.put(struct.pack(f"<{len(texts) + 1}Q", *texts, 0))
        return self.m.put(struct.pack("<Q", listed))

    # Files

    def c_open(self):
        path, flags = self.m.text(self.m.argument(0)), self.m.signed(1)
        # The mode follows the dots of the C declaration, so it is on the stack.
        mode = self.m.on_stack(0) & 0xFFFF if flags & 0x200 else 0
        if mode & ~0o7777:
            raise Fault(f"open with mode {mode:o}")
        return self._try(lambda: self.files.do_open(path, flags, mode))

    def c_close(self):
        return self._try(lambda: self.files.do_close(self.m.signed(0)) or 0)

    def _read(self, read):
        to, size = self.m.argument(1), self.m.argument(2)
        number = self.m.signed(0)

        def work():
            data = read(self.files.descriptor(number), min(size, 1 << 24))
            self.m.write(to, data)
            return len(data)

        return self._try(work)

    def c_read(self):
        return self._read(os.read)

    def c_pread(self):
        offset = self.m.argument(3)
        return self._read(lambda descriptor, size: os.pread(descriptor, size, offset))

    def c_write(self):
        number, data = self.m.signed(0), self.m.read(self.m.argument(1), self.m.argument(2))
        self._guarded()

        def work():
            try:
                return self.files.do_write(number, data)
            except BrokenPipeError:
                self.pending |= self._bit(13)
                raise

        return self._try(work)

    def c_writev(self):
        number, data = self.m.signed(0), b""
        for at in range(self.m.signed(2)):
            start = self.m.number(self.m.argument(1) + 16 * at)
            data += self.m.read(start, self.m.number(self.m.argument(1) + 16 * at + 8))
        return self._try(lambda: self.files.do_write(number, data))

    def c_lstat(self):
        path, to = self.m.text(self.m.argument(0)), self.m.argument(1)
        return self._try(lambda: self.m.write(to, self.files.do_lstat(path)) or 0)

    def c_stat(self):
        path, to = self.m.text(self.m.argument(0)), self.m.argument(1)
        return self._try(lambda: self.m.write(to, self.files.do_lstat(os.fsencode(self.files.resolve(path)))) or 0)

    def c_fstat(self):
        number, to = self.m.signed(0), self.m.argument(1)
        return self._try(lambda: self.m.write(to, self.files.do_fstat(number)) or 0)

    def c_statfs(self):
        """`struct statfs` of macOS, 2,168 bytes, of which only the flags say something."""
        path, to = self.m.text(self.m.argument(0)), self.m.argument(1)
        self._try(lambda: self.files.do_lstat(path))
        flags = 0x0020_0000 if path.decode() in self.others.get("volumes without owners", ()) else 0
        self.m.write(to, bytes(64) + struct.pack("<I", flags | 0x0400_5000) + bytes(2168 - 68))
        return 0

    def c_realpath(self):
        path = self.m.text(self.m.argument(0))
        if self.m.argument(1):
            raise Fault("realpath into a buffer of the caller")
        return self._try(lambda: self.m.put(os.fsencode(self.files.resolve(path)) + b"\0"), 0)

    # Signals: a set is 32 bits, and only a write to a broken pipe makes one pending

    def c_sigemptyset(self):
        self.m.write(self.m.argument(0), bytes(4))
        return 0

    def c_sigaddset(self):
        to = self.m.argument(0)
        self.m.write(to, (self.m.number(to, 4) | self._bit(self.m.signed(1))).to_bytes(4, "little"))
        return 0

    def c_sigismember(self):
        return int(bool(self.m.number(self.m.argument(0), 4) & self._bit(self.m.signed(1))))

    def c_sigpending(self):
        self.m.write(self.m.argument(0), self.pending.to_bytes(4, "little"))
        return 0

    def c_pthread_sigmask(self):
        how, new, old = self.m.signed(0), self.m.argument(1), self.m.argument(2)
        if old:
            self.m.write(old, self.blocked.to_bytes(4, "little"))
        if new:
            mask = self.m.number(new, 4)
            # SIG_BLOCK, SIG_UNBLOCK and SIG_SETMASK of macOS.
            self.blocked = {1: self.blocked | mask, 2: self.blocked & ~mask, 3: mask}[how]
            if self.pending & ~self.blocked:
                raise Fault("a signal that a write caused reaches the program")
        return 0

    def c_sigwait(self):
        found = self.m.number(self.m.argument(0), 4) & self.pending
        if not found:
            raise Fault("it waits for a signal, and none is pending")
        self.pending &= ~found
        self.m.write(self.m.argument(1), found.bit_length().to_bytes(4, "little"))
        return 0

    @staticmethod
    def _bit(signal):
        return 1 << (signal - 1)

    def _guarded(self):
        """A write can cause each of these: SIGPIPE, SIGTTOU, SIGXFSZ."""
        wanted = self._bit(13) | self._bit(22) | self._bit(25)
        if self.blocked & wanted != wanted:
            raise Fault("a write that a signal could end the process at")

    def c_poll(self):
        asked, count, wait = self.m.argument(0), self.m.argument(1), self.m.signed(2)
        if count != 1 or wait != 0:
            raise Fault(f"poll of {count} descriptors for {wait} ms")
        number, events, _ = struct.unpack("<ihh", self.m.read(asked, 8))
        found = self.files.state(number) & (events | 0x38)
        self.m.write(asked, struct.pack("<ihh", number, events, found))
        return int(found != 0)

    # Threads: there is one

    def c_pthread_mutexattr_init(self):
        return 0

    c_pthread_mutexattr_settype = c_pthread_mutexattr_init
    c_pthread_mutexattr_destroy = c_pthread_mutexattr_init

    def c_pthread_mutex_init(self):
        return 0

    def c_pthread_mutex_destroy(self):
        return 0

    def c_pthread_mutex_lock(self):
        if self.m.argument(0) in self.locked:
            raise Fault("a lock is asked for that this thread holds")
        self.locked.add(self.m.argument(0))
        return 0

    def c_pthread_mutex_trylock(self):
        if self.m.argument(0) in self.locked:
            return 16  # EBUSY
        self.locked.add(self.m.argument(0))
        return 0

    def c_pthread_mutex_unlock(self):
        self.locked.remove(self.m.argument(0))
        return 0

    def c_pthread_threadid_np(self):
        self.m.write(self.m.argument(1), struct.pack("<Q", 77))
        return 0

    def c__tlv_bootstrap(self):
        # x0 is the descriptor: function, key, offset. Only x0 may change, so nothing else is touched here.
        if self.thread_block is None:
            self.thread_block = self.m.put(self.thread_locals)
        return self.thread_block + self.m.number(self.m.argument(0) + 16)

    def c__tlv_atexit(self):
        return 0

    def c_abort(self):
        raise Fault("abort")

    def c__Unwind_RaiseException(self):
        said = bytes(self.files.said[2][-400:]).decode(errors="replace")
        raise Fault(f"a panic was raised; standard error ends with: {said}")

    # The loader

    def c_dlsym(self):
        name = self.m.text(self.m.argument(1)).decode()
        # Each name in the library that has it: anywhere else the program's own could be found first.
        if self.m.argument(0) not in LIBRARIES.values():
            raise Fault(f"dlsym of `{name}` in {self.m.argument(0):#x}")
        is_objc = name.split("_")[0] in ("objc", "object", "class", "method", "sel")
        if self.m.argument(0) != LIBRARIES["/usr/lib/libobjc.A.dylib" if is_objc else "/usr/lib/libSystem.B.dylib"]:
            return 0
        self.asked.add(name)
        if name in self.variables:
            return self.variables[name]
        handler = self.others.get(name)
        if handler is None:
            return 0
        key = "dlsym " + name
        if key not in self.traps:
            self.traps[key] = self.m.trap(lambda m: handler())
        return self.traps[key]

    def c_dlopen(self):
        path = self.m.text(self.m.argument(0)).decode()
        if path in LIBRARIES:
            if not self.m.argument(1) & NOLOAD:
                raise Fault(f"`{path}` would be loaded")
            return LIBRARIES[path]
        load = self.loaders.get(path)
        if load is None:
            return 0
        load()
        return HANDLE

    def c_dladdr(self):
        address, to = self.m.argument(0), self.m.argument(1)
        begin, end = self.image_range
        if not begin <= address < end:
            return 0
        name = self.m.put(self.library_path + b"\0")
        self.m.write(to, struct.pack("<QQQQ", name, begin, 0, 0))
        return 1
