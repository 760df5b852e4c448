"""Measurements of arms: their files, what is resumed, intervals over seeds, and checks with margins."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tinsmith
from tinsmith import measured
from tinsmith.cli.registered import study_named
from tinsmith.lab.study.files import PAGE, STUDY_JSON, TABLES
from tinsmith.lab.study.record import Column
from tinsmith.lab.user_task.functions import code_sha256
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.waits import unsaid

FIGURES = {"low": (0.1, 0.2, 0.3), "high": (0.5, 0.7, 0.6), "again": (0.5, 0.7, 0.6)}
OUTCOMES = measured.Outcomes(
    {arm: [measured.Outcome(figures={"right": one}) for one in values] for arm, values in FIGURES.items()}
)
YOUR_STUDY = Path(__file__).parents[3] / "docs" / "your-study.md"


@pytest.fixture
def coins(tmp_path: Path) -> Path:
    file = tmp_path / "coins.py"
    file.write_text(YOUR_STUDY.read_text(encoding="utf-8").rpartition("```python\n")[2].partition("```")[0])
    return file


def _run(file: Path, **keys: str) -> Path:
    entry = study_named(str(file))
    return entry.run({"out": str(file.parent / "out"), **keys}, unsaid)


def _heads(folder: Path) -> list[float]:
    figures = json.loads((folder / STUDY_JSON).read_text())["figures"]
    return [figures[arm]["heads"]["value"] for arm in ("fair", "bent")]


def test_the_example_of_the_page_is_run_as_a_study_is(coins: Path) -> None:
    folder = _run(coins)
    kept = json.loads((folder / STUDY_JSON).read_text())
    assert [one["met"] for one in kept["expectations"]] == [True, True]
    assert kept["seeds"] == [1, 2, 3, 4, 5]
    for name in (PAGE, TABLES):
        assert "bent coin" in (folder / name).read_text()
        assert "learning rates" not in (folder / name).read_text()


def test_what_was_measured_is_not_measured_again_and_the_values_are_the_same(coins: Path) -> None:
    folder = _run(coins)
    before = (folder / STUDY_JSON).read_bytes()
    (folder / "cells" / "bent-seed=2.json").unlink()
    (folder / STUDY_JSON).unlink()
    times = {file.name: file.stat().st_ino for file in (folder / "cells").iterdir()}
    _run(coins)
    assert (folder / STUDY_JSON).read_bytes() == before
    assert {name: (folder / "cells" / name).stat().st_ino for name in times} == times


def test_what_other_code_measured_is_measured_again(coins: Path) -> None:
    source = coins.read_text(encoding="utf-8")
    heads = _heads(_run(coins))
    coins.write_text(source.replace("heads / 100", "heads / 200"), encoding="utf-8")
    assert _heads(_run(coins)) == pytest.approx([one / 2 for one in heads])
    files = {file.name: file.stat().st_ino for file in (coins.parent / "out" / "cells").iterdir()}
    caption = source.replace("heads / 100", "heads / 200").replace("Shares of heads", "The share of heads")
    coins.write_text(caption, encoding="utf-8")
    assert {file.name: file.stat().st_ino for file in (_run(coins) / "cells").iterdir()} == files


def test_code_that_has_no_name_in_its_file_is_known_by_the_file() -> None:
    def inner() -> None: ...

    whole = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert code_sha256(inner) == code_sha256(lambda: None) == whole
    assert code_sha256(_run) != whole


def test_a_measurement_in_a_file_is_run_from_python(coins: Path) -> None:
    done = tinsmith.run(coins, seeds="3,4", out=str(coins.parent / "out"))
    assert isinstance(done, tinsmith.StudyRun)
    assert done.values["seeds"] == [3, 4]
    assert done.to_polars().height == len(done.values["arms"])
    assert "</svg>" in done.plot().svg


def test_a_dry_run_of_a_measurement_leaves_nothing(coins: Path) -> None:
    assert not _run(coins, dry_run="true").exists()
    place = coins.parent / "none"
    assert tinsmith.run(coins, out=str(place), dry_run=True).lines
    assert not place.exists()


@pytest.mark.parametrize("seeds", ["1,1", "-1,2", "0,1"])
def test_seeds_that_are_alike_or_chose_the_settings_are_refused(coins: Path, seeds: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _run(coins, seeds=seeds)
    assert refused.value.field == "seeds"


def test_a_difference_is_paired_by_seed() -> None:
    gap = OUTCOMES.gap("high", "low", "right")
    assert gap.value == pytest.approx(0.4)
    assert gap.low == pytest.approx(0.4 - 4.3027 * 0.1 / 3**0.5)


def test_checks_hold_by_whole_intervals_and_margins() -> None:
    def met(check: measured.OutcomeCheck) -> bool:
        return check(OUTCOMES).met

    assert met(measured.above("high", "low", "right", by=0.1))
    assert not met(measured.above("high", "low", "right", by=0.2))
    assert met(measured.above("high", "low", "right", times=3.0))
    assert not met(measured.above("high", "low", "right", times=3.1))
    assert met(measured.same("high", "again", "right"))
    assert not met(measured.same("high", "low", "right"))
    assert met(measured.around("low", "right", 0.2, margin=0.25))
    assert not met(measured.around("low", "right", 0.2, margin=0.24))
    assert met(measured.around("again", "right", "high", margin=0.01))
    assert not met(measured.around("low", "right", "high", margin=0.3))
    assert met(measured.at_least("high", "right", 0.5))
    assert not met(measured.at_least("high", "right", 0.51))


def test_a_figure_that_an_arm_lacks_is_not_known() -> None:
    study = measured.MeasuredStudy(
        name="some",
        question="",
        arms={"low": "low", "high": "high"},
        columns={"right": Column(head="right"), "share": Column(head="share")},
        caption="",
        expectations=(),
    )
    record = measured.recorded(study, OUTCOMES, (1, 2, 3), {}, 1)
    assert record.figures["low"]["share"] is None


def measure(out: Path, outcome: Callable[[str, int], measured.Outcome], seeds: Sequence[int], **parts: Any) -> Path:
    """Return the folder of a study of two arms in one figure, `x`, unless `parts` are other ones."""
    whole = {"arms": {"a": "A", "b": "B"}, "columns": {"x": Column(head="x")}, "expectations": (), **parts}
    study = measured.MeasuredStudy(name="some", question="?", caption="", **whole)
    return measured.compare_arms(study, outcome, out=out, seeds=seeds, settings={}, num_items=1, minutes=0)(unsaid)


@pytest.mark.parametrize(
    ("parts", "field"),
    [({"arms": {"a": "A", "b": "A"}}, "arms.label"), ({"arms": {}}, "arms"), ({"columns": {}}, "columns")],
)
def test_arms_that_are_called_alike_or_are_none_are_refused(parts: Any, field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        measure(tmp_path, lambda *_: measured.Outcome(figures={"x": 1.0}), (1, 2), **parts)
    assert refused.value.field == field
    assert not list(tmp_path.iterdir())


def test_a_figure_that_is_no_number_is_missing_before_and_after_it_is_read_again(tmp_path: Path) -> None:
    figures: list[Any] = [{"x": math.nan}, {"x": None}, {}]
    parts = {"columns": {"x": Column(head="x"), "y": Column(head="y")}}
    parts["expectations"] = [("it is above", measured.above("a", "b", "x"))]

    def outcome(arm: str, seed: int) -> measured.Outcome:
        known = {"x": 0.5, "y": 1.0} if arm == "b" else {"y": 1.0, **figures[seed - 1]}
        return measured.Outcome(figures=known, curve=[(1, math.nan), (2, 0.5)])

    first = (measure(tmp_path, outcome, (1, 2, 3), **parts) / STUDY_JSON).read_bytes()
    values = json.loads(first)
    assert values["figures"]["a"]["x"] is None
    assert values["figures"]["a"]["y"]["value"] == 1.0
    assert not values["expectations"][0]["met"]
    assert {line[1][0] for line in values["curves"][0]["lines"]} == {2}
    times = {file: file.stat().st_ino for file in (tmp_path / "cells").iterdir()}
    assert (measure(tmp_path, outcome, (1, 2, 3), **parts) / STUDY_JSON).read_bytes() == first
    assert {file: file.stat().st_ino for file in (tmp_path / "cells").iterdir()} == times


def test_a_mistyped_arm_of_an_expectation_is_named(tmp_path: Path) -> None:
    expectations = [("a is above", measured.above("arm", "b", "x"))]
    with pytest.raises(DataError) as refused:
        measure(tmp_path, lambda *_: measured.Outcome(figures={"x": 1.0}), (1, 2), expectations=expectations)
    assert (refused.value.field, refused.value.value) == ("expectations", "arm")


def test_one_seed_is_no_interval_around_a_value() -> None:
    one = measured.Outcomes({"a": [measured.Outcome(figures={"x": 0.5})]})
    assert not measured.around("a", "x", 0.5, margin=0.1)(one).met
