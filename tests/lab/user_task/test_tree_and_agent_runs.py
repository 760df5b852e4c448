"""Whole runs with trees of rollouts, and with several adapters: what is trained on, and the same when resumed."""

from pathlib import Path

import pytest
from label_runs import manifest
from own_task import lines, whole

from command_line import Run

TASK = """\
from tinsmith import Spawn, Task, Turns, of_conversation, of_tree


def reply(item, said, seed):
    if len(said) > 1 or len(item["word"]) < 2:
        return None
    half = len(item["word"]) // 2
    parts = [{"id": part, "word": part} for part in (item["word"][:half], item["word"][half:])]
    return Spawn(parts, lambda answers: " ".join(str(len(one or "")) for one in answers))


def letters(item, said):
    return len(set(said[-1])) / 10


def below(item, said, children):
    return sum(one.earned for one in children)


def task(agents: str = ""):
    counts = {0: 2, 1: 3} if agents == "grow" else 2
    spawns = Turns(reply=reply, most=2, deepest=2)
    return Task(
        items=[{"id": f"item-{n}", "word": f"abcd{n}"} for n in range(6)],
        prompt="Word {word}:",
        held_out=[{"id": "held-1", "word": "wxyz"}, {"id": "held-2", "word": "wx"}],
        turns=Turns(reply=lambda item, said, seed: "next", most=3, agents=counts) if agents else spawns,
        reward={"letters": of_conversation(letters), "below": of_tree(below)},
        metrics={"rollouts": of_tree(lambda item, said, children: 1 + sum(1 + one.below() for one in children))},
        keys={"max_tokens": 5},
    )
"""


SHORT = {"steps": "2", "eval_every": "0", "group_size": "2", "eval_samples": "1"}


def test_rollouts_of_a_tree_stand_in_the_line_of_its_root_and_a_resumed_run_is_the_same(
    run: Run, tmp_path: Path
) -> None:
    assert run(log_path="whole", **SHORT).code == 0
    assert run(log_path="parts", stop_after="1", **SHORT).code == 0
    assert run(log_path="parts", **SHORT).code == 0
    assert manifest(tmp_path / "whole")["hashes"] == manifest(tmp_path / "parts")["hashes"]
    trained = [line for line in lines(tmp_path / "whole", "rollouts.jsonl") if line["split"] == "train"]
    assert all(line["metrics"]["rollouts"] == 1 + len(line["tree"]) for line in trained)
    one = trained[0]
    assert [below["depth"] for below in one["tree"]] == [1, 2, 2, 1, 2, 2]
    assert [below["prompt_id"] for below in one["tree"]][1:3] == ["a", "b"]
    children = [below for below in one["tree"] if below["depth"] == 1]
    assert one["terms"]["below"] == pytest.approx(sum(below["terms"]["letters"] for below in children))
    assert lines(tmp_path / "whole", "metrics.jsonl")[0]["optim/unequal_logprob_bits"] == 0.0


def test_several_adapters_are_saved_and_resumed_together(run: Run, tmp_path: Path) -> None:
    assert run(log_path="whole", agents="grow", **SHORT).code == 0
    assert run(log_path="parts", agents="grow", stop_after="1", **SHORT).code == 0
    assert run(log_path="parts", agents="grow", **SHORT).code == 0
    assert manifest(tmp_path / "whole")["hashes"] == manifest(tmp_path / "parts")["hashes"]
    rows = lines(tmp_path / "whole", "metrics.jsonl")
    counts = [row["train/agents"] for row in rows[:2]]
    assert counts == [2, 3]
    assert all(row["optim/unequal_logprob_bits"] == 0.0 for row in rows[:2])
    assert len(whole(tmp_path / "whole", "manifest.json")["selected"]["final_path"].split()) == counts[-1]
    spoken = [line for line in lines(tmp_path / "whole", "rollouts.jsonl") if line["split"] == "train"]
    assert [
        sum(turn["role"] == "assistant" for turn in line["turns"]) for line in spoken[:: len(spoken) // 2]
    ] == counts


def test_a_watch_of_several_adapters_is_refused(run: Run) -> None:
    refused = run(log_path="none", agents="both", watch="mutual_information", code=2)
    assert "watch" in refused.err
