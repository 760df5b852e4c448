"""Writes run folders that look like those of training, from a seed: what each run answers is drawn from a planted
confusion matrix that moves from where the run starts to where it ends."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from run_files import write_files

LABELS = ("disruptive", "consolidating", "neutral")
INVALID = ("not_json", "bad_label", "bad_keys", "fenced", "empty")
PARSED = ("ok", "bad_label", "bad_keys")
NASTY = '</script><img src=x onerror=alert(1)> "quoted" & \u2028 <!-- <script>'

START = ((0.30, 0.30, 0.30), (0.28, 0.34, 0.28), (0.28, 0.30, 0.32))
"""Rows: true label; columns: answered label; the rest of a row is invalid."""
NO_DISRUPTIVE = ((0.02, 0.55, 0.43), (0.01, 0.66, 0.33), (0.01, 0.34, 0.65))
ALL_DISRUPTIVE = ((0.99, 0.01, 0.00), (0.97, 0.03, 0.00), (0.96, 0.01, 0.03))
BALANCED = ((0.57, 0.23, 0.20), (0.22, 0.57, 0.21), (0.20, 0.24, 0.56))
SUPERVISED = ((0.45, 0.30, 0.25), (0.24, 0.50, 0.26), (0.24, 0.26, 0.50))


@dataclass(frozen=True, kw_only=True)
class Story:
    """Course of a fake run."""

    name: str
    question: str
    parent: str | None = None
    delta: Mapping[str, object] = field(default_factory=dict)
    kind: str = "rl"
    reward: str | None = "strong"
    end: Sequence[Sequence[float]] = BALANCED
    seed: int = 0
    steps: int = 60
    eval_every: int = 20
    num_eval: int = 90
    num_test: int = 210
    data: str = "f1" * 32
    nasty: bool = False
    offset: bool = False
    papers: str = "W"
    """Beginning of the papers' identifiers."""
    alarm: tuple[str, str, float, float, int] | None = None
    failed: int = 3


LADDER: Mapping[str, Story] = {
    "exp4": Story(
        name="ladder/exp4",
        parent="ladder/exp3",
        question="Does a smaller contract recover reliability?",
        delta={"contract": "TWO_KEY", "max_tokens": 32},
        end=NO_DISRUPTIVE,
        alarm=("min_class_recall", "disruptive", 0.033, 0.05, 40),
    ),
    "exp5": Story(
        name="ladder/exp5",
        parent="ladder/exp4",
        question="Does paying threefold for a correct 'disruptive' keep the class alive?",
        delta={"reward.class_weights": {"disruptive": 3.0}},
        reward="exp5",
        end=ALL_DISRUPTIVE,
        alarm=("predicted_share", "disruptive", 0.967, 0.75, 60),
    ),
    "exp6": Story(
        name="remedy/exp6",
        parent="ladder/exp4",
        question="Does rewarding the macro-F1 itself keep every class alive?",
        delta={"reward": "macro_f1"},
        reward="macro_f1",
    ),
    "sft": Story(
        name="sft/lora",
        question="What do the same labels give by plain supervision?",
        kind="sft",
        reward=None,
        end=SUPERVISED,
    ),
    "shuffled": Story(
        name="control/shuffled_labels",
        parent="remedy/exp6",
        question="Does anything seem to improve when there is nothing to learn?",
        delta={"data.labels": "shuffled"},
        reward="macro_f1",
        end=START,
    ),
    "exact": Story(
        name="control/exact_gradient",
        parent="ladder/exp4",
        question="Is the objective at fault, or its estimate from a few samples?",
        delta={"gradient": "exact"},
        end=((0.30, 0.38, 0.30), (0.20, 0.52, 0.26), (0.20, 0.28, 0.50)),
    ),
}


FEW: Mapping[str, Any] = {"steps": 20, "num_eval": 30, "num_test": 60}
"""Of a story whose length says nothing."""


def write_run(folder: Path, story: Story) -> Path:
    """Write a finished run."""
    random = np.random.Generator(np.random.PCG64([story.seed, len(story.name), ord(story.name[-1])]))
    rollouts: list[dict[str, Any]] = []
    metrics = [_step(story, step, rollouts, random) for step in range(story.steps + 1)]
    timing = {"sample_s": 0.31, "score_s": 0.02, "train_s": 0.25, "eval_s": 0.0, "step_s": 0.6}
    marks = [
        {
            "step": step,
            "state_path": f"tinker://run/weights/{step:06}",
            "sampler_path": f"tinker://run/sampler_weights/{step:06}",
            "kept": {},
            "lengths": {},
        }
        for step in range(0, story.steps + 1, story.eval_every)
    ]
    files: dict[str, object] = {"config.json": config(story), "manifest.json": manifest(story)}
    files["baselines.json"] = baselines(story.num_test)
    files |= {"metrics.jsonl": metrics, "rollouts.jsonl": rollouts, "checkpoints.jsonl": marks}
    files["timings.jsonl"] = [{"step": step, **timing} for step in range(story.steps)]
    return write_files(folder, files)


def without_splits(folder: Path, *splits: str) -> Path:
    """Take the answers of some splits out of a run, as if it had ended before them."""
    file = folder / "rollouts.jsonl"
    lines = [line for line in file.read_text().splitlines(keepends=True) if json.loads(line)["split"] not in splits]
    file.write_text("".join(lines))
    return folder


def seeds_of(story: Story, *seeds: int) -> list[Story]:
    """The same experiment with other seeds."""
    return [replace(story, seed=seed) for seed in seeds]


def config(story: Story) -> dict[str, Any]:
    identity = f"{abs(hash_of(story)):064x}"
    return {
        "schema": 1,
        "name": story.name,
        "version": 1,
        "question": story.question,
        "parent": story.parent,
        "delta": dict(story.delta),
        "overrides": {"seed": story.seed} if story.seed else {},
        "identity_sha256": identity,
        "settings": {
            "steps": story.steps,
            "learning_rate": 4e-4,
            "group_size": 8,
            "batch_size" if story.kind == "sft" else "groups_per_batch": 4,
            "temperature": 1.0,
            "eval_every": story.eval_every,
            "seed": story.seed,
        },
        "kind": story.kind,
        "task": {
            "name": "disruption",
            "labels": list(LABELS),
            "prompt": "brief",
            "contract": "TWO_KEY",
            "with_metadata": True,
        },
        "reward": {"name": story.reward} if story.reward else None,
        "model_name": "tinsmith/nano",
        "data": {
            "name": "synthetic/small",
            "fingerprint": story.data,
            "train": 5000,
            "validation": story.num_eval,
            "test": story.num_test,
        },
    }


def manifest(story: Story) -> dict[str, Any]:
    alarms = []
    if story.alarm:
        kind, label, value, threshold, step = story.alarm
        alarms.append(
            {
                "kind": kind,
                "label": label,
                "value": value,
                "threshold": threshold,
                "step": step,
                "message": f"{label}: {kind} is {value:.2f} at step {step}, limit {threshold:.2f}",
            }
        )
    return {
        "schema": 1,
        "status": "finished",
        "identity": {"tinsmith": "0.1.0", "arithmetic": "canonical", "model_sha256": "ab" * 32},
        "identity_sha256": f"{abs(hash_of(story)):064x}",
        "circumstances": {"python": "3.11.2", "threads": 2},
        "alarms": alarms,
        "selected": {"step": story.steps, "by": "macro_f1"},
        "hashes": {"weights_sha256": "0a" * 32, "metrics_sha256": "1b" * 32, "rollouts_sha256": "2c" * 32},
    }


def baselines(num_test: int) -> dict[str, Any]:
    def figure(value: float, half: float) -> dict[str, float]:
        return {"value": value, "low": max(value - half, 0.0), "high": min(value + half, 1.0)}

    def score(name: str, accuracy: float, f1: float, recalls: Sequence[float]) -> dict[str, Any]:
        return {
            "baseline": name,
            "n": num_test,
            "accuracy": figure(accuracy, 0.06),
            "macro_f1": figure(f1, 0.06 if f1 > 0.17 else 0.0),
            "min_class_recall": figure(min(recalls), 0.06 if min(recalls) else 0.0),
            "recall": {label: figure(r, 0.06) for label, r in zip(LABELS, recalls, strict=True)},
            "confusion": {
                label: {other: num_test / 3 * cell(name, label, other, r) for other in LABELS}
                for label, r in zip(LABELS, recalls, strict=True)
            },
        }

    def cell(name: str, label: str, other: str, recall: float) -> float:
        """The share of a true label that is answered so; what is wrong is spread evenly."""
        if name == "majority":
            return float(other == LABELS[0])
        return recall if other == label else (1.0 - recall) / 2

    return {
        "slice_sha256": "f1" * 32,
        "seed": 0,
        "train_rows": 5000,
        "train_rows_available": 5000,
        "resamples": 1000,
        "confidence": 0.95,
        "targets": [
            {
                "target": "disruption",
                "classes": list(LABELS),
                "train": {"disruptive": 1700, "consolidating": 1640, "neutral": 1660},
                "scores": [
                    score("majority", 1 / 3, 1 / 6, (1.0, 0.0, 0.0)),
                    score("prior", 1 / 3, 0.33, (0.34, 0.33, 0.33)),
                    score("metadata", 0.41, 0.40, (0.42, 0.38, 0.43)),
                    score("text", 0.43, 0.425, (0.42, 0.44, 0.43)),
                ],
                "left_out": {"oracle": "the papers have no known cause: not a synthetic world"},
            }
        ],
    }


def hash_of(story: Story) -> int:
    """A number that depends on the experiment and the seed, and on nothing of the process."""
    return int.from_bytes(f"{story.name} {story.seed} {story.data}".encode()[:24], "big")


def _step(story: Story, step: int, rollouts: list[dict[str, Any]], random: np.random.Generator) -> dict[str, Any]:
    share = min(step / max(0.7 * story.steps, 1), 1.0)
    table = (1 - share) * np.array(START) + share * np.array(story.end)
    row: dict[str, Any] = {"step": step}
    last = step == story.steps
    if not last:
        row |= _train(story, step, table, rollouts, random)
    if step % story.eval_every == 0 or last:
        for split in ("eval", "eval_greedy"):
            made = _answers(story, split, step, table, story.num_eval, random)
            rollouts += made
            row |= _scores(split, made)
        row["eval/label_mi"] = 0.002 + 0.05 * share
        row["eval/kl_base"] = 0.4 * share
    if last:
        for split in ("test", "test_greedy"):
            made = _answers(story, split, step, table, story.num_test, random)
            rollouts += made
            # The last checkpoint is the selected one, so that its test is told but not run again.
            row |= _scores(split, made) | _scores(split.replace("test", "test_last"), made)
        if story.offset:
            made = _answers(story, "test_offset", step, table, story.num_test, random)
            rollouts += made
            row |= _scores("test_offset", made)
    if story.alarm and story.alarm[4] == step:
        kind, label, value, _, _ = story.alarm
        row[f"alarm/{kind}/{label}"] = value
    return row


def _train(
    story: Story, step: int, table: Any, rollouts: list[dict[str, Any]], random: np.random.Generator
) -> dict[str, Any]:
    wave = float(random.normal(0, 0.02))
    row: dict[str, Any] = {"optim/grad_norm": 0.8 + abs(wave) * 10, "optim/lr": 4e-4}
    if story.kind == "sft":
        return row | {"train/nll": 1.1 - 0.5 * step / story.steps + wave, "optim/loss": 1.0}
    made = _answers(story, "train", step, table, 8, random)
    for place, each in enumerate(made):
        right = each["predicted"] == each["gold"]
        terms = {
            "parse": 0.0 if each["outcome"] == "ok" else -1.0,
            "contract": 0.05 if each["outcome"] == "ok" else 0.0,
            "task": 1.0 if right else -0.6 if each["predicted"] else 0.0,
            "think": 0.0,
        }
        each |= {"sample": place % 4, "terms": terms, "total": sum(terms.values()), "advantage": 0.25}
    if step < story.failed:
        one = made.pop()
        rollouts.append(
            {k: one[k] for k in ("step", "split", "prompt_id", "sample", "gold")}
            | {"failure": {"where": "sample", "what": "TimeoutError: no answer within 60 s"}}
        )
    rollouts += made
    row |= {f"train/reward/{t}": float(np.mean([m["terms"][t] for m in made])) for t in made[0]["terms"]}
    row["train/reward/total"] = float(np.mean([m["total"] for m in made]))
    for k, label in enumerate(LABELS):
        row[f"train/groups/informative/{label}"] = float(1 - table[k, k] ** 4 - (1 - table[k, k]) ** 4)
    row["train/groups/informative"] = float(np.mean([row[f"train/groups/informative/{label}"] for label in LABELS]))
    row["train/rollouts/failed"] = 1 if step < story.failed else 0
    row["train/format_strict_ok"] = float(np.mean([m["outcome"] == "ok" for m in made]))
    if story.reward == "macro_f1":
        for k, label in enumerate(LABELS):
            row[f"reward/correct/{label}"] = 1.2 + 0.3 * float(table[k, 0] - table[k, 1])
    row["optim/kl_sample_train"] = 0.0
    row["optim/unequal_logprob_bits"] = 0
    row["kl/base"] = 0.5 * step / story.steps + abs(wave)
    return row


def _answers(
    story: Story, split: str, step: int, table: Any, count: int, random: np.random.Generator
) -> list[dict[str, Any]]:
    """Draw answers; a paper's true label is the same in every run and seed."""
    family = split.partition("_")[0]
    made: list[dict[str, Any]] = []
    for i in range(count):
        gold = i % 3
        draw = random.random()
        if "greedy" in split:
            draw = 0.35 + 0.3 * draw
        k = int(np.searchsorted(np.cumsum(table[gold]), draw))
        outcome = "ok" if k < 3 else INVALID[int(random.integers(len(INVALID)))]
        predicted = LABELS[k] if k < 3 else None
        confidence = ("low", "medium", "high")[int(random.integers(3))] if k < 3 else None
        text = json.dumps({"disruption_label": predicted, "confidence": confidence})
        if predicted is None:
            text = "" if outcome == "empty" else f"I think {LABELS[gold]}"
        made.append(
            {
                "step": step,
                "split": split,
                "prompt_id": f"{story.papers}{family}{i:05}",
                "sample": 0,
                "tokens": [1, 2, 3],
                "text": NASTY if story.nasty and i == 0 else text,
                "outcome": outcome,
                "gold": LABELS[gold],
                "predicted": predicted,
                "confidence": confidence,
            }
        )
    return made


def _scores(split: str, made: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The metrics that training writes of an evaluation."""
    golds = Counter(each["gold"] for each in made)
    answers = Counter(each["predicted"] for each in made)
    hits = Counter(each["gold"] for each in made if each["gold"] == each["predicted"])
    recall = {label: hits[label] / golds[label] for label in LABELS}
    f1 = [2 * hits[label] / (golds[label] + answers[label]) for label in LABELS]
    valid = sum(each["outcome"] == "ok" for each in made) / len(made)
    row: dict[str, float | None] = {
        "label_match": sum(hits.values()) / len(made),
        "parse_ok": sum(each["outcome"] in PARSED for each in made) / len(made),
        "format_strict_ok": valid,
        "invalid_rate": 1 - valid,
        "macro_f1": sum(f1) / 3,
        "lenient_label_match": sum(hits.values()) / len(made),
        "lenient_macro_f1": sum(f1) / 3,
        "lenient_invalid_rate": 1 - valid,
        "balanced_accuracy": sum(recall.values()) / 3,
        "min_class_recall": min(recall.values()),
    }
    for label in LABELS:
        row[f"recall/{label}"] = recall[label]
        row[f"precision/{label}"] = hits[label] / answers[label] if answers[label] else None
        row[f"predicted_share/{label}"] = answers[label] / len(made)
    return {f"{split}/{key}": value for key, value in row.items()}
