"""The sentences at the top of the page of a run on a user's own task: the gain, and what it stands beside."""

from __future__ import annotations

from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.user_task.pages.gains import Gain, Gains, gain_words, mean_of
from tinsmith.lab.user_task.records import TaskRunRecords
from tinsmith.pages.wording import counted, signed

FEW = 12
"""Items below which a page says that they are few."""


def task_story(read: TaskRunRecords, gains: Gains) -> tuple[str, ...]:
    """Return the sentences; the first is the answer."""
    told = (
        _answer(read, gains.sampled),
        _greedy(read, gains.greedy),
        *(_other(one) for one in gains.others),
        *_failed_baselines(read),
        _distinct(read),
        _failures(read),
        _alarms(read),
    )
    return tuple(sentence for sentence in told if sentence)


def cannot_be_said(read: TaskRunRecords, gains: Gains) -> tuple[str, ...]:
    """Return what the figures do not show, each in a sentence."""
    told: list[str] = []
    found = gains.sampled
    if found is not None and not found.holds:
        told.append("That training changed nothing: a gain that cannot be shown may be there.")
    if read.run.manifest is not None and read.run.manifest.status != Status.FINISHED:
        told.append("What the end will show: the run is not over, and a look on the way is no test.")
    if not read.held_out:
        told.append("Anything about items that were not trained on: none were held out.")
    if found is not None and found.found.n < FEW:
        told.append(f"Much about items in general: there are only {counted(found.found.n, 'item')}.")
    if not read.task.baselines:
        told.append("That a model is needed for this reward: the task names no baseline.")
    seed = read.run.config.seed
    told.append(
        f"What another seed gives: this is one trained model (seed {'not stated' if seed is None else seed}), and "
        "the intervals are over items alone."
    )
    return tuple(told)


def _items(read: TaskRunRecords, count: int) -> str:
    if read.held_out:
        return counted(count, "held-out item")
    return f"{counted(count, 'item')} that {'is' if count == 1 else 'are'} also trained on"


def _answer(read: TaskRunRecords, gain: Gain | None) -> str:
    if not read.sampled:
        return "Nothing can be said: the run was never evaluated."
    first, last = read.sampled[0], read.sampled[-1]
    if gain is None:
        found = mean_of(last.by_item(), read)
        return (
            f"There is no gain to speak of: the run was evaluated once, at step {last.step}, with a mean reward of "
            f"{found} on {_items(read, len(last.by_item()))}."
        )
    found = gain.found
    before = "before training" if first.step == 0 else f"at step {first.step}"
    if found.risen == found.fallen == 0:
        return (
            f"On {_items(read, found.n)} nothing moved: every one earns what it did {before}, {found.first:.3f} on "
            f"average after {counted(last.step, 'step')}."
        )
    moved = "rose" if found.gain > 0 else "fell" if found.gain < 0 else "went"
    told = (
        f"On {_items(read, found.n)} the mean reward {moved} from {found.first:.3f} {before} to {found.second:.3f} "
        f"after {counted(last.step, 'step')}: gain {gain_words(gain)}."
    )
    if gain.holds:
        return f"{told} The trained model earns {'more' if found.gain > 0 else 'less'} on items like these."
    if found.interval is None:
        return f"{told} One item gives no interval: nothing is claimed."
    return f"{told} That is too little to tell from chance: nothing is claimed."


def _greedy(read: TaskRunRecords, gain: Gain | None) -> str:
    if gain is None:
        return ""
    found = gain.found
    return (
        f"Greedy, one answer an item: {found.first:.3f} at step {read.greedy[0].step}, {found.second:.3f} at step "
        f"{read.greedy[-1].step}, gain {gain_words(gain)}{_unclaimed(gain)}."
    )


def _other(gain: Gain) -> str:
    found = gain.found
    if gain.name != "reward":
        return (
            f"Of that, {gain.name} went from {found.first:.3f} to {found.second:.3f}: "
            f"{gain_words(gain)}{_unclaimed(gain)}."
        )
    where = "above" if found.gain > 0 else "equal to" if found.gain == 0 else "below"
    return (
        f"The trained model, sampled, is {where} {gain.over} ({found.first:.3f}): {gain_words(gain)}{_unclaimed(gain)}."
    )


def _unclaimed(gain: Gain) -> str:
    return "" if gain.holds else ", which cannot be told from none"


def _failed_baselines(read: TaskRunRecords) -> list[str]:
    return [
        f"What the baseline {one.name} earns is not known: {one.failure}." for one in read.task.baselines if one.failure
    ]


def _distinct(read: TaskRunRecords) -> str:
    if not read.sampled:
        return ""
    first, last = read.sampled[0], read.sampled[-1]
    shares = [len(one.texts) / one.texts.total() for one in (first, last)]
    moved = f" ({signed(shares[1] - shares[0])})" if first is not last else ""
    return (
        f"Of {counted(last.texts.total(), 'sampled answer')} {len(last.texts):,} are distinct texts, a share of "
        f"{shares[1]:.3f}{moved}."
    )


def _failures(read: TaskRunRecords) -> str:
    failed = sum(read.failures.values())
    if not failed:
        return ""
    return f"{failed:,} of {counted(read.rollouts, 'rollout')} failed and have no reward; the causes stand below."


def _alarms(read: TaskRunRecords) -> str:
    alarms = read.run.alarms
    if not alarms:
        return "No alarm was raised: no text answers most prompts, and rollouts did not fail often."
    return f"{counted(len(alarms), 'alarm')} raised; see below."
