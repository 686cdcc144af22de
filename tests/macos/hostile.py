"""Cases of hostile state and of a Mac that lacks something: never a fault, a blocking open or a grant."""

import os

from guest import LIBRARY, METAL, PREFIX, plan
from reasons import LATEST, Case

UNLOGGED = "log-unwritable"
FILES = ["root.note", "site.toml", "host.note", "seen", "registry/trust/1.note", LATEST, "SNAPSHOT"]
SEEN = "version = 0\nlog_size = 0\ntrust = 0\n"
# What a state file that cannot be believed may be called: which one it is, the code says.
DOUBTS = ("registry-", "site-", "host-", "log-")


def path_of(guest, name):
    return guest.host(guest.state(guest.snapshot() if name == "SNAPSHOT" else name))


def aside(path):
    os.rename(path, path + ".kept")


def fifo(path):
    aside(path)
    os.mkfifo(path)


def folder(path):
    aside(path)
    os.mkdir(path)


def link(path):
    aside(path)
    os.symlink(os.path.basename(path) + ".kept", path)


def link_to_nowhere(path):
    aside(path)
    os.symlink("/nowhere", path)


def huge(path):
    aside(path)
    with open(path, "wb") as file:
        file.truncate(2 << 30)


def empty(path):
    open(path, "wb").close()


def half(path):
    os.truncate(path, os.path.getsize(path) // 2)


def last_byte(path):
    os.truncate(path, os.path.getsize(path) - 1)


def on_disk(name, work):
    def then(guest):
        guest.write(guest.state("seen"), SEEN)
        work(path_of(guest, name))

    return then


def owned(path, owner):
    return lambda guest: guest.owners.update({path: owner})


def state_cases():
    works = [fifo, folder, link, link_to_nowhere, huge, empty, half, last_byte]
    for name in FILES:
        for work in works:
            # Without its last byte the policy is still a policy.
            if (name, work) != ("site.toml", last_byte):
                yield Case(f"{name}: {work.__name__.replace('_', ' ')}", DOUBTS, on_disk(name, work))
        for bits in (0o664, 0o646):
            then = on_disk(name, lambda path, bits=bits: os.chmod(path, bits))
            yield Case(f"{name}: mode {bits:o}", DOUBTS, then, says="can be written by others")

        def of_another(guest, name=name):
            guest.write(guest.state("seen"), SEEN)
            guest.owners[guest.state(guest.snapshot() if name == "SNAPSHOT" else name)] = 502

        yield Case(f"{name}: of another user", DOUBTS, of_another, says="belongs to user 502")
    for place in ("", "/opt", PREFIX, f"{PREFIX}/lib", LIBRARY, f"{PREFIX}/etc", f"{PREFIX}/etc/capgate/registry"):
        shown = place or "/"
        yield Case(f"{shown}: of another user", DOUBTS, owned(place, 502), says="belongs to user 502")
        yield Case(
            f"{shown}: others can write",
            DOUBTS,
            lambda guest, place=place: os.chmod(guest.host(place), 0o777),
            says="can be written by others",
        )
        if place != LIBRARY:
            volume = lambda guest, shown=shown: guest.mac.update(ownerless=(shown,))
            yield Case(f"{shown}: on a volume without owners", DOUBTS, volume, says="ignores who owns a file")
        for kind, reason in (("allow", DOUBTS), ("deny", None)):
            lists = lambda guest, shown=shown, kind=kind: guest.mac.update(lists={shown: kind})
            says = "access control list" if reason else ""
            yield Case(f"{shown}: a list that has {kind}", reason, lists, says=says)


def log_cases():
    log = f"{PREFIX}/var/log/capgate"
    own = f"{log}/501.jsonl"

    def on_log(work):
        return lambda guest: work(guest.host(own))

    def second_name(path):
        empty(path)
        os.link(path, path + ".second")

    yield Case("log: no folder", UNLOGGED, lambda guest: os.rmdir(guest.host(log)))
    yield Case("log: a link", UNLOGGED, on_log(lambda path: os.symlink("/dev/null", path)))
    yield Case("log: a folder", UNLOGGED, on_log(os.mkdir))
    yield Case("log: a FIFO", UNLOGGED, on_log(os.mkfifo))
    yield Case("log: a second name", UNLOGGED, on_log(second_name))
    yield Case("log: others can write", UNLOGGED, lambda guest: os.chmod(guest.host(log), 0o777))
    yield Case("log: of another user", UNLOGGED, lambda guest: (guest.write(own, ""), guest.owners.update({own: 502})))
    yield Case("log: full disk", UNLOGGED, lambda guest: setattr(guest, "prepare", full_disk))
    yield Case("log: half a line", UNLOGGED, lambda guest: setattr(guest, "prepare", half_a_line))
    yield Case("log: no random bytes", UNLOGGED, lambda guest: setattr(guest, "prepare", no_entropy))


def full_disk(process):
    def write(_descriptor, _data):
        raise OSError(28, "no space")

    process.files.broken_writes = write


def half_a_line(process):
    process.files.broken_writes = lambda descriptor, data: os.write(descriptor, data[: len(data) // 2])


def no_entropy(process):
    process.system.c_getentropy = lambda: process.system._fail(5)


def mac_cases():
    def metal(**changes):
        return lambda guest: guest.metal.update(changes)

    def lacking(*names):
        return lambda guest: setattr(guest, "runtime_absent", names)

    def no_metal(guest):
        guest.prepare = lambda process: process.system.loaders.pop(METAL)

    def not_added(guest):
        guest.prepare = lambda process: setattr(process.runtime, "refuse_adding", ("maxThreadgroupMemoryLength",))

    differs = "device-differs"
    memory, family, init = "maxThreadgroupMemoryLength", "supportsFamily:", "initGPUFamilySupport"
    yield Case("no Metal", differs, no_metal, says="Metal cannot be loaded")
    yield Case("no memory method", differs, metal(without=[memory]), says=f"has no `{memory}`")
    yield Case("no family method", differs, metal(without=[family]), says=f"has no `{family}`")
    yield Case("no init method", differs, metal(without=[init]), says=f"has no `{init}`")
    yield Case("a memory method of another type", differs, metal(types={memory: "d16@0:8"}), says="has the types `d@:`")
    yield Case("a family method of another type", differs, metal(types={family: "B20@0:8i16"}), says="has the types `B@:i`")
    yield Case("an init method of another type", differs, metal(types={init: "v24@0:8@16"}), says="has the types `v@:@`")
    yield Case("a method that cannot be added", differs, not_added, says="cannot be replaced")
    for name in ("objc_getClass", "class_addMethod", "class_getSuperclass", "sel_registerName"):
        yield Case(f"no {name}", differs, lacking(name), says="Objective-C runtime is not complete")
    absent = lambda *names: lambda guest: guest.mac.update(absent=names)
    yield Case("no csops", "fact-workload-missing", absent("csops"))
    yield Case("no sysctlbyname", "fact-virtual-machine-missing", absent("sysctlbyname"))
    yield Case("no access control lists", DOUBTS, absent("acl_get_link_np"), says="access control list")
    yield Case("no gethostuuid", None, absent("gethostuuid"))
    yield Case("setugid", DOUBTS, lambda guest: guest.mac.update(setugid=True), says="other rights")


CASES = [*state_cases(), *log_cases(), *mac_cases()]
