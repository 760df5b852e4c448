"""Own works: fetched with the graph that their CD indices need, and labelled as all of OpenAlex would."""

import json
import random
import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest
from fake_openalex import KEY, FakeOpenAlex, Mishap, serving
from openalex_works import URL, Work, line, work

from command_line import command
from tinsmith.data.corpus import Corpus
from tinsmith.data.label_table import label_table, papers_per_year
from tinsmith.data.labels import Thresholds
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.own_labels import graph_warning, write_own_labels
from tinsmith.data.progress import Silent
from tinsmith.data.slices.pool import gather_pool
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.data.sources.openalex.api import ApiQuery
from tinsmith.data.sources.openalex.own_works import TOGETHER, WorksSource, read_names
from tinsmith.data.sources.openalex.source import PAGES, OpenAlexChoices, PagesSource
from tinsmith.data.sources.source import build_corpus
from tinsmith.pages.cards import corpus_page
from tinsmith.pages.page import document_html
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
                found = [one for one in found if first <= (one["publication_year"] or 0) <= last]  # type: ignore[operator]
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
def many() -> Generator[Filtering, None, None]:
    with serving(Filtering(made_up(MANY), per_page=100)) as server:
        assert isinstance(server, Filtering)
        yield server


def source(many: FakeOpenAlex, out: Path, works: str, said: list[str], most_usd: float = 1.0) -> WorksSource:
    query = ApiQuery(filter="", key=KEY, url=many.url)
    return WorksSource(read_names(works), query, out, OpenAlexChoices(), said.append, most_usd)


def test_own_works_have_the_labels_that_the_whole_graph_gives_them(many: Filtering, tmp_path: Path) -> None:
    words: list[str] = []
    out = tmp_path / "own"
    many.script = [None] * 20 + [Mishap(429, {"X-RateLimit-Remaining-USD": "0"})]
    with pytest.raises(DataError, match="same command"):
        build_corpus(source(many, out, ORCID, words), out)
    before = len(many.asked)
    card = build_corpus(source(many, out, ORCID, words), out)
    assert not (out / PAGES).exists()
    own = write_own_labels(Corpus.open(out), Silent())
    assert own.num_works == MANY // 40 == len((out / "works.txt").read_text().split())
    (tmp_path / "all.json").write_bytes(line(many.works))
    build_corpus(PagesSource((tmp_path / "all.json",), OpenAlexChoices()), tmp_path / "all")
    whole = Corpus.open(tmp_path / "all")
    compute_metrics(whole, MetricSettings())
    assert card.papers < whole.card.papers
    rows = pl.read_csv(own.file)
    truth = label_table(whole).filter(pl.col("id").is_in(rows["id"].implode())).sort("id")
    for name in ("references", "citations", "n_i", "n_j", "n_k", "cd", "cd_status", "disruption"):
        assert rows[name].to_list() == truth[name].to_list(), name
    assert sum(own.labels.values()) == own.num_works
    # No page is asked for twice: the interrupted build's are used.
    requests = [(one["filter"], one["cursor"]) for one in many.asked]
    assert len(requests) - len(set(requests)) == 1
    assert before == 21
    assert any("requests so far" in one for one in words)


def test_rows_that_the_graph_of_own_works_does_not_support_are_given_nowhere(
    many: Filtering, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "own"
    build_corpus(source(many, out, ORCID, []), out)
    corpus = Corpus.open(out)
    own = pl.read_csv(write_own_labels(corpus, Silent()).file)
    written = command(capsys, "export-results", out, code=0)
    assert pl.read_csv(out / "tables/labels.csv").sort("id").equals(own)
    assert f"{MANY // 40} of {corpus.card.papers:,} papers, and no novelty" in written.err
    metrics = corpus.metrics()
    rest = metrics.filter(~pl.col("id").is_in(own["id"].implode()))
    assert rest.drop("id").null_count().sum_horizontal().item() == rest.height * (metrics.width - 1)
    assert metrics["novelty_score"].count() == 0
    page = document_html(corpus_page(corpus))
    ok = (own["cd_status"] == "ok").sum()
    assert f"of {MANY // 40} of {corpus.card.papers:,} papers" in page
    assert re.search(rf"ok: references and citers in the window</\w+>\s*<td[^>]*>{ok}<", page)
    assert "z-score" not in page
    assert sum(papers_per_year(corpus).values()) == MANY // 40
    settings = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=None)
    assert set(gather_pool(corpus, settings).ids) <= set(own["id"])
    with pytest.raises(ConfigError, match="5 years") as caught:
        compute_metrics(corpus, MetricSettings(window=6))
    assert caught.value.allowed == "1 to 5"


def test_a_file_may_name_works_in_several_ways_and_what_is_not_found_is_said(many: Filtering, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# mine\nhttps://doi.org/10.1/4000\nhttps://openalex.org/W4040\n10.1/NOT-there\n\nw4000\n")
    sentence: list[str] = []
    build_corpus(source(many, tmp_path / "own", str(names), sentence), tmp_path / "own")
    assert (tmp_path / "own/works.txt").read_text().split() == ["W4000", "W4040"]
    assert any("not found: 1 (10.1/not-there)" in one for one in sentence)


def test_a_graph_alone_costs_as_many_requests(many: Filtering, tmp_path: Path) -> None:
    said: list[list[str]] = [[], []]
    for out, lines, graph_only in zip(("whole", "graph"), said, (False, True), strict=True):
        one = source(many, tmp_path / out, "W4000", lines)
        query = replace(one.query, graph_only=graph_only)
        build_corpus(replace(one, query=query, choices=OpenAlexChoices(graph_only=graph_only)), tmp_path / out)
    assert said[0] == said[1] != []


def test_what_costs_more_than_may_be_spent_is_refused_before_it_is_asked_for(many: Filtering, tmp_path: Path) -> None:
    before = len(many.asked)
    with pytest.raises(ConfigError) as caught:
        build_corpus(source(many, tmp_path / "own", ORCID, [], most_usd=0.0005), tmp_path / "own")
    assert caught.value.field == "--most-usd"
    assert len(many.asked) - before == 2  # the two pages of the own works


def test_further_pages_of_own_works_are_refused_before_they_are_asked_for(many: Filtering, tmp_path: Path) -> None:
    before = len(many.asked)
    for _ in range(2):  # a repeated command is refused, too, at no cost
        with pytest.raises(ConfigError) as caught:
            build_corpus(source(many, tmp_path / "own", ORCID, [], most_usd=0.00015), tmp_path / "own")
        assert caught.value.field == "--most-usd"
        assert len(many.asked) - before == 1  # the first of two pages


def cited(number: int, year: int, references: tuple[int, ...] = (), citers: int = 0, **changes: object) -> Work:
    """A work of a year that cites some, and that OpenAlex counts `citers` for."""
    some = [f"{URL}W{one}" for one in references]
    day = f"{year}-05-01"
    facts = {"publication_year": year, "publication_date": day, "referenced_works": some, "cited_by_count": citers}
    return work(number, **({"orcid": ""} | facts | changes))


def test_citers_of_references_that_are_gone_are_not_fetched(tmp_path: Path) -> None:
    works = [cited(1, 2010, (900, 2), 1, orcid=ORCID), cited(2, 2000, (), 1), cited(4, 2012, (1,))]
    works += [cited(1000 + number, 2012, (900,)) for number in range(3000)]
    with serving(Filtering(works, per_page=100)) as server:
        card = build_corpus(source(server, tmp_path / "own", ORCID, [], most_usd=0.0012), tmp_path / "own")
    assert card.papers == 3
    assert len(server.asked) == 4


@pytest.mark.parametrize("announced", [None, 0])
def test_more_citers_than_were_counted_stop_at_the_budget_and_go_on_with_another(
    tmp_path: Path, announced: int | None
) -> None:
    class Counting(Filtering):
        def answer(self, query: dict[str, str]) -> Mishap:
            mishap = super().answer(query)
            if announced is None or "cites:" not in query["filter"]:
                return mishap
            answer = json.loads(mishap.body)
            answer["meta"]["count"] = announced
            return replace(mishap, body=json.dumps(answer))

    works = [cited(1, 2010, (2,), orcid=ORCID), cited(2, 2000)]
    works += [cited(1000 + number, 2012, (1,)) for number in range(3000)]
    said: list[str] = []
    with serving(Counting(works, per_page=100)) as server:
        for _ in range(2):
            with pytest.raises(ConfigError) as caught:
                build_corpus(source(server, tmp_path / "own", ORCID, said, most_usd=0.0008), tmp_path / "own")
            assert caught.value.field == "--most-usd"
            assert len(server.asked) == (3 if announced is None else 8)
        card = build_corpus(source(server, tmp_path / "own", ORCID, said), tmp_path / "own")
    assert card.papers == 3002
    assert len(server.asked) == 33
    assert any("at least 30 for citers" in one for one in said)


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (2, {"referenced_works": None}),
        (3, {"referenced_works": None}),
        (2, {"publication_year": "2000"}),
        (1, {"publication_year": "2010", "cited_by_count": "1"}),
        (2, {"cited_by_count": "many", "doi": 7}),
        (4, {"referenced_works": f"{URL}W1"}),
    ],
)
def test_one_odd_value_does_not_end_a_build_of_own_works(
    tmp_path: Path, number: int, changes: dict[str, object]
) -> None:
    class Odd(Filtering):
        def answer(self, query: dict[str, str]) -> Mishap:
            mishap = super().answer(query)
            answer = json.loads(mishap.body)
            for one in answer["results"]:
                one |= changes if one["id"] == f"{URL}W{number}" else {}
            return replace(mishap, body=json.dumps(answer))

    works = [
        cited(1, 2010, (2,), 1, orcid=ORCID),
        cited(2, 2000, (), 1),
        cited(3, 2011, orcid=ORCID),
        cited(4, 2012, (1,)),
    ]
    with serving(Odd(works, per_page=100)) as server:
        card = build_corpus(source(server, tmp_path / "own", ORCID, []), tmp_path / "own")
    assert (card.papers, card.edges) == (4, 2)


def test_own_works_without_a_row_are_named_with_the_reason(tmp_path: Path) -> None:
    changes = {40: {"is_retracted": True}, 80: {"publication_year": None, "publication_date": None}}
    works = [one | changes.get(number, {}) for number, one in enumerate(made_up(160), 1)]
    said: list[str] = []
    with serving(Filtering(works, per_page=100)) as server:
        build_corpus(source(server, tmp_path / "own", "0000-0002-1825-0097", said), tmp_path / "own")
    own = write_own_labels(Corpus.open(tmp_path / "own"), Silent())
    assert pl.read_csv(own.file)["id"].to_list() == ["W120", "W160"]
    assert any("retracted" in one and one.endswith(": W40") for one in said)
    assert any("year" in one and one.endswith(": W80") for one in said)


@pytest.mark.parametrize(("updated", "end"), [("2010-03-01", 2009), ("2012-03-01", 2011), ("2026-03-01", 2025)])
def test_labels_whose_years_are_not_over_are_counted_apart(tmp_path: Path, updated: str, end: int) -> None:
    works = [one | {"updated_date": updated} for one in made_up(400)]
    for name in (ORCID, "10.1/40"):  # the last citers of a single work come long before the end
        out = tmp_path / name.replace("/", "-")
        with serving(Filtering(works, per_page=100)) as server:
            card = build_corpus(source(server, out, name, []), out)
        own = write_own_labels(Corpus.open(out), Silent())
        rows = pl.read_csv(own.file)
        assert card.last_year == end
        assert rows["full_window"].to_list() == [year + 5 <= end for year in rows["year"]]
        assert sum(n for label, n in own.labels.items() if "window open" in label) == (~rows["full_window"]).sum()


class Short(Filtering):
    """Announces four more citers than it sends."""

    def answer(self, query: dict[str, str]) -> Mishap:
        mishap = super().answer(query)
        if "cites:" in query["filter"]:
            answer = json.loads(mishap.body)
            answer["meta"]["count"] += 4
            return replace(mishap, body=json.dumps(answer))
        return mishap


def test_citers_that_do_not_come_stop_the_download_of_own_works(tmp_path: Path) -> None:
    with serving(Short(made_up(400), per_page=100)) as server:
        for _ in range(2):
            with pytest.raises(DataError, match="no more pages, though it said") as caught:
                build_corpus(source(server, tmp_path / "own", ORCID, []), tmp_path / "own")
            assert caught.value.fix == f"to begin again, remove {tmp_path / 'own' / PAGES / 'citers-00001'}"


def test_references_of_a_work_with_a_date_alone_are_fetched(tmp_path: Path) -> None:
    works = [one | ({"publication_year": None} if one["id"] == f"{URL}W40" else {}) for one in made_up(400)]
    (tmp_path / "all.json").write_bytes(line(works))
    build_corpus(PagesSource((tmp_path / "all.json",), OpenAlexChoices()), tmp_path / "all")
    whole = Corpus.open(tmp_path / "all")
    compute_metrics(whole, MetricSettings())
    with serving(Filtering(works, per_page=100)) as server:
        build_corpus(source(server, tmp_path / "own", "W40", []), tmp_path / "own")
    (row,) = pl.read_csv(write_own_labels(Corpus.open(tmp_path / "own"), Silent()).file).to_dicts()
    (truth,) = label_table(whole).filter(pl.col("id") == "W40").to_dicts()
    counted = ("references", "citations", "n_i", "n_j", "n_k", "cd", "cd_status")
    assert [row[name] for name in counted] == [truth[name] for name in counted]
    assert row["references"] > 0


def test_a_file_of_names_that_is_no_utf8_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"10.1/a\n10.1/caf\xe9\n")
    with pytest.raises(ConfigError) as caught:
        read_names(str(tmp_path / "latin.txt"))
    assert caught.value.field == "latin.txt:2"


@pytest.mark.parametrize(
    "text", ["0000-0002-1825-0098", "10.1/a,b", "my papers", "", "S137773608", ",".join(f"W{i}" for i in range(80))]
)
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
