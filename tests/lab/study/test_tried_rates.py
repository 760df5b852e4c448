"""Rates that were tried: which is chosen, and from which others validation tells it apart."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from fake_runs import BALANCED, LABELS, NO_DISRUPTIVE, Story, write_run
from run_files import write_task_run
from sklearn.metrics import f1_score

from tinsmith.lab.results.arms import gather
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.conduct import chosen, tried_rates
from tinsmith.lab.study.record import Tried
from tinsmith.lab.study.report import LIKE_IT, chance_words, rate_words
from tinsmith.lab.study.study import PerItem
from tinsmith.pages.measures import Measure
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError

STORY = Story(name="sft/lora", question="?", kind="sft", reward=None, steps=20, num_eval=180)
ENDS: Mapping[float, Sequence[Sequence[float]]] = {1e-3: BALANCED, 2e-3: BALANCED, 4e-3: NO_DISRUPTIVE}


def _answers(folder: Path) -> tuple[list[str], list[str]]:
    """Return true labels and answers from the rollouts of the last examination."""
    lines = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    requests = [
        line for line in lines if line["split"] == "eval" and line["step"] == STORY.steps and not line.get("failure")
    ]
    return [line["gold"] for line in requests], [line["predicted"] or "none" for line in requests]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    out = tmp_path_factory.mktemp("tried")
    found: dict[float, Path] = {}
    for place, (rate, end) in enumerate(ENDS.items()):
        found[rate] = write_run(out / str(rate), replace(STORY, end=end, seed=place))
        evaluation = gather(read_run(found[rate])).evaluations.get((Split.EVAL, STORY.steps))
        score = {"value": evaluation.metrics()["eval/macro_f1"], "tie_break": 0.0}
        _put(found[rate], score=score)
    return found


def _put(folder: Path, **changes: object) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    content["selected"] |= changes
    (folder / MANIFEST).write_text(json.dumps(content))


def test_a_rate_as_good_as_the_chosen_one_is_told_from_a_worse_one(folders: dict[float, Path]) -> None:
    tried = tried_rates(folders, Metric.MACRO_F1)
    best = chosen(tried)
    assert best.rate in (1e-3, 2e-3)
    assert best.behind is None
    behind = {one.rate: one.behind for one in tried if one is not best}
    for rate, measure in behind.items():
        first, second = (
            f1_score(*_answers(folders[each]), labels=list(LABELS), average="macro") for each in (best.rate, rate)
        )
        assert measure.value == pytest.approx(first - second, abs=1e-12)
    assert {one.rate for one in tried if one.like_the_chosen} == {1e-3, 2e-3} - {best.rate}
    assert [rate_words(one, best.rate) for one in tried][-1] == ""
    assert sorted(rate_words(one, best.rate) for one in tried[:2]) == ["chosen", LIKE_IT]
    words = chance_words({"SFT": tried})
    assert "1 of 2 others for SFT" in words


def test_the_best_on_validation_is_chosen_then_the_tie_break_then_the_smaller_rate() -> None:
    def tried(rate: float, validation: float, tie_break: float) -> Tried:
        return Tried(rate=rate, validation=validation, tie_break=tie_break)

    assert chosen([tried(1.0, 0.5, 0.0), tried(2.0, 0.6, 0.0)]).rate == 2.0
    assert chosen([tried(1.0, 0.5, 0.1), tried(2.0, 0.5, 0.2)]).rate == 2.0
    assert chosen([tried(2.0, 0.5, 0.2), tried(1.0, 0.5, 0.2)]).rate == 1.0


def test_nothing_is_said_where_every_other_rate_is_worse_or_unknown() -> None:
    worse = Tried(rate=2.0, validation=0.3, tie_break=0.0, behind=Measure(0.2, 0.1, 0.3))
    unknown = Tried(rate=3.0, validation=0.3, tie_break=0.0)
    best = Tried(rate=1.0, validation=0.5, tie_break=0.0)
    assert chance_words({"SFT": [best, worse, unknown], "RL": []}) is None


def test_a_run_without_a_chosen_checkpoint_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "run", STORY)
    with pytest.raises(DataError, match="chose no checkpoint"):
        tried_rates({1e-3: tmp_path / "run"}, Metric.MACRO_F1)


def test_rates_of_a_task_are_chosen_by_the_score_of_the_study(tmp_path: Path) -> None:
    folders = {rate: tmp_path / str(rate) for rate in (1e-3, 2e-3)}
    for place, folder in enumerate(folders.values()):
        _write_answers(folder, right=float(place), letters=2 - place)
    of_text = PerItem("short", "short", answers=lambda some: Fraction(-sum(len(one.text) for one in some), len(some)))
    scores = {
        1e-3: [PerItem("wrong", "wrong", of=lambda values: -max(values)), PerItem("greedy", "greedy", is_greedy=True)],
        2e-3: [PerItem("right", "right"), of_text],
    }
    for rate, some in scores.items():
        assert [chosen(tried_rates(folders, score)).rate for score in some] == [rate] * len(some)


def _write_answers(folder: Path, *, right: float, letters: int) -> None:
    """Write a run whose sampled answers earn `right` and have so many letters; its greedy ones are the other way."""
    rollouts = [
        {"sample": 0, "text": "A" * letters, "step": 3, "split": split, "prompt_id": item, "total": value}
        for split, value in (("eval", right), ("eval_greedy", 1.0 - right))
        for item in ("one", "other")
    ]
    rollouts = [{**line, "terms": {"right": line["total"]}} for line in rollouts]
    write_task_run(folder, {"terms": ["right"], "items": [{"id": "one"}, {"id": "other"}]}, rollouts)
