"""A case for every reason code that the library can reach, and for the ways to a grant."""

import hashlib
import os
import shutil

from guest import GRANTED, ORIGIN, PROGRAM, PROGRAM_FILE, STOCK, edit, plan, profile, statement
from machofile import Signed, cdhash_of, linking_metal

DAY = 86_400
LATEST = "registry/snapshot/latest.note"
GGML = "/opt/llama/libggml-metal.dylib"

# Only a facts file can lack these, or name them wrongly, and the library never reads one. The kernel's answer about
# the program is 20 bytes or none. A library that was not inserted decides nothing.
NOT_HERE = {"fact-host-os-build-missing", "fact-host-os-build-malformed", "fact-workload-malformed", "not-inserted"}


class Case:
    """`reason` is the code of the refusal, `None` for a grant; `then` changes the guest once its state is there."""

    def __init__(self, name, reason, then=None, device="AppleParavirtDevice", says="", **changes):
        self.name, self.reason, self.then, self.device, self.says = name, reason, then, device, says
        self.plan = dict(plan(), **changes)
        self.code = None

    def expected(self):
        """What the program is told: the tested answers, or exactly what its device says by itself."""
        return GRANTED if self.reason is None else (STOCK[0], 131072 if self.device == "LargeDevice" else 32768)


def with_profile(*edits):
    text = profile()
    for old, new in edits:
        text = edit(text, old, new)
    return [text]


def with_statement(old, new):
    return edit(statement(), old, new)


def site(more):
    return plan()["site"] + more


def sysctl(name, value):
    def then(guest):
        if value is None:
            del guest.mac["sysctl"][name]
        else:
            guest.mac["sysctl"][name] = value

    return then


def remove(name):
    return lambda guest: os.remove(guest.host(guest.state(name)))


def mode(name, bits):
    return lambda guest: os.chmod(guest.host(guest.state(name)), bits)


def put(name, text):
    return lambda guest: guest.write(guest.state(name), text)


def change(name, work):
    return lambda guest: guest.change(name, work)


def answers(**values):
    return lambda guest: guest.mac.update(values)


def replace(old, new, count=-1):
    def work(data):
        assert old.encode() in data, old
        return data.replace(old.encode(), new.encode(), count)

    return work


def stock_profile():
    text = edit(profile(), 'verdict = "override"', 'verdict = "stock"')
    before, _, rest = text.partition("[[override]]")
    evidence = rest.partition("[[evidence]]")[2]
    line = "override = { apple_family_max = 1009, max_threadgroup_memory = 65536 }\n"
    return f"{before}[[evidence]]{edit(evidence, line, '')}"


def listing():
    """A profile that names one image, and says nothing about unrecorded ones."""
    image = f'[[workload.image]]\nname = "libggml-metal.dylib"\ncdhash = "{linking_metal("ggml").cdhash}"\n\n'
    return with_profile((', "images-unrecorded"]', "]"), ("[[override]]", image + "[[override]]"))


def by_sha256(program):
    return [profile(identity=f'sha256 = "{program.sha256}"')]


def runs(path, cdhash):
    """The process was started from another file than the usual one."""

    def then(guest):
        target = f"{os.path.dirname(PROGRAM)}/program"
        shutil.copyfile(path, guest.host(target))
        guest.mac.update(executable=target, cdhash=cdhash)

    return then


def flip(data):
    return data[:200] + bytes([data[200] ^ 1]) + data[201:]


def memory(version):
    return f"version = {version}\nlog_size = 0\ntrust = 1\ntime = 2026-01-01T00:00:00Z\n"


WITNESSES = '''witness_keys = ["witness.example.org+9c67126f+BCDQuKym0znEYeUc4pd9nyYdFFnJxr3ZOb7S5diRPFw+"]
witness_threshold = 1
'''
REVOCATION = 'schema = "1.0.0"\nrevokes = "tested"\nreason = "a test"\nseverity = "harmful"\n'
DENY = '[[deny]]\nid = "all"\nreason = "a test"\nowner = "tests"\nworkload_name = "llama-bench"\n'
OVERRIDE = "override = { apple_family_max = 1009"
TWICE = [profile(), profile("another", f'sha256 = "{PROGRAM_FILE.sha256}"')]
EARLIER = Signed("another", program=True)

CASES = [
    Case("granted by cdhash", None),
    Case("granted to a class with methods of its own", None, device="OverridingDevice"),
    Case("granted below another class", None, device="DerivedDevice"),
    Case("granted by SHA-256 of what the kernel says runs", None, profiles=by_sha256(PROGRAM_FILE)),
    Case("granted with a file that cannot be read", None, lambda g: os.remove(g.host(PROGRAM))),
    Case("granted with the listed image", None, answers(images=[(GGML, linking_metal("ggml").bytes)]), profiles=listing()),
    Case("another file in the place of what runs", "no-profile", answers(cdhash=EARLIER.cdhash), profiles=by_sha256(PROGRAM_FILE)),
    Case("switched off by the policy", "disabled", site=edit(site(""), "enforce", "off")),
    Case("switched off by the variable", "disabled", lambda g: g.environment.update({b"CAPGATE_DISABLE": b"1"})),
    Case("no registry", "registry-missing", remove(LATEST)),
    Case("a registry that others can write", "registry-unreadable", mode(LATEST, 0o666)),
    Case("nonsense for a registry", "registry-malformed", put(LATEST, "nothing\n")),
    Case("an unsigned registry", "registry-unsigned", change(LATEST, replace(f"\u2014 {ORIGIN} ", "\u2014 other.test/gpu "))),
    Case("another root", "registry-wrong-key", put("root.note", f"sha256:{'1' * 64}\n")),
    Case("another origin", "registry-wrong-origin", change(LATEST, replace(ORIGIN, "else.test/gpu", 1))),
    Case("a clock that is behind", "clock-behind", published=DAY),
    Case("a registry older than seen", "registry-rollback", put("seen", memory(2))),
    Case("an expired registry", "registry-expired", published=-31 * DAY),
    Case("a changed snapshot", "registry-corrupt", lambda g: g.change(g.snapshot(), flip)),
    Case("a registry that no witness has seen", "registry-unwitnessed", site=WITNESSES + site("")),
    Case("a policy that others can write", "site-unreadable", mode("site.toml", 0o622)),
    Case("a policy with an unknown key", "site-malformed", site=site("[demnad]\nsamples = 3\n")),
    Case("no word about virtual machines", "fact-virtual-machine-missing", sysctl("kern.hv_vmm_present", None)),
    Case("an odd word about virtual machines", "fact-virtual-machine-malformed", sysctl("kern.hv_vmm_present", 2)),
    Case("no guest", "fact-not-a-guest", sysctl("kern.hv_vmm_present", 0)),
    Case("no chip", "fact-host-chip-missing", sysctl("machdep.cpu.brand_string", None)),
    Case("a chip without a name", "fact-host-chip-malformed", sysctl("machdep.cpu.brand_string", "Apple processor")),
    Case("a chip of 600 letters", "fact-host-chip-missing", sysctl("machdep.cpu.brand_string", "A" * 600)),
    Case("no build", "fact-guest-os-build-missing", sysctl("kern.osversion", None)),
    Case("a version for a build", "fact-guest-os-build-malformed", sysctl("kern.osversion", "26.5.2")),
    Case("no model", "fact-guest-model-missing", sysctl("hw.model", None)),
    Case("a model with a space", "fact-guest-model-malformed", sysctl("hw.model", "Virtual Mac")),
    Case("no word about what runs", "fact-workload-missing", answers(cdhash=None)),
    Case("no statement", "host-missing", statement=None),
    Case("a statement that others can write", "host-unreadable", mode("host.note", 0o646)),
    Case("nonsense for a statement", "host-malformed", put("host.note", "nothing\n")),
    Case("a statement of another", "host-wrong-signer", host_seed=5),
    Case("a statement of tomorrow", "host-not-yet-valid", statement=statement(DAY)),
    Case("a statement of yesterday", "host-expired", statement=statement(-DAY)),
    Case("a statement about another chip", "host-other-chip", statement=with_statement("M1 Ultra", "M4")),
    Case("a statement about another guest", "host-other-vm", statement=with_statement("issued", 'mac_addresses = ["5e:00:00:00:00:01"]\nissued')),
    Case("a statement about this guest", None, statement=with_statement("issued", 'mac_addresses = ["5e:12:ab:00:34:f0"]\nissued')),
    Case("a statement that demands more", "host-newer-snapshot", statement=with_statement("issued", "least_version = 9\nissued")),
    Case("denied by the site", "site-denied", site=site(DENY)),
    Case("another program", "no-profile", answers(cdhash=EARLIER.cdhash)),
    Case("a revoked profile", "revoked", revocation=REVOCATION),
    Case("two profiles", "ambiguous", profiles=TWICE),
    Case("a profile that says stock", "verdict-stock", profiles=[stock_profile()]),
    Case("beyond the bounds", "out-of-bounds", profiles=with_profile(("apple_family_max = 1009", "apple_family_max = 1011"))),
    Case("another model", "profile-differs", sysctl("hw.model", "VirtualMac3,1")),
    Case("no evidence", "evidence-missing", profiles=with_profile((OVERRIDE, OVERRIDE.replace("1009", "1008")))),
    Case("unsaid risks", "unacknowledged", profiles=with_profile(('"above-host-family", ', ""))),
    Case("correctness demanded", "evidence-correctness", site=site("[demand]\ncorrectness = true\n")),
    Case("more samples demanded", "evidence-samples", site=site("[demand]\nsamples = 100\n")),
    Case("fresh evidence demanded", "evidence-age", site=site("[demand]\nmax_age_days = 1\n")),
    Case("other signers demanded", "evidence-signers", site=site('[demand]\nsigners = ["nobody.test"]\n')),
    Case("a ceiling of the site", "site-ceiling", site=site("[ceiling]\napple_family_max = 1007\n")),
    Case("observing", "observed", site=edit(site(""), "enforce", "observe")),
    Case("a launcher's image list missing", "image-unrecorded", profiles=with_profile(('name = "llama-bench"', 'name = "python3"'))),
    Case("an image that is not listed", "image-unlisted", answers(images=[("/opt/other/libother.dylib", linking_metal("other").bytes)]), profiles=listing()),
    Case("an image that differs", "image-differs", answers(images=[(GGML, linking_metal("another ggml").bytes)]), profiles=listing()),
    Case("an image that is gone", "image-differs", answers(images=[(GGML, None)]), profiles=listing()),
    Case("no function that reads memory", "image-differs", answers(images=[(GGML, linking_metal("ggml").bytes)], absent=["mach_vm_read_overwrite"]), profiles=listing()),
    Case("other stock answers", "device-differs", profiles=with_profile(("stock = { apple_family = 1005", "stock = { apple_family = 1006"))),
    Case("a device with more memory", "device-differs", device="LargeDevice"),
]


def real_program(command):
    """The command of the same archive stands for a program: a real, large, signed file for arm64."""
    cdhash = cdhash_of(command)
    digest = hashlib.sha256(open(command, "rb").read()).hexdigest()
    identity = f'sha256 = "{digest}"'
    both = f'{identity}\ncdhash = "{cdhash}"'
    then = runs(command, cdhash)
    return [
        Case("a real program by SHA-256", None, then, profiles=[profile(identity=identity)]),
        Case("a real program by both", None, then, profiles=[profile(identity=both)]),
    ]
