"""Reads a registry as docs/format.md describes it, sharing no code with capgate.

    read.py DIR sha256:PIN NOW ID=live|revoked|absent|stock …

Verifies trust, latest.note, snapshot, log and checkpoint, looks each profile's combination up with an inclusion proof, and
holds the answers against what is expected. Each lookup is then repeated with a changed byte and must be refused.
"""

import base64
import datetime
import hashlib
import pathlib
import re
import sys
import tomllib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

TILE, ENTRIES, FENCES = 16384, 372, 512
PROFILES = pathlib.Path(__file__).resolve().parents[2] / "profiles.d"


class Refused(Exception):
    """The registry does not hold."""


def need(condition, what):
    if not condition:
        raise Refused(what)


def sha256(data):
    return hashlib.sha256(data).digest()


def node(left, right):
    return sha256(b"\1" + left + right)


def u(data):
    return int.from_bytes(data, "big")


# Notes, keys and the domain line.


def verifier(text):
    name, _, rest = text.partition("+")
    key_hash, _, material = rest.partition("+")
    material = base64.b64decode(material, validate=True)
    need(material[0] == 1 and len(material) == 33, "not an Ed25519 key")
    computed = sha256(name.encode() + b"\n" + material)[:4]
    need(computed.hex() == key_hash, "the key's hash is another")
    return name, computed, material[1:]


def open_note(data, roles):
    """The text, if for each (keys, threshold) enough distinct keys signed it."""
    text, _, block = data.rpartition(b"\n\n")
    need(text and block.endswith(b"\n"), "not a note")
    text += b"\n"
    lines = []
    for line in block.decode().splitlines():
        dash, name, material = line.split(" ")
        need(dash == "\u2014", "not a signature line")
        material = base64.b64decode(material, validate=True)
        lines.append((name, material[:4], material[4:]))
    for keys, threshold in roles:
        signers = set()
        for name, key_hash, signature in lines:
            named = [key for key in map(verifier, keys) if key[:2] == (name, key_hash)]
            for key in named:
                try:
                    Ed25519PublicKey.from_public_bytes(key[2]).verify(signature, text)
                    signers.add(key[2])
                except InvalidSignature as error:
                    raise Refused(f"a signature by {name} does not verify") from error
        need(len(signers) >= threshold >= 1, "too few signatures")
    return text.decode()


def text_of(data):
    """The text of a note, unverified."""
    return (data.rpartition(b"\n\n")[0] + b"\n").decode()


def body(text, kind, origin):
    line, _, rest = text.partition("\n")
    need(line == f"# capgate {kind} v1 {origin}", f"no {kind} of {origin}")
    return toml(rest)


def toml(text):
    """A TOML document whose numbers have their one spelling, which is narrower than TOML's."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', "", text)
    odd = re.search(r"(?<![\w.:+-])(?:0[xob]|[+]\d|\d+_)", bare)
    need(not odd, f"a number is spelled as `{odd and odd.group()}…`")
    return tomllib.loads(text)


def role(trust, name):
    return trust[name]["keys"], trust[name]["threshold"]


# The registry.


class Registry:
    def __init__(self, folder, pin, now):
        self.folder = pathlib.Path(folder)
        note = self.read("snapshot/latest.note")
        named = toml(text_of(note))["trust"]
        self.chain = self.read_chain(pin, named)
        newest = self.chain[-1]
        self.latest = body(open_note(note, [role(newest, "registry")]), "latest", self.origin)
        need(max(self.latest["issued"], newest["issued"]) <= now, "the clock is behind")
        need(now < min(self.latest["expires"], newest["expires"]), "it expired")
        self.open_snapshot()

    def read(self, path):
        return (self.folder / path).read_bytes()

    def read_chain(self, pin, named):
        chain = []
        for version in range(1, named + 1):
            need((self.folder / f"trust/{version}.note").exists(), "a trust note is missing")
            data = self.read(f"trust/{version}.note")
            if version == 1:
                need("sha256:" + sha256(data).hex() == pin, "another first root")
                self.origin = text_of(data).split("\n")[0].split(" ")[-1]
            claimed = body(text_of(data), "trust", self.origin)
            open_note(data, [role(trust, "root") for trust in chain[-1:] + [claimed]])
            need(claimed["version"] == version, "another version")
            least = chain[-1]["log_index"] if chain else 0
            need(claimed["log_index"] == 0 if version == 1 else claimed["log_index"] >= least, "takes force too early")
            known = chain[-1].get("compromised", []) if chain else []
            now = {entry["key"]: entry["from"] for entry in claimed.get("compromised", [])}
            need(all(now.get(e["key"], e["from"] + 1) <= e["from"] for e in known), "a compromised key is forgotten")
            chain.append(claimed)
        need(chain, "no trust")
        return chain

    def publishers_then(self, index):
        return role([trust for trust in self.chain if trust["log_index"] <= index][-1], "publisher")

    def publishers_at(self, index):
        keys, threshold = self.publishers_then(index)
        stolen = [entry["key"] for entry in self.chain[-1].get("compromised", []) if entry["from"] <= index]
        return [key for key in keys if key not in stolen], threshold

    # Snapshot.

    def open_snapshot(self):
        version, root = self.latest["version"], self.latest["root"]
        self.snap = self.read(f"snapshot/{version}-{root}.snap")
        self.n = self.latest["size"]
        header = self.snap[:64]
        self.records_end = 64 + u(header[56:])
        need(header[:48] == b"capgate snapshot v1\n".ljust(48, b"\0") and u(header[48:56]) == self.n, "header")
        self.index = -(-self.records_end // TILE) * TILE
        at = self.index + -(-self.n // ENTRIES) * TILE
        self.fences, tiles = [], -(-self.n // ENTRIES)
        while tiles > 1:
            self.fences.append((at, tiles))
            tiles = -(-tiles // FENCES)
            at += tiles * TILE
        self.hashes, wide = [], self.n
        while wide > 0:
            self.hashes.append(at)
            at += -(-wide // 256) * TILE
            wide >>= 8
        need(len(self.snap) == at, "length")
        peaks, start = [], 0
        for level in reversed(range(self.n.bit_length())):
            if self.n >> level & 1:
                peaks.append(self.hash(level, start >> level))
                start += 1 << level
        need(root_of(peaks).hex() == root, "the peaks do not lead to the root")

    def hash(self, level, index):
        width = 256 >> level % 8
        slot = 512 - (512 >> level % 8) + index % width
        at = self.hashes[level // 8] + index // width * TILE + slot * 32
        return self.snap[at : at + 32]

    def find(self, key):
        tile = 0
        for start, keys in reversed(self.fences):
            count = min(FENCES, keys - tile * FENCES)
            begin = start + tile * TILE
            below = [i for i in range(count) if self.snap[begin + 32 * i : begin + 32 * i + 32] <= key]
            tile = tile * FENCES + max(len(below) - 1, 0)
        for i in range(min(ENTRIES, self.n - tile * ENTRIES)):
            at = self.index + tile * TILE + 44 * i
            if self.snap[at : at + 32] == key:
                offset, length = u(self.snap[at + 32 : at + 40]), u(self.snap[at + 40 : at + 44])
                need(64 <= offset and offset + length <= self.records_end, "the index points outside")
                record = self.snap[offset : offset + length]
                self.prove(tile * ENTRIES + i, record)
                need(record[:32] == key, "another record")
                return list(self.profiles(record, key))
        return []

    def prove(self, position, record):
        current, height, start = sha256(b"\0" + record), 0, 0
        for level in reversed(range(self.n.bit_length())):
            if self.n >> level & 1:
                if position < start + (1 << level):
                    height = level
                    break
                start += 1 << level
        for level in range(height):
            at = position >> level
            sibling = self.hash(level, at ^ 1)
            current = node(sibling, current) if at & 1 else node(current, sibling)
        need(current == self.hash(height, position >> height), "the record is not in the tree")

    def profiles(self, record, key):
        count, at, before = u(record[32:34]), 34, -1
        for _ in range(count):
            index, length = u(record[at : at + 8]), u(record[at + 8 : at + 10])
            need(index > before, "not in order")
            before = index
            note, at = record[at + 10 : at + 10 + length], at + 10 + length
            profile = body(open_note(note, [self.publishers_at(index)]), "profile", self.origin)
            need(key in keys_of(profile), "another combination")
            revoked, at = record[at], at + 1
            if revoked == 1:
                index, length = u(record[at : at + 8]), u(record[at + 8 : at + 10])
                note, at = record[at + 10 : at + 10 + length], at + 10 + length
                publishers, _ = self.publishers_then(index)
                revocation = body(open_note(note, [(publishers, 1)]), "revocation", self.origin)
                need(revocation["revokes"] == profile["id"], "revokes another")
            yield profile, revoked == 1
        need(at == len(record), "more bytes")

    # Log.

    def check_log(self):
        text = open_note(self.read("log/checkpoint"), [role(self.chain[-1], "registry")])
        origin, size, root = text.removesuffix("\n").split("\n")
        need(origin == self.origin and int(size) == self.latest["log_size"], "another log")
        need(base64.b64decode(root).hex() == self.latest["log_root"], "another root")
        leaves = []
        for tile in range(-(-int(size) // 256)):
            width = min(256, int(size) - 256 * tile)
            name = f"{tile:03}" + ("" if width == 256 else f".p/{width}")
            bundle, at = self.read(f"log/tile/entries/{name}"), 0
            for _ in range(width):
                length = u(bundle[at : at + 2])
                leaves.append(sha256(b"\0" + bundle[at + 2 : at + 2 + length]))
                at += 2 + length
            need(at == len(bundle), "a bundle has more bytes")
            hashes = self.read(f"log/tile/0/{name}")
            need(hashes == b"".join(leaves[256 * tile :]), "a hash tile differs")
        need(tree(leaves).hex() == self.latest["log_root"], "the entries do not lead to the root")
        return len(leaves)


def tree(leaves):
    """RFC 6962, section 2.1, as it stands there."""
    if not leaves:
        return sha256(b"")
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node(tree(leaves[:split]), tree(leaves[split:]))


def root_of(peaks):
    if not peaks:
        return sha256(b"")
    current = peaks[-1]
    for peak in reversed(peaks[:-1]):
        current = node(peak, current)
    return current


def keys_of(profile):
    workload, keys = profile["workload"], []
    for kind in ("sha256", "cdhash"):
        if kind in workload:
            lines = [
                "capgate combination v1",
                f"host-chip {profile['host']['chip']}",
                f"host-os {profile['host']['os']['build']}",
                f"guest-os {profile['guest']['os']['build']}",
                f"workload {kind}:{workload[kind]}",
            ]
            keys.append(sha256("".join(line + "\n" for line in lines).encode()))
    return keys or [sha256(f"capgate listed v1\nid {profile['id']}\n".encode())]


def state(registry, profile):
    found = registry.find(keys_of(profile)[0])
    if not found:
        return "absent"
    (published, revoked), = found
    need(published == profile, "another profile")
    return "revoked" if revoked else {"override": "live", "stock": "stock"}[published["verdict"]]


def main(folder, pin, now, *expected):
    registry = Registry(folder, pin, datetime.datetime.fromisoformat(now))
    entries, refused = registry.check_log(), 0
    for odd in ("0x6", "0o6", "0b110", "+6", "1_005", "[1, +6]"):
        try:
            toml(f'why = "0x6 +6 1_005"\nn = {odd}\n')
        except Refused:
            refused += 1
        else:
            raise Refused(f"`{odd}` was read")
    honest = registry.snap
    for pair in expected:
        name, _, wanted = pair.partition("=")
        profile = toml((PROFILES / f"{name}.toml").read_text())
        found = state(registry, profile)
        need(found == wanted, f"{name} is {found}, not {wanted}")
        for at in range(64, registry.records_end, 97):
            registry.snap = honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :]
            try:
                need(state(registry, profile) == wanted, "changed")
            except Refused:
                refused += 1
        registry.snap = honest
    need(refused > 6 or registry.n == 0, "no change was refused")
    print(f"read {entries} entries and {registry.n} records as docs/format.md says; {refused} changes refused")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as error:
        sys.exit(f"refused: {error}")
