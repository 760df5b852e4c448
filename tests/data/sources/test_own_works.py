import random
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest
from fake_openalex import KEY, FakeOpenAlex, Mishap, serving
from openalex_works import URL, Work, line, work

from tinsmith.data.corpus import Corpus
from tinsmith.data.label_table import label_table
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.own_labels import graph_warning, write_own_labels
from tinsmith.data.progress import Silent
from tinsmith.data.sources.openalex.api import ApiQuery
from tinsmith.data.sources.openalex.own_works import TOGETHER, WorksSource, read_names
from tinsmith.data.sources.openalex.source import PAGES, OpenAlexChoices, PagesSource
from tinsmith.data.sources.source import build_corpus
from tinsmith.types.errors import ConfigError, DataError

ORCID = "0000-0002-1825-0097"
MANY = 5_000


def made_up(count: int) -> list[Work]:
    """Works of twenty years that cite earlier ones, popular ones more often; every fortieth is one's own."""
    draw = random.Random(7)
    works: list[Work] = []
    for number in range(1, count + 1):
        year = 1990 + number * 20 // count
        cited = {draw.randint(1, max(1, number - 1)) for _ in range(draw.randint(0, 12))}
        cited |= {1 + int((number - 1) * draw.random() ** 3) for _ in range(draw.randint(0, 6))}
        references = [f"{URL}W{one}" for one in sorted(cited - {number})]
        own = number % 40 == 0
        works.append(work(number, publication_year=year, publication_date=f"{year}-01-01", referenced_works=references,
                          orcid=ORCID if own else ""))  # fmt: skip
    times: dict[object, int] = {}
    for one in works:
        for reference in one["referenced_works"]:  # type: ignore[attr-defined]
            times[reference] = times.get(reference, 0) + 1
    return [one | {"cited_by_count": times.get(one["id"], 0)} for one in works]


class Filtering(FakeOpenAlex):
    """Answers the filters that own works ask with."""

    def answer(self, query: dict[str, str]) -> Mishap:
        everything, self.works = self.works, self.found(query["filter"])
        try:
            return super().answer(query)
        finally:
            self.works = everything

    def found(self, text: str) -> list[Work]:
        found = self.works
        for clause in unquote(text).split(","):
            name, _, values = clause.partition(":")
            chosen = set(values.split("|"))
            assert len(chosen) <= TOGETHER
            if name == "publication_year":
                first, last = map(int, values.split("-"))
                found = [one for one in found if first <= one["publication_year"] <= last]  # type: ignore[operator]
            elif name == "cites":
                cited = {f"{URL}{one}" for one in chosen}
                found = [one for one in found if cited & set(one["referenced_works"])]  # type: ignore[call-overload]
            elif name == "openalex":
                found = [one for one in found if str(one["id"]).removeprefix(URL) in chosen]
            elif name == "doi":
                found = [one for one in found if str(one["doi"]).removeprefix("https://doi.org/") in chosen]
            else:
                assert name == "author.orcid"
                found = [one for one in found if one["orcid"] in chosen]
        return found


@pytest.fixture(scope="module")
def fake() -> Generator[Filtering, None, None]:
    with serving(Filtering(made_up(MANY), per_page=100)) as server:
        assert isinstance(server, Filtering)
        yield server


def source(fake: FakeOpenAlex, out: Path, works: str, said: list[str], most_usd: float = 1.0) -> WorksSource:
    query = ApiQuery(filter="", key=KEY, url=fake.url)
    return WorksSource(read_names(works), query, out, OpenAlexChoices(), said.append, most_usd)


def test_own_works_have_the_labels_that_the_whole_graph_gives_them(fake: Filtering, tmp_path: Path) -> None:
    said: list[str] = []
    out = tmp_path / "own"
    fake.script = [None] * 20 + [Mishap(429, {"X-RateLimit-Remaining-USD": "0"})]
    with pytest.raises(DataError, match="same command"):
        build_corpus(source(fake, out, ORCID, said), out)
    before = len(fake.asked)
    card = build_corpus(source(fake, out, ORCID, said), out)
    assert not (out / PAGES).exists()
    own = write_own_labels(Corpus.open(out), Silent())
    assert own.found == MANY // 40 == len((out / "works.txt").read_text().split())
    (tmp_path / "all.json").write_bytes(line(fake.works))
    build_corpus(PagesSource((tmp_path / "all.json",), OpenAlexChoices()), tmp_path / "all")
    whole = Corpus.open(tmp_path / "all")
    compute_metrics(whole, MetricSettings())
    assert card.papers < whole.card.papers
    rows = pl.read_csv(own.file)
    truth = label_table(whole).filter(pl.col("id").is_in(rows["id"].implode())).sort("id")
    for name in ("references", "citations", "n_i", "n_j", "n_k", "cd", "cd_status", "disruption"):
        assert rows[name].to_list() == truth[name].to_list(), name
    assert sum(own.labels.values()) == own.found
    # No page is asked for twice: the interrupted build's are used.
    asked = [(one["filter"], one["cursor"]) for one in fake.asked]
    assert len(asked) - len(set(asked)) == 1
    assert before == 21
    assert any("requests so far" in one for one in said)


def test_a_file_may_name_works_in_several_ways_and_what_is_not_found_is_said(fake: Filtering, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# mine\nhttps://doi.org/10.1/4000\nhttps://openalex.org/W4040\n10.1/NOT-there\n\nw4000\n")
    said: list[str] = []
    build_corpus(source(fake, tmp_path / "own", str(names), said), tmp_path / "own")
    assert (tmp_path / "own/works.txt").read_text().split() == ["W4000", "W4040"]
    assert any("not found: 1 (10.1/not-there)" in one for one in said)


def test_a_graph_alone_costs_as_many_requests(fake: Filtering, tmp_path: Path) -> None:
    said: list[list[str]] = [[], []]
    for out, lines, graph_only in zip(("whole", "graph"), said, (False, True), strict=True):
        one = source(fake, tmp_path / out, "W4000", lines)
        query = replace(one.query, graph_only=graph_only)
        build_corpus(replace(one, query=query, choices=OpenAlexChoices(graph_only=graph_only)), tmp_path / out)
    assert said[0] == said[1] != []


def test_what_costs_more_than_may_be_spent_is_refused_before_it_is_asked_for(fake: Filtering, tmp_path: Path) -> None:
    before = len(fake.asked)
    with pytest.raises(ConfigError) as caught:
        build_corpus(source(fake, tmp_path / "own", ORCID, [], most_usd=0.0005), tmp_path / "own")
    assert caught.value.field == "--most-usd"
    assert len(fake.asked) - before == 2  # the two pages of the own works


@pytest.mark.parametrize("text", ["0000-0002-1825-0098", "10.1/a,b", "my papers", "", "S137773608"])
def test_what_names_no_work_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_names(text)


def test_identifiers_are_read_by_their_form() -> None:
    assert read_names("https://ror.org/05dxps055").filters() == ["authorships.institutions.ror:05dxps055"]
    assert read_names("a5023888391").filters() == ["author.id:A5023888391"]
    assert read_names("https://openalex.org/I27837315").filters() == ["authorships.institutions.id:I27837315"]
    assert read_names("doi:10.1038/NATURE").filters() == ["doi:10.1038/nature"]


def test_a_corpus_whose_graph_cannot_carry_cd_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(line([one for one in made_up(400) if one["orcid"]]))
    build_corpus(PagesSource((tmp_path / "own.json",), OpenAlexChoices()), tmp_path / "own")
    warning = graph_warning(Corpus.open(tmp_path / "own"))
    assert warning is not None
    assert "0 of 10 papers" in warning
    assert "--works" in warning
    (tmp_path / "all.json").write_bytes(line(made_up(400)))
    build_corpus(PagesSource((tmp_path / "all.json",), OpenAlexChoices()), tmp_path / "all")
    assert graph_warning(Corpus.open(tmp_path / "all")) is None
