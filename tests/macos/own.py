"""What a process does beyond one device: several devices, its environment, other ways to the library, its C interface."""

import os

from guest import GRANTED, LIBRARY, STOCK, Guest, make_states, plan
from machine import Fault


def several_devices(guest):
    process = guest.start()
    devices = {}
    for name in ("AppleParavirtDevice", "LargeDevice", "AppleParavirtDevice", "OverridingDevice", "DerivedDevice"):
        devices[process.device(name)] = name
    for device, name in devices.items():
        expected = (STOCK[0], 131072) if name == "LargeDevice" else GRANTED
        demand(process.answers(device) == expected, f"{name} answers {process.answers(device)}")
    outcomes = [(line["outcome"], line.get("device")) for line in guest.log()]
    demand([outcome for outcome, _ in outcomes] == ["grant", "grant", "stock", "grant", "grant", "grant"], f"{outcomes}")


def a_sibling_stays_stock(guest):
    process = guest.start()
    device = process.device()
    # Set up without initGPUFamilySupport, so never judged.
    sibling = process.runtime.create("SiblingDevice")
    process.machine.write(sibling + 8, (1005).to_bytes(8, "little"))
    demand(process.answers(device) == GRANTED, "the device is not granted")
    demand(process.answers(sibling) == STOCK, f"the sibling answers {process.answers(sibling)}")
    demand(("set", "_MTLDevice") in process.runtime.changes, "nothing was hooked")
    demand(process.runtime.changes.count(("set", "_MTLDevice")) == 1, "more than one method of the parent was changed")


def the_same_device_twice(guest):
    process = guest.start()
    device = process.device()
    process.runtime.send(device, "initGPUFamilySupport")
    demand(process.answers(device) == GRANTED, "the second time changed it")
    # Both answers, and `dealloc`.
    demand(process.runtime.changes.count(("add", "AppleParavirtDevice")) == 3, "methods were added again")


def the_constructor_twice(guest):
    process = guest.start()
    for initializer in process.image.initializers():
        process.machine.call(initializer, 1, 0, 0, 0, 0)
    demand(process.answers(process.device()) == GRANTED, "the second time changed it")


def a_device_that_changes_itself(guest):
    process = guest.start()
    device = process.device()
    process.machine.write(device + 8, (1007).to_bytes(4, "little"))
    families, memory = process.answers(device)
    demand((1007 in families, 1009 in families, memory) == (True, False, 32768), f"{families} {memory}")


def a_device_where_another_was(guest):
    """A device goes, and one that was never set up comes to stand at the same place."""
    process = guest.start()
    device = process.device()
    demand(process.answers(device) == GRANTED, "the device is not granted")
    process.runtime.send(device, "dealloc")
    demand(process.answers(device) == STOCK, f"what came after it answers {process.answers(device)}")


def nobody_listens(guest):
    """A grant does not depend on standard error, and nothing that happens to it ends or blocks the process."""
    for state in ("full", "broken", "closed"):
        guest.prepare = lambda process, state=state: process.files.streams.update({2: state})
        process = guest.start()
        demand(process.answers(process.device()) == GRANTED, f"standard error is {state}: not granted")
        demand(process.said() == "", f"standard error is {state}: it said {process.said()}")
    # Broken between the look and the write.
    guest.prepare = lambda process: setattr(process.files, "state", lambda _number: 4) or process.files.streams.update(
        {2: "broken"}
    )
    process = guest.start()
    demand(process.answers(process.device()) == GRANTED, "standard error breaks: not granted")


def another_file_behind_standard_error(guest):
    """What the program put there since is not written to."""
    process = guest.start()
    said = process.said()
    process.files.places[2] = 2000
    demand(process.answers(process.device()) == GRANTED, "it is not granted")
    demand(process.said() == said and said, f"it wrote into another file: {process.said()}")


def environment(guest):
    theirs = b"/opt/other/libother.dylib"
    lume = b"/opt/lume/libLumeMetalCapabilities.dylib"
    guest.environment[b"DYLD_INSERT_LIBRARIES"] = b":".join([lume, theirs, LIBRARY.encode()])
    for name in (b"LUME_METAL_APPLE_FAMILY_MAX", b"TART_METAL_MAX_THREADGROUP_MEMORY"):
        guest.environment[name] = b"1009"
    process = guest.start()
    left = process.system.environment
    demand(left == {b"DYLD_INSERT_LIBRARIES": theirs, b"HOME": b"/Users/admin"}, f"children would inherit {left}")


def quiet(guest):
    guest.environment[b"CAPGATE_QUIET"] = b"1"
    process = guest.start()
    demand(process.answers(process.device()) == GRANTED, "it is not granted")
    demand(process.said() == "", f"it said: {process.said()}")
    demand(len(guest.log()) == 2, "it was not logged")


def merely_linked(guest):
    del guest.environment[b"DYLD_INSERT_LIBRARIES"]
    process = guest.start()
    demand(process.answers(process.device()) == STOCK, "it was not asked and grants")
    demand((process.said(), process.files.opened, guest.log()) == ("", [], []), "it was not asked and did something")


def reached_otherwise(guest):
    os.symlink("capgate", guest.host("/opt/link"))
    ways = [
        "lib/libcapgate.dylib",
        "/opt/link/lib/libcapgate.dylib",
        "/opt/capgate/lib/../lib/libcapgate.dylib",
        "/opt/capgate//lib/libcapgate.dylib",
        "/opt/capgate/libcapgate.dylib",
    ]
    for way in ways:
        guest.mac["library"] = way
        guest.environment[b"DYLD_INSERT_LIBRARIES"] = way.encode()
        process = guest.start()
        demand(process.answers(process.device()) == STOCK, f"{way} grants")
        demand("Stock: registry-" in process.said(), f"{way}: {process.said()}")


def what_it_asks_of_a_mac(guest):
    """The library opens its state and the program, nothing else, each without waiting and closed on exec."""
    process = guest.start()
    process.device()
    for path, flags in process.files.opened:
        careful = flags & 0x0100_0004 == 0x0100_0004
        demand(careful, f"{path} was opened with {flags:#x}")
        demand(path.startswith("/opt/capgate/") or path == guest.mac["executable"], f"{path} was opened")


def c_interface(guest):
    """Every function with the words that its declaration has, and with nonsense in the place of a handle."""
    process = guest.start()
    machine, exports = process.machine, process.image.exports
    call = lambda name, *words: machine.call(exports[f"_capgate_{name}"], *words)
    text = lambda name, *words: machine.text(call(name, *words)).decode()
    small = lambda name, *words: call(name, *words) & 0xFFFF_FFFF
    prefix, name = machine.put(b"/opt/capgate\0"), machine.put(b"AppleParavirtDevice\0")
    demand(text("version").count(".") == 2, "capgate_version gives no version")
    for nonsense in (0, 1, (1 << 64) - 1, prefix):
        for function in exports:
            if function != "_capgate_open":
                machine.call(exports[function], nonsense, 0, 0, 0)
    demand(call("open", 0) == 0 and text("last_error") != "", "a prefix of null was opened")
    demand(call("open", machine.put(b"relative\0")) == 0 or small("decision", 1) == 0, "a relative prefix grants")
    handle = call("open", prefix)
    demand(handle != 0, text("last_error"))
    demand(small("decision", handle) == 1, text("detail", handle))
    demand((text("reason", handle), text("profile", handle)) == ("", "tested"), "reason or profile")
    demand(call("apple_family_max", handle) == 1009, "the family")
    demand(call("max_threadgroup_memory", handle) == 65536, "the memory")
    demand(small("supports_family", handle, 1009, 0) == 0, "a device was granted that nobody judged")
    demand(small("device", handle, name, 1005, 32768) == 1, "the device was refused")
    asked = {family: small("supports_family", handle, family, 0) for family in (1000, 1001, 1009, 1010, 3003, -1)}
    # Its own answer to 1001 is not what was tested, so it stays.
    demand(asked == {1000: 0, 1001: 0, 1009: 1, 1010: 0, 3003: 0, -1: 0}, f"the families are {asked}")
    demand(small("supports_family", handle, 3003, 1) == 1, "an own answer was changed")
    demand(call("threadgroup_memory", handle, 32768) == 65536, "the memory of a device")
    demand(small("device", handle, name, 1007, 32768) == 0, "another device was granted")
    demand(call("threadgroup_memory", handle, 32768) == 32768, "a device was refused and the answers stay")
    call("close", handle)
    demand(small("decision", handle) == 0 and text("reason", handle) == "not-open", "a closed handle decides")
    process.after("the C interface")


CHECKS = [
    several_devices,
    a_sibling_stays_stock,
    the_same_device_twice,
    the_constructor_twice,
    a_device_that_changes_itself,
    a_device_where_another_was,
    nobody_listens,
    another_file_behind_standard_error,
    environment,
    quiet,
    merely_linked,
    reached_otherwise,
    what_it_asks_of_a_mac,
    c_interface,
]


def demand(truth, what):
    if not truth:
        raise AssertionError(what)


def check(library, helper, folder):
    guests = {work: Guest(f"{folder}/{work.__name__}", library) for work in CHECKS}
    make_states(helper, {guest: plan() for guest in guests.values()})
    failed = []
    for work, guest in guests.items():
        try:
            work(guest)
        except (AssertionError, Fault, OSError, KeyError, IndexError) as problem:
            failed.append(f"{work.__name__}: {type(problem).__name__}: {problem}")
    return failed
