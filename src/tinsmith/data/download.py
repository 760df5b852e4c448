"""Download of one file over HTTP, whole or not at all; interrupted downloads are resumed.

Received bytes are in `NAME.part`, and the server's tag of that version of the file in `NAME.part.tag`: a file that
changed in between is fetched from its beginning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.types.disk import is_full
from tinsmith.types.errors import BackendError

if TYPE_CHECKING:
    import httpx

Fetched = Callable[[int, int | None], None]
"""Callback (bytes so far, total bytes if the server reports them)."""

_SECONDS: Final = 60.0
"""Seconds without a byte after which a connection is dead."""
_RANGE: Final = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


def download(url: str, file: Path, say: Fetched) -> bool:
    """Fetch `url` to `file`; False if the file exists. The folder must exist.

    A broken connection is reopened as long as each one makes progress.

    Raises:
        BackendError: the server cannot be reached, refuses, or stops early; or there is no room.
    """
    import httpx

    if file.is_file():
        return False
    part = file.with_name(f"{file.name}.part")
    try:
        with httpx.Client(follow_redirects=True, timeout=_SECONDS) as client:
            most = _size(part)
            while True:
                try:
                    _attempt(client, url, part, say)
                    break
                except httpx.TransportError as error:
                    if _size(part) <= most:
                        raise _unreachable(url, part, error) from None
                    most = _size(part)
        os.replace(part, file)
        _tag(part).unlink(missing_ok=True)
    except httpx.HTTPError as error:
        raise _unreachable(url, part, error) from None
    except OSError as error:
        advice = "make room" if is_full(error) else "name a folder you may write to"
        raise BackendError(
            f"{file.name} could not be written: {error.strerror or error}",
            field="--out",
            value=str(file.parent),
            fix=f"{advice}, then fetch again: it goes on where it was",
        ) from None
    return True


def _attempt(client: httpx.Client, url: str, part: Path, say: Fetched) -> None:
    """Request the missing bytes, and append them to `part`."""
    have = _size(part)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        tag = _tag(part)
        if tag.is_file():
            headers["If-Range"] = tag.read_text(encoding="utf-8")
    with client.stream("GET", url, headers=headers) as answer:
        first, total = _span(answer)
        if answer.status_code == 416 and total == have:
            return
        if have and (answer.status_code == 416 or (answer.status_code == 206 and first != have)):
            part.unlink()
            return _attempt(client, url, part, say)
        if answer.status_code not in (200, 206):
            raise BackendError(
                f"the server refuses: HTTP {answer.status_code} {answer.reason_phrase}",
                field="address",
                value=url,
                fix=f"open the address in a browser; a file put by hand to {part.with_suffix('')} is used",
            )
        if answer.status_code == 200:
            have = 0
            _remember(answer, part)
        say(have, total)
        with part.open("ab" if have else "wb") as out:
            # Unbuffered: fixed chunks would lose their rest when the connection breaks.
            for chunk in answer.iter_raw():
                out.write(chunk)
                have += len(chunk)
                say(have, total)
    return None


def _span(answer: httpx.Response) -> tuple[int | None, int | None]:
    """Return the answer's offset in the file, and the file's length if the server reports it."""
    match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if match is not None:
        return (None if match[1] is None else int(match[1]), None if match[2] == "*" else int(match[2]))
    length = answer.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _remember(answer: httpx.Response, part: Path) -> None:
    """Save the tag of this version of the file; a weak tag is ignored."""
    tag = answer.headers.get("ETag", "")
    mark = tag if tag.startswith('"') else answer.headers.get("Last-Modified", "")
    if mark:
        _tag(part).write_text(mark, encoding="utf-8")
    else:
        _tag(part).unlink(missing_ok=True)


def _tag(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _unreachable(url: str, part: Path, error: Exception) -> BackendError:
    why = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    here = _size(part)
    return BackendError(
        f"the download stopped after {here / 1e6:.1f} MB: {why}" if here else f"the server cannot be reached: {why}",
        field="address",
        value=url,
        fix="check the network (HTTPS_PROXY, if you need one), then fetch again"
        + (": it goes on where it was" if here else ""),
    )
