"""Runs the arm64 library of dist/ under an emulated processor, in one guest for every case.

usage: run.py LIBRARY COMMAND STATE-HELPER

COMMAND is the arm64 command of the same archive, which stands for a program. STATE-HELPER signs the guests' state
and names every reason code, each of which must be a case or out of reach.
"""

import os
import subprocess
import sys
import tempfile

import hostile
import mutants
import own
import reasons
from guest import LIBRARY, Guest, make_states
from machine import Fault


def check(case, guest, coverage):
    process = guest.start(record=True)
    if not guest.metal.get("without") and not guest.metal.get("types"):
        found = process.answers(process.device(case.device))
        if found != case.expected():
            raise AssertionError(f"answers {found}, not {case.expected()}: {process.said()}")
    else:
        one_method(case, process)
    coverage |= process.machine.blocks
    if b"DYLD_INSERT_LIBRARIES" in process.system.environment:
        raise AssertionError("children would inherit the library")
    said = process.said()
    if case.reason is None:
        granted(case, said, guest.log())
    else:
        refused(case, guest, said)
    if process.metal_was_asked and "] Granted " not in said:
        raise AssertionError("Metal was loaded without a grant")


def one_method(case, process):
    """Where a method is missing, or of another type, the one that is left answers as before."""
    runtime = process.runtime
    without, types = process.guest.metal.get("without", ()), process.guest.metal.get("types", {})
    device = runtime.create(case.device)
    if "initGPUFamilySupport" not in without:
        runtime.send(device, "initGPUFamilySupport")
    process.after("the device")
    if "supportsFamily:" not in (*without, *types) and runtime.send(device, "supportsFamily:", 1009):
        raise AssertionError("one of two answers was changed")
    memory = "maxThreadgroupMemoryLength"
    if memory not in (*without, *types) and runtime.send(device, memory) != 32768:
        raise AssertionError("one of two answers was changed")


def granted(case, said, log):
    lines = said.splitlines()
    enabled = (
        f"[capgate] Enabled for {case.device} (appleFamilyMax=1009 maxThreadgroupMemory=65536 stock=1005/32768 "
        "profile=tested)"
    )
    if not lines[0].startswith("[capgate] Granted ") or lines[1:] != [enabled]:
        raise AssertionError(f"it said: {said}")
    stages = [(line["stage"], line["outcome"]) for line in log]
    if stages != [("start", "grant"), ("device", "grant")] or log[0]["decision"] != log[1]["decision"]:
        raise AssertionError(f"the log holds {log}")


def refused(case, guest, said):
    last = said.splitlines()[-1]
    code = last.removeprefix("[capgate] Stock: ").partition(":")[0]
    right = code.startswith(case.reason) if isinstance(case.reason, tuple) else code == case.reason
    if not last.startswith("[capgate] Stock: ") or not right:
        raise AssertionError(f"it said: {said}")
    if case.says not in last:
        raise AssertionError(f"it did not say `{case.says}`: {last}")
    # A line that could not be written is not there, or not whole; everything else is the log's last line.
    if code == "log-unwritable":
        return
    log = guest.log()
    if log and (log[-1]["outcome"], log[-1]["reason"]) != ("stock", code):
        raise AssertionError(f"the log holds {log}")
    # A prefix that cannot be believed has no log.
    place = last.partition("`")[2].partition("`")[0]
    if not log and not LIBRARY.startswith(place) and "other rights" not in last:
        raise AssertionError(f"nothing was logged of: {last}")


def run(cases, library, helper, folder, coverage):
    guests = {}
    for number, case in enumerate(cases):
        guests[case] = Guest(f"{folder}/{number}", library)
    make_states(helper, {guests[case]: case.plan for case in cases})
    failed = []
    for case, guest in guests.items():
        try:
            if case.then:
                case.then(guest)
            check(case, guest, coverage)
        except (AssertionError, Fault, OSError, KeyError, IndexError) as problem:
            failed.append(f"{case.name}: {type(problem).__name__}: {problem}")
    return failed


def main():
    library, command, helper = sys.argv[1:]
    # The view's folders must be writable for their owner alone, as a Mac's are.
    os.umask(0o022)
    cases = [*reasons.CASES, *reasons.real_program(command), *hostile.CASES]
    coverage = set()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        failed = run(cases, library, helper, folder, coverage)
        failed += own.check(library, helper, f"{folder}/own")
        survived = mutants.check(library, helper, f"{folder}/mutants")
    failed += survived.failed
    reached = {case.reason for case in reasons.CASES if case.reason} | {hostile.UNLOGGED}
    known = set(subprocess.run([helper, "--reasons"], check=True, capture_output=True, text=True).stdout.split())
    for code in sorted(known - reached - reasons.NOT_HERE):
        failed.append(f"no case reaches `{code}`")
    for code in sorted((reached | reasons.NOT_HERE) - known):
        failed.append(f"there is no reason `{code}`")
    for line in failed:
        print(f"FAILED {line}")
    bytes_run = len({at for start, size in coverage for at in range(start, start + size)})
    print(
        f"{len(cases)} cases, {len(reached)} of {len(known)} reasons ({len(reasons.NOT_HERE)} out of reach), "
        f"{bytes_run // 1024} KiB of the code ran; {survived.text}; {len(failed)} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
