"""The page of a study of learning: before and after by arm first, then gains, curves, forgetting, answers, hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.results.claim_tables import claims_table
from tinsmith.lab.results.drawn_metrics import last_values
from tinsmith.lab.results.judging import of_claim
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds
from tinsmith.lab.study.task_arms import ArmRead
from tinsmith.lab.study.tried_rates import Tried, rate_words
from tinsmith.lab.user_task.pages.page import prompt_block, shown_replies
from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.document import (
    Block,
    Bullets,
    Document,
    Drawing,
    Example,
    Fold,
    Reply,
    Section,
    drawn,
    kept,
    missing,
    note,
)
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, absent, measured, number, table_of, text, whole
from tinsmith.pages.wording import p_words, signed
from tinsmith.studies.learning.headline import headline
from tinsmith.studies.learning.keys import CONTROLS, TRAINED, WORDS, ArmName
from tinsmith.studies.learning.results import LearnedArm, LearningFound, Moved
from tinsmith.studies.learning.story import holds, rate_of, shown_measure
from tinsmith.types.seeds import derive

ANSWERS: Final = "answers"
"""The anchor of the section that has them."""
SHOWN: Final = 6
"""Held-out items whose answers stand beside each other."""
_EFFORT: Final = (
    "Effort is counted in training items that are looked at, again where they come again. SFT reads an item's right "
    "answer, RL samples a group of answers to it and is told what each earns, SFT then RL does half of each. Tokens "
    "and time are not equal; seconds stand below."
)


def learning_page(
    found: LearningFound, sentences: tuple[str, ...], reads: Mapping[ArmName, ArmRead], seconds: Mapping[str, Seconds]
) -> Document:
    """Return the page."""
    return study_document(
        title=f"What is learned of {found.task}",
        question=found.question,
        facts=_facts(found),
        sentences=headline(found),
        beside=(
            _before_and_after(found),
            Fold("The same with intervals, and what may not be claimed", [Bullets(sentences)]),
        ),
        sections=(
            Section("gains", "Gains", _gains(found)),
            Section("curve", "Over the items seen", _curve(found)),
            *([Section("sizes", "Over the items there are", _sizes(found))] if found.sized else []),
            Section("forgetting", "Forgetting", (_forgetting(found),)),
            Section(ANSWERS, "Answers", _answers(reads)),
            Section("claims", "Claims", _claims(found)),
            *([Section("rates", "Learning rates", (_rates(found),))] if found.rates else []),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _facts(found: LearningFound) -> tuple[tuple[str, str], ...]:
    return (
        ("Task", found.task),
        ("Items", found.data[:16]),
        ("Trained on", "not stated" if found.num_train is None else f"{found.num_train:,} items"),
        ("Held out", f"{found.num_items:,} items, {found.num_clusters:,} independent"),
        ("Seeds", ", ".join(map(str, found.seeds))),
        ("Rates chosen on seed", str(found.tuning_seed) if found.rates else "none: all given"),
    )


def _before_and_after(found: LearningFound) -> Block:
    """The one picture: the score of every arm before and after, with the task's baselines."""
    rows = [arm.words for arm in found.arms] + [one.name for one in found.baselines]
    moved = [arm.of(found.score) for arm in found.arms]
    none = [None] * len(found.baselines)
    before: list[Measure | None] = [*(one and one.before for one in moved), *none]
    after: list[Measure | None] = [*(one and one.after for one in moved), *(one.score for one in found.baselines)]
    ends = [
        end for one in (*before, *after) if one is not None for end in (one.value, one.low, one.high) if end is not None
    ]
    name = shown_measure(found.score)
    panel = Panel(
        title=f"{name}, held out, sampled; 95 % intervals over seeds and items",
        dots=[Dots("before", series_mark(6), before), Dots("after", series_mark(0), after)],
        high=max(ends, default=0.0) or 1.0,
        low=min(ends, default=0.0) if min(ends, default=0.0) < 0.0 else 0.0,
    )
    told = "; ".join(
        f"{row} {'missing' if one is None else f'{one.value:.3f}'}" for row, one in zip(rows, after, strict=True)
    )
    svg = dots_svg("arms", f"{name} after training. {told}.", rows, [panel], width=7.2)
    return drawn(svg, "Missing: nothing was evaluated.")


def _gains(found: LearningFound) -> Sequence[Block]:
    rows = [(arm, one) for arm in found.arms for one in arm.moved]
    table = table_of(
        "Means over seeds and held-out items, each above its 95 % interval. Interval of a gain: seeds, and items or "
        "pairs of them, drawn with replacement, before and after together. p: the larger of that of these draws and of "
        "flips of the signs of the items' or pairs' gains, two-sided, corrected by Holm: the score, sampled, "
        "over the arms, and all other measures together.",
        rows,
        ("Arm", lambda row: text(row[0].words, rate_of(row[0]))),
        (text("Measure"), lambda row: text(shown_measure(row[1].name), _how(row[1]))),
        ("before", lambda row: measured(row[1].before)),
        ("after", lambda row: measured(row[1].after)),
        ("gain|95 % interval", lambda row: _signed(row[1].gain)),
        ("p|Holm", lambda row: Cell(text=_bare(row[1].p_holm), number=True)),
        (text("Finding"), lambda row: text(_finding(row[1]))),
    )
    return (note(_EFFORT), _efforts(found), table)


def _bare(p_value: float) -> str:
    return p_words(p_value).removeprefix("p ").removeprefix("= ")


def _how(one: Moved) -> str:
    return "greedy" if one.greedy else "sampled"


def _finding(one: Moved) -> str:
    if not holds(one):
        return "cannot tell"
    return "more" if one.gain.value > 0 else "less"


def _signed(one: Measure) -> Cell:
    under = "" if one.low is None or one.high is None else f"{signed(one.low)} to {signed(one.high)}"
    return Cell(text=signed(one.value), under=under, number=True)


def _efforts(found: LearningFound) -> Table:
    return table_of(
        "What each run of an arm looks at.",
        found.arms,
        ("Arm", lambda arm: text(arm.words, rate_of(arm))),
        ("items seen", lambda arm: whole(arm.effort.items)),
        ("by example|items", lambda arm: whole(arm.effort.supervised)),
        ("by reward|items", lambda arm: whole(arm.effort.rewarded)),
        ("steps", lambda arm: whole(arm.effort.steps)),
    )


def _curve(found: LearningFound) -> Sequence[Block]:
    name = shown_measure(found.score)
    lines = [_line(arm, place) for place, arm in enumerate(found.arms)]
    svg = chart_svg(
        Chart(
            name="seen",
            label=f"{name} of held-out items, sampled, over items seen: {last_values(lines)}.",
            lines=lines,
            axis="training items looked at",
            unit=name,
        )
    )
    rows = [(arm, look) for arm in found.arms for look in arm.looks]
    table = table_of(
        "The same as figures.",
        rows,
        ("Arm", lambda row: text(row[0].words)),
        ("items seen", lambda row: whole(row[1].items_seen)),
        ("step", lambda row: whole(row[1].step)),
        (f"{name}|sampled", lambda row: measured(row[1].value)),
    )
    return (
        drawn(svg, "Missing: nothing was evaluated."),
        note("Bands are 95 % intervals over seeds and items."),
        Fold("The figures", [table]),
    )


def _line(arm: LearnedArm, place: int) -> Line:
    values = [one.value for one in arm.looks]
    whole_band = all(one.low is not None and one.high is not None for one in values)
    return Line(
        label=arm.words,
        mark=series_mark(place),
        steps=[one.items_seen for one in arm.looks],
        values=[one.value for one in values],
        low=[one.low or 0.0 for one in values] if whole_band else None,
        high=[one.high or 0.0 for one in values] if whole_band else None,
    )


def _sizes(found: LearningFound) -> Sequence[Block]:
    name = shown_measure(found.score)
    names = list(dict.fromkeys(one.arm for one in found.sized))
    lines = [
        Line(
            label=WORDS[arm],
            mark=series_mark(place),
            steps=[one.size for one in found.sized if one.arm is arm],
            values=[one.value.value for one in found.sized if one.arm is arm],
        )
        for place, arm in enumerate(names)
    ]
    svg = chart_svg(
        Chart(
            name="sizes",
            label=f"{name} after training, by how many items there are: {last_values(lines)}.",
            lines=lines,
            axis="items to train on",
            unit=name,
        )
    )
    table = table_of(
        "Held-out items, sampled, after training that looks at as many items however few there are.",
        found.sized,
        ("Arm", lambda one: text(WORDS[one.arm])),
        ("items|to train on", lambda one: whole(one.size)),
        (name, lambda one: measured(one.value)),
    )
    return kept(None if svg is None else Drawing(svg), table)


def _forgetting(found: LearningFound) -> Block:
    if all(arm.forgotten is None for arm in found.arms):
        return missing("Missing: no general text was read (watch_forgetting=true).")
    return table_of(
        "Mean log-probability of a token of general texts, after training less before, in nats: below 0 is forgotten. "
        "95 % intervals over seeds and texts.",
        found.arms,
        ("Arm", lambda arm: text(arm.words, rate_of(arm))),
        ("texts", lambda arm: whole(arm.forgotten and arm.forgotten.num_texts)),
        ("change|nats a token", lambda arm: absent() if arm.forgotten is None else _signed(arm.forgotten.change)),
    )


def _answers(reads: Mapping[ArmName, ArmRead]) -> Sequence[Block]:
    """Return the same held-out items as every arm answered them, before and after, in its first run."""
    first = next(iter(reads.values())).reads[0]
    ids = sorted((one.id for one in first.task.items), key=lambda name: derive(0, "shown", name))
    prompts = {one.id: one.prompt for one in first.task.items}
    chosen = note(
        f"{min(SHOWN, len(ids))} held-out items, drawn whatever was answered; of each the first sampled answer in the "
        "runs with the first seed. Before training all runs are one model; where they drew the same, it stands once."
    )
    return [chosen, *(Example(name, [prompt_block(prompts[name])], _side_by_side(reads, name)) for name in ids[:SHOWN])]


def _side_by_side(reads: Mapping[ArmName, ArmRead], item: str) -> list[Reply]:
    firsts = {name: read.reads[0].sampled for name, read in reads.items()}
    before = {name: exams[0].shown.get(item) for name, exams in firsts.items()}
    alike = len({None if one is None else one.text for one in before.values()}) == 1
    replies: list[Reply] = []
    for name, exams in firsts.items():
        start = before[name]
        if start is not None and (not alike or not replies):
            title = WORDS[ArmName.ZERO_SHOT] if alike else f"{WORDS[name]}, before"
            replies += shown_replies(start, title)
        last = exams[-1].shown.get(item)
        if last is None:
            replies.append(Reply(title=f"{WORDS[name]}, after", text="(the rollout failed)"))
        elif len(exams) > 1:
            replies += shown_replies(last, f"{WORDS[name]}, after")
    return replies


def _claims(found: LearningFound) -> Sequence[Block]:
    methods = ", ".join(f"{WORDS[name]} by {WORDS[CONTROLS[name]]}" for name in TRAINED)
    words = (
        "Beats: scored on the same items, the first trained on no more items than the second; Holm's correction runs "
        "over all of these. Learned: above the model before training, above every baseline of the task, and above the "
        f"same training on shuffled labels ({methods}). A check without its evidence refuses as a failed one does."
    )
    metric = shown_measure(found.score)
    return (
        note(words),
        Fold(
            "What the gate says, claim by claim",
            [Bullets([f"{one.sentence()}." for one in (*found.beats, *found.learned)])],
        ),
        Fold("One beats the other", [claims_table([of_claim(one) for one in found.beats], metric)]),
        Fold(
            "Something was learned that nothing simpler explains",
            [claims_table([of_claim(one) for one in found.learned], metric)],
        ),
    )


def _rates(found: LearningFound) -> Table:
    rows = [(name, one) for name, tried in found.rates.items() for one in tried]
    chosen = {arm.words: arm.rate for arm in found.arms}

    def behind(one: Tried) -> Cell:
        return absent("") if one.behind is None else _signed(one.behind)

    return table_of(
        f"Score on a validation part of the training items, seed {found.tuning_seed}; what is held out was not looked "
        "at to choose. Behind: the chosen rate's score less this one's, on the same items.",
        rows,
        ("Arm", lambda row: text(row[0])),
        ("rate", lambda row: Cell(text=f"{row[1].rate:g}", number=True)),
        ("validation|sampled", lambda row: number(row[1].validation)),
        ("validation|greedy", lambda row: number(row[1].tie_break)),
        ("behind|95 % interval", lambda row: behind(row[1])),
        (text("Finding"), lambda row: text(rate_words(row[1], chosen.get(row[0])))),
    )
