"""Download of works from the OpenAlex API page by page, resumable after any interruption.

Pages and the cursor of the next one are stored in a folder, from which the same query resumes. The key is sent in the
query string, as OpenAlex requires, and is added below the layers that log requests or report errors.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import httpx
import msgspec

from tinsmith.data.losses import too_many
from tinsmith.data.progress import Progress
from tinsmith.data.sources.json_text import NOT_JSON
from tinsmith.data.sources.lines import MAX_LINE
from tinsmith.data.sources.openalex.answers import PATIENCE, Meaning, meaning, seconds_to_wait
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.http_answers import TooLarge, body_of

API = "https://api.openalex.org"
PER_PAGE = 100
"""Works per page: the API's maximum."""
ATTEMPTS = 6
_SELECT = (
    "id", "display_name", "publication_year", "publication_date", "language", "type", "primary_location",
    "referenced_works", "cited_by_count", "primary_topic", "topics", "keywords", "concepts",
    "abstract_inverted_index", "is_retracted", "is_paratext", "is_xpac", "updated_date",
)  # fmt: skip
_SELECT_GRAPH = (
    "id", "publication_year", "publication_date", "primary_location", "referenced_works", "is_retracted",
    "is_paratext", "is_xpac", "updated_date",
)  # fmt: skip
_RESUME = "resume.json"
_GO_ON = "run the same command again: it goes on where it stopped"
_PACKING = ("content-encoding", "content-length", "transfer-encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiQuery:
    """Query for works, with the address and key of the API."""

    filter: str
    key: str = field(repr=False)
    url: str = API
    graph_only: bool = False
    xpac: bool = False
    """True to include the expansion pack."""
    more: tuple[str, ...] = ()
    """Further fields of each work."""

    def parameters(self, cursor: str) -> dict[str, str]:
        """Return the request's parameters without the key."""
        chosen = {
            "filter": self.filter,
            "per_page": str(PER_PAGE),
            "select": ",".join(dict.fromkeys((*(_SELECT_GRAPH if self.graph_only else _SELECT), *self.more))),
            "cursor": cursor,
        }
        return chosen | ({"include_xpac": "true"} if self.xpac else {})


def key_from_environment(name: str) -> str:
    """Return the API key.

    Raises:
        ConfigError: the variable is not set.
    """
    key = os.environ.get(name, "").strip()
    if not key:
        raise ConfigError(
            "the OpenAlex API needs a key",
            field=name,
            value="",
            fix=f"get a free one at https://openalex.org/settings/api and export {name}=...; "
            "--snapshot DIR and --pages FILE read saved records without one",
        )
    return key


class _Resume(msgspec.Struct, kw_only=True):
    query: dict[str, str]
    pages: int = 0
    works: int = 0
    cursor: str | None = "*"
    """Cursor of the next page; None once all pages are complete."""
    expected: int | None = None
    """Number of works announced by the first page."""


class _Meta(msgspec.Struct):
    count: int | None = None
    next_cursor: str | None = None


class _Page(msgspec.Struct):
    results: list[msgspec.Raw]
    meta: _Meta


@dataclass(slots=True)
class Download:
    """Download of a query into a folder."""

    query: ApiQuery
    folder: Path
    sleep: Callable[[float], None] = time.sleep
    transport: httpx.BaseTransport | None = None
    permit: Callable[[int, int | None], None] | None = None
    """Callback before each page with the number of earlier pages, and that of announced works, which the first page
    has; an error stops the download."""
    complete: bool = False
    """True if every announced work must come; otherwise a few may be missing."""
    missing: int = field(default=0, init=False)
    """Number of announced works that did not come, once the download is done."""

    def run(self, progress: Progress) -> Sequence[Path]:
        """Fetch missing pages; return the files of all pages in order.

        Raises:
            DataError: the API stops answering, refuses, or its budget is used up; or the folder belongs to another
                query.
        """
        state = self._state()
        transport = _Keyed(self.transport or httpx.HTTPTransport(), self.query.key)
        headers = {"User-Agent": "tinsmith", "Accept": "application/json", "Accept-Encoding": "gzip"}
        with httpx.Client(transport=transport, timeout=60.0, headers=headers) as client:
            progress.begin("works downloaded", None)
            progress.advance(state.works)
            cursors, before = set[str](), b""
            while state.cursor is not None:
                if self.permit is not None:
                    self.permit(state.pages, state.expected)
                cursors.add(state.cursor)
                content, page = self._fetch(client, state)
                following = page.meta.next_cursor if page.results else None
                digest = hashlib.sha256(b"".join(map(bytes, page.results))).digest()
                if following in cursors or (page.results and digest == before):
                    raise self._stop(
                        state, f"page {state.pages + 1} leads back to one that came before", self._begin_again()
                    )
                before = digest
                _write(self._file(state.pages + 1), content)
                state.pages += 1
                state.works += len(page.results)
                state.cursor = following
                state.expected = page.meta.count if state.expected is None else state.expected
                _write(self.folder / _RESUME, msgspec.json.encode(state))
                progress.advance(len(page.results))
        expected = state.expected or 0
        self.missing = max(0, expected - state.works)
        if too_many(self.missing, expected) or (self.complete and self.missing):
            raise self._stop(state, f"no more pages, though it said {expected:,} works", self._begin_again())
        return [self._file(number) for number in range(1, state.pages + 1)]

    def remove(self) -> None:
        """Remove the pages."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"page-{number:07}.json"

    def _state(self) -> _Resume:
        query = {"url": self.query.url, **self.query.parameters("*")}
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            content = (self.folder / _RESUME).read_bytes()
        except FileNotFoundError:
            return _Resume(query=query)
        try:
            state = msgspec.json.decode(content, type=_Resume)
        except NOT_JSON:
            raise DataError(f"{self.folder / _RESUME} is damaged", fix=self._begin_again()) from None
        if state.query != query:
            raise DataError(
                f"{self.folder} holds the unfinished download of another query",
                field="filter",
                value=state.query.get("filter"),
                fix="finish it, or remove that folder",
            )
        return state

    def _fetch(self, client: httpx.Client, state: _Resume) -> tuple[bytes, _Page]:
        parameters = self.query.parameters(state.cursor or "*")
        why = ""
        for attempt in range(ATTEMPTS):
            wait = float(2**attempt)
            try:
                answer = _answer(client, f"{self.query.url}/works", parameters)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol):
                raise ConfigError(
                    "this is no address of a server", field="--api-url", value=self.query.url, allowed="https://..."
                ) from None
            except httpx.TransportError as error:
                why = f"no answer ({type(error).__name__})"
            except TooLarge as error:
                raise self._stop(state, f"{error}", "ask for fewer works: a narrower --filter") from None
            except DataError as error:
                why = error.what
            else:
                if answer.status_code == HTTPStatus.OK:
                    try:
                        return answer.content, msgspec.json.decode(answer.content, type=_Page)
                    except NOT_JSON as error:  # cut short, or a proxy's own page
                        why = f"page {state.pages + 1} is no list of works: {error}"
                else:
                    wait = self._requested_wait(answer, state) or wait
                    why = f"answer {answer.status_code}"
            if attempt + 1 < ATTEMPTS:
                self.sleep(wait)
        raise self._stop(state, f"{why}, {ATTEMPTS} times")

    def _requested_wait(self, answer: httpx.Response, state: _Resume) -> float | None:
        """Return the requested delay after a temporary failure.

        Raises:
            DataError: the failure is permanent.
        """
        match meaning(answer):
            case Meaning.LATER:
                wait = seconds_to_wait(answer)
                if wait is not None and wait > PATIENCE:
                    raise self._stop(state, f"answer {answer.status_code}, and to ask again in {wait:,.0f} s")
                return wait
            case Meaning.BUDGET:
                raise DataError(
                    f"the day's OpenAlex budget is used up after {state.works:,} works; it comes back at midnight UTC",
                    fix=_GO_ON,
                )
            case Meaning.BAD_KEY:
                raise DataError("OpenAlex does not accept the API key (401)")
            case Meaning.FORBIDDEN:
                raise DataError("OpenAlex forbids this request (403): the key may not do it")
            case Meaning.REFUSED:
                raise self._refusal(answer, state)

    def _refusal(self, answer: httpx.Response, state: _Resume) -> DataError:
        """Return the error for an answer that a retry will not change."""
        reason = " ".join(answer.text.split())
        if answer.is_redirect:
            reason = f"moved to {answer.headers['location'].partition('?')[0]}"
            fix = "name the new address with --api-url"
        elif answer.status_code == HTTPStatus.BAD_REQUEST:
            fix = f"correct --filter; {self._begin_again()}" if state.pages else "correct --filter"
        else:
            fix = "check --api-url and --filter"
        return self._stop(state, f"answer {answer.status_code}: {reason}".replace(self.query.key, "***")[:200], fix)

    def _begin_again(self) -> str:
        return f"to begin again, remove {self.folder}"

    def _stop(self, state: _Resume, why: str, fix: str = _GO_ON) -> DataError:
        return DataError(f"the OpenAlex API, after {state.works:,} works: {why}", fix=fix)


def _answer(client: httpx.Client, url: str, parameters: dict[str, str]) -> httpx.Response:
    """Send a request, and read the answer up to the limit.

    Raises:
        TooLarge: it is larger.
        DataError: its encoding is invalid.
    """
    with client.stream("GET", url, params=parameters) as answer:
        content = body_of(answer.iter_raw(), answer.headers.get("content-encoding", ""), MAX_LINE)
        headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in _PACKING]
        return httpx.Response(answer.status_code, headers=headers, content=content)


class _Keyed(httpx.BaseTransport):
    """Transport that adds the key below the layers that log or retain the request."""

    def __init__(self, inner: httpx.BaseTransport, key: str) -> None:
        self._inner = inner
        self._key = key

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_add_param("api_key", self._key)
        keyed = httpx.Request(request.method, url, headers=request.headers, extensions=request.extensions)
        return self._inner.handle_request(keyed)

    def close(self) -> None:
        self._inner.close()


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}")
    part.write_bytes(content)
    os.replace(part, path)
