"""How the judge of a run on rubrics was asked, as its manifest says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tinsmith.studies.rubrics.frame import Asking


def asking_circumstances(asking: Asking) -> dict[str, object]:
    """Return every key of the asking, paths whole: with them a replay asks as the run did.

    An address is told without what may be a secret in it; an endpoint refuses such an address later.
    """
    told: dict[str, object] = {}
    for each in dataclasses.fields(asking):
        value: object = getattr(asking, each.name)
        told[each.name] = str(value.absolute()) if isinstance(value, Path) else value
    if asking.judge_base_url is not None:
        told["judge_base_url"] = _without_secrets(asking.judge_base_url)
    return told


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
