"""Run of all checks against a server, with a time limit for each answer."""

from __future__ import annotations

import importlib
import threading
import time
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import httpx
import tinker

from tinsmith.lab.conform.subject import (
    CHECKS,
    FAILURES,
    CannotTellError,
    Check,
    Subject,
    Verdict,
    Word,
    differs,
    failure,
    is_refusal,
    words_of,
)
from tinsmith.lab.service.official_client import Ended, Served, end_session, rest_client, served_models
from tinsmith.pages.document import Document, Section, Words
from tinsmith.pages.tables import plain
from tinsmith.types.errors import ConfigError
from tinsmith.types.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

_TOPICS: Final = ("sampling", "losses", "training", "mistakes")
_OPENING_SECONDS: Final = 60.0
_CLOSING_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Result of one check: its verdict and duration."""

    check: Check
    verdict: Verdict
    seconds: float


def checks() -> Sequence[Check]:
    """Return every check, in the order of the table."""
    for topic in _TOPICS:
        importlib.import_module(f"tinsmith.lab.conform.checks.{topic}")
    return tuple(CHECKS)


@contextmanager
def open_subject(url: str, key: str, model: str | None, limit_s: float) -> Generator[Subject]:
    """Connect to a server, and choose the model: by default the first one that it lists as trainable."""
    with warnings.catch_warnings():
        # The SDK leaves sockets to the garbage collector, and calls much of itself deprecated.
        warnings.simplefilter("ignore")
        _require_protocol(url, key)
        service = tinker.ServiceClient(base_url=url, api_key=key)
        try:
            rest = rest_client(service, url, key)
            chosen = _chosen(served_models(service, rest, _OPENING_SECONDS), model)
            subject = Subject(
                url=url.rstrip("/"),
                key=key,
                model=chosen.name,
                service=service,
                rest=rest,
                context=chosen.context,
                limit_s=limit_s,
            )
            try:
                yield subject
            finally:
                if _lives(url):
                    subject.close()
        finally:
            if _lives(url):  # one that is gone is told nothing: the client would try for long
                with suppress(*FAILURES, TimeoutError):
                    end_session(service, Ended.SUCCESS, _CLOSING_SECONDS)


def _chosen(served: Sequence[Served], name: str | None) -> Served:
    trainable = [one for one in served if one.trainable]
    if name is None and trainable:
        return trainable[0]
    if name is not None and not served:
        return Served(name)
    for one in served:
        if one.name == name:
            return one
    what = "the server serves no model that can be trained" if name is None else "the server does not serve this model"
    raise ConfigError(what, field="--model", value=name, allowed=", ".join(one.name for one in trainable) or None)


def _require_protocol(url: str, key: str) -> None:
    """Send the SDK's first request: without an answer to it, the SDK's constructor would retry for minutes."""
    routes = (("POST", "client/config", {"sdk_version": tinker.__version__}), ("GET", "get_server_capabilities", None))
    failures: list[str] = []
    try:
        with httpx.Client(base_url=url.rstrip("/"), headers={"X-API-Key": key}, timeout=_OPENING_SECONDS) as http:
            for method, route, body in routes:
                answer = http.request(method, f"/api/v1/{route}", json=body)
                if answer.is_error:
                    failures.append(f"{route}: HTTP {answer.status_code}")
    except httpx.HTTPError as error:
        failures.append(type(error).__name__)
    if failures:
        what = f"it does not answer as a Tinker server of today ({', '.join(failures)})"
        fix = "name the address that the official client is given as base_url"
        raise ConfigError(what, field="URL", value=url, fix=fix)


def ask(subject: Subject, checks: Sequence[Check]) -> Iterator[Found]:
    """Run the checks in order; skip the rest once the server is gone."""
    gone = False
    for one in checks:
        began = time.monotonic()
        verdict = differs("no answer: the server is gone") if gone else _within(subject, one)
        yield Found(check=one, verdict=verdict, seconds=time.monotonic() - began)
        if verdict.word is Word.DIFFERS and not gone:
            gone = not _lives(subject.url)


def _within(subject: Subject, one: Check) -> Verdict:
    """Run one check in a thread, which is abandoned if the SDK does not return."""
    answered: list[Verdict] = []
    thread = threading.Thread(target=lambda: answered.append(_judged(subject, one)), daemon=True)
    subject.begin()
    thread.start()
    thread.join(subject.limit_s + _GRACE_SECONDS)
    if answered:
        return answered[0]
    if not thread.is_alive():
        return differs("cannot be told: the check itself failed")
    subject.forget()
    return differs(f"no answer within {subject.limit_s:.0f} s")


def _judged(subject: Subject, one: Check) -> Verdict:
    try:
        return one.answer(subject)
    except TimeoutError:
        subject.forget()
        return differs(f"no answer within {subject.limit_s:.0f} s")
    except CannotTellError as error:
        return differs(f"cannot be told: {error}")
    except FAILURES as error:
        if is_refusal(error):
            return Verdict(Word.REFUSED, words_of(error))
        return differs(failure(error))


def _lives(url: str) -> bool:
    try:
        return httpx.get(f"{url.rstrip('/')}/api/v1/healthz", timeout=10.0).status_code < 500
    except httpx.HTTPError:
        return False


_MEANINGS = (
    "honoured: it computes what the documentation says. differs: it does otherwise, and that can be seen. "
    "refused: it says that it does not. silent difference: it accepts the request, and computes something else."
)
_STYLES: Mapping[Word, str] = {
    Word.HONOURED: "green",
    Word.DIFFERS: "yellow",
    Word.REFUSED: "cyan",
    Word.SILENT: "bold red",
}


def summary(results: Sequence[Found]) -> str:
    """Return the number of checks with each verdict."""
    counts = Counter(one.verdict.word for one in results)
    return ", ".join(f"{counts[word]} {word}" for word in Word)


def line(result: Found) -> str:
    """Return a result as a line of plain text."""
    return visible(f"{result.verdict.word:17}  {result.check.name:36}  {result.verdict.how}")


def console_table(title: str, results: Sequence[Found]) -> Table:
    """Return the table of a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("asked", ratio=2)
    table.add_column("answer", no_wrap=True)
    table.add_column("how", ratio=3)
    for one in results:
        word = one.verdict.word
        table.add_row(Text(one.check.name), Text(word, _STYLES[word]), Text(visible(one.verdict.how)))
    return table


def as_json(url: str, model: str, results: Sequence[Found]) -> dict[str, object]:
    """Return all results as JSON values."""
    counts = Counter(one.verdict.word for one in results)
    return {
        "url": url,
        "model": model,
        "client": f"tinker {tinker.__version__}",
        "counts": {word.value: counts[word] for word in Word},
        "rows": [
            {
                "name": one.check.name,
                "question": one.check.question,
                "verdict": one.verdict.word.value,
                "how": one.verdict.how,
                "source": one.check.source,
                "seconds": round(one.seconds, 3),
            }
            for one in results
        ],
    }


def document(url: str, model: str, results: Sequence[Found]) -> Document:
    """Return the page: what is not honoured first, then every topic with its rows and sources."""
    heads = ("asked", "answer", "how", "source")
    other = [one for one in results if one.verdict.word is not Word.HONOURED]
    first = (
        plain("What is not honoured", heads, [_cells(one) for one in other], words=True)
        if other
        else Words("Every row is honoured.")
    )
    topics = groupby(results, key=lambda one: one.check.name.partition("/")[0])
    return Document(
        kind="Conformance",
        title=url,
        question="What does this server honour of the Tinker protocol?",
        facts=(
            ("Model", model),
            ("Client", f"tinker {tinker.__version__}"),
            ("Rows", str(len(results))),
            ("Found", summary(results)),
        ),
        sections=[
            Section("summary", "Summary", [Words(_MEANINGS), first]),
            *(
                Section(topic, topic.capitalize(), [plain("", heads, map(_cells, list(rows)), words=True)])
                for topic, rows in topics
            ),
        ],
        foot="from what the server answered to the official client.",
    )


def _cells(one: Found) -> tuple[str, ...]:
    return one.check.question, one.verdict.word.value, one.verdict.how, one.check.source
