"""An audit: drawn steps computed again from checkpoints, and forged values of every kind found by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgeries import forged_tensor, json_changed, line_changed, lines_added, lines_moved, signed_again
from own_task import KEYS, NANO

from command_line import command
from tinsmith.cli.registered import plan_of
from tinsmith.engine import checkpoint_files
from tinsmith.lab.difference.runs import Phase
from tinsmith.lab.experiment.audit import Audited, audit, chance
from tinsmith.lab.experiment.audit_units import UnitPlace, audit_units
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.runs.files import CHECKPOINTS, CONFIG, MANIFEST, METRICS, ROLLOUTS, TRACE
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

STEPS = 4
FIRST_STEP = next(
    seed for seed in range(99) if derive(seed, "audit", 0) < min(derive(seed, "audit", i) for i in (1, 2, 3))
)
"""A random seed that draws step 0."""
SECOND_STEP = next(
    seed for seed in range(99) if derive(seed, "audit", 1) < min(derive(seed, "audit", i) for i in (0, 2, 3))
)


@pytest.fixture
def forged(original: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be forged."""
    return Path(shutil.copytree(original, tmp_path / "forged"))


def audited(folder: Path, steps: int, seed: int = 1) -> Audited[int]:
    return audit(folder, plan_of, steps=steps, seed=seed, say=unsaid)


def _gradient(line: dict[str, Any]) -> None:
    next(iter(line["gradient"].values()))["sha256"] = "0" * 16


def _unit(line: dict[str, Any]) -> None:
    line["units"][1] = "0" * 64


def _without_trace(folder: Path) -> None:
    (folder / TRACE).unlink()
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["hashes"]["trace_sha256"]
    (folder / MANIFEST).write_text(json.dumps({**manifest, "trace_links": []}))


def _mark_damaged(folder: Path) -> None:
    marks = (folder / CHECKPOINTS).read_bytes()
    (folder / CHECKPOINTS).write_bytes(marks.replace(b'"step": 2', b'"step": 3', 1))


def _other_weights_chosen(folder: Path) -> None:
    (weights,) = folder.rglob("sampler_weights/final")
    forged = weights.with_name("best-000002")
    shutil.copytree(weights, forged, dirs_exist_ok=True)
    forged_tensor(forged, checkpoint_files.ADAPTER)
    manifest = json.loads((folder / MANIFEST).read_text())
    path = manifest["selected"]["final_path"].replace("final", "best-000002")
    json_changed(MANIFEST, "selected", "step", value=2)(folder)
    json_changed(MANIFEST, "selected", "sampler_path", value=path)(folder)


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (json_changed(CONFIG, "settings", "seed", value=17), "settings.seed is 17"),
        (json_changed(CONFIG, "settings", "steps", value=2), "settings.steps is 2"),
        (json_changed(CONFIG, "identity_sha256", value="0" * 64), "config.json: identity_sha256"),
        (json_changed(MANIFEST, "identity_sha256", value="0" * 64), "manifest.json: identity_sha256"),
        (json_changed(MANIFEST, "hashes", "weights_sha256", value="0" * 64), "weights_sha256"),
        (lines_added(METRICS, 0, 1), "metrics.jsonl has more"),
        (lines_added(METRICS, 4, step=5), "metrics.jsonl has more"),
        (lines_added(ROLLOUTS, 0), "rollouts.jsonl: a line of step 0"),
        (_mark_damaged, "checkpoints.jsonl has 1 damaged line"),
        (_without_trace, "trace.jsonl is missing"),
        (_other_weights_chosen, "is not what the trace has"),
    ],
)
def test_what_no_drawn_step_shows_is_a_contradiction_though_it_was_signed_again(
    forged: Path, forge: Callable[[Path], None], found: str
) -> None:
    forge(forged)
    if (forged / TRACE).exists():
        signed_again(forged)
    assert any(found in fault for fault in audited(forged, 0).faults)


def test_a_question_and_data_that_are_not_those_of_the_plan_are_contradictions(forged: Path) -> None:
    json_changed(CONFIG, "question", value="Does it cure?")(forged)
    json_changed(CONFIG, "data", "train", value=100_000)(forged)
    faults = audited(forged, 1).faults
    assert [fault.partition(" is ")[0] for fault in faults] == ["config.json: question", "config.json: data.train"]


def test_the_end_is_computed_where_it_is_asked_for_and_said_to_be_left_out_elsewhere(
    original: Path, forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number = len((forged / ROLLOUTS).read_text().splitlines()) - 1
    line_changed(ROLLOUTS, number, lambda line: line.update(text="forged"))(forged)
    signed_again(forged)
    assert "--end" in command(capsys, "audit", forged, "--steps", 0).out
    assert audit(original, plan_of, steps=0, seed=1, end=True, say=unsaid).passed
    (segment,) = audit(forged, plan_of, steps=0, seed=1, end=True, say=unsaid).segments
    assert (segment.until, segment.ends, segment.first.phase) == (STEPS, True, Phase.SAMPLE)


def test_a_chosen_policy_that_is_not_the_one_computed_is_named_with_the_end(forged: Path) -> None:
    json_changed(MANIFEST, "selected", "score", value={"value": 9.0, "tie_break": 0.0})(forged)
    (segment,) = audit(forged, plan_of, steps=0, seed=1, end=True, say=unsaid).segments
    assert "selected.score is" in segment.element


FADING = """\
from tinsmith import Scored, StepReward, Task


class Fading(StepReward):
    steps = 0

    def __call__(self, answers):
        self.steps += 1
        return [Scored(terms={"reward": float(self.steps <= 11 and n % 2)}) for n, _ in enumerate(answers)]

    def state(self):
        return self.steps

    def restore(self, state):
        self.steps = state


def task():
    return Task(items=[f"say {n}" for n in range(40)], prompt="{item}", reward=Fading())
"""


def test_a_run_that_ended_early_has_the_steps_that_it_took(tmp_path: Path) -> None:
    file, folder = tmp_path / "flat.py", tmp_path / "run"
    file.write_text(FADING)
    keys = {**KEYS, "steps": "40", "early_stop": "true", "model_name": NANO, "log_path": str(folder)}
    conduct(plan_of(str(file), keys), say=unsaid)
    done = audit(folder, plan_of, steps=1, seed=1, end=True, say=unsaid)
    assert done.passed
    assert 0 < done.of_steps < 40


def test_a_configuration_that_says_where_to_compute_is_refused(forged: Path) -> None:
    json_changed(CONFIG, "overrides", "base_url", value="http://127.0.0.1:9")(forged)
    with pytest.raises(DataError) as caught:
        audited(forged, 1)
    assert caught.value.value == "base_url"


def test_every_step_is_equal_and_the_folder_stays_as_it_is(original: Path) -> None:
    before = {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}
    done = audited(original, STEPS)
    assert done.passed
    assert done.drawn == (0, 1, 2, 3)
    assert [(each.since, each.until) for each in done.segments] == [(0, 1), (2, 3)]
    assert before == {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}


def test_a_draw_says_how_probably_it_finds_a_forged_step_or_unit() -> None:
    assert chance(100, 3, 0.01) == pytest.approx(0.03)
    assert chance(100, 3, 0.2) == pytest.approx(1 - 80 * 79 * 78 / (100 * 99 * 98))
    assert chance(100, 3, 1.0) == 1.0


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (line_changed(ROLLOUTS, 3, lambda line: line.update(text="forged")), "rollouts.jsonl"),
        (line_changed(METRICS, 1, lambda line: line.update({"optim/loss": 0.5})), "metrics.jsonl"),
        (line_changed(TRACE, 0, _gradient), "trace.jsonl"),
        (line_changed(TRACE, 0, _gradient), "trace.jsonl: line 1 is the first"),
        (lines_moved(TRACE, 0, 2, 3), "trace.jsonl has no line of step 1"),
        (lines_moved(TRACE, 0, 2, 3), "trace.jsonl: line 2 is the first"),
        (lines_moved(TRACE, 0, 1, 3, 2), "trace.jsonl: line 3 is the first"),
        (lines_moved(TRACE, 0, 1, 2), "trace.jsonl: line 4 is the first"),
    ],
)
def test_a_forged_file_is_not_the_one_that_the_manifest_names(
    forged: Path, forge: Callable[[Path], None], found: str
) -> None:
    forge(forged)
    done = audited(forged, 0)
    assert not done.passed
    assert any(found in fault for fault in done.faults)


@pytest.mark.parametrize(
    ("forge", "phase"),
    [
        (line_changed(ROLLOUTS, 0, lambda line: line.update(text="forged")), Phase.SAMPLE),
        (line_changed(ROLLOUTS, 0, lambda line: line.update(total=0.875)), Phase.REWARD),
        (line_changed(TRACE, 0, _gradient), Phase.GRADIENT),
        (line_changed(METRICS, 0, lambda line: line.update({"optim/loss": 0.5})), Phase.METRICS),
    ],
)
def test_a_value_that_was_forged_and_signed_again_is_found_where_its_step_is_drawn(
    forged: Path, forge: Callable[[Path], None], phase: Phase
) -> None:
    forge(forged)
    signed_again(forged)
    done = audited(forged, 1, seed=FIRST_STEP)
    assert done.drawn == (0,)
    assert not done.faults
    first = done.segments[0].first
    assert (first.step, first.phase) == (0, phase)


def test_a_line_that_says_a_value_twice_is_another(forged: Path) -> None:
    lines = (forged / ROLLOUTS).read_text()
    (forged / ROLLOUTS).write_text(lines.replace('"text": ', '"text": "forged", "text": ', 1))
    signed_again(forged)
    first = audited(forged, 1, seed=FIRST_STEP).segments[0].first
    assert (first.step, first.phase) == (0, Phase.BYTES)


def test_a_unit_of_gradient_that_was_forged_and_signed_again_is_named_where_its_step_is_drawn(
    original: Path, forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line_changed(TRACE, 0, _unit)(forged)
    signed_again(forged)
    ran = command(capsys, "audit", forged, "--steps", 1, "--seed", FIRST_STEP, code=1)
    (honest, *_) = (json.loads(line)["units"] for line in (original / TRACE).read_text().splitlines())
    named = f"unit of gradient 1 of {len(honest)}: {'0' * 16} | {honest[1][:16]}"
    assert named in ran.out


def test_a_checkpoint_with_a_forged_weight_is_named_though_it_was_signed_again(forged: Path) -> None:
    (weights,) = forged.rglob("weights/step-000002")
    name, _, _ = forged_tensor(weights, checkpoint_files.ADAPTER)
    (fault,) = audited(forged, 0).faults
    assert name in fault
    assert "optimizer step 2" in fault


def test_a_moment_of_the_optimizer_that_was_forged_and_signed_again_is_named_with_both_values(forged: Path) -> None:
    (weights,) = forged.rglob("weights/step-000002")
    name, before, after = forged_tensor(weights, checkpoint_files.OPTIMIZER)
    done = audited(forged, 1, seed=SECOND_STEP)
    assert (done.drawn, done.faults) == ((1,), ())
    (segment,) = done.segments
    assert segment.first is None
    assert name in segment.element
    assert f"[0, 0] is {after!s}, and {before!s} computed again" in segment.element
    assert not done.passed


def test_the_command_ends_with_1_where_something_is_forged(forged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for code in (0, 1):
        ran = command(capsys, "audit", forged, "--steps", 0, "--seed", 5, "--json")
        values = json.loads(ran.out)
        assert ran.code == code
        assert (values["passed"], values["seed"], values["drawn"], values["segments"]) == (code == 0, 5, [], [])
        assert not values.keys() & {"of_units", "differences", "whole_steps"}
        lines_moved(METRICS, 1, 0, 2, 3, 4)(forged)


def audited_units(folder: Path, share: float = 1.0, seed: int = 1) -> Audited[UnitPlace]:
    return audit_units(folder, plan_of, share=share, seed=seed, say=unsaid)


def places(folder: Path) -> list[UnitPlace]:
    lines = [json.loads(line) for line in (folder / TRACE).read_text().splitlines()]
    return [UnitPlace(one["step"], one["substep"], unit) for one in lines for unit in range(len(one["units"]))]


def test_every_unit_is_equal_and_the_folder_stays_as_it_is(original: Path) -> None:
    before = {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}
    done = audited_units(original)
    assert (done.faults, done.differences) == ((), ())
    assert list(done.drawn) == places(original)
    assert done.whole_steps == 2  # 0 and 2: checkpoints stand before steps 0 and 2
    assert before == {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}


def test_units_are_drawn_by_a_seed_over_the_whole_run_and_never_none(original: Path) -> None:
    every = places(original)
    first, again, other = (audited_units(original, 0.01, seed) for seed in (3, 3, 4))
    assert first.drawn == again.drawn != other.drawn
    assert len(first.drawn) == max(1, round(0.01 * len(every)))
    assert set(first.drawn) <= set(every)
    assert first.chance(1.0) == 1.0


def test_a_unit_that_was_forged_and_signed_again_is_named_with_its_step_where_it_is_drawn(
    original: Path, forged: Path
) -> None:
    line_changed(TRACE, 3, _unit)(forged)
    signed_again(forged)
    done = audited_units(forged)
    (first,) = done.differences
    assert not done.faults
    assert (first.step, first.unit.unit, first.unit.first) == (3, 1, "0" * 64)
    honest = json.loads((original / TRACE).read_text().splitlines()[3])["units"]
    assert (first.unit.second, first.unit.of_units) == (honest[1], len(honest))
    assert not done.passed


def _rewarded(line: dict[str, Any]) -> None:
    line["total"] += 0.125


def _replied(line: dict[str, Any]) -> None:
    line["tokens"][0] += 1


@pytest.mark.parametrize(("change", "phase"), [(_rewarded, Phase.REWARD), (_replied, Phase.SAMPLE)])
def test_a_rollout_that_was_forged_and_signed_again_shows_where_a_unit_of_its_step_is_drawn(
    forged: Path, change: Callable[[dict[str, Any]], None], phase: Phase
) -> None:
    line_changed(ROLLOUTS, 0, change)(forged)
    signed_again(forged)
    first, *_ = audited_units(forged).differences
    assert (first.step, first.phase) == (0, phase)


def test_units_that_are_left_out_of_a_line_of_the_trace_are_missed(forged: Path) -> None:
    line_changed(TRACE, 1, lambda line: line["units"].pop())(forged)
    line_changed(TRACE, 2, lambda line: line.pop("units"))(forged)
    signed_again(forged)
    done = audited_units(forged)
    assert any("step 2" in fault for fault in done.faults)
    first, *_ = done.differences
    assert (first.step, first.unit.first) == (1, "absent")


def test_the_json_of_units_has_their_differences_and_no_segments(
    forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(command(capsys, "audit", forged, "--units", "0.1%", "--seed", 1, "--json").out)
    assert (values["passed"], values["of_units"], values["differences"]) == (True, len(places(forged)), [])
    assert "segments" not in values


def test_a_run_without_hashes_of_units_is_refused_with_what_to_do(
    forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(STEPS):
        line_changed(TRACE, number, lambda line: line.pop("units"))(forged)
    for requests in (["--units", "1%"], ["--units", "1%", "--steps", "3"], ["--units", "0%"]):
        refused = command(capsys, "audit", forged, *requests, code=2)
        assert "--units" in refused.err


def test_the_command_says_what_of_the_units_was_checked_and_ends_with_1_where_one_is_forged(
    forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line_changed(TRACE, 0, _unit)(forged)
    signed_again(forged)
    words = command(capsys, "audit", forged, "--units", "100%", "--seed", 1, code=1).out
    count = len(places(forged))
    assert f"{count} units of {count}" in words
    assert "unit of gradient 1 of " in words
    assert "20% forged: 100%" in words
