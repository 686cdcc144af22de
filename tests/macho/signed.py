"""Real signed files for Apple's chips: what `capgate doctor` says of each, compared with what is found here from Apple's
format alone, and with what LIEF finds.

    signed.py CAPGATE FOLDER

The files are published on npm and PyPI and are fetched by name, once, into FOLDER.
"""

import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tarfile
import zipfile

import lief

NPM = ["@node-llama-cpp/mac-arm64-metal@3.21.1"]
PYPI = ["mlx==0.32.4", "mlx-metal==0.32.4"]
HASHES = {1: hashlib.sha1, 2: hashlib.sha256, 3: hashlib.sha256, 4: hashlib.sha384}


def fetch(folder):
    """Downloads what is not there and unpacks it."""
    done = folder / "done"
    wanted = "\n".join(NPM + PYPI)
    if done.is_file() and done.read_text() == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for package in NPM:
        run(["npm", "pack", "--silent", package], folder)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--only-binary=:all:", "--platform", "macosx_14_0_arm64", "--python-version", "3.12"]
    run(pip + PYPI, folder)
    for archive in folder.glob("*.tgz"):
        with tarfile.open(archive) as tar:
            tar.extractall(folder / archive.stem, filter="data")
    for archive in folder.glob("*.whl"):
        # Side by side, as pip installs them: one links what the other brings.
        zipfile.ZipFile(archive).extractall(folder / "site-packages")
    done.write_text(wanted)


def run(words, folder):
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{ended.stdout}{ended.stderr}")


def cdhash(data):
    """The cdhash of a thin file, after every hash in its code directory was found right."""
    magic, _, _, _, count = struct.unpack_from("<5I", data)
    assert magic == 0xFEEDFACF, hex(magic)
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        if command == 0x1D:
            offset, length = struct.unpack_from("<2I", data, at + 8)
        at += size
    blob = data[offset : offset + length]
    magic, _, parts = struct.unpack_from(">3I", blob)
    assert magic == 0xFADE0CC0, hex(magic)
    found = []
    for part in range(parts):
        slot, start = struct.unpack_from(">2I", blob, 12 + 8 * part)
        if slot == 0 or 0x1000 <= slot < 0x1005:
            size = struct.unpack_from(">I", blob, start + 4)[0]
            found.append(blob[start : start + size])
    rank = {1: 0, 3: 1, 2: 2, 4: 3}
    best = max(found, key=lambda directory: rank[directory[37]])
    return HASHES[best[37]](best).digest()[:20].hex(), pages(data, best)


def pages(data, directory):
    """How many pages the code directory covers; each must have the hash that stands there."""
    _, _, _, _, hashes, _, _, count, limit = struct.unpack_from(">9I", directory)
    size, kind, _, page = directory[36:40]
    for number in range(count):
        begin = number << page
        piece = data[begin : min(begin + (1 << page), limit)]
        stands = directory[hashes + number * size :][:size]
        assert HASHES[kind](piece).digest()[:size] == stands, f"page {number}"
    return count


def by_lief(path):
    """The same hash, from LIEF's view of the signature."""
    binary = lief.MachO.parse(str(path)).at(0)
    blob = bytes(binary.code_signature.content)
    magic, _, parts = struct.unpack_from(">3I", blob)
    assert magic == 0xFADE0CC0
    start = dict(struct.unpack_from(">2I", blob, 12 + 8 * part) for part in range(parts))[0]
    size = struct.unpack_from(">I", blob, start + 4)[0]
    return hashlib.sha256(blob[start : start + size]).digest()[:20].hex()


def linked(path):
    """File names of what it links by @rpath, by LIEF."""
    binary = lief.MachO.parse(str(path)).at(0)
    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    names = [library.name for library in binary.libraries if library.command != own]
    return [name.rsplit("/", 1)[1] for name in names if name.startswith("@rpath/")]


def main():
    capgate, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    fetch(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".dylib", ".so", ".node") and path.is_file()]
    covered = images = metal = 0
    for path in files:
        data = path.read_bytes()
        expected, count = cdhash(data)
        assert by_lief(path) == expected, path
        ended = subprocess.run([capgate, "doctor", "--format", "json", path.resolve()], capture_output=True, text=True)
        assert ended.returncode == 0, f"{path}: {ended.returncode} {ended.stdout}{ended.stderr}"
        program = json.loads(ended.stdout)["program"]
        assert program["cdhash"] == expected, f"{path}: {program['cdhash']} is not {expected}"
        assert program["sha256"] == hashlib.sha256(data).hexdigest(), path
        assert (program["kind"], program["slice"]) == ("library", "arm64"), path
        (slice,) = program["slices"]
        signature = slice["signature"]
        assert signature["cdhash"] == expected and signature["hashes"] == ["SHA-256"], path
        assert (signature["flags"], signature["team"], signature["entitlements"]) == (0x20002, None, []), signature
        # What a library brings is loaded after the start, so a profile lists all of it, itself first.
        names = [image["name"] for image in program["images"]]
        assert names[0] == path.name and set(linked(path)) <= set(names), f"{path}: {names}"
        covered += count
        for image in program["images"]:
            images += 1
            metal += image["links_metal"]
            assert image["cdhash"] == cdhash(pathlib.Path(image["path"]).read_bytes())[0], image
    assert len(files) >= 10 and metal > 0, f"{len(files)} files, {metal} of them name images with Metal"
    print(f"{len(files)} signed files, {covered} pages, {images} images of them: every cdhash is the same")


if __name__ == "__main__":
    main()
