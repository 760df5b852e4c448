"""The page of a run on a user's own task: what held-out items gained first, then curves, sections and examples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tinsmith.lab.results.drawn_metrics import (
    GRADIENT,
    GROUPS,
    NO_EXAMINATION,
    Drawn,
    chart_plate,
    drawn_plates,
    flags_of,
)
from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.run_details import failures_section, run_document
from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import Run
from tinsmith.lab.user_task.pages.gains import gains_of, gains_table, mean_of
from tinsmith.lab.user_task.pages.story import cannot_be_said, task_story
from tinsmith.lab.user_task.records import (
    Examination,
    SectionRecord,
    TaskRollout,
    TaskRunRecords,
    TurnRecord,
    read_task_run,
)
from tinsmith.pages.curves import Line
from tinsmith.pages.document import (
    Block,
    Document,
    Example,
    Heading,
    Pairs,
    Plate,
    Plates,
    Reply,
    Section,
    Size,
    Verbatim,
    Words,
    kept,
    missing,
    note,
)
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, number, plain, table_of, text
from tinsmith.stats.monitors.alarms import AlarmKind

SHOWN: Final = 6
"""Items with their answers, if there are as many."""
_LONGEST: Final = 3000


def task_document(run: Run) -> Document:
    """Return the page of a run on a user's own task; the same folder, the same bytes."""
    return _page(read_task_run(run))


def _page(read: TaskRunRecords) -> Document:
    run, gains = read.run, gains_of(read)
    finished = run.manifest is not None and run.manifest.status == Status.FINISHED
    own = read.sections or not finished
    gained = gains_table(gains.all, "Of the trained model", "that of terms and baselines is") or missing(
        "Missing: it takes two evaluations."
    )
    return run_document(
        run,
        kind="Report of one run on a task of one's own",
        facts=_facts(run),
        story=task_story(read, gains),
        limits=cannot_be_said(read, gains),
        notes=read.notes,
        top=(Plates([_rewards(read)], Size.HALF),),
        sections=(
            Section("gains", "Gains", kept(gained, _examinations(read))),
            Section("steps", "Over the steps", [Plates(drawn_plates(run, _drawn(read)))]),
            *([Section("own", "Of the task", _own(read.sections))] if own else []),
            Section("examples", "Examples", _examples(read)),
            failures_section(failures_table(read.failures, where="mean")),
        ),
    )


def _facts(run: Run) -> Pairs:
    data = run.config.data
    sides = [
        f"{count:,} {side}"
        for count, side in ((data.train, "for training"), (data.test, "held out"))
        if count is not None
    ]
    return (
        ("Model", run.config.model_name or "not stated"),
        ("Reward", run.config.reward_name or "not stated"),
        ("Items", ", ".join(sides) or "not stated"),
    )


def _rewards(read: TaskRunRecords) -> Plate:
    """The one picture: the mean reward of the evaluations, with intervals."""
    words = "Held-out items" if read.held_out else "Items that are also trained on"
    drawn = Drawn(
        name="reward",
        title="Mean reward",
        note=f"{words}; bands are 95 % intervals over items.",
        missing=NO_EXAMINATION,
        unit="reward",
    )
    lines = [_curve(read, read.sampled, "sampled", 0), _curve(read, read.greedy, "greedy", 1)]
    steps = [step for one in lines for step in one.steps]
    for one in read.task.baselines:
        known = mean_of(one.exact(), read)
        if known is not None:
            lines.append(level(one.name, known.value, steps, len(lines)))
    flags = flags_of(read.run, AlarmKind.ROLLOUTS_FAILED, AlarmKind.SAME_TEXT)
    return chart_plate(drawn, lines, flags=flags)


def level(name: str, value: float, steps: Sequence[int], place: int) -> Line:
    """Return what a baseline earns as a line from the first step to the last."""
    ends = sorted({min(steps, default=0), max(steps, default=0)})
    mark = series_mark(place)
    return Line(label=f"baseline {name}", mark=mark, steps=ends, values=[value] * len(ends))


def _curve(read: TaskRunRecords, exams: Sequence[Examination], label: str, place: int) -> Line:
    found = [(one.step, mean_of(one.by_item(), read)) for one in exams]
    means = {step: mean for step, mean in found if mean is not None}
    whole = all(one.low is not None and one.high is not None for one in means.values())
    return Line(
        label=label,
        mark=series_mark(place),
        steps=list(means),
        values=[one.value for one in means.values()],
        low=[one.low or 0.0 for one in means.values()] if whole else None,
        high=[one.high or 0.0 for one in means.values()] if whole else None,
    )


def _drawn(read: TaskRunRecords) -> list[Drawn]:
    """Return the figures over the steps that are metrics as they stand in metrics.jsonl."""
    task = read.task
    found: list[Drawn] = []
    if len(task.terms) > 1:
        found += [_examined(f"reward/{name}", f"Reward: {name}", "One of the reward's terms.") for name in task.terms]
    found += [_examined(f"metric/{name}", name, "Measured, and not rewarded.") for name in task.metrics]
    if task.parsed:
        found.append(_examined("parse_ok", "Readable answers", "Share that the task's parser reads."))
    if task.several_turns:
        found.append(_examined("replies", "Replies", "Of the model, in a conversation."))
    found += [
        GROUPS,
        _examined(
            "distinct_texts",
            "Distinct texts",
            "Share of the answers that are not the same as another one.",
            train=False,
        ),
        _examined("tokens/answer", "Tokens an answer", "A reward that can be had by writing more or less shows here."),
        Drawn(
            name="kl",
            title="KL divergence to the base",
            note="Estimated on sampled tokens.",
            lines=(("eval/kl_base", "examined prompts"), ("kl/base", "training answers")),
            missing="Missing: no evaluation has a KL divergence.",
            unit="nats a token",
        ),
        GRADIENT,
    ]
    return found


def _examined(key: str, title: str, note: str, *, train: bool = True) -> Drawn:
    training = ((f"train/{key}", "training"),) if train else ()
    return Drawn(
        name=key.replace("/", "-"),
        title=title,
        note=note,
        lines=((f"eval/{key}", "examined, sampled"), (f"eval_greedy/{key}", "examined, greedy"), *training),
    )


def _examinations(read: TaskRunRecords) -> Table | None:
    if not read.sampled:
        return None
    greedy = {one.step: one for one in read.greedy}
    terms = read.task.terms if len(read.task.terms) > 1 else ()
    return table_of(
        "Means over items, each above its 95 % interval.",
        read.sampled,
        ("Step", lambda one: text(f"{one.step:,}")),
        ("reward|sampled", lambda one: measured(mean_of(one.by_item(), read))),
        *((f"{name}|sampled", partial(_mean, read, name)) for name in terms),
        (
            "reward|greedy",
            lambda one: measured(mean_of(greedy[one.step].by_item(), read) if one.step in greedy else None),
        ),
        ("distinct texts|share, sampled", lambda one: number(len(one.texts) / one.texts.total())),
        (
            "tokens|an answer, sampled",
            lambda one: number(read.run.metrics.get(one.step, {}).get("eval/tokens/answer"), digits=1),
        ),
    )


def _mean(read: TaskRunRecords, name: str, one: Examination) -> Cell:
    return measured(mean_of(one.by_item(name), read))


def _own(sections: Sequence[SectionRecord]) -> Sequence[Block]:
    blocks = [block for one in sections for block in (Heading(one.title), _section(one))]
    return blocks or [missing("Missing: what the task adds is made when the run has come to its end.")]


def _section(one: SectionRecord) -> Block:
    if one.failure:
        return missing(f"This section could not be made: {one.failure}.")
    if not one.rows or not one.columns:
        return Words(one.text)
    return plain("", one.columns, one.rows, words=True)


def _examples(read: TaskRunRecords) -> Sequence[Block]:
    """Return items that gained most, least, and in the middle, with the first answer of both evaluations."""
    if not read.sampled:
        return [missing("Missing: nothing was evaluated.")]
    first, last = read.sampled[0], read.sampled[-1]
    before, after = first.by_item(), last.by_item()
    ranked = sorted(before.keys() & after.keys(), key=lambda item: (before[item] - after[item], item))
    if len(ranked) > SHOWN:
        third = SHOWN // 3
        middle = (len(ranked) - third) // 2
        ranked = [*ranked[:third], *ranked[middle : middle + third], *ranked[-third:]]
    prompts = {one.id: one.prompt for one in read.task.items}
    exams = (first, last) if first is not last else (last,)
    chosen = note(
        "Evaluated items that gained most, in the middle, and least, by the mean of their sampled answers; of each the "
        "first sampled answer, at the first and the last evaluation."
    )
    return [
        chosen,
        *(
            Example(
                f"{item}: {float(before[item]):.3f} to {float(after[item]):.3f}",
                [prompt_block(prompts.get(item, ""))],
                [reply for one in exams for reply in shown_replies(one.shown[item], f"Step {one.step:,}")],
            )
            for item in ranked
        ),
    ]


def prompt_block(words: str) -> Block:
    """Return a prompt as it was asked."""
    return Verbatim(_cut(words)) if words else missing("The prompt is not in the run's folder.")


def shown_replies(one: TaskRollout, title: str) -> list[Reply]:
    """Return the turns of one answer under a title, what it earned above the first."""
    terms = one.terms if len(one.terms) > 1 else {}
    apart = f" ({', '.join(f'{name} {value:g}' for name, value in terms.items())})" if terms else ""
    turns = one.turns or (TurnRecord(role="assistant", text=one.text),)
    return [
        Reply(
            title=title if turn.role == "assistant" else "The task says",
            text=_cut(turn.text),
            remark=f"reward {one.total:g}{apart}" if place == 0 else "",
        )
        for place, turn in enumerate(turns)
    ]


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} [cut]"
