"""Search for what is not to leave a machine: keys and tokens, and paths below its own folders."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tinsmith.lab.bundle.archive import Content
from tinsmith.types.errors import DataError
from tinsmith.types.home import home
from tinsmith.types.source import PACKAGE

_NAMED: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of environment variables that hold secrets."""
_SHORTEST: Final = 8
"""Characters of a secret: a shorter value stands in texts by chance."""
_SECRETS: Final = {
    "a key of a Tinker server": rb"\btml-[A-Za-z0-9_-]{16,}",
    "a key of an endpoint": rb"\bsk-[A-Za-z0-9_-]{20,}",
    "a token of the hub": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of a code host": rb"\b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{20,}",
    "a key of a cloud": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of a chat": rb"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a password in an address": rb"://[^/\s:@\"']+:[^/\s@\"']+@",
    "an authorization": rb"(?i)\bauthorization\b[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}",
}
_PATTERNS: Final = {name: re.compile(pattern) for name, pattern in _SECRETS.items()}
_TEXT: Final = (".cff", ".csv", ".html", ".json", ".jsonl", ".md", ".py", ".toml", ".txt", ".yaml", ".yml")
_CHUNK: Final = 1 << 20


def machine_folders(*others: Path) -> list[str]:
    """Return the folders of this machine that no path in a bundle may begin with, the longest first."""
    known = (Path.home(), Path.cwd(), home(), PACKAGE, Path(sys.prefix), *others)
    folders = {str(form) for each in known for form in (each.absolute(), each.resolve())}
    return sorted(folders - {"/", ""}, key=lambda each: (-len(each), each))


def require_public(files: Mapping[str, Content], folders: list[str], environment: Mapping[str, str]) -> None:
    """Refuse files that hold a secret, or a path of this machine; the secret itself is not shown.

    Raises:
        DataError: naming the file and the line.
    """
    values = {
        value.encode(): name
        for name, value in sorted(environment.items())
        if _NAMED.search(name) and len(value) >= _SHORTEST and not os.path.exists(value)
    }
    exact = re.compile(b"|".join(map(re.escape, values))) if values else None
    # After a folder's name its path goes on, or ends.
    paths = re.compile(b"(?:" + b"|".join(re.escape(each.encode()) for each in folders) + rb")(?=[/\\\\\"'<>\s:,)&]|$)")
    for name in sorted(files):
        for number, line in _lines(name, files[name]):
            what = None
            if exact is not None and (found := exact.search(line)):
                what = f"the value of {values[found[0]]}"
            elif found := paths.search(line):
                what = f"a path of this machine, {found[0].decode()}"
            elif name.endswith(_TEXT):
                what = next((each for each, pattern in _PATTERNS.items() if pattern.search(line)), None)
            if what is not None:
                raise DataError(
                    f"{name}, line {number}: {what} is not for others",
                    field=name,
                    allowed="files without keys, tokens, and paths of the machine they are from",
                    fix="take it out of what the run reads or is made of, and run it again",
                )


def _lines(name: str, content: Content) -> Iterator[tuple[int, bytes]]:
    """Yield a file's lines with their numbers; of a file that is no text pieces that overlap."""
    if isinstance(content, bytes):
        yield from enumerate(content.splitlines(), start=1)
        return
    with content.open("rb") as stream:
        if name.endswith(_TEXT):
            yield from enumerate(stream, start=1)
            return
        before = b""
        while piece := stream.read(_CHUNK):
            yield 1, before + piece
            before = piece[-4096:]
