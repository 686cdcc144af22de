"""Holds the JSON Schemas of profiles and run records against documents, with a validator that is not ours (PyPI
`jsonschema`).

Every shipped profile must be accepted. Every bad one must be refused, unless `bad.toml` says why a schema cannot. The same for
records, and for one that the command named on the command line writes now.
"""

import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]


def plain(value):
    """TOML values as JSON has them: dates become strings."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return value


def validator_of(name):
    """The validator for a schema that is one itself."""
    schema = json.loads((ROOT / f"docs/schema/{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def written_now(capgate):
    """A record of a real run."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "run.json"
        subprocess.run([capgate, "record", "--out", out, "--", "true"], check=True, stderr=subprocess.DEVNULL)
        return json.loads(out.read_text())


def changed(document, row):
    """A document with the change that a row of bad.toml names."""
    *way, last = (row.get("remove") or row["set"]).split("/")[1:]
    at = document
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if "remove" in row:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = json.loads(row["to"])
    return document


def records(capgate, failures):
    """Adds what is wrong with records to `failures`; returns what was looked at."""
    validator = validator_of("run-record")
    good = sorted((ROOT / "tests/records/good").glob("*.json"))
    documents = [(path.name, json.loads(path.read_text())) for path in good] + [("written now", written_now(capgate))]
    for name, document in documents:
        for error in validator.iter_errors(document):
            failures.append(f"record {name} is refused: {error.json_path}: {error.message[:200]}")
    rows = tomllib.loads((ROOT / "tests/records/bad.toml").read_text())
    refused = left_out = 0
    for name, row in rows.items():
        if "schema_cannot" in row:
            left_out += 1
            continue
        if validator.is_valid(changed(json.loads((ROOT / "tests/records/good/linux.json").read_text()), row)):
            failures.append(f"record {name} is accepted")
        refused += 1
    if not good or not refused:
        failures.append("there are no records to look at")
    return f"{len(documents)} records accepted, {refused} bad ones refused, {left_out} beyond a schema"


def main():
    validator = validator_of("profile")
    failures = []
    of_records = records(sys.argv[1], failures)
    good = sorted((ROOT / "profiles.d").glob("*.toml")) + [ROOT / "tests/profiles/good.toml"]
    for path in good:
        for error in validator.iter_errors(plain(tomllib.loads(path.read_text()))):
            failures.append(f"{path.name} is refused: {error.json_path}: {error.message[:200]}")
    rows = tomllib.loads((ROOT / "tests/profiles/bad.toml").read_text())
    refused = left_out = 0
    for name, row in rows.items():
        if "schema_cannot" in row:
            left_out += 1
            continue
        document = plain(tomllib.loads((ROOT / f"tests/profiles/bad/{name}.toml").read_text()))
        if validator.is_valid(document):
            failures.append(f"{name} is accepted")
        refused += 1
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"schema: {len(good)} profiles accepted, {refused} bad ones refused, "
          f"{left_out} beyond a schema (each with its reason in bad.toml)")
    print(of_records)
    return 1 if failures or not good or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
