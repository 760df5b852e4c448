"""Two runs set against each other: equal, or the first step, phase, rollout and tensor that differ, and by how much."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_files import write_files

from command_line import command
from tinsmith.lab.difference.rollouts import RolloutDifference
from tinsmith.lab.difference.runs import Comparison, Difference, Phase, compare_runs, comparison_json, comparison_lines
from tinsmith.types.errors import DataError

STEPS = 3
TENSORS = ("layers.0.a", "layers.0.b", "layers.1.a")
Files = dict[str, Any]
"""Contents by name: an object, or lines."""


def rollout(step: int, split: str, prompt: int, sample: int) -> dict[str, Any]:
    reward = {"terms": {"parse": 0.5, "task": 1.0}, "total": 1.5, "advantage": 0.25}
    return {
        "step": step,
        "split": split,
        "prompt_id": f"p{prompt}",
        "sample": sample,
        "tokens": [5, 6, 7, step],
        "logprobs": [-0.5, -1.25, -0.125, -2.0],
        "text": "yes",
        "outcome": "ok",
        "gold": "neutral",
        "predicted": "neutral",
        **(reward if split == "train" else {}),
    }


def marks(value: float) -> dict[str, Any]:
    return {name: {"sha256": f"{value + i}", "norm": 2.0, "sketch": [value + i] * 8} for i, name in enumerate(TENSORS)}


def files() -> Files:
    """Return the files of a run of three steps; its last evaluation is of step 3, and its test of step 1."""
    rollouts = [rollout(0, "eval", 9, 0)]
    for step in range(STEPS):
        rollouts += [rollout(step, "train", prompt, i) for prompt in (1, 2) for i in (0, 1)]
    rollouts += [rollout(STEPS, "eval", 9, 0), rollout(1, "test", 8, 0)]
    return {
        "config.json": {"name": "ladder/exp4", "settings": {"steps": STEPS}},
        "manifest.json": {
            "status": "finished",
            "identity": {"tinsmith": "0.1.0", "deviation": "none", "frame": {"task": "x"}},
            "circumstances": {"threads": 1, "cpu_flags": ["avx", "fma"], "log_path": "/one"},
            "hashes": {"weights_sha256": "aa"},
        },
        "rollouts.jsonl": rollouts,
        "trace.jsonl": [
            {"step": step, "substep": i, "gradient": marks(step), "weights": marks(step + 10)}
            for step in range(STEPS)
            for i in (0, 1)
        ],
        "metrics.jsonl": [{"step": step, "train/nll": 1.0} for step in range(STEPS + 1)],
    }


def compared(tmp_path: Path, change: Callable[[Files], object], *, steps: int | None = None) -> Comparison:
    changed = files()
    change(changed)
    pair = write_files(tmp_path / "one", files()), write_files(tmp_path / "two", changed)
    return compare_runs(pair, steps=steps)


def in_rollouts(tmp_path: Path, change: Callable[[Files], object]) -> tuple[Difference, RolloutDifference]:
    found = compared(tmp_path, change).first
    assert found.rollout is not None
    return found, found.rollout


def train(contents: Files, step: int) -> list[dict[str, Any]]:
    return [line for line in contents["rollouts.jsonl"] if (line["step"], line["split"]) == (step, "train")]


def ulp(value: float) -> float:
    """The next fp32 value away from zero."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", bits + 1))[0]


# Equal


def test_equal_runs_are_equal_whatever_was_around_them(tmp_path: Path) -> None:
    def moved(two: Files) -> None:
        around = two["manifest.json"]["circumstances"]
        around |= {"threads": 2, "cpu_flags": ["avx", "fma", "avx512f"], "log_path": "/two"}
        two["timings.jsonl"] = [{"step": 0, "step_s": 1.0}]

    found = compared(tmp_path, moved)
    assert (found.equal, found.steps) == (True, STEPS + 1)
    assert not found.identity
    assert [(each.name, each.first, each.second) for each in found.circumstances] == [
        ("cpu_flags", ["avx", "fma"], ["avx512f"]),
        ("threads", 1, 2),
    ]
    assert comparison_lines(found)[0] == "equal: 4 recorded steps, bit for bit"


# One test a phase


def test_one_bit_of_one_logprob_is_a_difference_in_sampling(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        one = train(two, 1)[2]["logprobs"]
        one[1] = ulp(one[1])
        train(two, 2)[0]["tokens"][0] = 1  # later: not the first

    found, first = in_rollouts(tmp_path, changed)
    assert (found.step, found.phase) == (1, Phase.SAMPLE)
    place = (first.split, first.prompt_id, first.sample, first.field, first.token)
    assert place == ("train", "p2", 0, "logprobs", 1)
    assert (first.rollouts, first.of_rollouts, first.tokens, first.of_tokens) == (1, 4, 1, 16)
    assert first.max_logprob == -1.25 - ulp(-1.25) > 0.0
    assert first.max_reward == 0.0


def test_after_another_token_logprobs_are_not_set_against_each_other(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        one, other = train(two, 0)[1], train(two, 0)[3]
        one["tokens"] = [5, 60, 70]
        one["logprobs"] = [-0.5, -9.0, -9.0]
        other["logprobs"][0] = -0.625

    _, first = in_rollouts(tmp_path, changed)
    assert (first.sample, first.field, first.token) == (1, "tokens", 1)
    assert (first.first, first.second) == (6, 60)
    assert (first.rollouts, first.tokens, first.max_logprob) == (2, 3 + 1, 0.125)


def test_an_evaluation_is_named(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        two["rollouts.jsonl"][0]["tokens"][2] = 1
        train(two, 0)[0]["tokens"][0] = 1

    found = compared(tmp_path, changed)
    assert (found.first.step, found.first.rollout.split) == (0, "eval")
    assert "eval, prompt p9, sample 0, token 2: tokens 7 | 1" in comparison_lines(found)[1]


def test_the_test_of_an_earlier_checkpoint_comes_last(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        two["rollouts.jsonl"][-1]["tokens"][0] = 1
        two["trace.jsonl"][-1]["weights"] = marks(0.0)

    found = compared(tmp_path, changed).first
    assert (found.step, found.phase) == (2, Phase.OPTIMIZER)


def test_rollouts_of_other_prompts_or_in_another_order(tmp_path: Path) -> None:
    def other(two: Files) -> None:
        train(two, 1)[0]["prompt_id"] = "p7"

    found, first = in_rollouts(tmp_path, other)
    assert (found.phase, first.field, first.prompt_id) == (Phase.SAMPLE, "rollout", "p1")
    assert (first.first, first.second, first.rollouts) == ("there", "absent", 2)

    def order(two: Files) -> None:
        lines = two["rollouts.jsonl"]
        lines[2], lines[3] = lines[3], lines[2]

    (tmp_path / "order").mkdir()
    found, first = in_rollouts(tmp_path / "order", order)
    assert (found.phase, first.field) == (Phase.SAMPLE, "order")


def test_a_failed_rollout_is_a_difference_in_sampling(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        line = train(two, 0)[0]
        place = {name: line[name] for name in ("step", "split", "prompt_id", "sample", "gold")}
        line.clear()
        line |= {**place, "failure": {"where": "sample", "what": "TimeoutError"}}

    found, first = in_rollouts(tmp_path, changed)
    assert (found.phase, first.tokens) == (Phase.SAMPLE, 4)


def test_the_same_answers_with_other_rewards(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        for line in train(two, 2)[1:]:
            line["terms"] = {"parse": 0.5, "task": 3.0}
            line["total"] = 3.5

    found, first = in_rollouts(tmp_path, changed)
    assert (found.step, found.phase) == (2, Phase.REWARD)
    assert (first.prompt_id, first.sample, first.field) == ("p1", 1, "terms.task")
    assert (first.first, first.second) == (1.0, 3.0)
    assert (first.rollouts, first.of_rollouts, first.tokens) == (3, 4, 0)
    assert (first.max_reward, first.max_logprob) == (2.0, 0.0)


def test_a_gradient_is_named_by_tensor_and_sized_by_its_sketches(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        line = two["trace.jsonl"][3]  # step 1, substep 1
        for name, distance in (("layers.0.b", 0.5), ("layers.1.a", 1.0)):
            mark = line["gradient"][name]
            mark["sha256"] += "x"
            mark["sketch"] = [mark["sketch"][0] + distance] * 8
        line["weights"] = marks(0.0)

    found = compared(tmp_path, changed).first
    assert found.tensor is not None
    assert (found.step, found.phase) == (1, Phase.GRADIENT)
    first = found.tensor
    assert (first.substep, first.tensor, first.size) == (1, "layers.0.b", 0.25)
    assert (first.largest, first.largest_size) == ("layers.1.a", 0.5)
    assert (first.tensors, first.of_tensors) == (2, 3)
    assert first.all_size == pytest.approx((1.25 / 12) ** 0.5)


def test_the_same_gradient_that_leads_to_other_weights(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        mark = two["trace.jsonl"][0]["weights"]["layers.0.a"]
        mark |= {"sha256": "x", "norm": None, "sketch": None}

    found = compared(tmp_path, changed)
    assert (found.first.step, found.first.phase) == (0, Phase.OPTIMIZER)
    assert found.first.tensor.size is None
    assert "not known" in "\n".join(comparison_lines(found))


def test_metrics_and_final_weights_alone(tmp_path: Path) -> None:
    def metrics(two: Files) -> None:
        two["metrics.jsonl"][1]["train/nll"] = 1

    found = compared(tmp_path, metrics)
    assert (found.first.step, found.first.phase) == (1, Phase.METRICS)
    assert "metrics train/nll: 1.0 | 1" in comparison_lines(found)

    def weights(two: Files) -> None:
        two["manifest.json"]["hashes"]["weights_sha256"] = "bb"

    (tmp_path / "weights").mkdir()
    found = compared(tmp_path / "weights", weights)
    assert (found.first.step, found.first.phase) == (STEPS, Phase.WEIGHTS)


# What is missing


def test_a_run_that_stopped_earlier_is_told(tmp_path: Path) -> None:
    def cut(two: Files) -> None:
        for name in ("metrics.jsonl", "rollouts.jsonl", "trace.jsonl"):
            two[name] = [line for line in two[name][:-1] if line["step"] < 2]
        two["manifest.json"]["hashes"] = {}

    found = compared(tmp_path, cut)
    assert (found.first.step, found.first.phase, found.steps) == (2, Phase.LENGTH, 2)
    pair = (tmp_path / "one", tmp_path / "two")
    assert compare_runs(pair, steps=2).equal
    assert compare_runs(pair, steps=3).first == found.first


def test_a_line_that_a_kill_cut_off_is_left_out_and_damage_is_told(tmp_path: Path) -> None:
    pair = write_files(tmp_path / "one", files()), write_files(tmp_path / "two", files())
    with (pair[1] / "rollouts.jsonl").open("a") as file:
        file.write('{"step": 3, "spl')
    assert compare_runs(pair).equal
    with (pair[1] / "rollouts.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match="line 16 is damaged"):
        compare_runs(pair)


def test_without_a_trace_the_phase_is_not_known(tmp_path: Path) -> None:
    def changed(two: Files) -> None:
        two["trace.jsonl"] = []
        train(two, 1)[0]["tokens"][0] = 1

    found = compared(tmp_path, changed)
    assert (found.first.step, found.first.phase) == (1, Phase.SAMPLE)
    assert "cannot be told in which phase" in found.notes[0]
    assert str(tmp_path / "two") in found.notes[0]
    assert str(tmp_path / "one") not in found.notes[0]


# The verb


def test_the_verb_says_it_in_few_lines_and_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def changed(two: Files) -> None:
        train(two, 0)[0]["logprobs"][0] = -0.75
        two["trace.jsonl"] = []
        two["manifest.json"]["identity"] = {f"key{i}": i for i in range(9)}
        two["manifest.json"]["circumstances"] = {f"key{i}": "x" * 200 for i in range(9)}

    found = compared(tmp_path, changed)
    assert len(comparison_lines(found)) <= 15
    one, two = (str(folder) for folder in found.folders)
    messages = command(capsys, "diff", one, two, code=1).out
    assert messages.splitlines() == comparison_lines(found)
    assert "different: first at step 0, phase sample" in messages
    assert messages.splitlines()[3:5] == [
        "asked differently: 8 more, see --json",
        "other code: tinsmith: 0.1.0 | absent",
    ]
    assert "logprobs -0.5 | -0.75" in messages
    messages = command(capsys, "diff", one, two, "--json", code=1).out
    told_whole = json.loads(messages)
    assert told_whole == json.loads(json.dumps(comparison_json(found)))
    assert told_whole["first"]["rollout"]["max_logprob"] == 0.25
    assert len(told_whole["identity"]) == 12
    same, elsewhere = command(capsys, "diff", one, one), command(capsys, "diff", one, tmp_path)
    assert same.code == 0
    assert same.out.startswith("equal: 4 recorded steps")
    assert elsewhere.code == 2
    assert "holds no run" in elsewhere.err


def test_two_runs_without_a_step_are_not_called_equal(tmp_path: Path) -> None:
    folders = (tmp_path / "one", tmp_path / "other")
    for folder in folders:
        folder.mkdir()
        (folder / "config.json").write_text('{"name": "remedy/exp6"}')
    with pytest.raises(DataError, match="nothing to compare"):
        compare_runs(folders)
