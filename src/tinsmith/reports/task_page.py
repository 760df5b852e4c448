"""The page of a run on a user's own task: what held-out items gained first, then curves, sections and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.analysis.alarms import AlarmKind
from tinsmith.reports.curves import Chart, Line
from tinsmith.reports.drawn_metrics import NO_EXAMINATION, Drawn, drawn_plate
from tinsmith.reports.failed_rollouts import failures_table
from tinsmith.reports.page import render
from tinsmith.reports.palette import series_mark
from tinsmith.reports.run_details import alarms_table, details
from tinsmith.reports.run_figures import Plate, flags_of, last_values, plate
from tinsmith.reports.run_map import KIND_WORDS, status_words, steps_words
from tinsmith.reports.run_records import Run
from tinsmith.reports.tables import Table, TableRow, column, measured, number, text
from tinsmith.reports.task_gains import gains_of, gains_table, mean_of
from tinsmith.reports.task_records import (
    Examination,
    SectionRecord,
    TaskRollout,
    TaskRunRecords,
    TurnRecord,
    read_task_run,
)
from tinsmith.reports.task_story import cannot_be_said, task_story

SHOWN: Final = 6
"""Items with their answers, if there are as many."""
_LONGEST: Final = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer: what was said after the prompt, and what it earned."""

    title: str
    earned: str
    turns: tuple[TurnRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One item with its first and its last answer."""

    item: str
    prompt: str
    first: float
    last: float
    responses: tuple[Response, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSection:
    """A section that the task added."""

    title: str
    text: str
    table: Table | None
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """What the template `task.html` shows."""

    title: str
    question: str
    facts: tuple[tuple[str, str], ...]
    story: tuple[str, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    alarms: Table | None
    rewards: Plate
    gains: Table | None
    examinations: Table | None
    plates: Sequence[Plate]
    sections: tuple[OwnSection, ...]
    examples: tuple[Example, ...]
    failures: Table | None
    pairs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def task_html(run: Run) -> str:
    """Return the page of a run on a user's own task; the same folder, the same bytes."""
    return render("task.html", _page(read_task_run(run)), script=False)


def _page(read: TaskRunRecords) -> TaskPage:
    run, gains = read.run, gains_of(read)
    return TaskPage(
        title=run.config.title,
        question=run.config.question,
        facts=_facts(run),
        story=task_story(read, gains),
        limits=cannot_be_said(read, gains),
        notes=read.notes,
        alarms=alarms_table(run),
        rewards=_rewards(read),
        gains=gains_table(gains),
        examinations=_examinations(read),
        plates=[drawn_plate(run, one) for one in _drawn(read)],
        sections=tuple(_section(one) for one in read.sections),
        examples=_examples(read),
        failures=failures_table(read.failures, where="mean"),
        pairs=details(run),
    )


def _facts(run: Run) -> tuple[tuple[str, str], ...]:
    seed, data = run.config.seed, run.config.data
    sides = [
        f"{count:,} {side}"
        for count, side in ((data.train, "for training"), (data.test, "held out"))
        if count is not None
    ]
    return (
        ("Training", KIND_WORDS[run.config.kind]),
        ("Status", status_words(run)),
        ("Progress", steps_words(run)),
        ("Seed", "not stated" if seed is None else str(seed)),
        ("Model", run.config.model_name or "not stated"),
        ("Reward", run.config.reward_name or "not stated"),
        ("Items", ", ".join(sides) or "not stated"),
    )


def _rewards(read: TaskRunRecords) -> Plate:
    """The one picture: the mean reward of the evaluations, with intervals."""
    lines = [
        _curve(exams, label, place)
        for place, (exams, label) in enumerate(((read.sampled, "sampled"), (read.greedy, "greedy")))
    ]
    words = "Held-out items" if read.held_out else "Items that are also trained on"
    return plate(
        "Mean reward",
        f"{words}; bands are 95 % intervals over items.",
        Chart(
            name="reward",
            label=f"Mean reward over steps: {last_values(lines)}.",
            lines=lines,
            flags=flags_of(read.run, AlarmKind.ROLLOUTS_FAILED, AlarmKind.SAME_TEXT),
            unit="reward",
        ),
        NO_EXAMINATION,
    )


def _curve(exams: Sequence[Examination], label: str, place: int) -> Line:
    means = [mean_of(one.by_item()) for one in exams]
    whole = all(one.low is not None and one.high is not None for one in means)
    return Line(
        label=label,
        mark=series_mark(place),
        steps=[one.step for one in exams],
        values=[one.value for one in means],
        low=[one.low or 0.0 for one in means] if whole else None,
        high=[one.high or 0.0 for one in means] if whole else None,
    )


def _drawn(read: TaskRunRecords) -> list[Drawn]:
    """Return the figures over the steps that are metrics as they stand in metrics.jsonl."""
    task = read.task
    found: list[Drawn] = []
    if len(task.terms) > 1:
        found += [
            _examined(f"reward/{name}", f"Reward: {name}", "One of the reward's terms.")
            for name in task.terms
        ]
    found += [
        _examined(f"metric/{name}", name, "Measured, and not rewarded.") for name in task.metrics
    ]
    if task.parsed:
        found.append(
            _examined("parse_ok", "Readable answers", "Share that the task's parser reads.")
        )
    if task.several_turns:
        found.append(_examined("replies", "Replies", "Of the model, in a conversation."))
    found += [
        Drawn(
            name="groups",
            title="Informative groups",
            note="Share of the groups whose rewards differ; from the others nothing is learned.",
            lines=(("train/groups/informative", "informative"),),
            missing="Missing: no step says which groups were informative.",
            shares=True,
        ),
        _examined(
            "distinct_texts",
            "Distinct texts",
            "Share of the answers that are not the same as another one.",
            train=False,
        ),
        _examined(
            "tokens/answer",
            "Tokens an answer",
            "A reward that can be had by writing more or less shows here.",
        ),
        Drawn(
            name="kl",
            title="KL divergence to the base",
            note="Estimated on sampled tokens.",
            lines=(("eval/kl_base", "examined prompts"), ("kl/base", "training answers")),
            missing="Missing: no evaluation has a KL divergence.",
            unit="nats a token",
        ),
        Drawn(
            name="gradient",
            title="Gradient norm",
            note="Before clipping, at every optimizer step.",
            lines=(("optim/grad_norm", "gradient norm"),),
            missing="Missing: no step has a gradient norm.",
            unit="norm",
        ),
    ]
    return found


def _examined(key: str, title: str, note: str, *, train: bool = True) -> Drawn:
    training = ((f"train/{key}", "training"),) if train else ()
    return Drawn(
        name=key.replace("/", "-"),
        title=title,
        note=note,
        lines=(
            (f"eval/{key}", "examined, sampled"),
            (f"eval_greedy/{key}", "examined, greedy"),
            *training,
        ),
    )


def _examinations(read: TaskRunRecords) -> Table | None:
    if not read.sampled:
        return None
    greedy = {one.step: one for one in read.greedy}
    terms = read.task.terms if len(read.task.terms) > 1 else ()
    return Table(
        caption="Means over items, each above its 95 % interval.",
        heads=(
            text("Step"),
            column("reward", "sampled"),
            *(column(name, "sampled") for name in terms),
            column("reward", "greedy"),
            column("distinct texts", "share, sampled"),
            column("tokens", "an answer, sampled"),
        ),
        rows=tuple(
            TableRow(
                name=text(f"{one.step:,}"),
                cells=(
                    measured(mean_of(one.by_item())),
                    *(measured(mean_of(one.by_item(name))) for name in terms),
                    measured(mean_of(greedy[one.step].by_item()) if one.step in greedy else None),
                    number(len(one.texts) / one.texts.total()),
                    number(read.run.metrics.get(one.step, {}).get("eval/tokens/answer"), digits=1),
                ),
            )
            for one in read.sampled
        ),
    )


def _section(one: SectionRecord) -> OwnSection:
    table = None
    if one.rows and one.columns:
        table = Table(
            caption="",
            heads=tuple(text(name) for name in one.columns),
            rows=tuple(
                TableRow(name=text(row[0]), cells=tuple(text(value) for value in row[1:]))
                for row in one.rows
            ),
        )
    return OwnSection(title=one.title, text=one.text, table=table, failure=one.failure)


def _examples(read: TaskRunRecords) -> tuple[Example, ...]:
    """Return items that gained most, least, and in the middle, with the first answer of both evaluations."""
    if not read.sampled:
        return ()
    first, last = read.sampled[0], read.sampled[-1]
    before, after = first.by_item(), last.by_item()
    ranked = sorted(
        before.keys() & after.keys(), key=lambda item: (before[item] - after[item], item)
    )
    if len(ranked) > SHOWN:
        third = SHOWN // 3
        middle = (len(ranked) - third) // 2
        ranked = [*ranked[:third], *ranked[middle : middle + third], *ranked[-third:]]
    prompts = {one.id: one.prompt for one in read.task.items}
    exams = (first, last) if first is not last else (last,)
    return tuple(
        Example(
            item=item,
            prompt=_cut(prompts.get(item, "")),
            first=float(before[item]),
            last=float(after[item]),
            responses=tuple(_response(one.shown[item], one.step) for one in exams),
        )
        for item in ranked
    )


def _response(one: TaskRollout, step: int) -> Response:
    terms = one.terms if len(one.terms) > 1 else {}
    apart = f" ({', '.join(f'{name} {value:g}' for name, value in terms.items())})" if terms else ""
    turns = one.turns or (TurnRecord(role="assistant", text=one.text),)
    return Response(
        title=f"Step {step:,}",
        earned=f"reward {one.total:g}{apart}",
        turns=tuple(TurnRecord(role=turn.role, text=_cut(turn.text)) for turn in turns),
    )


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} [cut]"
