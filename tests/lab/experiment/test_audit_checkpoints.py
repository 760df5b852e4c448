"""An audit of what stands beside the tensors: markers, marks, the end's paths, damaged records, keys."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgeries import forged_tensor, json_changed, line_changed, lines_moved, mark_changed, marker_changed, signed_again

from command_line import command
from tinsmith.cli.registered import plan_of
from tinsmith.engine import checkpoint_files
from tinsmith.lab.difference.runs import Phase
from tinsmith.lab.experiment.audit import Audited, audit
from tinsmith.lab.runs.files import CHECKPOINTS, MANIFEST, METRICS, TRACE
from tinsmith.models.tensor_file import read_fp32
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.seeds import derive
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

STEPS = 4


def drawing(step: int) -> int:
    """Return a random seed that draws a step."""
    return next(s for s in range(99) if min(range(STEPS), key=lambda one: derive(s, "audit", one)) == step)


@pytest.fixture
def forged(original: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be forged."""
    return Path(shutil.copytree(original, tmp_path / "forged"))


def audited(folder: Path, steps: int, seed: int = 1) -> Audited[int]:
    return audit(folder, plan_of, steps=steps, seed=seed, say=unsaid)


def _final_with_a_space(folder: Path) -> None:
    (weights,) = folder.rglob("sampler_weights/final")
    forged_tensor(weights, checkpoint_files.ADAPTER)
    found = read_fp32(weights / checkpoint_files.ADAPTER)
    path = json.loads((folder / MANIFEST).read_text())["selected"]["final_path"]
    hashed = tensors_sha256({name: one.numpy() for name, one in found.items()})
    json_changed(MANIFEST, "selected", "final_path", value=f"{path} ")(folder)
    json_changed(MANIFEST, "hashes", "weights_sha256", value=hashed)(folder)


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (marker_changed("weights/step-000002", "adapter", "alpha", value=256.0), "alpha is 256.0, and 32.0"),
        (marker_changed("weights/step-000002", "step_count", value=5000), "step_count is 5000"),
        (marker_changed("sampler_weights/final", "adapter", "alpha", value=512.0), "alpha is 512.0, and 32.0"),
        (marker_changed("sampler_weights/final", "base", "fingerprint", value="0" * 64), "fingerprint is 000"),
        (json_changed(MANIFEST, "identity", "model", value={}), "the fingerprint of the base is missing"),
        (_final_with_a_space, "selected.final_path is not as a run writes it"),
        (_final_with_a_space, "is not what the trace has"),
        (json_changed(MANIFEST, "selected", "final_path", value=""), "selected.final_path is not as a run writes it"),
        (json_changed(MANIFEST, "selected", value=None), "selected.final_path is not as a run writes it"),
        (json_changed(MANIFEST, "selected", "score", "value", value=float("nan")), "manifest.json cannot be read"),
        (line_changed(METRICS, 4, lambda line: line.update({"train/stopped_at": 3e8})), "stopped_at is not the"),
        (line_changed(METRICS, 4, lambda line: line.update({"train/stopped_at": 1e308})), "stopped_at is not the"),
        (line_changed(METRICS, 1, lambda line: line.update({"train/more": 10**400})), "no line of step 2"),
        (line_changed(TRACE, 3, lambda line: line.update(weights={"lm_head.lora_A.weight": {}})), "trace has"),
        (line_changed(TRACE, 3, lambda line: line.update(weights=[])), "the record is not as a run writes it"),
        (mark_changed(2, "best", value={"sampler_path": "tinker://a/weights/b"}), "no complete checkpoint"),
    ],
)
def test_a_forgery_beside_the_tensors_is_a_contradiction_though_it_was_signed_again(
    forged: Path, forge: Callable[[Path], None], found: str
) -> None:
    forge(forged)
    if found == "no line of step 2":
        lines_moved(METRICS, 0, 1, 3, 4)(forged)
    signed_again(forged)
    assert any(found in fault for fault in audited(forged, 0).faults)


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (marker_changed("weights/step-000002", "adapter", "alpha", value=256.0), "alpha is 256.0"),
        (mark_changed(2, "rewards", "spent", value=True), "kept.rewards.spent is True, and False computed again"),
    ],
)
def test_what_a_run_goes_on_with_from_a_checkpoint_is_compared_with_what_is_computed(
    original: Path, forged: Path, forge: Callable[[Path], None], found: str
) -> None:
    forge(forged)
    assert found in str(audited(forged, 1, seed=drawing(1)).segments[0].element)
    assert audited(original, 1, seed=drawing(1)).passed


def test_an_end_whose_weights_are_of_nobody_is_no_traceback(forged: Path) -> None:
    for path in ("", "tinker://a/weights/b tinker://a/weights/c"):
        json_changed(MANIFEST, "selected", "final_path", value=path)(forged)
        assert not audit(forged, plan_of, steps=0, seed=1, end=True, say=unsaid).passed


def test_what_a_loop_cannot_go_on_with_is_refused(forged: Path) -> None:
    mark_changed(2, "rewards", value={})(forged)
    with pytest.raises(DataError, match="line of step 2 is not as a run writes it"):
        audited(forged, STEPS)


@pytest.mark.parametrize("name", ["norm", "sketch"])
def test_a_forged_norm_or_sketch_is_found_where_its_step_is_drawn(forged: Path, name: str) -> None:
    def forge(line: dict[str, Any]) -> None:
        mark = next(iter(line["weights"].values()))
        mark[name] = 123.0 if name == "norm" else [1.0] * 8

    line_changed(TRACE, 0, forge)(forged)
    signed_again(forged)
    first = audited(forged, 1, seed=drawing(0)).segments[0].first
    assert (first.step, first.phase) == (0, Phase.OPTIMIZER)


def test_a_run_killed_between_two_writes_of_a_step_has_no_contradiction(forged: Path) -> None:
    # As the last two things that a step writes are its line of the trace, and then that of metrics.
    lines_moved(METRICS, 0, 1, 2)(forged)
    manifest = json.loads((forged / MANIFEST).read_text())
    for name in ("selected", "hashes", "trace_links", "alarms"):
        del manifest[name]
    (forged / MANIFEST).write_text(json.dumps({**manifest, "status": "running"}))
    marks = (forged / CHECKPOINTS).read_text().splitlines(keepends=True)
    (forged / CHECKPOINTS).write_text(marks[0])
    assert audited(forged, 0).faults == ()


@pytest.mark.parametrize(
    ("command_line", "field"),
    [
        (("audit", "--steps", 0, "seed=4"), "seed"),
        (("audit", "--steps", 0, "nonsense=4"), "nonsense"),
        (("replay", "--steps", 1, "log_path=foo"), "--out NEW"),
        (("replay", "stop_after=2"), "--steps N"),
    ],
)
def test_a_key_without_a_meaning_is_refused(
    original: Path, capsys: pytest.CaptureFixture[str], command_line: tuple[str, ...], field: str
) -> None:
    verb, *more = command_line
    assert field in command(capsys, verb, original, *more, code=2).err


def test_a_replay_into_a_folder_that_is_not_empty_names_its_option(
    original: Path, forged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = command(capsys, "replay", original, "--out", forged, code=2)
    assert "--out NEW" in refused.err
