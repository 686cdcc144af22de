"""Changes single bytes of both hooks, and demands that what programs are told, or how it ends, shows it."""

import shutil

from guest import GRANTED, Guest, make_states, plan
from machine import Fault
from unicorn import UC_HOOK_CODE

SELECTORS = ("supportsFamily:", "maxThreadgroupMemoryLength")
DEVICE = "AppleParavirtDevice"
# Bits of an instruction's last byte, which says what kind of instruction it is.
BITS = (0x01, 0x08, 0x10, 0x40)


class Result:
    def __init__(self):
        self.failed, self.text = [], ""


def check(library, helper, folder):
    result = Result()
    guest = Guest(f"{folder}/memory", library)
    make_states(helper, {guest: plan()})
    process = guest.start()
    device = process.device()
    cleared = changed = noticed = 0
    for selector in SELECTORS:
        begin = process.runtime.implementation(DEVICE, selector)
        start, end = process.image.function_at(begin)
        if start != begin:
            result.failed.append(f"the replacement of `{selector}` does not begin a function")
            continue
        seen = []
        run = sorted(instructions(process, device, start, end))
        for address in run:
            last = process.machine.read(address + 3, 1)[0]
            for bit in BITS:
                changed += 1
                if is_noticed(process, device, address + 3, last ^ bit):
                    seen.append((address + 3 - process.image.slide, last ^ bit))
            # No instruction ends with a zero byte. What is not noticed then never runs.
            cleared += 1
            if not is_noticed(process, device, address + 3, 0):
                result.failed.append(f"`{selector}` does not need its instruction at +{address - start:#x}")
        noticed += len(seen)
        if not seen:
            result.failed.append(f"no change of `{selector}` is noticed")
            continue
        offset, byte = seen[len(seen) // 2]
        result.failed += on_disk(library, helper, f"{folder}/{selector.rstrip(':')}", offset, byte)
    if process.answers(device) != GRANTED:
        result.failed.append("the changes of the hooks were not undone")
    if changed == 0:
        result.failed.append("nothing of the hooks ran")
    # Flags that nobody reads, hints, cases that these devices do not have: some bits change nothing that shows.
    result.text = (
        f"each of {cleared} instructions of the hooks noticed when its byte is cleared, {noticed} of {changed} "
        "when a bit is flipped"
    )
    if noticed * 4 < changed * 3:
        result.failed.append(result.text)
    return result


def instructions(process, device, begin, end):
    """The addresses within a function that run while a device is asked."""
    found = set()
    note = lambda _uc, address, _size, _data: found.add(address)
    hook = process.machine.uc.hook_add(UC_HOOK_CODE, note, begin=begin, end=end - 1)
    # What was translated before does not know of it.
    process.machine.uc.ctl_flush_tb()
    process.answers(device)
    process.machine.uc.hook_del(hook)
    return found


def is_noticed(process, device, address, byte):
    """Changes one byte of the code, asks, and undoes it."""
    machine = process.machine
    kept = machine.keep()
    old = machine.read(address, 1)
    patch(machine, address, bytes([byte]))
    machine.patience = 300_000
    try:
        return process.answers(device) != GRANTED
    except (Fault, AssertionError):
        return True
    finally:
        patch(machine, address, old)
        machine.bring_back(kept)
        process.system.locked.clear()


def patch(machine, address, data):
    machine.write(address, data)
    machine.uc.ctl_remove_cache(address & ~3, (address & ~3) + 4)


def on_disk(library, helper, folder, offset, byte):
    """The same with a changed file, from its constructor on. (`__TEXT` begins the file.)"""
    changed = folder + ".dylib"
    shutil.copyfile(library, changed)
    with open(changed, "r+b") as file:
        file.seek(offset)
        file.write(bytes([byte]))
    guest = Guest(folder, changed)
    make_states(helper, {guest: plan()})
    try:
        process = guest.start()
        found = process.answers(process.device())
    except (Fault, AssertionError):
        return []
    return [f"a file with byte {offset:#x} changed answers as before"] if found == GRANTED else []
