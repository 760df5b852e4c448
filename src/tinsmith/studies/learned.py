"""Results of training on any task: gains in every measure, forgetting, baselines, and answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import tinsmith as ts
from tinsmith.lab.page.examples import shown_replies
from tinsmith.lab.study.measures import corrected, ends_of, estimated, gain_of, item_score
from tinsmith.lab.study.record import Column, ExampleRecord, Panel, Shown
from tinsmith.pages.document import Reply
from tinsmith.pages.measures import from_estimate, p_words
from tinsmith.stats.mean_runs import mean_difference
from tinsmith.types.seeds import derive

GAIN_HEADS: Final = (
    *("measure", "before", "after", Column(head="gain|95 % interval", form="+.3f"), "p|Holm", "finding"),
)
SHOWN: Final = 6  # Held-out items whose answers stand beside each other.


def all_gains(results: ts.Results, measures: Mapping[str, str]) -> list[list[Shown]]:
    """Return what every arm gained in every measure, sampled and greedily.

    p is corrected by Holm: the study's score, sampled, over the arms, and all other measures together.
    """
    found = {
        (label, name, greedy): gain_of(arm, ts.PerItem(name, name, metric), results.draws, greedy=greedy)
        for label, arm in results.reported_arms.items()
        for name, metric in measures.items()
        for greedy in (False, True)
    }
    first = [key for key in found if key[1:] == (item_score(results.study.score).label, False)]
    for family in (first, [key for key in found if key not in first]):
        found |= zip(family, corrected([found[key] for key in family]), strict=True)
    rows: list[list[Shown]] = []
    for (_, name, greedy), one in found.items():
        finding = ("more" if one.gain.value > 0 else "less") if one.holds else "cannot tell"
        p_shown = p_words(one.p_holm).removeprefix("p ").removeprefix("= ")
        named = f"{name}, {'greedy' if greedy else 'sampled'}"
        rows.append([one.words, named, one.before, one.after, one.gain, p_shown, finding])
    return rows


def forgotten(results: ts.Results) -> list[list[Shown]]:
    """Return how much less each arm foresees general texts, after training less before."""
    rows: list[list[Shown]] = []
    for arm in results.reported_arms.values():
        if (general := arm.general()) is None:
            rows.append([arm.arm.label, "no general text was read", None])
        else:
            gap = mean_difference(general[1], general[0], results.draws.tables, paired=True)
            rows.append([arm.arm.label, f"{general[1].num_items:,}", from_estimate(gap)])
    return rows


def baselines(results: ts.Results, score: ts.PerItem) -> list[list[Shown]]:
    """Return what the baselines of the task have in a score, and what the model has before training."""
    first = next(iter(results.arms.values()))
    found: list[list[Shown]] = [["before training", results.before(first.arm.name, score)]]
    for one in first.reads[0].task.baselines:
        values = first.baseline(one.name, score.metric)
        found.append([one.name, "failed" if values is None else estimated(values, results.draws)])
    return found


def ends_and_baselines(results: ts.Results, score: ts.PerItem) -> tuple[list[str], list[Panel]]:
    """Return every arm before and after training, and the baselines, as a picture has them."""
    known, ends = baselines(results, score)[1:], ends_of(results, score)
    values = [None if isinstance(one, str) else one for _, one in known]
    panel = Panel(title=ends.title, before=(*ends.before, *[None] * len(known)), after=(*ends.after, *values))
    return [*results.reported, *(str(name) for name, _ in known)], [panel]


def answers_side_by_side(results: ts.Results) -> tuple[ExampleRecord, ...]:
    """Return some held-out items as every arm answered them, before and after, in the run with the first seed.

    Before training all runs are one model: where they drew the same, it stands once.
    """
    exams = {arm.arm.label: arm.reads[0].sampled for arm in results.reported_arms.values()}
    prompts = {one.id: one.prompt for one in next(iter(results.arms.values())).reads[0].task.items}
    examples: list[ExampleRecord] = []
    for item in sorted(prompts, key=lambda name: derive(0, "shown", name))[:SHOWN]:
        before = {label: some[0].shown.get(item) for label, some in exams.items()}
        alike = len({None if one is None else one.text for one in before.values()}) == 1
        replies: list[Reply] = []
        for label, some in exams.items():
            start, last = before[label], some[-1].shown.get(item)
            if start is not None and (not alike or not replies):
                replies += shown_replies(start, "before training" if alike else f"{label}, before")
            if last is None:
                replies.append(Reply(title=f"{label}, after", text="(the rollout failed)"))
            elif len(some) > 1:
                replies += shown_replies(last, f"{label}, after")
        examples.append(ExampleRecord(title=item, prompt=prompts[item], replies=tuple(replies)))
    return tuple(examples)
