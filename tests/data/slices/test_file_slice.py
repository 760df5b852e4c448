"""Slices of a file of labelled papers: the source notes' shuffle, checked labels, and no paper in two splits."""

import gzip
import json
import random
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from labelled import labelled_corpus

from command_line import Run, command
from tinsmith.data.labels import SEED_CUT, Thresholds
from tinsmith.data.quarantine import QUARANTINE
from tinsmith.data.slices.card import SliceCard, read_slice_card
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.file_slice import FileChoices, make_file_slice
from tinsmith.data.slices.leave_out import LeftOut
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import Caps, SliceSettings, Task
from tinsmith.data.slices.splits import Split, SplitScheme
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.papers.labels import Labels, PapersOf
from tinsmith.lab.papers.worlds import labelled
from tinsmith.pages.cards import slice_page
from tinsmith.pages.page import document_html
from tinsmith.types.errors import ConfigError, DataError

Record = dict[str, Any]
PAGE = Path(__file__).parents[3] / "docs" / "data.md"
CD = {"disruptive": 0.2, "consolidating": -0.001, "neutral": 0.0}


def paper(number: int, **changed: object) -> Record:
    """Return one line of the source notes' file."""
    label = tuple(CD)[number % 3]
    return {
        "openalex_id": f"W{1000 + number}",
        "title": f"Paper {number}",
        "abstract": f"Text number {number} on lattices.",
        "publication_year": 1990 + number % 30,
        "cited_by_count": number,
        "cd_index": CD[label],
        "novelty_score": 0.5,
        "conventionality_score": 0.5,
        "disruption_label": label,
        "novelty_label": "balanced",
        "primary_field": "Physics",
        "concepts": ["a", "b"],
        **changed,
    }


def written(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def settings(train: int | None = 60, test: int | None = 20, **changed: Any) -> SliceSettings:
    values: dict[str, Any] = {"task": Task.DISRUPTION, "thresholds": Thresholds(cut=SEED_CUT), "per_class": None}
    values |= {"caps": Caps(train=train, test=test), "scheme": SplitScheme.SHUFFLED}
    return SliceSettings(**values | changed)


CHECKED = FileChoices(frozenset({Task.DISRUPTION, Task.NOVELTY}))


def sliced(tmp_path: Path, records: list[Record], **changed: Any) -> tuple[SliceCard, dict[Split, list[str]]]:
    given = changed.pop("settings", settings())
    card = make_file_slice(written(tmp_path / "p.jsonl", records), given, tmp_path / "s", **changed)
    opened = Slice.open(tmp_path / "s")
    return card, {split: [row.openalex_id for row in opened.rows(split)] for split in Split}


def test_the_split_is_that_of_the_source_notes_loader(tmp_path: Path) -> None:
    records = [paper(number) for number in range(120)]
    card, ids = sliced(tmp_path, records, choices=CHECKED)
    order = [record["openalex_id"] for record in records]
    random.Random(0).shuffle(order)
    assert (ids[Split.TRAIN], ids[Split.TEST], ids[Split.VALIDATION]) == (order[:60], order[60:80], order[80:100])
    first = json.loads((tmp_path / "s" / "train.jsonl").read_text().splitlines()[0])
    assert first == next(record for record in records if record["openalex_id"] == order[0])
    assert card.file
    assert card.file.contradicted == {"disruption": 0, "novelty": 0}
    assert sum(card.removed.values()) + sum(card.pool.values()) == 120 == card.corpus.papers
    assert any("not by year" in note for note in card.notes)


def test_compression_changes_nothing_and_another_order_of_lines_is_another_slice(tmp_path: Path) -> None:
    records = [paper(number) for number in range(120)]
    card, _ = sliced(tmp_path, records)
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "p.jsonl").read_bytes()))
    assert make_file_slice(packed, settings(), tmp_path / "s") == card
    turned = written(tmp_path / "q.jsonl", records[::-1])
    with pytest.raises(ConfigError, match="another corpus"):
        make_file_slice(turned, settings(), tmp_path / "s")
    assert read_slice_card(tmp_path / "s") == card
    assert make_file_slice(turned, settings(), tmp_path / "s", force=True).corpus != card.corpus


def test_without_numbers_everything_is_split_by_the_shares(tmp_path: Path) -> None:
    _, ids = sliced(tmp_path, [paper(number) for number in range(120)], settings=settings(None, None))
    assert {split: len(some) for split, some in ids.items()} == {"train": 96, "validation": 12, "test": 12}


def test_scores_of_another_task_may_be_null_or_absent(tmp_path: Path) -> None:
    records = [paper(number, novelty_score=None, novelty_label=None, concepts=None) for number in range(120)]
    for record in records[::2]:
        del record["conventionality_score"]
    card, _ = sliced(tmp_path, records)
    assert card.splits[Split.TRAIN].novelty["undefined"] == 60
    assert slice_page(Slice.open(tmp_path / "s")).title == "Natural disruption slice of 100 papers"
    with pytest.raises(DataError, match="120 without a novelty label"):
        sliced(tmp_path, records, settings=settings(task=Task.JOINT), force=True)


def test_labels_that_contradict_their_scores_are_counted_and_many_are_refused(tmp_path: Path) -> None:
    records = [paper(number) for number in range(120)]
    records[3] |= {"disruption_label": "neutral"}
    records[6] |= {"cd_index": None}
    card, _ = sliced(tmp_path, records, choices=CHECKED)
    assert card.file
    assert card.file.contradicted == {"disruption": 2, "novelty": 0}
    with pytest.raises(DataError) as error:  # 40 papers have exactly -0.001
        sliced(tmp_path, records, choices=CHECKED, settings=settings(thresholds=Thresholds(cut=0.01)), force=True)
    assert error.value.field == "--cut"
    card, _ = sliced(tmp_path, records, force=True)
    assert card.file
    assert (card.file.contradicted, card.cut) == ({}, "not named")


def test_malformed_lines_and_repeated_ids_are_set_aside(tmp_path: Path) -> None:
    records = [paper(number) for number in range(120)]
    path = written(tmp_path / "p.jsonl", [*records, paper(120, disruption_label="Neutral"), paper(7, title="Other")])
    with path.open("a") as file:
        file.write('{"openalex_id": "W9", "title": \n')
    card = make_file_slice(path, settings(), tmp_path / "s")
    assert card.file
    assert (card.file.quarantined, card.corpus.papers) == (3, 123)
    entries = [json.loads(line) for line in (tmp_path / "s" / "quarantine.jsonl").read_text().splitlines()]
    assert [entry["line"] for entry in entries] == [121, 122, 123]
    with path.open("a") as file:
        file.write("7\n8\n")
    with pytest.raises(DataError, match="5 of 125 lines"):
        make_file_slice(path, settings(), tmp_path / "t")
    assert not (tmp_path / "t").exists()
    assert make_file_slice(path, settings(), tmp_path / "t", choices=FileChoices(skip_bad=True)).corpus.papers == 125


def test_no_text_is_in_two_splits(tmp_path: Path) -> None:
    order = list(range(120))
    random.Random(0).shuffle(order)
    records = [paper(number) for number in range(120)]
    trained, tested = order[0], order[60]
    records[tested] |= {"title": records[trained]["title"].upper(), "abstract": records[trained]["abstract"] + "!"}
    twice = order[1]
    records[twice] |= {key: records[trained][key] for key in ("title", "abstract")}
    card, ids = sliced(tmp_path, records)
    assert ids[Split.TRAIN] == [f"W{1000 + number}" for number in order[:60]]
    assert ids[Split.TEST] == [f"W{1000 + number}" for number in order[61:81]]
    assert card.removed["with the text of a paper in another split"] == 1


def test_papers_and_values_are_left_out(tmp_path: Path) -> None:
    records = [paper(number, title="" if number == 5 else f"Paper {number}") for number in range(120)]
    given = settings(citations=False, year=False)
    card, ids = sliced(tmp_path, records, settings=given, left_out=LeftOut({"W1000", "W1"}))
    assert (card.removed["left out by id"], card.removed["without a title"]) == (1, 1)
    assert not {"W1000", "W1005"} & {name for some in ids.values() for name in some}
    row = next(Slice.open(tmp_path / "s").rows(Split.TEST))
    assert (row.cited_by_count, row.publication_year) == (None, None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (settings(90, 20), "--test"),
        (settings(60, 40), "--train"),
        (settings(None, 95), "--test"),
        (settings(caps=Caps(validation=91)), "--validation"),
        (settings(caps=Caps(train=60, test=20, validation=21)), "--validation"),
        (settings(per_class=10), "--per-class"),
        (settings(full_window=True), "--full-window"),
        (settings(scheme=SplitScheme.NATIVE), "--splits"),
    ],
)
def test_what_a_file_cannot_give_is_refused(tmp_path: Path, given: SliceSettings, field: str) -> None:
    with pytest.raises(ConfigError) as error:
        sliced(tmp_path, [paper(number) for number in range(100)], settings=given)
    assert error.value.field == field
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("caps", "sizes"),
    [
        (Caps(test=300), (267, 33, 300)),
        (Caps(test=20), (560, 20, 20)),
        (Caps(train=500, test=80), (500, 20, 80)),
        (Caps(validation=60), (480, 60, 60)),
    ],
)
def test_validation_takes_its_part_of_what_is_left(tmp_path: Path, caps: Caps, sizes: tuple[int, ...]) -> None:
    _, ids = sliced(tmp_path, [paper(number) for number in range(600)], settings=settings(caps=caps))
    assert tuple(len(ids[split]) for split in Split) == sizes


def test_numbers_that_leave_no_validation_are_answered_with_some_that_work(tmp_path: Path) -> None:
    records = [paper(number) for number in range(550)]
    with pytest.raises(ConfigError) as error:
        sliced(tmp_path, records, settings=settings(500, 50))
    assert error.value.fix is not None
    names = re.findall(r"--(\w+) (\d+)", error.value.fix)
    _, ids = sliced(tmp_path, records, settings=settings(caps=Caps(**{name: int(number) for name, number in names})))
    assert {split: len(some) for split, some in ids.items()} == {"train": 450, "validation": 50, "test": 50}


def test_other_checks_of_a_file_are_another_slice_and_said_to_be(tmp_path: Path) -> None:
    records = [paper(number) for number in range(120)]
    sliced(tmp_path, records)
    with pytest.raises(ConfigError, match="other checks"):
        sliced(tmp_path, records, choices=CHECKED)


def test_another_slice_leaves_no_record_set_aside_before(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", [paper(number) for number in range(120)])
    with path.open("a") as file:
        file.write('{"openalex_id": "W9", "title": \n')
    make_file_slice(path, settings(), tmp_path / "s")
    assert (tmp_path / "s" / QUARANTINE).exists()
    corpus = labelled_corpus(tmp_path / "corpus", 600)
    make_slice(corpus, settings(caps=Caps(), scheme=SplitScheme.NATIVE), tmp_path / "s", force=True)
    assert not (tmp_path / "s" / QUARANTINE).exists()


@pytest.mark.parametrize("checked", [True, False])
def test_the_page_counts_the_files_own_labels(tmp_path: Path, checked: bool) -> None:
    records = [paper(number, cd_index=10 * CD[tuple(CD)[number % 3]] / 20) for number in range(120)]
    choices = FileChoices(frozenset({Task.DISRUPTION}) if checked else frozenset())
    given = settings(thresholds=Thresholds(cut=0.0005))
    card, _ = sliced(tmp_path, records, settings=given, choices=choices)
    page = document_html(slice_page(Slice.open(tmp_path / "s")))
    counts = [sum(one.disruption[name] for one in card.splits.values()) for name in CD]
    described = re.search(r"Distribution of 100 CD indices[^<]*", page)
    assert described is not None
    assert f"{counts[0]} disruptive, {counts[1]} consolidating, {counts[2]} neutral" in described[0]
    assert ("0.0005" in described[0], "Dashed lines: the cut" in page) == (checked, checked)


def test_a_table_is_answered_with_its_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pl.DataFrame([paper(number) for number in range(20)]).drop("concepts")
    frame.write_csv(tmp_path / "p.csv")
    frame.write_parquet(tmp_path / "p.parquet")
    for name, reader in (("p.csv", "read_csv"), ("p.parquet", "read_parquet")):
        err = command(capsys, "data", "slice", tmp_path / name, "--out", tmp_path / "s", code=2).err
        assert reader in err
        assert "write_ndjson" in err


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("--natural", "--natural"),
        ("--oversample", "--oversample"),
        ("--mode legacy", "--mode"),
        ("--splits legacy", "--splits = 'legacy'"),
        ("--validation 0", "validation"),
    ],
)
def test_options_without_effect_on_a_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, field: str
) -> None:
    path = written(tmp_path / "p.jsonl", [paper(number) for number in range(120)])
    err = command(capsys, "data", "slice", path, "--out", tmp_path / "s", *given.split(), code=2).err
    assert f"field: {field}" in err
    assert "<" not in err


def test_a_file_that_is_not_there_is_no_corpus_to_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = command(capsys, "data", "slice", tmp_path / "typo.jsonl", "--out", tmp_path / "s", code=2).err
    assert "no such file or corpus" in err
    assert "typo.jsonl" in err


def test_the_files_own_folder_and_other_spellings_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "train.jsonl", [paper(number) for number in range(100)])
    with pytest.raises(ConfigError, match="a folder of its own"):
        make_file_slice(path, settings(), tmp_path)
    other = written(tmp_path / "q.jsonl", [{"OpenAlex ID": f"W{number}"} for number in range(9)])
    with pytest.raises(DataError, match="not spelled"):
        make_file_slice(other, settings(), tmp_path / "s")


def test_the_pages_command_line_and_what_takes_the_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"^tinsmith (data slice (\S+\.jsonl) .*?)( +#.*)?$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    Path(found[2]).parent.mkdir()
    records = [paper(number) for number in range(120)]
    written(Path(found[2]), records)
    fewer = found[1].replace("--train 5000", "--train 60").replace("--test 500", "--test 20")
    assert "60" in fewer
    run: Run = partial(command, capsys)
    run(*shlex.split(fewer), code=0)
    card = read_slice_card(Path("slice"))
    assert (card.rows, card.cut, len(card.file.contradicted) if card.file else 0) == (100, "±0.001", 1)
    run("data", "card", "slice", code=0)
    items = Labels("disruption", data="slice").items
    assert isinstance(items, PapersOf)
    assert len(list(items)) == 60


def test_records_under_these_names_are_labelled_papers_in_python() -> None:
    task = make_task("disruption", prompt="plain", contract="two_key", with_metadata=True)
    records = [paper(number) for number in range(6)]
    items = labelled(records, None, task)
    assert [item.golds for item in items] == [(record["disruption_label"],) for record in records]
    assert (items[1].paper.year, items[1].paper.citations, items[1].hidden[0]) == (1991, 1, -0.001)
    again = labelled(records, ["neutral"] * 6, task)
    assert [item.paper for item in again] == [item.paper for item in items]
    with pytest.raises(DataError, match="not a label of disruption"):
        labelled([paper(0, disruption_label="odd")], None, task)
