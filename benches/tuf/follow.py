"""The jobs of benches/follow.rs with python-tuf; run by it, one job a process, each says one line of JSON.

    follow.py build REPOSITORY COUNT
    follow.py publish REPOSITORY FIRST ROUNDS CLIENT
    follow.py verify REPOSITORY

The repository delegates to succinct hash bins, as PyPI's design (PEP 458) does. Every key is a TEST key whose seed is
public. Profiles come from tests/profiles/good.toml, as in benches/support/mod.rs, so that a target is what a record is.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import DownloadHTTPError
from tuf.api.metadata import (
    Delegations,
    MetaFile,
    Metadata,
    Root,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer
from tuf.ngclient import FetcherInterface, Updater

EXPIRES = datetime(2100, 1, 1, tzinfo=timezone.utc)
SEEDS = {Root.type: 1, Targets.type: 2, Snapshot.type: 3, Timestamp.type: 4, "bin": 5}
TEMPLATE = (Path(__file__).parent.parent.parent / "tests/profiles/good.toml").read_text()
COMPACT = JSONSerializer(compact=True)


def signer(role):
    """The TEST key of a role."""
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(bytes([SEEDS[role]]) * 32))


SIGNERS = {role: signer(role) for role in SEEDS}


def profile(n):
    """Profile `n` of benches/support/mod.rs."""
    text = TEMPLATE.replace("a-profile", f"bench-{n}")
    digest = "28faa552714d0d8150b1daa4e991181d62084c88e25afe9d49d08351794f0da7"
    return text.replace(digest, f"{n + 1:064x}").encode()


def target(n):
    """Its name, and what the metadata say about it."""
    name, content = f"bench-{n}.toml", profile(n)
    return TargetFile(len(content), {"sha256": hashlib.sha256(content).hexdigest()}, name)


def bits(count):
    """Bits of the number of bins: 4,096 bins of 244 targets for 1,000,000, and 16 of 62 for 1,000."""
    return min(max((count // 200).bit_length() - 1, 4), 12)


class Repository:
    """A folder of consistent snapshots. Only what is asked for is in memory."""

    def __init__(self, root):
        self.root = Path(root)
        self.metadata = self.root / "metadata"
        self.targets = self.root / "targets"
        self.verified = 0

    def write(self, path, content):
        """The whole file at once, and still there after a crash: file and folder are synced."""
        temporary = path.parent / ".writing"
        with open(temporary, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def read(self, name):
        """What a publisher believes of its own disk."""
        return Metadata.from_bytes((self.metadata / name).read_bytes())

    def put(self, role, signed, key, sync=True):
        """Signs and writes a role; returns what snapshot or timestamp say about it."""
        metadata = Metadata(signed)
        metadata.sign(SIGNERS[key])
        content = metadata.to_bytes(COMPACT)
        name = f"{role}.json" if role == Timestamp.type else f"{signed.version}.{role}.json"
        if sync:
            self.write(self.metadata / name, content)
        else:
            (self.metadata / name).write_bytes(content)
        return MetaFile(signed.version, len(content), {"sha256": hashlib.sha256(content).hexdigest()})

    def build(self, count):
        """Version 1 of everything, without syncs; the targets of these `count` are not stored, only described."""
        for folder in (self.metadata, self.targets):
            folder.mkdir(parents=True)
        succinct = SuccinctRoles([SIGNERS["bin"].public_key.keyid], 1, bits(count), "bin")
        contents = {role: {} for role in succinct.get_roles()}
        for n in range(count):
            entry = target(n)
            contents[succinct.get_role_for_target(entry.path)][entry.path] = entry
        meta = {}
        for role, targets in contents.items():
            meta[f"{role}.json"] = self.put(role, Targets(1, expires=EXPIRES, targets=targets), "bin", False)
        key = SIGNERS["bin"].public_key
        delegations = Delegations({key.keyid: key}, succinct_roles=succinct)
        top = Targets(1, expires=EXPIRES, delegations=delegations)
        meta["targets.json"] = self.put("targets", top, Targets.type, False)
        snapshot = self.put("snapshot", Snapshot(1, expires=EXPIRES, meta=meta), Snapshot.type, False)
        self.put("timestamp", Timestamp(1, expires=EXPIRES, snapshot_meta=snapshot), Timestamp.type, False)
        root = Root(1, expires=EXPIRES, consistent_snapshot=True)
        for role in (Root.type, Targets.type, Snapshot.type, Timestamp.type):
            root.add_key(SIGNERS[role].public_key, role)
        self.put("root", root, Root.type, False)

    def publish(self, n):
        """One more target: its file, bin, snapshot, and last the timestamp, which commits.

        Everything is read from disk, as `capgate publish` does. What is superseded is removed last, as there.
        """
        timestamp = self.read("timestamp.json")
        old_snapshot = f"{timestamp.signed.snapshot_meta.version}.snapshot.json"
        snapshot = self.read(old_snapshot)
        top = self.read(f"{snapshot.signed.meta['targets.json'].version}.targets.json")
        entry = target(n)
        role = top.signed.delegations.succinct_roles.get_role_for_target(entry.path)
        old_bin = f"{snapshot.signed.meta[f'{role}.json'].version}.{role}.json"
        hash_bin = self.read(old_bin)
        self.write(self.targets / f"{entry.hashes['sha256']}.{entry.path}", profile(n))
        hash_bin.signed.targets[entry.path] = entry
        hash_bin.signed.version += 1
        snapshot.signed.meta[f"{role}.json"] = self.put(role, hash_bin.signed, "bin")
        snapshot.signed.version += 1
        timestamp.signed.snapshot_meta = self.put("snapshot", snapshot.signed, Snapshot.type)
        timestamp.signed.version += 1
        self.put("timestamp", timestamp.signed, Timestamp.type)
        for name in (old_snapshot, old_bin):
            (self.metadata / name).unlink()

    def verify(self):
        """Signatures, lengths and hashes of every role that is in force, and that every target is in its bin."""
        root = self.from_disk("1.root.json")
        root.verify_delegate(Root.type, root)
        timestamp = self.from_disk("timestamp.json")
        root.verify_delegate(Timestamp.type, timestamp)
        snapshot = self.checked("snapshot", timestamp.signed.snapshot_meta)
        root.verify_delegate(Snapshot.type, snapshot)
        top = self.checked("targets", snapshot.signed.meta["targets.json"])
        root.verify_delegate(Targets.type, top)
        succinct = top.signed.delegations.succinct_roles
        count = 0
        for role in succinct.get_roles():
            hash_bin = self.checked(role, snapshot.signed.meta[f"{role}.json"])
            top.verify_delegate(role, hash_bin)
            for path in hash_bin.signed.targets:
                if succinct.get_role_for_target(path) != role:
                    raise ValueError(f"{path} stands in {role}")
            count += len(hash_bin.signed.targets)
        return count

    def checked(self, role, meta):
        return self.from_disk(f"{meta.version}.{role}.json", meta)

    def from_disk(self, name, meta=None):
        content = (self.metadata / name).read_bytes()
        self.verified += len(content)
        if meta is not None:
            meta.verify_length_and_hashes(content)
        return Metadata.from_bytes(content)


class Counting(FetcherInterface):
    """Fetches from the folder, and counts."""

    def __init__(self, root):
        self.root, self.bytes, self.files = root, 0, 0

    def _fetch(self, url):
        try:
            content = (self.root / urlsplit(url).path.lstrip("/")).read_bytes()
        except FileNotFoundError:
            raise DownloadHTTPError(f"{url} is missing", 404) from None
        self.bytes += len(content)
        self.files += 1
        return iter([content])


def follow(repository, client, n):
    """What a client does to learn of target `n` and to have it; returns bytes and files that it fetched."""
    fetcher = Counting(repository.root)
    updater = Updater(
        str(client),
        "http://repository.test/metadata",
        str(client / "targets"),
        "http://repository.test/targets",
        fetcher,
        bootstrap=(repository.metadata / "1.root.json").read_bytes(),
    )
    updater.refresh()
    info = updater.get_targetinfo(f"bench-{n}.toml")
    if info is not None:
        updater.download_target(info)
    return info is not None, fetcher.bytes, fetcher.files


def publish_and_follow(repository, first, rounds, client):
    client = Path(client)
    shutil.rmtree(client, ignore_errors=True)
    (client / "targets").mkdir(parents=True)
    # It knows the state before: what it asks for is not there yet, so that it holds that bin, too.
    for n in range(first, first + rounds):
        if follow(repository, client, n)[0]:
            raise ValueError(f"bench-{n}.toml was published before")
    said = {"publish": [], "sync": [], "bytes": [], "files": []}
    for n in range(first, first + rounds):
        begun = time.perf_counter()
        repository.publish(n)
        said["publish"].append(time.perf_counter() - begun)
        begun = time.perf_counter()
        found, size, files = follow(repository, client, n)
        said["sync"].append(time.perf_counter() - begun)
        if not found:
            raise ValueError(f"bench-{n}.toml was not found")
        said["bytes"].append(size)
        said["files"].append(files)
    return said


def peak_memory_mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def main(job, root, *rest):
    repository = Repository(root)
    if job == "build":
        repository.build(int(rest[0]))
        said = {}
    elif job == "publish":
        first, rounds, client = rest
        said = publish_and_follow(repository, int(first), int(rounds), client)
    else:
        begun = time.perf_counter()
        said = {"count": repository.verify()}
        seconds = time.perf_counter() - begun
        said |= {"seconds": seconds, "bytes": repository.verified, "memory": peak_memory_mib()}
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
