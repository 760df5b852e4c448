"""The first paragraph of one run's page: what was asked, what happened, which claims hold, from the figures alone."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.lab.results.judging import Judged, verdict_words
from tinsmith.lab.results.run_map import status_words, steps_words
from tinsmith.lab.results.snapshot import System
from tinsmith.lab.runs.kinds import Kind, Status
from tinsmith.lab.runs.records import Run
from tinsmith.pages.measures import Measures, from_row
from tinsmith.pages.wording import counted, listed, percent, told
from tinsmith.stats.gate.claim import ClaimKind
from tinsmith.stats.monitors.alarms import AlarmKind


def run_story(run: Run, systems: Sequence[System], judged: Sequence[Judged]) -> tuple[str, ...]:
    """Return the sentences; what is not known is said to be so."""
    sentences = (
        asked(run),
        _unread(run),
        _reached(run, systems),
        _beside_baselines(judged),
        _collapse(run),
        _contract(run),
        *_claims(judged),
    )
    return tuple(sentence for sentence in sentences if sentence)


def asked(run: Run) -> str:
    """Say what was asked, what was trained by which reward, and how far it came."""
    config = run.config
    by = config.kind.words
    reward = (config.reward or {}).get("name", "without a name")
    if config.kind is Kind.RL and config.reward:
        by = f"{by} with the reward {reward}"
    if config.kind is Kind.JOINT:
        by = f"{by}, each paid for by a reward {reward} of its own,"
    seed = "" if config.seed is None else f", seed {config.seed}"
    status = run.manifest.status if run.manifest else ""
    how = "" if status == Status.FINISHED else f"; it is {status_words(run)}"
    if run.manifest is None:
        how = "; how it ended is not known, as it has no manifest"
    model = f"{config.model_name or 'a model'} by {by} for {steps_words(run)}{seed}{how}."
    asks = f"asks \u201c{config.question}\u201d and " if config.question else ""
    return f"This run {asks}trained {model}"


def _unread(run: Run) -> str:
    """Say first that no answer could be read, where that was so: all that follows rests on answers."""
    seen = [alarm for alarm in run.alarms if alarm.kind == AlarmKind.UNREAD]
    if not seen:
        return ""
    steps = listed([f"step {alarm.step}" for alarm in seen if alarm.step is not None])
    when = f" at {steps}" if steps else ""
    return (
        f"Hardly any answer could be read{when}: what is said of labels there means nothing, and a low score is one of "
        "form."
    )


def _reached(run: Run, systems: Sequence[System]) -> str:
    if not systems:
        return "It was not evaluated, so nothing can be said of what it learned."
    first = systems[0]
    tested = _tested(run)
    papers = "test paper" if tested else "validation paper"
    items = counted(first.num_items, papers) if first.num_items else f"the {papers}s"
    if not tested:
        items += " (the test split was not reached)"
    values = first.measures
    if "macro_f1" not in values or "label_match" not in values:
        return f"On {items} its scores are missing."
    sentence = (
        f"On {items} it reaches a macro-F1 of {told(values['macro_f1'])} and a label_match of "
        f"{told(values['label_match'])}, sampled at the training temperature"
    )
    greedy = next((one for one in systems if "greedy" in one.name), None)
    if greedy and "macro_f1" in greedy.measures:
        sentence += f"; greedily its macro-F1 is {told(greedy.measures['macro_f1'])}"
    return sentence + "."


def _tested(run: Run) -> bool:
    return any("test/label_match" in row for row in run.metrics.values())


def _beside_baselines(judged: Sequence[Judged]) -> str:
    """Say which baselines the macro-F1 lies above, by the difference alone."""
    if not judged:
        return ""
    judged = [one for one in judged if one.kind is ClaimKind.BEATS]
    above = [one.second for one in judged if one.higher]
    below = [one.second for one in judged if one.interval is not None and one.interval.high < 0]
    even = [one.second for one in judged if one.second not in above and one.second not in below]
    parts = [
        f"{words} {listed(names)}"
        for words, names in (("above", above), ("indistinguishable from", even), ("below", below))
        if names
    ]
    return f"Beside the baselines its macro-F1 is {listed(parts)}."


def _collapse(run: Run) -> str:
    end = _last_evaluation(run)
    if not end:
        return ""
    shares, recalls = _by_label(run, end, "predicted_share"), _by_label(run, end, "recall")
    if not shares or not recalls:
        return ""
    top, low = max(shares, key=shares.__getitem__), min(recalls, key=recalls.__getitem__)
    state = (
        f"At its last evaluation {percent(shares[top])} of the answers are {top}, and the smallest recall is "
        f"{recalls[low]:.3f} ({low})"
    )
    if not run.alarms:
        return f"{state}; no alarm was raised."
    ruling = sorted({a.label for a in run.alarms if a.kind == AlarmKind.SHARE and a.label})
    collapsed = f"; it collapsed into {listed(ruling)}" if ruling else ""
    step = run.alarms[0].step
    first = "" if len(run.alarms) == 1 else ", the first"
    when = f"{first} at step {step}" if step is not None else ""
    raised = counted(len(run.alarms), "alarm was", "alarms were")
    return f"{state}{collapsed}; {raised} raised{when}."


def _by_label(run: Run, measures: Measures, name: str) -> dict[str, float]:
    found = {label: measures.get(f"{name}/{label}") for label in run.labels}
    return {label: measure.value for label, measure in found.items() if measure is not None}


def _last_evaluation(run: Run) -> Measures:
    rows = [row for row in run.metrics.values() if row.get("eval/label_match") is not None]
    return from_row(rows[-1], "eval") if rows else {}


def _contract(run: Run) -> str:
    values = [value for row in run.metrics.values() if (value := row.get("eval/parse_ok")) is not None]
    if not values:
        return ""
    if len(values) == 1:
        return f"{percent(values[0])} of its answers are JSON."
    return f"The share of answers that are JSON went from {percent(values[0])} to {percent(values[-1])}."


def _claims(judged: Sequence[Judged]) -> tuple[str, ...]:
    if not judged:
        return ("No claim is judged: that takes answers to the test split and the slice's baselines.",)
    why = "What was learned takes a control on shuffled labels too, which only a comparison of runs can bring."
    return (*verdict_words(judged), why)
