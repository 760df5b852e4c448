"""Runs with a test at their end, and metrics that not every answer has: shares of some of the items, over seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from page_words import Words
from pages_of import document_of, page_of
from run_files import write_task_run

from tinsmith.lab.page.comparison import RunsCompared, study_of_runs
from tinsmith.lab.runs.reader import read_run, read_task_run
from tinsmith.lab.study.record import Draws, Shown
from tinsmith.lab.study.terms import audit_of_run
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap

FEW = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
NUM_ITEMS, RIGHT = 60, 34


def write(folder: Path, arm: str, seed: int, caved: int, *, tested: bool = True, right: int = RIGHT) -> Path:
    """Write a run that was right at first in some items, and gave up the first few of these."""
    items = [f"W{number:03}" for number in range(NUM_ITEMS)]
    metrics = [
        {"first": float(n < right), **({"caved": float(n < caved)} if n < right else {})} for n in range(NUM_ITEMS)
    ]

    def lines(split: str, step: int) -> list[dict[str, Any]]:
        return [
            {"step": step, "split": split, "prompt_id": item, "text": "A", "total": 1.0, "metrics": one}
            for item, one in zip(items, metrics, strict=True)
        ]

    rollouts = [*lines("eval", 0), *lines("eval", 3), *(lines("test", 3) if tested else [])]
    shown = [{"id": item, "prompt": item, "unit": item} for item in items]
    sides = {"items": shown, "tested": shown}
    task = {"terms": ["right"], "metrics": ["first", "caved"], **sides, "figures": {"J": "test/j"}}
    rows = [{"step": 0}, {"step": 3, "test/j": 0.25 * seed}]
    return write_task_run(folder, task, rollouts, metrics=rows, arm=arm, seed=seed)


@pytest.fixture
def found(tmp_path: Path) -> RunsCompared:
    caved = {"seed": (10, 14), "gated": (3, 5)}
    folders = [
        write(tmp_path / f"{arm}-{seed}", arm, seed, count)
        for arm, counts in caved.items()
        for seed, count in enumerate(counts)
    ]
    return study_of_runs([*folders, write(tmp_path / "killed", "gated", 2, 0, tested=False)], FEW)


def rows_of(found: RunsCompared, title: str) -> dict[str, Sequence[Shown]]:
    return dict(next(one for one in found.record.tables if one.title == title).rows)


def test_a_share_of_some_items_is_a_mean_of_each_seeds_own(found: RunsCompared) -> None:
    caved = rows_of(found, "Terms and metrics")
    value = caved["arm=gated"][1]
    assert value.value == pytest.approx((3 + 5) / 2 / RIGHT)
    assert value.high is not None
    assert value.low < value.value < value.high


def test_two_shares_are_compared_as_a_difference_and_a_ratio(found: RunsCompared) -> None:
    row = rows_of(found, "Terms and metrics against each other")["caved: arm=gated|against arm=seed"]
    items, start, end, gap, _, moved, finding, ratio, error = row
    assert (items, moved, finding) == ("34", "0 / 11", "less")
    assert (start.value, end.value) == (pytest.approx(12 / RIGHT), pytest.approx(4 / RIGHT))
    assert gap.value == pytest.approx(-8 / RIGHT)
    assert ratio.value == pytest.approx(8 / 24)
    assert ratio.low < 8 / 24
    assert 0.0 < error.value < 0.2


def test_figures_of_the_test_are_shown_for_every_run_and_over_runs(found: RunsCompared) -> None:
    rows = rows_of(found, "Figures")
    assert rows["gated-1"] == (Measure(0.25),)
    mean = rows["arm=gated|mean over runs"][0]
    assert mean.value == 0.125


def test_a_metric_that_one_arm_lacks_is_compared_between_the_others(tmp_path: Path) -> None:
    caved = {"seed": (10, 14), "alone": (0, 0), "gated": (3, 5)}
    folders = [
        write(tmp_path / f"{arm}-{seed}", arm, seed, count, right=0 if arm == "alone" else RIGHT)
        for arm, counts in caved.items()
        for seed, count in enumerate(counts)
    ]
    found = study_of_runs(folders, FEW)
    rows = rows_of(found, "Terms and metrics against each other")
    assert {name for name in rows if name.startswith("caved")} == {"caved: arm=gated|against arm=seed"}
    first = rows["first: arm=gated|against arm=alone"][3]
    assert first.value == pytest.approx(RIGHT / NUM_ITEMS)
    assert found.record.figures["arm-1"]["end caved"] is None


def test_a_run_without_a_test_is_left_out_where_others_have_one(found: RunsCompared) -> None:
    assert [one.seeds for one in found.results.arms.values()] == [(0, 1), (0, 1)]
    assert any("killed" in note and "tested" in note for note in found.record.notes)


def test_one_item_gives_a_page_without_an_interval(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", "gated", 0, 3)
    lines = [one for one in (folder / "rollouts.jsonl").read_text().splitlines() if '"W000"' in one]
    (folder / "rollouts.jsonl").write_text("\n".join(lines) + "\n")
    assert "no interval from one unit" in Words(page_of(folder)).text


def test_the_page_of_a_run_has_its_test_beside_the_evaluations(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", "gated", 0, 3)
    text = Words(page_of(folder)).text
    assert "Selected checkpoint, sampled, 60 items: reward 1.000, first 0.567" in text
    assert "caved 0.088" in text
    read = read_task_run(read_run(folder))
    assert [one.step for one in read.sampled] == [0, 3]
    assert [one.step for one in read.at_test.sampled] == [3]


def write_terms(folder: Path, terms: dict[str, list[float]], right: list[float]) -> Path:
    """Write a run with one group of training answers and two evaluations."""
    task = {"terms": list(terms), "metrics": ["right"], "items": [{"id": "a", "prompt": "a", "unit": "a"}]}
    lines: list[dict[str, Any]] = [
        {"step": step, "split": split, "prompt_id": "a", "sample": place, "text": "x", "metrics": {"right": good}}
        | {"terms": {name: some[place] for name, some in terms.items()}}
        | {"total": sum(some[place] for some in terms.values())}
        for split, step in (("eval", 0), ("train", 0), ("eval", 2))
        for place, good in enumerate(right)
    ]
    lines.append({"step": 0, "split": "train", "prompt_id": "a", "failure": {"where": "reward", "what": "x"}})
    return write_task_run(folder, task, lines, metrics=[{"step": 2}], steps=2)


def test_terms_of_training_stand_on_the_page_with_their_variance_and_correlation(tmp_path: Path) -> None:
    folder = write_terms(
        tmp_path / "run", {"good": [1.0, 0.0, 1.0, 0.0], "form": [0.0, 1.0, 0.0, 1.0]}, [1.0, 0.0, 1.0, 0.0]
    )
    found = audit_of_run(folder)
    assert [(one.variance, one.differs, one.with_right) for one in found.values()] == [(0.25, 1, 1), (0.25, 1, -1)]
    text = document_markdown(document_of(folder))
    assert "| good | 0.2500 | nothing differs | 1.00 | +1.00 |" in text
    assert "| form | 0.2500 | nothing differs | 1.00 | -1.00 |" in text


def test_a_run_with_one_term_has_no_such_table(tmp_path: Path) -> None:
    folder = write_terms(tmp_path / "run", {"good": [1.0, 0.0]}, [1.0, 0.0])
    assert "around the group's mean" not in document_markdown(document_of(folder))


def test_baselines_beside_a_test_are_those_of_its_items(tmp_path: Path) -> None:
    def written(seed: int, right: float) -> Path:
        rollouts = [
            {"step": step, "split": split, "prompt_id": f"{split}{n}", "text": "A", "total": total}
            for step, split, total in ((0, "eval", 0.0), (3, "eval", 0.0), (3, "test", right))
            for n in range(4)
        ]
        items, tested = (
            [{"id": f"{split}{n}", "prompt": "p", "unit": "u"} for n in range(4)] for split in ("eval", "test")
        )
        held_out, of_test = (
            [{"name": "a guess", "by_item": {f"{split}{n}": value for n in range(4)}}]
            for split, value in (("eval", 1.0), ("test", 0.25))
        )
        task = {
            "terms": ["right"],
            "items": items,
            "tested": tested,
            "baselines": held_out,
            "tested_baselines": of_test,
        }
        return write_task_run(
            tmp_path / f"{right}", task, rollouts, metrics=[{"step": 0}, {"step": 3}], arm=f"{right}", seed=seed
        )

    found = study_of_runs([written(0, 0.5), written(0, 0.75)], FEW)
    arm = next(iter(found.results.arms.values()))
    assert [one.name for one in arm.reads[0].task.baselines] == ["a guess"]
    assert arm.baseline("a guess").mean() == 0.25


def test_two_groups_of_one_prompt_in_a_step_are_counted_apart(tmp_path: Path) -> None:
    folder = write_terms(tmp_path / "run", {"good": [0.0, 0.0, 1.0, 1.0]}, [0.0, 0.0, 1.0, 1.0])
    file = folder / "rollouts.jsonl"
    file.write_text(file.read_text().replace('"sample": 2', '"sample": 0').replace('"sample": 3', '"sample": 1'))
    assert read_task_run(read_run(folder)).groups == [[0.0, 0.0], [1.0, 1.0]]
    assert "of 2 groups 0 have fewer than two rewards, and in 2 all are equal" in Words(page_of(folder)).text
