"""Success of a real chat model at the everyday instructions before any training: the training part alone is asked.

For each temperature: the mean pass rate, the share of groups whose rewards are not all equal, and how often each kind
of rule holds. The held-out part is not read: whoever changes the tasks must not look at it.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np

from tinsmith.engine.engine import Engine
from tinsmith.lab.judge.rules import RuleJudge
from tinsmith.lab.judge.tree import pass_rate
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.studies.rubrics.dataset import BuiltinTasks, RubricTask, builtin_dataset, split_tasks
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.seeds import derive

TRAIN_RATIO, DATA_SEED = 0.667, 42
NAME = "base"


def request(renderer: Renderer, task: RubricTask, wanted: argparse.Namespace, heat: float) -> SampleRequest:
    """One task's prompt in the model's own chat template, to be sampled as a group."""
    prompt = renderer.build_generation_prompt([Message(role=Role.USER, content=task.prompt)])
    seed = derive(wanted.seed, "real_instructions", task.task_id)
    params = SamplingParams(seed=seed, max_tokens=wanted.tokens, temperature=heat, stop=renderer.stop_sequences())
    return SampleRequest(prompt=np.array(prompt, np.int32), params=params, num_samples=wanted.samples)


def kind(criterion: str) -> str:
    """Return a rule without its numbers and texts."""
    return re.sub(r"'.*'", "_", re.sub(r"\d+", "N", criterion)).removeprefix("rule: ")


def told(tasks: list[RubricTask], texts: dict[str, list[str]], heat: float) -> None:
    """Print the figures of one temperature."""
    rates: dict[str, list[float]] = {}
    held: dict[str, list[bool]] = defaultdict(list)
    families: dict[str, list[float]] = defaultdict(list)
    for task in tasks:
        judge = RuleJudge(task.criteria)
        verdicts = [[one.passed for one in judge.judge(text)] for text in texts[task.task_id]]
        rates[task.task_id] = [pass_rate(each) for each in verdicts]
        families[task.task_id.rsplit("-", 1)[0]] += rates[task.task_id]
        for each in verdicts:
            for criterion, passed in zip(task.criteria, each, strict=True):
                held[kind(criterion)].append(passed)
    every = [rate for group in rates.values() for rate in group]
    uneven = mean(len(set(group)) > 1 for group in rates.values())
    print(
        f"temperature {heat:g}: mean pass rate {mean(every):.3f}, all criteria {mean(r == 1 for r in every):.3f}, "
        f"none {mean(r == 0 for r in every):.3f}, informative groups {uneven:.3f} of {len(rates)}"
    )
    print("  by family: " + ", ".join(f"{f} {mean(r):.2f}" for f, r in sorted(families.items())))
    for rule, passes in sorted(held.items(), key=lambda each: (-len(each[1]), each[0])):
        print(f"  {mean(passes):5.2f} of {len(passes):4d}  {rule}")


def main() -> None:
    """Sample every training task at each temperature and print the figures."""
    wants = argparse.ArgumentParser(description=__doc__)
    wants.add_argument("model", type=Path, help="a folder with weights, tokenizer and template")
    wants.add_argument("--temperatures", type=float, nargs="+", default=[1.0, 0.7])
    wants.add_argument("--samples", type=int, default=4, help="of each task")
    wants.add_argument("--tokens", type=int, default=48)
    wants.add_argument("--seed", type=int, default=0)
    wants.add_argument("--out", type=Path, help="a file that keeps every answer")
    wanted = wants.parse_args()
    split = split_tasks(builtin_dataset(BuiltinTasks.EVERYDAY).tasks, train_ratio=TRAIN_RATIO, data_seed=DATA_SEED)
    tasks = list(split.train)
    renderer = renderer_for(load_tokenizer(wanted.model))
    engine = Engine({NAME: str(wanted.model)})
    policy = engine.base_policy(NAME)
    kept: list[str] = []
    for heat in wanted.temperatures:
        requests = [request(renderer, task, wanted, heat) for task in tasks]
        before = resource.getrusage(resource.RUSAGE_SELF)
        results = engine.sample(NAME, requests, [policy] * len(requests))
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        texts: dict[str, list[str]] = {}
        for task, result in zip(tasks, results, strict=True):
            texts[task.task_id] = [
                renderer.parse_response([int(t) for t in one.tokens]).message.content for one in result.sequences
            ]
            line = {"temperature": heat, "task_id": task.task_id, "texts": texts[task.task_id]}
            kept.append(json.dumps(line, ensure_ascii=False) + "\n")
        told(tasks, texts, heat)
        print(f"  {spent:.0f} CPU-seconds")
        if wanted.out is not None:
            wanted.out.write_text("".join(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
