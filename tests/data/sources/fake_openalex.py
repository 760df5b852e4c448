"""A server on loopback that answers like the OpenAlex API, from works and a script of mishaps."""

import gzip
import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from answering import Quiet, answering

KEY = "secret-key-0123456789"


@dataclass
class Mishap:
    """An answer in place of the usual one."""

    code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error": "odd", "message": "odd"}'


@dataclass
class FakeOpenAlex:
    """Serves `works`; a request takes the next entry of `script`, None being the usual answer."""

    works: list[dict[str, object]]
    per_page: int = 10
    script: list[Mishap | None] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, query: dict[str, str]) -> Mishap:
        self.asked.append(query)
        mishap = self.script.pop(0) if self.script else None
        if mishap is not None:
            return mishap
        if query.get("api_key") != KEY:
            return Mishap(401, body='{"error": "API key required"}')
        start = 0 if query["cursor"] == "*" else int(query["cursor"].removeprefix("at="))
        some = self.works[start : start + self.per_page]
        after = start + len(some)
        meta = {
            "count": len(self.works),
            "per_page": self.per_page,
            "next_cursor": f"at={after}" if after < len(self.works) else None,
        }
        chosen = query["select"].split(",")
        results = [{key: w[key] for key in chosen if key in w} for w in some]
        return Mishap(200, body=json.dumps({"meta": meta, "results": results, "group_by": []}))


@contextmanager
def serving(fake: FakeOpenAlex) -> Generator[FakeOpenAlex, None, None]:
    """Run the server; its address is `fake.url`."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            assert parts.path == "/works"
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            answer = fake.answer(query)
            body = answer.body.encode()
            if answer.headers.get("Content-Encoding") == "gzip":
                body = gzip.compress(body)
            self.send_response(answer.code)
            for name, value in {**answer.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # who asked has read enough
                self.wfile.write(body)

    with answering(Handler) as fake.url:
        yield fake
