"""One page of each kind, to the byte: `golden/pages.json` has the SHA-256 of each, the package's version left out."""

import hashlib
import json
from pathlib import Path

from tinsmith.types.version import VERSION

GOLDEN = Path(__file__).parent / "golden" / "pages.json"


def assert_golden(kind: str, html: str) -> None:
    """Compare a page with the one that was looked at; where a change is meant, the new digest goes into the file."""
    digest = hashlib.sha256(html.replace(VERSION, "VERSION").encode()).hexdigest()
    known: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert digest == known.get(kind), f"the page of {kind} has other bytes: {digest}"
