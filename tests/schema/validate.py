"""Holds the JSON Schema of profiles against profiles, with a validator that is not ours (PyPI `jsonschema`).

Every shipped profile must be accepted. Every bad one must be refused, unless `bad.toml` says why a schema cannot.
"""

import datetime
import json
import pathlib
import sys
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


def main():
    schema = json.loads((ROOT / "docs/schema/profile.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures = []
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
    return 1 if failures or not good or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
