"""One RL step of the quickstart, 16 prompts x 8 rollouts on its own papers and base: our loop against TRL.

Ours goes the whole way: the loop's sampling, scoring and update, through the SDK to a server of its own process, the
sampler's weights saved first and the rollouts written to the run folder after. TRL's GRPOTrainer trains the same base
folder in this process: the same prompts in the same order, the same LoRA (peft) but for the
head, which TRL cannot adapt, the same reward
function on the same contract, 48 tokens at most, fp32; as it comes, without gradient checkpointing, and without it in
batches of 16; the best of the three counts. Our steps alternate with TRL's. CPU-seconds are those of all threads, of
both processes for ours; wall time means something on a quiet machine only, so the load is told.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from peers import QUIET_TRAINER, Clock, Times, idle_threads_sleep, report
from tinsmith.cli.registered import find
from tinsmith.lab.experiment.conduct import embedded_settings, open_run
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.experiment.materials import Materials, gather
from tinsmith.lab.grouping import rollout_metrics, score_groups
from tinsmith.lab.labels.rewards import make_reward
from tinsmith.lab.labels.task import Item, messages
from tinsmith.lab.papers.labels import label_task_of, on_papers
from tinsmith.lab.policy import update_policy
from tinsmith.lab.rollouts import Sampling, sample_groups
from tinsmith.lab.runs.files import IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.schedule import batch
from tinsmith.lab.service.connect import open_connection
from tinsmith.lab.settings import RlSettings
from tinsmith.types.adapters import ALPHA
from tinsmith.types.seeds import derive

GOAL = 0.5
EXPERIMENT = "remedy/exp6"
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
"""Ours also adapts the head, as the quickstart does; TRL refuses to, and so has a little less to train."""
TRL = {
    "as it comes": {},
    "no checkpointing": {"gradient_checkpointing": False},
    "no checkpointing, 8 x 16": {
        "gradient_checkpointing": False,
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 8,
    },
}
"""Differences from TRL's defaults; the batch is all 128 rollouts unless said otherwise."""
PHASES = ("sample", "score", "train", "record")
_TICKS = os.sysconf("SC_CLK_TCK")


class Ours:
    """A run of the quickstart, one step at a time, on a server of its own."""

    def __init__(self, plan: Plan, materials: Materials, folder: Path) -> None:
        assert isinstance(plan.settings, RlSettings)
        self.settings = plan.settings
        config = {"identity_sha256": "", "settings": dataclasses.asdict(plan.settings)}
        self.folder, mark = RunFolder.begin(folder, config, if_exists=IfExists.RAISE)
        served = embedded_settings(plan, materials.models, folder)
        self.connection = open_connection(None, served)
        self.run = open_run(plan, materials, self.folder, mark, self.connection)
        self.clock = Clock()
        self.tokens: list[int] = []
        """Of every answer so far."""
        self.learned: list[bool] = []
        """Of every group so far: groups of equal rewards have no gradient, and are left out."""

    def items(self, step: int) -> list[Item]:
        return batch(self.run.course.train_items, self.settings.groups_per_batch, step, self.settings.seed)

    def step(self) -> dict[str, Times]:
        """Take the run's next step, as `lab/rl.py` does; return its phases' times."""
        run, settings, step = self.run, self.settings, self.run.step
        times: dict[str, Times] = {}
        self._read()
        sampling = Sampling(
            samples=settings.group_size,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=derive(settings.seed, "rollout", step),
        )
        rollouts = sample_groups(run.sampler(), run.course.subject, self.items(step), sampling)
        times["sample"] = self._read()
        groups = score_groups(
            rollouts,
            run.course.subject.score,
            advantage=settings.advantage,
            zero_variance_filter=settings.zero_variance_filter,
        )
        run.observe(step, groups)
        times["score"] = self._read()
        assert not any(group.failures for group in groups), "every rollout counts"
        self.tokens += [len(one.rollout.tokens) for group in groups for one in group.scored]
        self.learned += [group.learned for group in groups]
        self._read()
        trained = update_policy(run.trainer, groups, settings, step, None)
        times["train"] = self._read()
        course = run.course
        told = {**rollout_metrics(groups), **course.subject.train_figures(groups), **trained, **course.subject.trace()}
        run.record(step, told)
        times["record"] = self._read()
        assert trained["optim/unequal_logprob_bits"] == 0, "sampler and trainer are not one model"
        return times

    def close(self) -> None:
        self.run.teller.close()
        self.connection.close()
        self.folder.close()

    def _read(self) -> Times:
        """Read the clock; the server's CPU time comes on top of this process's."""
        here, served = self.clock.read(), self._served()
        last, self._last = getattr(self, "_last", served), served
        return Times(here.wall, here.cpu + served - last)

    def _served(self) -> float:
        server = self.connection.server
        assert server is not None
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


class Alternate(TrainerCallback):
    """After each of TRL's steps, one of ours."""

    def __init__(self, ours: Ours) -> None:
        self.ours = ours
        self.clock = Clock()
        self.times_theirs: list[Times] = []
        self.times_ours: list[dict[str, Times]] = []
        self.splits: list[dict[str, float]] = []
        self.tokens: list[int] = []
        """Of every answer of TRL's."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.clock.read()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.times_theirs.append(self.clock.read())
        self.times_ours.append(self.ours.step())
        self.clock.read()


class Timed(GRPOTrainer):
    """TRL's trainer, with the wall time of its sampling and scoring kept apart."""

    sampled = 0.0
    scored = 0.0

    def _generate_and_score_completions(self, *given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        done = super()._generate_and_score_completions(*given, **named)
        self.sampled += time.perf_counter() - began
        return done

    def _calculate_rewards(self, *given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        done = super()._calculate_rewards(*given, **named)
        self.scored += time.perf_counter() - began
        return done


def trl_trainer(plan: Plan, base: Path, out: Path, steps: int, callback: Alternate, options: dict[str, Any]) -> Timed:
    """TRL's trainer on the base in `base`, on the prompts of our next `steps` steps."""
    settings, ours = callback.ours.settings, callback.ours
    study, first = ours.run.course.subject, ours.run.step
    items = [item for step in range(first, first + steps) for item in ours.items(step)]
    reward = make_reward(on_papers(plan).reward, label_task_of(plan), **plan.reward_settings)
    tokenizer = AutoTokenizer.from_pretrained(base)
    rows = [
        {
            "prompt": [
                {"role": message.role.value, "content": message.content}
                for message in messages(label_task_of(plan), item.paper)
            ],
            "gold": item.gold,
        }
        for item in items
    ]
    given = tokenizer.apply_chat_template(rows[0]["prompt"], add_generation_prompt=True, return_dict=False)
    assert tuple(given) == study.prompt(items[0]), "both sides read the same prompt"

    def rewards(completion_ids: list[list[int]], gold: list[str], **_: Any) -> list[float]:
        at = len(callback.tokens) // settings.group_size
        asked = [item.gold for item in items[at : at + settings.groups_per_batch]]
        assert gold == [label for label in asked for _ in range(settings.group_size)], "same papers"
        callback.tokens += [len(ids) for ids in completion_ids]
        texts = [study.renderer.parse_response(ids).message.content for ids in completion_ids]
        answers = [label_task_of(plan).contract.parse(text) for text in texts]
        terms = reward.score(gold, answers)
        reward.update(gold, answers)
        return [each.total for each in terms]

    rollouts = settings.groups_per_batch * settings.group_size
    values = {
        "output_dir": str(out),
        **QUIET_TRAINER,
        "max_steps": steps,
        "shuffle_dataset": False,
        "per_device_train_batch_size": rollouts,
        "num_generations": settings.group_size,
        "max_completion_length": settings.max_tokens,
        "temperature": settings.temperature,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "scale_rewards": "none",
        "beta": 0.0,
    }
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        reward_funcs=rewards,
        args=GRPOConfig(**{**values, **options}),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=settings.lora_rank, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=LAYERS),
        callbacks=[callback],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure(plan: Plan, materials: Materials, steps: int, options: dict[str, Any]) -> Alternate:
    """Alternate `steps` steps of both sides after one to warm up."""
    with tempfile.TemporaryDirectory() as temporary:
        ours = Ours(plan, materials, Path(temporary) / "run")
        callback = Alternate(ours)
        try:
            [base] = materials.models.values()
            out = Path(temporary) / "out"
            trainer = trl_trainer(plan, Path(base), out, steps + 1, callback, options)
            trainer.train()
        finally:
            ours.close()
        total = sum(times.wall for times in callback.times_theirs)
        sampled = trainer.sampled - trainer.scored
        parts = (sampled, trainer.scored, total - trainer.sampled)
        callback.splits.append(dict(zip(PHASES[:3], (part / (steps + 1) for part in parts), strict=True)))
    del callback.times_ours[0], callback.times_theirs[0]  # warm-up
    return callback


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=4, help="timed steps of each side, a setting")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(given.threads)
    plan = make_plan(find(EXPERIMENT), {"eval_every": "0", "threads": str(given.threads), "quiet": "true"})
    materials = gather(plan, print)
    before = os.getloadavg()[0]
    runs = {name: measure(plan, materials, given.steps, options) for name, options in TRL.items()}
    for name, run in runs.items():
        cpu = [round(times.cpu, 2) for times in run.times_theirs]
        wall = [round(times.wall, 2) for times in run.times_theirs]
        split = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in run.splits[0].items())
        print(f"  TRL, {name}: CPU-seconds {cpu}, wall {wall}; mean wall with warm-up: {split}")
    for name, run in runs.items():
        side = run.ours
        print(
            f"  beside TRL, {name}: tokens an answer {statistics.mean(side.tokens):.1f}, TRL's "
            f"{statistics.mean(run.tokens):.1f}; we learn from {statistics.mean(side.learned):.2f} of the groups"
        )
    ours = [phases for run in runs.values() for phases in run.times_ours]
    for clock, title in (("wall", "wall"), ("cpu", "CPU")):
        median = {phase: statistics.median(getattr(step[phase], clock) for step in ours) for phase in PHASES}
        told = ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in median.items())
        print(f"  tinsmith, {title}, median of {len(ours)}: {told}")
        mine = [sum(getattr(times, clock) for times in step.values()) for step in ours]
        peers = [[getattr(times, clock) for times in run.times_theirs] for run in runs.values()]
        name = f"RL step of the quickstart, {given.threads} thread(s), {title}"
        theirs = min(map(statistics.median, peers))
        report(f"{name}, median", statistics.median(mine), theirs, GOAL, "s")
    print(f"  load of the machine: {before:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
