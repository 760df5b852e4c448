"""Rows and pictures of studies on tasks: gains in every measure, baselines, forgetting, answers side by side."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.page.examples import shown_replies
from tinsmith.lab.study.measures import AFTER, BEFORE, ArmRuns, Results, estimated
from tinsmith.lab.study.record import Column, ExampleRecord, Panel, Shown, as_measure
from tinsmith.lab.study.study import PerItem
from tinsmith.pages.document import Reply
from tinsmith.pages.wording import p_words
from tinsmith.stats.mean_runs import mean_difference
from tinsmith.stats.significance import ALPHA, holm
from tinsmith.types.seeds import derive

GAIN_HEADS = ("measure", "before", "after", Column(head="gain|95 % interval", form="+.3f"), "p|Holm", "finding")
SHOWN = 6
"""Held-out items whose answers stand beside each other."""


def reported_arms(results: Results) -> dict[str, ArmRuns]:
    """Return the arms that have gains and claims."""
    return {name: arm for name, arm in results.arms.items() if not arm.arm.is_aside}


def all_gains(results: Results, measures: Mapping[str, str]) -> list[list[Shown]]:
    """Return what every arm gained in every measure, sampled and greedily.

    p is corrected by Holm: the study's score, sampled, over the arms, and all other measures together.

    Args:
        results: of the study.
        measures: terms of the reward and metrics, by what each is called.
    """
    found = [
        (arm, name, greedy, mean_difference(after, before, results.draws.tables, same_models=True), before, after)
        for arm in reported_arms(results).values()
        for name, metric in measures.items()
        for greedy in (False, True)
        for one in [PerItem(name, name, metric)]
        for before, after in [(arm.per_item(one, BEFORE, greedy=greedy), arm.per_item(one, AFTER, greedy=greedy))]
    ]
    primary = [name == results.study.score.label and not greedy for _, name, greedy, *_ in found]
    p_values = [gap.p_value for _, _, _, gap, *_ in found]
    for is_first in (True, False):
        places = [place for place, one in enumerate(primary) if one is is_first]
        for place, p_value in zip(places, holm([p_values[place] for place in places]) if places else (), strict=True):
            p_values[place] = p_value
    rows: list[list[Shown]] = []
    for (arm, name, greedy, gap, before, after), p_value in zip(found, p_values, strict=True):
        ends = gap.interval
        holds = ends is not None and not ends.low <= 0.0 <= ends.high and p_value <= ALPHA
        finding = ("more" if gap.value > 0 else "less") if holds else "cannot tell"
        means = [estimated(one, results.draws) for one in (before, after)]
        named = f"{name}, {'greedy' if greedy else 'sampled'}"
        p_shown = p_words(p_value).removeprefix("p ").removeprefix("= ")
        rows.append([arm.arm.label, named, *means, as_measure(gap), p_shown, finding])
    return rows


def forgotten(results: Results) -> list[list[Shown]]:
    """Return how much less each arm foresees general texts, after training less before."""
    rows: list[list[Shown]] = []
    for arm in reported_arms(results).values():
        general = arm.read.general()
        if general is None:
            rows.append([arm.arm.label, "no general text was read", None])
            continue
        before, after = general
        gap = mean_difference(after, before, results.draws.tables, same_models=True)
        rows.append([arm.arm.label, f"{after.num_items:,}", as_measure(gap)])
    return rows


def baselines(results: Results, score: PerItem) -> list[list[Shown]]:
    """Return what the baselines of the task have in a score, and what the model has before training."""
    first = next(iter(results.arms.values()))
    found: list[list[Shown]] = [["before training", estimated(first.per_item(score, BEFORE), results.draws)]]
    for one in first.read.reads[0].task.baselines:
        values = first.baseline(one.name, score.metric)
        found.append([one.name, "failed" if values is None else estimated(values, results.draws)])
    return found


def ends_and_baselines(results: Results, score: PerItem) -> tuple[list[str], list[Panel]]:
    """Return every arm before and after training, and the baselines, as a picture has them."""
    arms = reported_arms(results).values()
    known = baselines(results, score)[1:]
    before = [estimated(arm.per_item(score, BEFORE), results.draws) for arm in arms]
    after = [estimated(arm.per_item(score, AFTER), results.draws) for arm in arms]
    values = [None if isinstance(one, str) else one for _, one in known]
    panel = Panel(title=score.label, before=(*before, *[None] * len(known)), after=(*after, *values))
    return [*(arm.arm.label for arm in arms), *(str(name) for name, _ in known)], [panel]


def answers_side_by_side(results: Results) -> tuple[ExampleRecord, ...]:
    """Return some held-out items as every arm answered them, before and after, in the run with the first seed.

    Before training all runs are one model: where they drew the same, it stands once.
    """
    arms = reported_arms(results)
    first = next(iter(arms.values())).read.reads[0]
    prompts = {one.id: one.prompt for one in first.task.items}
    chosen = sorted(prompts, key=lambda name: derive(0, "shown", name))[:SHOWN]
    return tuple(
        ExampleRecord(title=item, prompt=prompts[item], replies=tuple(_replies(arms, item))) for item in chosen
    )


def _replies(arms: Mapping[str, ArmRuns], item: str) -> list[Reply]:
    exams = {arm.arm.label: arm.read.reads[0].sampled for arm in arms.values()}
    before = {label: some[0].shown.get(item) for label, some in exams.items()}
    alike = len({None if one is None else one.text for one in before.values()}) == 1
    found: list[Reply] = []
    for label, some in exams.items():
        start, last = before[label], some[-1].shown.get(item)
        if start is not None and (not alike or not found):
            found += shown_replies(start, "before training" if alike else f"{label}, before")
        if last is None:
            found.append(Reply(title=f"{label}, after", text="(the rollout failed)"))
        elif len(some) > 1:
            found += shown_replies(last, f"{label}, after")
    return found
