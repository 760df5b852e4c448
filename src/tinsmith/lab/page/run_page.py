"""The page of a run on a task: differences on its items as rows and sentences, curves, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from tinsmith.lab.page import examples
from tinsmith.lab.results import run_details as details
from tinsmith.lab.results.run_details import Drawn
from tinsmith.lab.runs.files import Status
from tinsmith.lab.runs.reader import Examination, TaskRunRecords, read_task_run
from tinsmith.lab.runs.records import PASS_RATE, SPLIT_WORDS, Run, SectionRecord, Split, examples_summary
from tinsmith.lab.study.record import Column, Shown, apart
from tinsmith.lab.study.terms import CAPTION, audit_of_run, term_rows
from tinsmith.lab.study.terms import HEADS as TERM_HEADS
from tinsmith.pages.curves import Line
from tinsmith.pages.document import Block, Document, Pairs, Plate, Plates, Section, Tone, Words, missing, present
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.measures import Measure, counted, from_estimate, ranged, signed
from tinsmith.pages.tables import Table, plain, shown_table
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.mean_runs import MeanRuns, common_items, mean_difference, mean_ratio, shared_items
from tinsmith.stats.monitors import AlarmKind
from tinsmith.stats.significance import ALPHA, holm
from tinsmith.types.page_names import p_cell, p_words

BOOTSTRAP: Final = Bootstrap()
BASELINE: Final = "the baseline "
FEW: Final = 12  # Items below which a page says that they are few.
HEADS: Final = ("items", "from", "to", apart("difference"), "p|Holm", "up / down|items", "Finding")
MORE_HEADS: Final = (*HEADS, "ratio|95 % interval", "standard error")
HOW: Final = (
    "The answers to one item are averaged first; items of one unit are drawn together. Interval: bootstrap over units "
    "and seeds. p: the larger of the resamples' and that of flips of the signs of the units' differences, two-sided."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The difference of two systems on the items that both have: `second` less `first`."""

    name: str  # Of the second, or of the value.
    against: str
    first: MeanRuns
    second: MeanRuns
    delta: Measure
    p_value: float  # Corrected by Holm, unless it is primary.
    error: float | None  # Standard deviation of the difference over the resamples; None of one unit.
    is_primary: bool = False  # True if a run is made for it: its p is not corrected for the others.

    @classmethod
    def of(
        cls,
        name: str,
        against: str,
        systems: tuple[MeanRuns, MeanRuns],
        draws: Bootstrap,
        *,
        same_models: bool = False,
        is_primary: bool = False,
    ) -> list[Gap]:
        """Measure the second of two systems minus the first; empty without common items.

        `same_models` is true if row s of both is one run, such as before and after its training.
        """
        if not common_items(systems)[0]:
            return []
        (first, second), _ = shared_items(systems)
        gap = mean_difference(second, first, draws, paired=same_models)
        difference = cls(
            name=name,
            against=against,
            first=first,
            second=second,
            delta=from_estimate(gap),
            p_value=gap.p_value,
            error=None if gap.interval is None else float(np.nanstd(gap.draws)),
            is_primary=is_primary,
        )
        return [difference]

    @property
    def holds(self) -> bool:
        """True if the interval leaves out 0 and the test refuses 0."""
        return (self.delta.above(0.0) or self.delta.below(0.0)) and self.p_value <= ALPHA

    @property
    def side(self) -> int:
        """1 if the second is above the first, -1 if below, 0 without a significant difference."""
        return (1 if self.delta.value > 0 else -1) if self.holds else 0

    @property
    def finding(self) -> str:
        """Finding, in a word or two."""
        return ("cannot tell", "more", "less")[self.side]

    @property
    def sentence(self) -> str:
        """The difference in words."""
        ends = self.delta.between or "no interval from one unit"
        gain = f"{signed(self.delta.value)} (95 % interval {ends}, {p_words(self.p_value)})"
        between = f"{self.first.mean():.3f} to {self.second.mean():.3f}"
        return f"{self.name} against {self.against}: {between}, {gain}: {self.finding}."

    @property
    def row(self) -> list[Shown]:
        """Cells of a table with HEADS."""
        before, after = self.first.pooled(), self.second.pooled()
        both = before.keys() & after.keys()
        moved = " / ".join(str(sum(sign * (after[one] - before[one]) > 0 for one in both)) for sign in (1, -1))
        ends, p_text = (Measure(self.first.mean()), Measure(self.second.mean())), p_cell(self.p_value)
        return [f"{self.name}|against {self.against}", f"{len(both):,}", *ends, self.delta, p_text, moved, self.finding]

    def row_with_ratio(self, draws: Bootstrap) -> list[Shown]:
        """Return cells of a table with MORE_HEADS."""
        ratio = mean_ratio(self.second, self.first, draws)
        error = None if self.error is None else Measure(self.error)
        return [*self.row, None if ratio is None else from_estimate(ratio), error]


def corrected(gaps: Sequence[Gap]) -> list[Gap]:
    """Return differences of which those that are not primary are one family, corrected by Holm."""
    family = [one.p_value for one in gaps if not one.is_primary]
    p_holm = iter(holm(family) if family else ())
    return [one if one.is_primary else replace(one, p_value=next(p_holm)) for one in gaps]


def page_of_run(run: Run) -> Document:
    """Return the page of a run on a task; equal folders give equal bytes."""
    read = examples.with_best_text(read_task_run(run))
    read = read if read.sampled else read.at_test
    gaps, judging = compared(read), read.judging
    is_over = run.manifest is not None and run.manifest.status == Status.FINISHED
    caption, rows = f"{HOW} p of what stands below the score is corrected.", [one.row for one in gaps]
    gained = shown_table(caption, "Value", HEADS, rows) if rows else missing("Missing: this needs two evaluations.")
    own = [Section("own", "Of the task", _own(read.sections))] if read.sections or not is_over else []
    judged = [] if judging is None else [Section("criteria", "Criteria", examples.criteria_blocks(read, judging))]
    failed = details.failures_table(read.failures, where="mean") or Words("No rollout failed.")
    return details.run_document(
        run,
        kind=f"Report of one run: {run.config.kind.words}",
        facts=_facts(read),
        story=_story(read, gaps),
        limits=_limits(read, gaps),
        notes=read.notes,
        claims=_claims(read, gaps),
        top=(Plates([_scores(read)], half=True),),
        sections=(
            Section("gains", "Gains", present(gained, _evaluations(read), _figures(read), _terms(read))),
            Section("steps", "Over the steps", [Plates(details.drawn_plates(run, _drawn(read)))]),
            *own,
            *judged,
            Section("answers", "Answers", [examples.answers(read)]),
            Section("failures", "Failures", [failed, *([] if judging is None else [examples.cost_table(judging)])]),
        ),
    )


def compared(read: TaskRunRecords) -> list[Gap]:
    """Return the last evaluation against the first, and against every baseline."""

    def moved(name: str, exams: Sequence[Examination], value: str = "total", *, is_primary: bool = False) -> list[Gap]:
        ends = [_values(exams[place].by_item(value), read) for place in ((0, -1) if len(exams) > 1 else ())]
        against = f"step {exams[0].step:,}" if exams else ""
        return _apart(name, against, *ends, is_primary=is_primary) if ends else []

    found = moved(read.score, read.sampled, is_primary=True)
    found += moved(f"{read.score}, greedy", read.greedy, is_primary=True)
    found += [one for name in read.task.terms if len(read.task.terms) > 1 for one in moved(name, read.sampled, name)]
    last = _values(read.sampled[-1].by_item(), read) if read.sampled else None
    for one in read.task.baselines:
        found += _apart(read.score, f"{BASELINE}{one.name}", _values(one.exact(), read), last)
    return corrected(found)


def _apart(
    name: str, against: str, first: MeanRuns | None, second: MeanRuns | None, *, is_primary: bool = False
) -> list[Gap]:
    if first is None or second is None:
        return []
    return Gap.of(name, against, (first, second), BOOTSTRAP, same_models=True, is_primary=is_primary)


def _values(by_item: Mapping[str, Fraction], read: TaskRunRecords) -> MeanRuns | None:
    """Return the rewards of items in one run; items of one unit are resampled together."""
    return MeanRuns.of("", [by_item], read.units) if by_item else None


def _mean(by_item: Mapping[str, Fraction], read: TaskRunRecords) -> Measure | None:
    values = _values(by_item, read)
    return None if values is None else from_estimate(values.estimate(BOOTSTRAP))


def _facts(read: TaskRunRecords) -> Pairs:
    data, judging = read.run.config.data, read.judging
    tests = data.validation is not None
    sides = (
        (data.train, "for training"),
        (data.validation, "held out"),
        (data.test, "tested" if tests else "held out"),
        (data.rubrics, "criteria"),
    )
    counts = [f"{count:,} {side}" for count, side in sides if count is not None]
    judged: list[tuple[str, str]] = []
    if judging is not None:
        judged += [("Judge", judging.judge), ("Judging cost", examples.cost_words(judging))]
        judged.append(("Without verdicts", examples.failed_words(judging)))
    return (
        ("Model", read.run.model),
        ("Reward", read.run.config.reward_name or "not stated"),
        *judged,
        ("Items", ", ".join(counts) or "not stated"),
        *((("Examples", examples_summary(read.task.examples)),) if read.task.examples else ()),
    )


def _story(read: TaskRunRecords, gaps: Sequence[Gap]) -> list[str]:
    """Return the sentences; the first is the answer."""
    if not read.sampled:
        return ["No result: the run was never evaluated.", *examples.judged_sentences(read)]
    first, last = read.sampled[0], read.sampled[-1]
    items = counted(len(last.by_item()), "held-out item" if read.held_out else "item")
    if not read.held_out:
        items += " that were also trained on"
    once = f"The run was evaluated once, at step {last.step}: there is no gain to speak of."
    shares = [len(one.texts) / one.texts.total() for one in (first, last)]
    moved = f" ({signed(shares[1] - shares[0])})" if first is not last else ""
    return [
        *_verdict(read, gaps, items),
        *([once] if first is last else []),
        *(one.sentence[:1].upper() + one.sentence[1:] for one in gaps),
        *(_tested(read, split, one) for split, one in read.tests.items()),
        *(
            f"The score of the baseline {one.name} is not known: {one.failure}."
            for one in read.task.baselines
            if one.failure
        ),
        f"Of {counted(last.texts.total(), 'sampled answer')} {len(last.texts):,} are distinct texts, a share of "
        f"{shares[1]:.3f}{moved}.",
        *examples.judged_sentences(read),
        *_training(read),
        f"{counted(len(read.run.alarms), 'alarm')} raised; see below." if read.run.alarms else "No alarm was raised.",
    ]


def _verdict(read: TaskRunRecords, gaps: Sequence[Gap], items: str) -> list[str]:
    """Return the verdict on the last sampled score, compared with earlier ones; empty if none was scored."""
    last = _mean(read.sampled[-1].by_item(), read)
    if last is None:
        return []
    before = next((one for one in gaps if one.is_primary), None)
    return [
        details.verdict(
            f"mean {read.score}",
            last,
            before=None if before is None else ("before training", before.first.mean(), before.side),
            baselines=[
                (one.against.removeprefix(BASELINE), one.first.mean(), one.side)
                for one in gaps
                if one.against.startswith(BASELINE)
            ],
            more=items,
        )
    ]


def _claims(read: TaskRunRecords, gaps: Sequence[Gap]) -> str:
    held = [
        f"{one.name} {'above' if one.side > 0 else 'below'} {one.against} ({signed(one.delta.value)})"
        for one in gaps
        if one.holds
    ]
    about = f"this one trained model, {'held-out' if read.held_out else 'its training'} items"
    return f"{'; '.join(held) or 'nothing, as no difference is significant'} ({about})"


def _tested(read: TaskRunRecords, split: str, one: Examination) -> str:
    measured = {read.score: "total", **{name: f"metric/{name}" for name in read.task.metrics}}
    means = [(name, _mean(one.by_item(value), read)) for name, value in measured.items()]
    known = ", ".join(f"{name} {ranged(mean)}" for name, mean in means if mean is not None)
    return f"{SPLIT_WORDS.get(split, split).capitalize()}, {counted(len(one.by_item()), 'item')}: {known}."


def _training(read: TaskRunRecords) -> list[str]:
    failed = sum(read.failures.values())
    lines = [f"{failed:,} of {counted(read.rollouts, 'rollout')} failed and have no reward."] if failed else []
    if not read.groups:
        return lines
    lost = sum(count for cause, count in read.failures.items() if cause.split == Split.TRAIN)
    answers = counted(sum(map(len, read.groups)) + lost, "training answer")
    few = sum(len(one) < 2 for one in read.groups)
    alike = sum(len(set(one)) == 1 < len(one) for one in read.groups)
    if not lost + few + alike:
        groups = counted(len(read.groups), "group")
        return [*lines, f"Of {answers} every one has a reward, and within each of {groups} the rewards differ."]
    return [
        *lines,
        f"{lost:,} of {answers} have no reward; of {counted(len(read.groups), 'group')} {few:,} have fewer than two "
        f"rewards, and in {alike:,} all are equal, which teaches nothing.",
    ]


def _limits(read: TaskRunRecords, gaps: Sequence[Gap]) -> list[str]:
    manifest, seed = read.run.manifest, read.run.config.seed
    num_items = len(read.sampled[-1].by_item()) if read.sampled else FEW
    limits = (
        (
            bool(gaps) and gaps[0].is_primary and not gaps[0].holds,
            "That training changed nothing: there may be a gain too small to show.",
        ),
        (
            manifest is not None and manifest.status != Status.FINISHED,
            "What the end will show: the run is not over, and an interim evaluation is no test.",
        ),
        (not read.held_out, "Anything about items that were not trained on: none were held out."),
        (num_items < FEW, f"Much about items in general: there are only {counted(num_items, 'item')}."),
        (not read.task.baselines, "That a model is needed for this: there is no baseline."),
        (
            True,
            f"What another seed gives: this is one trained model (seed {'not stated' if seed is None else seed}), and "
            "the intervals are over items alone.",
        ),
    )
    judged = [] if read.judging is None else examples.judged_limits(read.judging)
    return [*(sentence for holds, sentence in limits if holds), *judged]


def _scores(read: TaskRunRecords) -> Plate:
    """Main figure: the mean score of the evaluations with intervals, and every baseline as a level line."""
    words = "Held-out items" if read.held_out else "Items that are also trained on"
    drawn = Drawn(
        name="score",
        title=f"Mean {read.score}",
        note=f"{words}; bands are 95 % intervals over items.",
        missing=details.NO_EXAMINATION,
        unit=read.score,
        shares=read.score == PASS_RATE,
    )
    lines = [_curve(read, read.sampled, "sampled", 0), _curve(read, read.greedy, "greedy", 1)]
    steps = [step for one in lines for step in one.steps]
    ends = sorted({min(steps, default=0), max(steps, default=0)})
    for one in read.task.baselines:
        known = _mean(one.exact(), read)
        if known is not None:
            mark, values = series_mark(len(lines)), [known.value] * len(ends)
            lines.append(Line(label=f"baseline {one.name}", mark=mark, steps=ends, values=values))
    flags = details.flags_of(read.run, AlarmKind.ROLLOUTS_FAILED, AlarmKind.SAME_TEXT, AlarmKind.JUDGE_FAILED)
    return details.chart_plate(drawn, lines, flags=flags)


def _curve(read: TaskRunRecords, exams: Sequence[Examination], label: str, place: int) -> Line:
    found = [(one.step, _mean(one.by_item(), read)) for one in exams]
    means = {step: mean for step, mean in found if mean is not None}
    whole = all(one.low is not None and one.high is not None for one in means.values())
    low, high = [one.low or 0.0 for one in means.values()], [one.high or 0.0 for one in means.values()]
    values, ends = [one.value for one in means.values()], (low, high) if whole else (None, None)
    return Line(label, series_mark(place), list(means), values, *ends)


def _drawn(read: TaskRunRecords) -> list[Drawn]:
    task = read.task
    terms = task.terms if len(task.terms) > 1 else ()
    of_task = [_evaluated(f"reward/{name}", f"Reward: {name}", "One of the reward's terms.") for name in terms]
    of_task += [_evaluated(f"metric/{name}", name, "Measured, and not rewarded.") for name in task.metrics]
    if task.parsed:
        of_task.append(_evaluated("parse_ok", "Readable answers", "Share of answers that the task's parser can read."))
    if task.several_turns:
        of_task.append(_evaluated("replies", "Replies", "Of the model, in a conversation."))
    distinct = "Share of the answers that are not the same as another one."
    tokens = "Shows rewards that can be raised by writing more or less."
    kl = (("eval/kl_base", "evaluated prompts"), ("kl/base", "training answers"))
    rewards = (("train/reward/total", "reward"), ("train/pass_rate", "pass rate"))
    parity = "KL divergence between the two on the sampled tokens: zero where they are one model."
    return [
        *of_task,
        Drawn(name="training", title="Training reward", note="Mean over a step's answers.", lines=rewards, missing=""),
        details.GROUPS,
        _evaluated("distinct_texts", "Distinct texts", distinct, train=False),
        _evaluated("tokens/answer", "Tokens an answer", tokens),
        Drawn(
            name="kl",
            title="KL divergence to the base",
            note="Estimated on sampled tokens.",
            lines=kl,
            missing="Missing: no evaluation has a KL divergence.",
            unit="nats a token",
        ),
        Drawn(
            name="parity",
            title="Sampler to trainer",
            note=parity,
            lines=(("optim/kl_sample_train", "sampler to trainer"),),
            missing="",
            unit="nats a token",
        ),
        details.GRADIENT,
    ]


def _evaluated(key: str, title: str, note: str, *, train: bool = True) -> Drawn:
    training = ((f"train/{key}", "training"),) if train else ()
    lines = ((f"eval/{key}", "evaluated, sampled"), (f"eval_greedy/{key}", "evaluated, greedy"), *training)
    return Drawn(name=key.replace("/", "-"), title=title, note=note, lines=lines)


def _evaluations(read: TaskRunRecords) -> Table | None:
    if not read.sampled:
        return None
    greedy = {one.step: one for one in read.greedy}
    measured = {**dict.fromkeys(read.terms), **{f"metric/{name}": name for name in read.task.metrics}}
    heads = (
        f"{read.score}|sampled",
        *(f"{label or name}|sampled" for name, label in measured.items()),
        f"{read.score}|greedy",
        "distinct texts|share, sampled",
        Column(head="tokens|an answer, sampled", form=".1f"),
        "KL to base|nats a token",
    )
    rows: list[list[Shown]] = []
    steps = [(f"{one.step:,}", one, "eval") for one in read.sampled]
    for name, exam, split in (
        *steps,
        *((f"{SPLIT_WORDS.get(split, split)}|step {one.step:,}", one, split) for split, one in read.tests.items()),
    ):
        metrics = read.run.metrics.get(exam.step, {})
        values = [_mean(exam.by_item(value), read) for value in ("total", *measured)]
        last = _mean(greedy[exam.step].by_item(), read) if split == "eval" and exam.step in greedy else None
        known = [metrics.get(f"{split}/tokens/answer"), metrics.get(f"{split}/kl_base")]
        others = [len(exam.texts) / exam.texts.total(), *known]
        rows.append([name, *values, last, *(None if value is None else Measure(value) for value in others)])
    return shown_table("Means over items, each above its 95 % interval.", "Step", heads, rows)


def _figures(read: TaskRunRecords) -> Table | None:
    last = read.run.metrics.get(read.run.last_step or 0, {})
    known = {label: last.get(key) for label, key in read.task.figures.items()}
    rows = [(label, None if value is None else Measure(value)) for label, value in known.items()]
    return shown_table("As metrics.jsonl has them at the end.", "Figure", ("value",), rows) if rows else None


def _terms(read: TaskRunRecords) -> Table | None:
    rows = term_rows([audit_of_run(read.run.folder)]) if len(read.task.terms) > 1 else []
    return shown_table(CAPTION, "Term", TERM_HEADS, rows) if rows else None


def _own(sections: Sequence[SectionRecord]) -> Sequence[Block]:
    blocks = [block for one in sections for block in (Words(one.title, Tone.HEADING), _section(one))]
    return blocks or [missing("Missing: what the task adds is made when the run has come to its end.")]


def _section(one: SectionRecord) -> Block:
    if one.failure:
        return missing(f"This section could not be made: {one.failure}.")
    if not one.rows or not one.columns:
        return Words(one.text)
    return plain("", one.columns, one.rows, words=True)
