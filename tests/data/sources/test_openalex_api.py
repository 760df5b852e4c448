import gzip
import json
import logging
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from building import files_of
from fake_openalex import KEY, FakeOpenAlex, Mishap, serving
from openalex_works import line, work

from tinsmith.data.progress import Silent
from tinsmith.data.sources.openalex import api
from tinsmith.data.sources.openalex.answers import seconds_to_wait
from tinsmith.data.sources.openalex.api import ATTEMPTS, ApiQuery, Download, key_from_environment
from tinsmith.data.sources.openalex.record import Keep
from tinsmith.data.sources.openalex.source import PAGES, ApiSource, OpenAlexChoices, PagesSource
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.http_answers import TooLarge, body_of

WORKS = [work(number) for number in range(1, 36)]
BUDGET = [
    Mishap(429, {"Retry-After": "53578"}, '{"error": "Insufficient budget"}'),
    Mishap(429, {"X-RateLimit-Remaining": "0", "Retry-After": "1"}),
    Mishap(429, {"X-RateLimit-Remaining": "3", "X-RateLimit-Credits-Required": "10"}),
    Mishap(429, {"X-RateLimit-Remaining-USD": "0"}),
    Mishap(429, body='{"message": "Insufficient budget. Resets at midnight UTC"}'),
]


@pytest.fixture
def fake() -> Generator[FakeOpenAlex, None, None]:
    with serving(FakeOpenAlex(WORKS)) as server:
        yield server


def query(fake: FakeOpenAlex, **changes: object) -> ApiQuery:
    return ApiQuery(**({"filter": "type:article", "key": KEY, "url": fake.url} | changes))  # type: ignore[arg-type]


def download(fake: FakeOpenAlex, folder: Path, **changes: object) -> tuple[list[Path], list[float]]:
    slept: list[float] = []
    pages = Download(query(fake, **changes), folder, sleep=slept.append).run(Silent())
    return list(pages), slept


def test_pages_are_fetched_by_cursor_until_there_is_none(fake: FakeOpenAlex, tmp_path: Path) -> None:
    pages, slept = download(fake, tmp_path / "p")
    assert [page.name for page in pages] == [f"page-{n:07}.json" for n in range(1, 5)]
    assert slept == []
    assert [requests["cursor"] for requests in fake.asked] == ["*", "at=10", "at=20", "at=30"]
    assert {requests["per_page"] for requests in fake.asked} == {"100"}
    assert {requests["filter"] for requests in fake.asked} == {"type:article"}
    assert "abstract_inverted_index" in fake.asked[0]["select"]
    assert "include_xpac" not in fake.asked[0]
    # All there: nothing is asked again.
    assert download(fake, tmp_path / "p")[0] == pages
    assert len(fake.asked) == 4
    download(fake, tmp_path / "q", graph_only=True, xpac=True)
    assert "abstract_inverted_index" not in fake.asked[-1]["select"]
    assert "referenced_works" in fake.asked[-1]["select"]
    assert fake.asked[-1]["include_xpac"] == "true"


def test_too_many_requests_wait_as_long_as_they_are_told(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.script = [
        None,
        Mishap(429, {"Retry-After": "3", "X-RateLimit-Remaining": "5000"}),
        Mishap(429, {"Retry-After": "2.5"}),
        Mishap(429),
        Mishap(503, {"Retry-After": "7"}),
        Mishap(500),
    ]
    pages, slept = download(fake, tmp_path)
    assert slept == [3.0, 2.5, 4.0, 7.0, 16.0]
    assert len(pages) == 4
    assert [request["cursor"] for request in fake.asked][:7] == ["*", *["at=10"] * 6]


@pytest.mark.parametrize("mishap", BUDGET)
def test_a_used_up_budget_stops_at_once_and_the_same_command_goes_on(
    fake: FakeOpenAlex, tmp_path: Path, mishap: Mishap
) -> None:
    fake.script = [None, None, mishap]
    source = ApiSource(query(fake), tmp_path / "out", OpenAlexChoices())
    with pytest.raises(DataError, match=r"\b20\b") as caught:
        build_corpus(source, tmp_path / "out")
    assert "midnight UTC" in str(caught.value)
    assert "same command" in str(caught.value)
    assert len(fake.asked) == 3
    assert sorted(files_of(tmp_path / "out")) == [
        f"{PAGES}/page-0000001.json", f"{PAGES}/page-0000002.json", f"{PAGES}/resume.json",
    ]  # fmt: skip
    card = build_corpus(source, tmp_path / "out")
    assert [question["cursor"] for question in fake.asked][3:] == ["at=20", "at=30"]
    assert card.papers == 35
    assert sorted(files_of(tmp_path / "out")) == ["card.json", "edges.parquet", "papers.parquet"]
    # The same corpus as from the works themselves.
    (tmp_path / "works.json").write_bytes(line(WORKS))
    saved = build_corpus(PagesSource((tmp_path / "works.json",), OpenAlexChoices()), tmp_path / "saved")
    assert saved.fingerprint == card.fingerprint
    assert card.source.settings["filter"] == "type:article"


@pytest.mark.parametrize(
    ("mishap", "message"),
    [
        (Mishap(401), r"\b401\b"),
        (Mishap(403), r"\b403\b"),
        (Mishap(400, body=f"Invalid filter, api_key={KEY}"), r"\b400: Invalid filter, api_key=\*\*\*"),
    ],
)
def test_a_refusal_is_told_in_a_line_and_not_repeated(
    fake: FakeOpenAlex, tmp_path: Path, mishap: Mishap, message: str
) -> None:
    fake.script = [mishap]
    with pytest.raises(DataError, match=message) as caught:
        download(fake, tmp_path)
    assert len(fake.asked) == 1
    assert len(caught.value.what.splitlines()) == 1
    assert KEY not in str(caught.value)


def test_a_server_that_stays_down_stops_the_download_which_can_go_on(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.script = [None, *[Mishap(502)] * ATTEMPTS]
    with pytest.raises(DataError, match=rf"after 10 works: answer 502, {ATTEMPTS} times"):
        download(fake, tmp_path)
    pages, _ = download(fake, tmp_path)
    assert len(pages) == 4
    with pytest.raises(DataError, match=r"no answer \(ConnectError\)"):
        Download(query(fake, url="http://127.0.0.1:9"), tmp_path / "q", sleep=lambda _: None).run(Silent())


@pytest.mark.parametrize("body", ["<html>", '{"results": []}', '{"meta": {"count": 35}, "results": [{"id": "W'])
def test_an_answer_that_is_no_page_is_asked_for_again(fake: FakeOpenAlex, tmp_path: Path, body: str) -> None:
    fake.script = [None, Mishap(200, body=body)]
    pages, slept = download(fake, tmp_path / "p")
    assert (len(pages), len(slept), len(fake.asked)) == (4, 1, 5)
    fake.script = [Mishap(200, body=body)] * ATTEMPTS
    with pytest.raises(DataError, match=r"\bpage 1\b"):
        download(fake, tmp_path / "q")
    assert len(fake.asked) == 5 + ATTEMPTS


def test_the_key_is_in_no_file_message_or_log(
    fake: FakeOpenAlex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="httpx")  # the tinker SDK, once imported, quiets it
    source = ApiSource(query(fake), tmp_path, OpenAlexChoices())
    fake.script = [None, Mishap(429, {"Retry-After": "9999"})]
    with pytest.raises(DataError) as caught:
        build_corpus(source, tmp_path)
    assert not any(KEY.encode() in content for content in files_of(tmp_path).values())
    build_corpus(source, tmp_path)
    assert not any(KEY.encode() in content for content in files_of(tmp_path).values())
    assert fake.asked[0]["api_key"] == KEY
    assert "/works" in caplog.text
    for text in (caplog.text, str(caught.value), repr(source)):
        assert KEY not in text


def test_the_download_of_another_query_is_not_mixed_in(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.script = [None, Mishap(403)]
    with pytest.raises(DataError, match="403"):
        download(fake, tmp_path)
    with pytest.raises(DataError, match="field: filter = 'type:article'") as caught:
        download(fake, tmp_path, filter="type:book")
    assert "type:article" in str(caught.value)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " abc ")
    assert key_from_environment("MY_KEY") == "abc"
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(ConfigError, match="needs a key") as caught:
        key_from_environment("MY_KEY")
    assert all(each in str(caught.value) for each in ("export MY_KEY=", "--snapshot", "--pages"))


def test_kinds_of_works_are_left_out_of_the_api_too(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.works = [work(1), work(2, is_retracted=True), work(3, is_xpac=True)]
    choices = OpenAlexChoices(keep=frozenset({Keep.XPAC}))
    card = build_corpus(ApiSource(query(fake), tmp_path, choices), tmp_path)
    assert (card.papers, card.dropped["retracted"], card.dropped["xpac"]) == (2, 1, 0)


def test_a_cursor_that_leads_back_stops_the_download(fake: FakeOpenAlex, tmp_path: Path) -> None:
    for following in ("*", "at=10"):
        page = '{"meta": {"count": 1, "next_cursor": "%s"}, "results": [{"id": "W%d"}]}'
        fake.script = [Mishap(200, body=page % ("at=10", 1)), Mishap(200, body=page % (following, 2))]
        with pytest.raises(DataError, match="page 2 leads back"):
            download(fake, tmp_path / following.strip("*"))
    same = Mishap(200, body='{"meta": {"next_cursor": "a"}, "results": [{"id": "W1"}]}')
    fake.script = [same, Mishap(200, body=same.body.replace('"a"', '"b"'))]
    with pytest.raises(DataError, match="page 2 leads back"):
        download(fake, tmp_path / "same")


def test_pages_that_end_before_the_number_of_works_are_no_success(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.script = [None, Mishap(200, body='{"meta": {"count": 35, "next_cursor": "at=20"}, "results": []}')]
    with pytest.raises(DataError, match="it said 35 works"):
        download(fake, tmp_path)


def test_a_date_to_ask_again_is_held_against_the_answers_own(fake: FakeOpenAlex, tmp_path: Path) -> None:
    later = {"Retry-After": "Fri, 27 Nov 2026 08:00:20 GMT", "Date": "Fri, 27 Nov 2026 08:00:00 GMT"}
    answer = httpx.Response(429, headers=later)
    assert seconds_to_wait(answer) == 20.0
    assert seconds_to_wait(httpx.Response(429, headers={"Retry-After": "soon"})) is None
    fake.script = [Mishap(503, {"Retry-After": "86400"})]
    with pytest.raises(DataError, match="ask again in 86,400 s"):
        download(fake, tmp_path)


@pytest.mark.parametrize(
    ("mishap", "advice"),
    [
        (Mishap(400, body="bad filter"), "correct --filter"),
        (Mishap(301, {"Location": f"https://new.org/works?api_key={KEY}"}), "--api-url"),
        (Mishap(404), "check --api-url"),
    ],
)
def test_what_asking_again_cannot_mend_is_not_told_to_be_asked_again(
    fake: FakeOpenAlex, tmp_path: Path, mishap: Mishap, advice: str
) -> None:
    fake.script = [mishap]
    with pytest.raises(DataError) as caught:
        download(fake, tmp_path)
    assert advice in str(caught.value)
    assert "same command" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(fake.asked) == 1


def test_an_answer_is_read_up_to_a_largest_size_packed_or_not(
    fake: FakeOpenAlex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_LINE", 100_000)
    for name, headers in (("a", {}), ("b", {"Content-Encoding": "gzip"})):
        fake.script = [Mishap(200, headers, " " * 10_000_000)]
        with pytest.raises(DataError, match="larger than"):
            download(fake, tmp_path / name)
    assert body_of([gzip.compress(b"text")], "gzip", 4) == b"text"
    assert body_of([], "gzip", 4) == b""
    with pytest.raises(TooLarge):
        body_of([gzip.compress(b"texts")], "gzip", 4)
    for encoding, body in (("br", b"x"), ("gzip", b"x"), ("gzip", gzip.compress(b"text")[:-9]), ("gzip, gzip", b"x")):
        with pytest.raises(DataError, match="answer"):
            body_of([body], encoding, 4)


def test_an_address_that_is_none_and_a_damaged_state_are_told(fake: FakeOpenAlex, tmp_path: Path) -> None:
    for url in ("ftp://x", "nowhere"):
        with pytest.raises(ConfigError, match="--api-url"):
            download(fake, tmp_path / "u", url=url)
    fake.script = [None, Mishap(403)]
    with pytest.raises(DataError, match="403"):
        download(fake, tmp_path / "d")
    (tmp_path / "d" / "resume.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="is damaged"):
        download(fake, tmp_path / "d")


def test_a_few_works_that_do_not_come_are_counted_on_the_card(fake: FakeOpenAlex, tmp_path: Path) -> None:
    fake.works = [work(number) for number in range(1, 8)]
    page = {"meta": {"count": 9, "next_cursor": None}, "results": fake.works}
    fake.script = [Mishap(200, body=json.dumps(page))]
    card = build_corpus(ApiSource(query(fake), tmp_path, OpenAlexChoices()), tmp_path)
    assert (card.papers, card.dropped["works_not_sent"]) == (7, 2)
