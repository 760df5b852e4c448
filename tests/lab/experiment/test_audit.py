"""An audit: drawn steps computed again from checkpoints, and forged values of every kind found by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_slice import Made

from tinsmith.cli import main
from tinsmith.cli.registered import SUBJECTS, find, plan_of
from tinsmith.engine import checkpoint_files
from tinsmith.lab.difference.runs import Phase
from tinsmith.lab.experiment.audit import Audited, audit
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.runs.files import MANIFEST, METRICS, ROLLOUTS, TRACE
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.models.tensor_file import read_fp32, write_tensors
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.seeds import derive

# The SDK leaves sockets to the garbage collector.
pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]

STEPS = 4
FIRST_STEP = next(
    seed for seed in range(99) if derive(seed, "audit", 0) < min(derive(seed, "audit", i) for i in (1, 2, 3))
)
"""A random seed that draws step 0."""
SECOND_STEP = next(
    seed for seed in range(99) if derive(seed, "audit", 1) < min(derive(seed, "audit", i) for i in (0, 2, 3))
)
KEYS = {
    "steps": str(STEPS), "gradient": "exact", "groups_per_batch": "4", "group_size": "2", "lora_rank": "4",
    "eval_every": "0", "save_every": "2", "eval_items": "4", "max_tokens": "8", "learning_rate": "2e-3",
    "quiet": "true", "unit_hashes": "true",
}  # fmt: skip


@pytest.fixture(scope="module")
def original(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    where = {"data": str(made.data), "model_name": str(made.base), "log_path": str(folder)}
    conduct(make_plan(find("remedy/exp6"), {**KEYS, **where}), say=_silent)
    return folder


def _silent(message: str) -> None:
    del message


def audited(folder: Path, steps: int, seed: int = 1) -> Audited:
    return audit(folder, SUBJECTS, plan_of, steps=steps, seed=seed, say=_silent)


def line_changed(name: str, number: int, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        lines = (folder / name).read_text().splitlines(keepends=True)
        line = json.loads(lines[number])
        change(line)
        lines[number] = json.dumps(line, ensure_ascii=False) + "\n"
        (folder / name).write_text("".join(lines))

    return forge


def lines_moved(name: str, *order: int) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(lines[number] for number in order))

    return forge


def _gradient(line: dict[str, Any]) -> None:
    next(iter(line["gradient"].values()))["sha256"] = "0" * 16


def _unit(line: dict[str, Any]) -> None:
    line["units"][1] = "0" * 64


def forged_tensor(weights: Path, file: str) -> tuple[str, np.float32, np.float32]:
    """Forge the first value of a checkpoint's first matrix, and its hashes; return its name and both values."""
    tensors = read_fp32(weights / file)
    name = min(each for each in tensors if tensors[each].ndim == 2)
    before = tensors[name].numpy()[0, 0]
    tensors[name][0, 0] += 1.0
    write_tensors(weights / file, tensors)
    marker = weights / checkpoint_files.MARKER
    said = json.loads(marker.read_text())
    del said["sha256"]
    said["files"][file] = file_sha256(weights / file)
    marker.write_text(json.dumps({**said, "sha256": sha256_of(said)}))
    return name, before, tensors[name].numpy()[0, 0]


def signed_again(folder: Path) -> None:
    """What a forger would do: the manifest names the forged files."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["hashes"] |= RunFolder(folder).hashes()
    manifest["trace_links"] = RunFolder(folder).links(TRACE)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_every_step_is_equal_and_the_folder_stays_as_it_is(original: Path) -> None:
    before = {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}
    done = audited(original, STEPS)
    assert done.passed
    assert done.drawn == (0, 1, 2, 3)
    assert [(each.since, each.until) for each in done.segments] == [(0, 1), (2, 3)]
    assert before == {each: each.read_bytes() for each in sorted(original.rglob("*")) if each.is_file()}


def test_a_draw_follows_from_its_seed_and_says_how_probably_it_finds_a_forged_step() -> None:
    done = Audited(
        seed=1, of_steps=100, drawn=(5, 50, 70), faults=(), segments=(), recorded_judge=None, whole_s=1.0, cpu_s=1.0
    )
    assert done.chance(0.01) == pytest.approx(0.03)
    assert done.chance(0.2) == pytest.approx(1 - 80 * 79 * 78 / (100 * 99 * 98))
    assert done.chance(1.0) == 1.0


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
    original: Path, tmp_path: Path, forge: Callable[[Path], None], found: str
) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    forge(folder)
    done = audited(folder, 0)
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
    original: Path, tmp_path: Path, forge: Callable[[Path], None], phase: Phase
) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    forge(folder)
    signed_again(folder)
    done = audited(folder, 1, seed=FIRST_STEP)
    assert done.drawn == (0,)
    assert not done.faults
    first = done.segments[0].comparison.first
    assert first is not None
    assert (first.step, first.phase) == (0, phase)


def test_a_unit_of_gradient_that_was_forged_and_signed_again_is_named_where_its_step_is_drawn(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    line_changed(TRACE, 0, _unit)(folder)
    signed_again(folder)
    with pytest.raises(SystemExit) as caught:
        main(["audit", str(folder), "--steps", "1", "--seed", str(FIRST_STEP)])
    assert caught.value.code == 1
    (honest, *_) = (json.loads(line)["units"] for line in (original / TRACE).read_text().splitlines())
    named = f"unit of gradient 1 of {len(honest)}: {'0' * 16} | {honest[1][:16]}"
    assert named in capsys.readouterr().out


def test_a_checkpoint_with_a_forged_weight_is_named_though_it_was_signed_again(original: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    (weights,) = folder.rglob("weights/step-000002")
    name, _, _ = forged_tensor(weights, checkpoint_files.ADAPTER)
    (fault,) = audited(folder, 0).faults
    assert name in fault
    assert "after step 1" in fault


def test_a_moment_of_the_optimizer_that_was_forged_and_signed_again_is_named_with_both_values(
    original: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    (weights,) = folder.rglob("weights/step-000002")
    name, before, forged = forged_tensor(weights, checkpoint_files.OPTIMIZER)
    done = audited(folder, 1, seed=SECOND_STEP)
    assert (done.drawn, done.faults) == ((1,), ())
    (segment,) = done.segments
    assert segment.comparison.equal
    assert segment.element is not None
    assert name in segment.element
    assert f"[0, 0] is {forged!s}, and {before!s} computed again" in segment.element
    assert not done.passed


def test_the_command_ends_with_1_where_something_is_forged(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(original, tmp_path / "forged"))
    for code in (0, 1):
        with pytest.raises(SystemExit) as caught:
            main(["audit", str(folder), "--steps", "0", "--seed", "5", "--json"])
        said = json.loads(capsys.readouterr().out)
        assert (caught.value.code or 0) == code
        assert (said["passed"], said["seed"], said["drawn"]) == (code == 0, 5, [])
        lines_moved(METRICS, 1, 0, 2, 3, 4)(folder)
