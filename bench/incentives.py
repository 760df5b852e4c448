"""Does training go where the incentive analyser says, on papers whose posteriors are known?

The world of `planted.py` has the weak signal of the source notes. For Exp4 (accuracy), Exp5 (disruptive three times)
and Exp6 (macro-F1) the analyser says, from the posteriors alone, which labels the optimum never gives. Then the
laboratory's own loop trains each of them, `conduct` with a server and the SDK, from one base that knows nothing of
the labels, with five seeds. A direction holds where exactly the labels that were said to die end with a recall below
0.15, and a label that was said to rule has 0.9 of the answers. At last Exp6 is trained on, with a lower learning rate
and larger batches, and its macro-F1 and smallest recall are compared with the best that any policy can reach in this
world.

What a policy scores is computed exactly: its label probabilities on the test papers, averaged over each atom's, are a
policy on the known posteriors; the share of sampled answers that break the contract is taken off it as wrong answers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planted import World, policy_of, posteriors, world
from tinsmith.cli.registered import find
from tinsmith.lab.experiment.conduct import conduct, embedded_settings
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.experiment.materials import with_model
from tinsmith.lab.labels.labelled_papers import label_probabilities
from tinsmith.lab.labels.rewards import make_reward, reward_optimum
from tinsmith.lab.labels.task import Task
from tinsmith.lab.nano_base import build_base
from tinsmith.lab.papers.labels import label_task_of, on_papers
from tinsmith.lab.papers.run_data import PaperData
from tinsmith.lab.papers.worlds import PaperBaseRecipe, items_identity, paper_conversations
from tinsmith.lab.runs.files import METRICS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.stats.incentives import Optimum, Policy, best_policy
from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, Confusion, FloatArray, Metric
from tinsmith.studies.disruption.estimators import Policy as TrainedPolicy
from tinsmith.studies.planted_world import LABELS
from tinsmith.types.seeds import derive

LOST, RULES = 0.15, 0.9
"""A label with less recall is lost; one with more of the answers rules."""
MACRO_F1_GOAL, MIN_RECALL_GOAL = 0.95, 0.8
"""Of the best that can be reached."""
SAMPLED = 3000
"""Test papers that Exp6 answers once each, after it was trained on."""
RECIPE = PaperBaseRecipe(num_layers=1, vocab_size=512, steps=160)
COMMON = {
    "prompt": "brief",
    "contract": "two_key",
    "with_metadata": "false",
    "max_tokens": "32",
    "group_size": "4",
    "groups_per_batch": "64",
    "learning_rate": "1e-3",
    "eval_every": "0",
    "save_every": "0",
    "eval_items": "40",
    "select_by": "last",
    "quiet": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to train."""

    title: str
    experiment: str
    settings: Mapping[str, str]
    """Beside COMMON."""


ARMS = (
    Arm(title="Exp4", experiment="ladder/exp4", settings={"steps": "60"}),
    Arm(title="Exp5", experiment="ladder/exp5", settings={"steps": "30"}),
    Arm(title="Exp6", experiment="remedy/exp6", settings={"steps": "60", "reward.window": "1024"}),
)
LONG = Arm(
    title="Exp6, trained on",
    experiment="remedy/exp6",
    settings={"steps": "300", "learning_rate": "4e-4", "reward.window": "4096"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """End of one run."""

    policy: Policy
    """On the planted posteriors, all answers valid."""
    valid: float
    """Share of sampled answers within the contract."""
    curve: list[dict[str, float]]
    seconds: float
    sampled: Confusion | None
    """Of one sampled answer to each of SAMPLED fresh papers, where that was asked for."""

    @property
    def shares(self) -> FloatArray:
        """Confusion shares (K, K + 1), broken answers last and spread evenly."""
        kept = self.policy.shares * self.valid
        lost = self.policy.shares.sum(axis=1, keepdims=True) * (1.0 - self.valid)
        return np.concatenate([kept, lost], axis=1)

    def score(self, metric: Metric) -> float:
        return float(SCORES[metric](self.shares))

    def recall(self) -> FloatArray:
        return CLASS_SCORES[ClassMetric.RECALL](self.shares)

    def share(self) -> FloatArray:
        return CLASS_SCORES[ClassMetric.PREDICTED_SHARE](self.shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of the server; 0: as it finds")
    parser.add_argument("--long-steps", type=int, help="steps of Exp6, trained on; 0: not at all")
    parser.add_argument("--out", type=Path, help="folder for the curves, a JSON file a run")
    given = parser.parse_args()
    began = time.perf_counter()
    best = best_policy(posteriors(), Metric.MACRO_F1)
    print(
        f"planted world: best accuracy {best_policy(posteriors(), Metric.LABEL_MATCH).score(Metric.LABEL_MATCH):.3f}, "
        f"best macro-F1 {best.score(Metric.MACRO_F1):.3f} with recalls {_told(best.class_score(ClassMetric.RECALL))}"
    )
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(Path(temporary), world(), given.threads, given.out)
        for arm in ARMS if given.seeds else ():
            bench.directions(arm, given.seeds)
        if given.long_steps != 0:
            bench.long_run(given.long_steps, best)
    print(f"  {time.perf_counter() - began:.0f} s of wall time")


class Bench:
    """The base, built once, and what is trained from it."""

    def __init__(self, folder: Path, world: World, threads: int, out: Path | None) -> None:
        self.folder = folder
        self.world = world
        self.threads = threads
        self.out = out
        self.base = folder / "base"
        build_base(
            RECIPE, paper_conversations(RECIPE, label_task_of(_plan(ARMS[0], {})), world.papers.train), self.base
        )

    def directions(self, arm: Arm, seeds: int) -> None:
        """Train an arm with every seed, and compare where it went with where the analyser says."""
        optimum = predicted(_plan(arm, {}))
        policy = optimum.policy
        print(
            f"{arm.title}: predicted shares {_told(policy.class_score(ClassMetric.PREDICTED_SHARE))}, recalls "
            f"{_told(policy.class_score(ClassMetric.RECALL))}, macro-F1 {policy.score(Metric.MACRO_F1):.3f}; "
            f"dies: {', '.join(optimum.dead) or 'none'}"
        )
        held = 0
        for seed in range(seeds):
            run = self.train(arm, {"seed": str(seed)})
            holds = direction_holds(optimum, run)
            held += holds
            self._tell(f"{arm.title}, seed {seed}", run, "holds" if holds else "does NOT hold")
        verdict = "reached" if held == seeds else "NOT reached"
        print(
            f"{arm.title}: predicted direction holds in {held} of {seeds} seeds (goal {seeds}: {verdict})", flush=True
        )

    def long_run(self, steps: int | None, best: Policy) -> None:
        """Train Exp6 on, and compare it with the best macro-F1 and its smallest recall."""
        run = self.train(LONG, {} if steps is None else {"steps": str(steps)}, sampled=SAMPLED)
        self._tell(LONG.title, run, "")
        for line in run.curve:
            print("    " + ", ".join(f"{key} {value:.3f}" for key, value in line.items()))
        assert run.sampled is not None
        f1, least = best.score(Metric.MACRO_F1), best.score(Metric.MIN_CLASS_RECALL)
        for title, score in (("exactly", run.score), ("sampled", run.sampled.score)):
            _compare(f"{LONG.title}: macro-F1, {title}", score(Metric.MACRO_F1), f1, MACRO_F1_GOAL)
            _compare(f"{LONG.title}: smallest recall, {title}", score(Metric.MIN_CLASS_RECALL), least, MIN_RECALL_GOAL)

    def train(self, arm: Arm, changes: Mapping[str, str], sampled: int = 0) -> Trained:
        """Conduct one run in a folder of its own, and ask its last policy."""
        began = time.perf_counter()
        name = "-".join([arm.title, *changes.values()]).replace(" ", "")
        where = {"log_path": str(self.folder / name), "model_name": str(self.base), "threads": str(self.threads)}
        plan = _plan(arm, {**changes, **where})
        papers = self.world.papers
        data = items_identity(papers)
        run_data = PaperData(plan=plan, papers=papers, data=data, source=None)
        materials = with_model(plan, run_data, _silent)
        done = conduct(plan, say=_silent, materials=materials, stays=True)
        assert done.finished is not None
        trained = TrainedPolicy(
            task=label_task_of(plan),
            sampler_path=done.finished.final_path,
            base_url=None,
            embedded=embedded_settings(plan, materials.models, done.folder),
            max_tokens=plan.settings.max_tokens,
            tokenizer=done.tokenizer,
            connection=done.connection,
        )
        try:
            pi = label_probabilities(trained.label_logprobs(papers.test))
            confusion = _sampled(trained, label_task_of(plan), sampled) if sampled else None
        finally:
            trained.close()
        lines = RunFolder(done.folder).read_lines(METRICS)
        run = Trained(
            policy=policy_of(self.world, papers.test, pi),
            valid=1.0 - float(lines[-1]["test/invalid_rate"]),
            curve=_curve(lines[:-1]),
            seconds=time.perf_counter() - began,
            sampled=confusion,
        )
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / f"{name}.json").write_text(json.dumps(run.curve, indent=1) + "\n")
        return run

    def _tell(self, title: str, run: Trained, verdict: str) -> None:
        print(
            f"  {title}: shares {_told(run.share())}, recalls {_told(run.recall())}, "
            f"macro-F1 {run.score(Metric.MACRO_F1):.3f}, valid {run.valid:.3f}, {run.seconds:.0f} s {verdict}",
            flush=True,
        )


def predicted(plan: Plan) -> Optimum:
    """Return what the analyser says of an arm's reward in the planted world."""
    reward, settings = on_papers(plan).reward, plan.reward_settings
    return reward_optimum(posteriors(), lambda: make_reward(reward, label_task_of(plan), **settings))


def direction_holds(optimum: Optimum, run: Trained) -> bool:
    """Return true if exactly the labels said to die are lost, and every label said to rule rules."""
    lost = {label for label, recall in zip(LABELS, run.recall(), strict=True) if recall < LOST}
    ruling = {label for label, share in zip(LABELS, run.share(), strict=True) if share >= RULES}
    return lost == set(optimum.dead) and ruling >= set(optimum.ruling)


def _plan(arm: Arm, changes: Mapping[str, str]) -> Plan:
    return make_plan(find(arm.experiment), {**COMMON, **arm.settings, **changes})


def _sampled(trained: TrainedPolicy, task: Task, count: int) -> Confusion:
    fresh = world(test=count, seed=1).papers.test
    answers = trained.answers(fresh, temperature=1.0, seed=derive(0, "sampled"))
    predicted = [answer.predicted for answer in answers]
    return Confusion.of(task.labels, [item.gold for item in fresh], predicted)


def _curve(lines: Sequence[Mapping[str, float]], parts: int = 12) -> list[dict[str, float]]:
    """Training's own rates, means over a twelfth of the steps each."""
    keys = ["train/label_match", *(f"train/predicted_share/{label}" for label in LABELS)]
    size = max(1, -(-len(lines) // parts))
    told: list[dict[str, float]] = []
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        means = {key.removeprefix("train/"): np.mean([line[key] for line in part]) for key in keys}
        told.append({"step": float(first), **{key: float(mean) for key, mean in means.items()}})
    return told


def _compare(title: str, ours: float, best: float, goal: float) -> None:
    ratio = ours / best
    verdict = "reached" if ratio >= goal else "NOT reached"
    print(f"{title} {ours:.3f}, best {best:.3f}, ratio {ratio:.3f} (goal >= {goal}: {verdict})")


def _told(values: FloatArray) -> str:
    return "/".join(f"{value:.2f}" for value in values)


def _silent(message: str) -> None:
    del message


if __name__ == "__main__":
    if os.environ.get("OMP_WAIT_POLICY") != "PASSIVE":  # threads that spin starve the other process
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"})
    main()
