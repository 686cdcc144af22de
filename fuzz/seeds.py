"""Makes the seeds of the fuzz targets from the repository's own files: fuzz/corpus/TARGET/seed-….

The corpus is not committed; what a fuzzer finds is kept beside the seeds.
"""

import base64
import hashlib
import json
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz/corpus"


def put(target, data):
    """Names a seed by its content, so that running twice changes nothing."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)


def files(pattern):
    """The contents of all files that match, in order of their names."""
    found = [path for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    assert found, pattern
    return [path.read_bytes() for path in found]


def strings(pattern, regex):
    """Every match of a regular expression in the sources that match."""
    matches = []
    for data in files(pattern):
        matches += re.findall(regex, data.decode())
    assert matches, regex
    return matches


def string(data):
    """Bytes behind their length, as SSH writes them."""
    return struct.pack(">I", len(data)) + data


TRUST = """schema = "1.0.0"
version = 1
log_index = 0
issued = 2026-12-01T00:00:00Z
expires = 2027-12-01T00:00:00Z
"""

LATEST = """schema = "1.0.0"
version = 2
size = 3
root = "%s"
log_size = 3
log_root = "%s"
trust = 1
issued = 2026-12-01T00:00:00Z
expires = 2026-12-31T00:00:00Z
""" % ("ab" * 32, "cd" * 32)

HOST = """chip = "Apple M1 Ultra"
os = { version = "26.6.1", build = "25G76" }
feature_level = "unrestricted"
mac_addresses = ["5e:12:ab:00:34:f0"]
least_version = 12
issued = 2026-11-20T10:00:00Z
expires = 2026-11-20T11:00:00Z
"""

# Two runs of llama-perplexity, one behind the other: the target compares the halves.
PERPLEXITY = """perplexity: calculating perplexity over 3 chunks, n_ctx=128, batch_size=512, n_seq=4
[1]5.0000,[2]6.0000,[3]5.8755,
Final estimate: PPL = 5.8755 +/- 0.21341
"""

GREEDY = """{"schema":"capgate greedy v1","settings":{"n_predict":"4","seed":"1"}}
{"prompt":"The capital of France is","tokens":[{"id":7,"text":" Paris"},{"id":9,"text":"."}]}
{"prompt":"The capital of Italy is","tokens":[{"id":8,"text":" Rome"},{"text":"."}]}
"""

OPS = """Testing 2 devices

Backend 1/2: MTL0
  Device description: Apple Paravirtual device
  ABS(type=f16,ne_a=[128,2,2,2],v=0): \033[1;32mOK\033[0m
  MUL_MAT(type_a=bf16): not supported [MTL0]
[ADD] ERR = 0.500000000 > 0.000000100   ADD(type=f32): \033[1;31mFAIL\033[0m
  1/2 tests passed

Failing tests:
  ADD(type=f32)
  Backend MTL0: \033[1;31mFAIL\033[0m
Backend 2/2: CPU
  Skipping CPU backend
1/2 backends passed
\033[1;31mFAIL\033[0m
"""

SQL = """INSERT INTO test_backend_ops (op_name, op_params, test_mode, supported, passed) VALUES ('ADD', 'type=f32', 'test', '1', '0');
"""

REVOCATION = """schema = "1.0.0"
revokes = "m1-ultra-25g76-25f84-llama-bench-b10167"
reason = "wrong \\\\ answers with \\"long\\" prompts"
severity = "harmful"
"""

FACTS = """host_chip = "Apple M1 Ultra"
host_os_build = "25G76"
guest_os_build = "25F84"
workload = "sha256:%064x"
"""

MACHINE = """host = { chip = "Apple M1 Ultra", os = { version = "26.6.1", build = "25G76" }, apple_family = 1007 }
guest = { os = { version = "26.5.2", build = "25F84" }, model = "VirtualMac2,1", stock = { max_threadgroup_memory = 32768 } }
"""
RAN = {
    "arm": "stock", "output": "rounds/01/stock.json", "log": "rounds/01/stock.log", "record": None, "began": "2026-12-01T00:00:00Z",
    "seconds": 1.5, "status": 0, "signal": None, "timed_out": False,
}
ROUND = {"number": 1, "runs": [RAN, RAN | {"arm": "override-1009-65536", "output": "a", "log": "b"}], "before": None, "during": None}
BENCH = json.dumps({
    "schema": "1.0.0", "capgate": "0.1.0", "began": "2026-12-01T00:00:00Z",
    "settings": {
        "program": "llama-bench", "program_sha256": "1f" * 32, "program_cdhash": "2f" * 20, "words": ["-m", "a.gguf"],
        "model": "a.gguf", "model_sha256": "3f" * 32, "shim_sha256": "4f" * 32, "rounds": 1, "timeout": 60, "from": None,
        "source": "https://example.org/b", "ladder": False, "readings": None,
    },
    "machine": MACHINE, "build": {"number": 10167, "commit": "ee3d1b5"},
    "limits": {
        "other_share": 0.1, "burst": 0.5, "burst_seconds": 2.0, "least_memory": 0.05, "stalled": 0.05, "swapped": 1048576.0,
        "throttled": 0, "gpu": 10.0, "virtual_machines": 0,
    },
    "arms": ["stock", "override-1009-65536"], "warm_ups": [], "rounds": [ROUND],
    "discarded": [{"round": ROUND, "reasons": ["others used 2.00 processors"]}],
    "failed": [{"arm": "stock", "round": 1, "why": "was ended by signal 11"}], "also": [],
})


def main():
    profiles = files("profiles.d/*.toml") + files("tests/profiles/good.toml") + files("tests/profiles/bad/*.toml")
    for data in profiles:
        put("profile", data)
        put("record", b"\x07" * 32 + struct.pack(">HQH", 1, 5, len(data)) + data + b"\0")

    keys = strings("registry/tests/*.rs", r"(?:PRIVATE\+KEY\+)?[a-z./-]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]{43}[A-Za-z0-9+/=]")
    keys += strings("registry/tests/keys.rs", r"-----BEGIN PRIVATE KEY-----[^-]*-----END PRIVATE KEY-----\\?n?")
    public = [key for key in keys if not key.startswith(("PRIVATE", "-"))]
    for key in keys:
        put("keys", key.replace("\\n", "\n").encode())

    roles = TRUST
    for number, name in enumerate(["root", "publisher", "registry"]):
        key = public[number % len(public)]
        roles += f'\n[{name}]\nthreshold = 1\nkeys = [\n  "{key}",\n]\n'
    put("trust", roles.encode())
    put("trust", f"# capgate trust v1 registry.test/capgate\n{roles}\n\u2014 a AAAAAAAA\n".encode())
    put("latest", LATEST.encode())
    put("host", HOST.encode())
    put("revocation", REVOCATION.encode())

    for kind, body in [("profile", profiles[0].decode()), ("latest", LATEST), ("host", HOST), ("trust", roles)]:
        text = f"# capgate {kind} v1 registry.test/capgate\n{body}"
        note = f"{text}\n\u2014 fuzz.test AAAAAAAA\n\u2014 other.test AQIDBAU=\n".encode()
        put("note", note)
        put("tiles", struct.pack(">H", len(note)) + note + b"\1\0")
    for text in ["registry.test/capgate\n3\n%s=\n" % ("A" * 43), "example.org/gpu\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"]:
        put("checkpoint", text.encode())
    line = "\u2014 w.test %s\n" % base64.b64encode(b"\1\2\3\4" + bytes(72)).decode()
    put("witness", line.encode())
    put("witness", (line * 3).encode())
    hashes = "".join(base64.b64encode(bytes([number]) * 32).decode() + "\n" for number in range(3))
    checkpoint = "example.org/gpu\n9\n%s=\n\n\u2014 example.org/gpu AAAAAAAA\n" % ("A" * 43)
    for request in ["old 0\n\n", f"old 3\n{hashes}\n", f"old 9\n{hashes * 21}\n"]:
        put("witness", (request + checkpoint + line).encode())
    put("witness", b"witness.example.org+9c67126f+BCDQuKym0znEYeUc4pd9nyYdFFnJxr3ZOb7S5diRPFw+")
    for path in ["log/tile/0/000", "log/tile/1/x001/234.p/5", "log/tile/entries/x001/x234/067"]:
        put("tiles", path.encode() + b"\1\0")
    put("tiles", bytes(range(64)) + b"\2\0")

    for number in range(3):
        put("facts", (FACTS % number).encode())
    put("facts", b'host_chip = "Apple M1 Ultra (Virtual)"\nworkload = "cdhash:%s"\n' % (b"1" * 40))
    site = re.search(r"```toml\n(.*?)```", (ROOT / "docs/policy.md").read_text(), re.S)
    put("site", site.group(1).encode())

    for data in files("tests/fixtures/**/*"):
        put("inspect", data)
    for text in [PERPLEXITY * 2, GREEDY, OPS, SQL]:
        put("correctness", text.encode())
        put("inspect", text.encode())
    for data in files("tests/evidence/*.toml"):
        put("manifest", data)
        put("inspect", data)
    for data in files("tests/records/*/*.json"):
        put("run_record", data)
        put("inspect", data)
    digest = hashlib.sha256(b"x").hexdigest()
    for text in [f"{digest}  a\n{digest}  ./b/c\n{digest} *d\n", f"{digest}  ../a\n{digest}  a\n{digest}  a\n"]:
        put("sums", text.encode())
        put("inspect", text.encode())
    [armoured] = strings("ssh/tests/private_key.rs", r"(-----BEGIN OPENSSH PRIVATE KEY-----[^;]*-----END OPENSSH PRIVATE KEY-----\n)\";")
    put("private_key", armoured.encode())
    put("private_key", base64.b64decode("".join(armoured.splitlines()[1:-1])))
    ed25519 = string(b"ssh-ed25519") + string(bytes(range(32)))
    rsa = string(b"ssh-rsa") + string(b"\1\0\1") + string(b"\0many")
    listed = b"\x0c" + struct.pack(">I", 2) + string(ed25519) + string(b"alice@example.org") + string(rsa) + string(b"an old one")
    for answer in [listed, b"\x0c\0\0\0\0", b"\5", b"\x0e" + string(string(b"ssh-ed25519") + string(bytes(64)))]:
        put("agent", answer)
        put("agent", string(answer))

    put("bench", BENCH.encode())
    put("bench", MACHINE.encode())
    put("bench", b"-m a.gguf -p 512 -n 128 -ngl 99 -r 2")

    put("snapshot", b"")
    put("registry", b"")
    put("proof", b"")
    put("proof", b"capgate proof v1\nfile trust/1.note 3\nabcpart snapshot/1-ab.snap 20 2\n0 4\nabcd9 2\nef")


if __name__ == "__main__":
    main()
