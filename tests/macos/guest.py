"""A guest: a folder with a prefix and a program in it, the machine's answers, and processes started in it."""

import copy
import datetime
import json
import os
import shutil
import subprocess

from files import Files
from image import Image
from libsystem import LibSystem
from mac import Mac
from machine import Machine
from machofile import Signed
from objc import METAL, Runtime, define_metal

NOW = int(datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC).timestamp())
ORIGIN = "shim.test/gpu"
PREFIX = "/opt/capgate"
LIBRARY = PREFIX + "/lib/libcapgate.dylib"
PROGRAM = "/opt/llama/llama-bench"
USER = 501
GOOD = os.path.join(os.path.dirname(__file__), "../profiles/good.toml")
SHA256_LINE = 'sha256 = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7"'
PROGRAM_FILE = Signed("llama-bench", program=True)
# What programs ask: Apple families, Mac 2, Common 3, one that does not exist, Metal 3.
FAMILIES = (1001, 1005, 1007, 1008, 1009, 1010, 1011, 2002, 3003, 3004, 5001, 0, -1)
STOCK = ({1001, 1005, 2002, 3003}, 32768)
GRANTED = ({1001, 1005, 1007, 1008, 1009, 2002, 3003}, 65536)


def time(seconds):
    return datetime.datetime.fromtimestamp(NOW + seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def profile(name="tested", identity=None):
    identity = identity or f'cdhash = "{PROGRAM_FILE.cdhash}"'
    return open(GOOD).read().replace("a-profile", name).replace(SHA256_LINE, identity)


def statement(by=0):
    return (
        'chip = "Apple M1 Ultra"\nos = { version = "26.6.1", build = "25G76" }\nfeature_level = "unrecorded"\n'
        f"issued = {time(by - 300)}\nexpires = {time(by + 3300)}\n"
    )


def plan():
    """What grants 1009 / 65,536 to the program."""
    return {
        "profiles": [profile()],
        "revocation": None,
        "published": -600,
        "site": 'schema = "1.0.0"\nmode = "enforce"\n',
        "statement": statement(),
        "host_seed": 4,
    }


def machine():
    """What a guest's kernel answers."""
    return {
        "sysctl": {
            "machdep.cpu.brand_string": "Apple M1 Ultra (Virtual)",
            "kern.osversion": "25F84",
            "hw.model": "VirtualMac2,1",
            "kern.hv_vmm_present": 1,
        },
        "links": [("lo0", b""), ("en0", bytes.fromhex("5e12ab0034f0"))],
        "cdhash": PROGRAM_FILE.cdhash,
        "executable": PROGRAM,
        "uuid": "0011223344556677" * 2,
    }


def edit(text, old, new):
    assert old in text, old
    return text.replace(old, new)


class Guest:
    def __init__(self, folder, library):
        self.folder = folder
        self.library = library
        self.mac = copy.deepcopy(machine())
        self.environment = {b"DYLD_INSERT_LIBRARIES": LIBRARY.encode(), b"HOME": b"/Users/admin"}
        self.runtime_absent, self.metal = (), {}
        self.prepare = lambda process: None
        self.user = USER
        self.owners = {"": 0, "/opt": 0}
        for name in ("lib", "etc/capgate/registry", "var/log/capgate"):
            os.makedirs(self.host(f"{PREFIX}/{name}"), mode=0o755)
        os.makedirs(self.host("/opt/llama"))
        shutil.copyfile(library, self.host(LIBRARY))
        self.write(PROGRAM, PROGRAM_FILE.bytes)

    def host(self, path):
        return f"{self.folder}{path}"

    def write(self, path, data):
        with open(self.host(path), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def state(self, name):
        return f"{PREFIX}/etc/capgate/{name}"

    def snapshot(self):
        names = os.listdir(self.host(self.state("registry/snapshot")))
        return "registry/snapshot/" + max(name for name in names if name.endswith(".snap"))

    def change(self, name, work):
        path = self.host(self.state(name))
        data = open(path, "rb").read()
        self.write(self.state(name), work(data))

    def log(self):
        path = self.host(f"{PREFIX}/var/log/capgate/{self.user}.jsonl")
        if not os.path.isfile(path):
            return []
        return [json.loads(line) for line in open(path)]

    def start(self, record=False):
        return Process(self, record)


def make_states(helper, plans):
    """Has the helper write the state of every guest; `plans` maps each guest to its plan."""
    batch = []
    for guest, plan in plans.items():
        plan = dict(plan, folder=guest.host(f"{PREFIX}/etc/capgate"), published=NOW + plan["published"])
        batch.append(plan)
    subprocess.run([helper], input=json.dumps(batch).encode(), check=True, stdout=subprocess.DEVNULL)


class Process:
    """A process that has the library inserted; its constructor has run."""

    def __init__(self, guest, record=False):
        self.guest = guest
        self.machine = Machine()
        self.files = Files(guest.folder, guest.user)
        self.files.owners = {os.path.normpath(guest.host(path)): owner for path, owner in guest.owners.items()}
        self.system = LibSystem(self.machine, self.files, guest.environment, NOW)
        self.mac = Mac(self.system, guest.mac)
        self.runtime = Runtime(self.system, guest.runtime_absent)
        self.system.loaders[METAL] = self.load_metal
        self.metal_was_asked = False
        guest.prepare(self)
        self.image = Image(self.machine, guest.library, self.system.symbol)
        self.system.thread_locals = self.image.thread_locals()
        self.system.library_path = guest.mac.get("library", LIBRARY).encode()
        self.system.image_range = self.machine_range()
        if record:
            self.machine.record(*self.machine_range())
        for initializer in self.image.initializers():
            # dyld's arguments: argc, argv, envp, apple, program variables.
            self.machine.call(initializer, 1, 0, 0, 0, 0)
        self.after("the constructor")

    def machine_range(self):
        text = self.image.section("__TEXT", "__text")
        start = text.virtual_address + self.image.slide
        return start - text.offset, start + text.size

    def load_metal(self):
        self.metal_was_asked = True
        if not self.runtime.classes:
            define_metal(self.runtime, **self.guest.metal)

    def device(self, name="AppleParavirtDevice"):
        """Makes a device as Metal does; a program that was refused loads Metal itself."""
        if not self.runtime.classes:
            define_metal(self.runtime, **self.guest.metal)
        device = self.runtime.create(name)
        self.runtime.send(device, "initGPUFamilySupport")
        self.after("the device")
        return device

    def answers(self, device):
        """What a program is told: the families that are supported, and the threadgroup memory."""
        families = set()
        for family in FAMILIES:
            answer = self.runtime.send(device, "supportsFamily:", family) & 0xFFFF_FFFF
            # A BOOL is one byte that its callee widens.
            if answer not in (0, 1):
                raise AssertionError(f"supportsFamily:{family} answered {answer:#x}, no BOOL")
            if answer:
                families.add(family)
        return families, self.runtime.send(device, "maxThreadgroupMemoryLength")

    def after(self, what):
        """Nothing may be left behind: open files, held locks, words on standard output."""
        if self.files.open:
            raise AssertionError(f"after {what} files are open: {self.files.open}")
        if self.system.blocked or self.system.pending:
            raise AssertionError(f"after {what} signals are blocked or pending")
        if self.system.locked:
            raise AssertionError(f"after {what} locks are held")
        if self.files.said[1]:
            raise AssertionError(f"{what} wrote on standard output: {self.files.said[1]}")

    def said(self):
        return bytes(self.files.said[2]).decode()
