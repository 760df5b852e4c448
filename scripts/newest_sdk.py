"""Holds the newest Tinker SDK against what is recorded to be served; exit code 1 where it sends what is unknown here.

python scripts/newest_sdk.py ENVIRONMENT        # a folder: the newest SDK and cookbook are installed into it
python scripts/newest_sdk.py --installed        # the SDK of this environment, as it is
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path

from sdk_surface import PREFIX, read_surface

RECORD = Path(__file__).with_name("sdk_served.toml")
WANTED = ("tinker", "tinker-cookbook[math-rl,inspect,verifiers]")
SHOWN = ("tinker", "tinker-cookbook")


def main(where: str) -> int:
    if where == "--installed":
        found = find_spec("tinker")
        assert found is not None
        assert found.origin is not None
        package = Path(found.origin).parent
        versions = {"tinker": version("tinker")}
    else:
        packages = install(Path(where))
        package = packages / "tinker"
        versions = {
            each.name: each.version
            for each in distributions(path=[str(packages)])
            if each.name.replace("_", "-") in SHOWN
        }
    record = tomllib.loads(RECORD.read_text(encoding="utf-8"))
    print(f"recorded: tinker {record['sdk']}; found: {', '.join(map(' '.join, sorted(versions.items())))}")
    return compare(read_surface(package), record)


def install(folder: Path) -> Path:
    """Install the newest that can be installed, with the torch of this environment; return the packages' folder."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*pip, *WANTED, f"torch=={version('torch')}"], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    return packages


def compare(sent: frozenset[str], record: Mapping[str, Sequence[str]]) -> int:
    """Print what is new and what is gone; return 1 if something new is neither served nor refused by name."""
    known = [*record["served"], *record["refused"], *record["remarks"]]
    new = sorted(line for line in sent if not _matched(line, known))
    gone = sorted(line for line in known if not any(_matches(each, line) for each in sent))
    refused = [line for line in new if _matched(line, record["strict"])]
    unknown = [line for line in new if line not in refused]
    _tell("gone", gone)
    _tell("new, and refused by name because its kind is", refused)
    _tell("new, and neither served nor refused by name", unknown)
    print(f"{len(sent)} things that can be sent: {len(new)} new, {len(gone)} gone, {len(unknown)} unknown here")
    return 1 if unknown else 0


def _tell(title: str, lines: Iterable[str]) -> None:
    for line in lines:
        print(f"  {title}: {line}")


def _matched(line: str, patterns: Iterable[str]) -> bool:
    return any(_matches(line, pattern) for pattern in patterns)


def _matches(line: str, pattern: str) -> bool:
    """In endpoints a star is the SDK's own, and stands for one value."""
    return line == pattern if PREFIX in pattern else fnmatchcase(line, pattern)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
