"""Writes folders that look like those of runs on rubrics: which texts are written when is planted, rules judge them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_files import write_files

from tinsmith.lab.judge.rules import RuleJudge

NASTY = '</script><img src=x onerror=alert(1)> "quoted" & \u2028 <!-- <script>'
WORDS = ("tin", "lead", "iron", "zinc", "gold", "silver", "copper", "nickel")
TRAINED = ("brass", "steel")


@dataclass(frozen=True, kw_only=True)
class RubricStory:
    """Course of a fake run: at step 0 nobody says the word; at the end the first `learned` held-out prompts get it."""

    seed: int = 0
    learned: int = 8
    held_out: int = 8
    samples: int = 2
    steps: int = 4
    judge: str = "rules"
    prompt: str = "Say {word}."
    data_path: str | None = None
    overrides: Mapping[str, object] | None = None
    failed: int = 0
    """Training responses without verdicts: the first of every group, and as many as this."""
    ledger: Sequence[Mapping[str, object]] = ()
    nasty: bool = False
    tasks: bool = True
    finished: bool = True
    examined: Sequence[int] | None = None
    """Steps of the examinations; None: the first and the last."""
    test: int | None = None
    """Tasks that `config.json` says are held out; None: as many as there are."""


def criteria_of(word: str) -> list[str]:
    return [f"rule: contains word '{word}'", "rule: ends with '.'", "rule: has at most 9 words"]


def write_rubric_run(folder: Path, story: RubricStory) -> Path:
    """Write a run; its rationales are those of the judge by rules, whoever the judge is said to be."""
    held_out = WORDS[: story.held_out]
    fingerprint = "f" * 60 + f"{story.held_out:02}" + ("pp" if story.data_path else "bb")
    settings = {"steps": story.steps, "seed": story.seed, "group_size": 2}
    config = {
        "name": "rlvr",
        "version": 1,
        "question": "Is the word said?",
        "delta": {"kind": "rlvr"},
        "overrides": dict(story.overrides or {}),
        "identity_sha256": f"{story.seed:064}",
        "kind": "rlvr",
        "settings": settings,
        "model_name": "base",
        "task": {"name": "rubrics"},
        "reward": {"name": "rubrics", "judge": story.judge},
        "data": {
            "fingerprint": fingerprint,
            "train": len(TRAINED),
            "test": len(held_out) if story.test is None else story.test,
            "rubrics": 3 * (len(TRAINED) + len(held_out)),
        },
    }
    manifest = {
        "schema": 2,
        "status": "finished" if story.finished else "running",
        "identity": {},
        "circumstances": {"data_path": story.data_path},
        "alarms": [],
        "hashes": {"weights_sha256": "a" * 64},
    }
    sides = [("train", word) for word in TRAINED] + [("test", word) for word in held_out]
    items = [{"id": word, "prompt": _task(story, "test", word)["prompt"], "unit": word} for word in held_out]
    rollouts, metrics = _went(story, held_out)
    requests = {"judged": len(rollouts), "failed": story.failed, "calls": 0, "dollars": 0.0}
    files = {
        "config.json": config,
        "manifest.json": manifest,
        "task.json": {"terms": ["rubric"], "items": items},
        "rollouts.jsonl": rollouts,
        "metrics.jsonl": metrics,
        "judge.jsonl": [*(story.ledger or [requests])],
        "timings.jsonl": [{"step": 0, "step_s": 0.5}],
        "checkpoints.jsonl": [],
    }
    if story.tasks:
        files["tasks.jsonl"] = [_task(story, side, word) for side, word in sides]
    return write_files(folder, files)


def with_copies(folder: Path, copies: int) -> Path:
    """Give a run so many of each held-out item, answered alike."""

    def copied(one: dict[str, object], key: str) -> list[dict[str, object]]:
        return [{**one, key: f"{one[key]}-{place}"} for place in range(copies)]

    task = json.loads((folder / "task.json").read_text())
    task["items"] = [each for one in task["items"] for each in copied({**one, "unit": ""}, "id")]
    lines = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    many = [[one] if one["split"] == "train" else copied(one, "prompt_id") for one in lines]
    return write_files(folder, {"task.json": task, "rollouts.jsonl": [each for some in many for each in some]})


def _task(story: RubricStory, side: str, word: str) -> dict[str, object]:
    prompt = story.prompt.format(word=word) + (NASTY if story.nasty else "")
    return {"task_id": word, "split": side, "prompt": prompt, "criteria": criteria_of(word)}


def _went(story: RubricStory, held_out: Sequence[str]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    rollouts: list[dict[str, object]] = []
    metrics: list[dict[str, object]] = []
    examined = (0, story.steps) if story.examined is None else story.examined
    for step in range(story.steps + 1):
        row: dict[str, object] = {"step": step}
        if step in examined:
            for split, samples in (("eval", story.samples), ("eval_greedy", 1)):
                for place, word in enumerate(held_out):
                    words = step > 0 and place < story.learned
                    for sample in range(samples):
                        text = f"{word} {sample}." if words else f"no {sample}."
                        text += NASTY + "." if story.nasty else ""
                        rollouts.append(_line(step, split, word, sample, text))
            row |= {"eval/kl_base": 0.1 * step, "eval/tokens/answer": 7.0, "eval/distinct_texts": 0.5}
        if step < story.steps:
            rollouts += _trained(story, step)
            row |= {"train/reward/total": 0.1 * step, "train/pass_rate": 0.1 * step}
            row |= {"optim/grad_norm": 1.0, "optim/kl_sample_train": 0.0}
        metrics.append(row)
    return rollouts, metrics


def _trained(story: RubricStory, step: int) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for word in TRAINED:
        for sample in range(2):
            place = 2 * (2 * step + TRAINED.index(word)) + 1 - sample  # failures follow in their group
            if place < story.failed:
                failed: dict[str, object] = {"step": step, "split": "train", "prompt_id": word}
                failure = {"where": "judge", "what": "timed_out: <b>slow</b>"}
                lines.append({**failed, "sample": sample, "failure": failure})
                continue
            line = _line(step, "train", word, sample, f"{word}." if sample else "no.")
            lines.append({**line, "total": line["pass_rate"], "advantage": 0.0})
    return lines


def _line(step: int, split: str, word: str, sample: int, text: str) -> dict[str, object]:
    found = RuleJudge(criteria_of(word)).judge(text)
    return {
        "step": step,
        "split": split,
        "prompt_id": word,
        "sample": sample,
        "tokens": [1, 2],
        "logprobs": [-0.5, -0.5],
        "text": text,
        "pass_rate": sum(one.passed for one in found) / len(found),
        "verdicts": [{"passed": one.passed, "rationale": one.rationale} for one in found],
    }
