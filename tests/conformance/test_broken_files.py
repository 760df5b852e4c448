"""Files broken at random: each is read, or refused by an error of ours, in bounded time and memory."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_files import FORMATS, mutated

from tinsmith.cli.analyse.inputs import json_of, read_posteriors
from tinsmith.data.baselines.report import read_report
from tinsmith.data.corpus_card import read_card
from tinsmith.data.schema import CARD
from tinsmith.data.slices.card import BASELINES, SLICE, read_slice_card
from tinsmith.engine.checkpoint_files import MARKER
from tinsmith.engine.checkpoint_files import read as read_checkpoint
from tinsmith.lab.runs.files import CONFIG as RUN
from tinsmith.lab.runs.files import MANIFEST, METRICS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.reader import json_lines, read_run
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.folders.stored import INDEX, stored_tensors
from tinsmith.renderers.tokenizer import TOKENIZER_FILES, load_tokenizer
from tinsmith.types.errors import TinsmithError

COUNT = 150
MOST_MEBIBYTES = 512


@pytest.mark.parametrize("name", FORMATS)
def test_a_broken_file_is_an_error_of_ours_or_read(name: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    findings = mutated(FORMATS[name], COUNT, tmp_path)
    assert findings.faults == []
    assert findings.outcomes["CheckpointError"] + findings.outcomes["ConfigError"] > 0
    assert findings.outcomes["read"] > 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 <= MOST_MEBIBYTES


DEEP = {
    "open": "[" * 200_000,
    "closed": '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "objects": '{"x": ' * 5_000 + "1" + "}" * 5_000,
    "long number": '{"x": ' + "1" * 100_000 + "}",
}

READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "model's config": ("config.json", read_config),
    "index of shards": (INDEX, stored_tensors),
    "tokenizer's config": (TOKENIZER_FILES[1], load_tokenizer),
    "corpus card": (CARD, read_card),
    "slice card": (SLICE, read_slice_card),
    "baselines": (BASELINES, read_report),
    "checkpoint's marker": (MARKER, read_checkpoint),
    "run's config": (RUN, read_run),
    "run's manifest, to go on": (MANIFEST, lambda folder: RunFolder(folder).read_json(MANIFEST)),
    "numbers to analyse": ("numbers.json", lambda folder: json_of(folder / "numbers.json")),
    "posteriors to analyse": ("rows.jsonl", lambda folder: read_posteriors(str(folder / "rows.jsonl"), None)),
}


@pytest.mark.parametrize("text", DEEP)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_nested_too_deeply_is_refused_by_name(reader: str, text: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    for each in TOKENIZER_FILES:
        (tmp_path / each).write_text("{}", encoding="utf-8")
    (tmp_path / name).write_text(DEEP[text], encoding="utf-8")
    with pytest.raises(TinsmithError) as caught:
        read(tmp_path)
    assert name in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) < 400


@pytest.mark.parametrize("text", ["closed", "long number"])
def test_a_line_of_a_run_that_is_nested_too_deeply_is_left_out_and_counted(text: str, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text(f'{{"step": 0}}\n{DEEP[text]}\n', encoding="utf-8")
    notes: list[str] = []
    assert list(json_lines(tmp_path / METRICS, dict[str, int], notes)) == [{"step": 0}]
    assert len(notes) == 1
