"""Pages of runs on labels: comparisons as undeclared studies, and one run as a study of one arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from rich.table import Table as ConsoleTable

from tinsmith.lab.labels.contracts import Subject
from tinsmith.lab.page.comparison import RunsCompared, measured_runs, page_of_runs
from tinsmith.lab.page.examples import cut
from tinsmith.lab.results import findings
from tinsmith.lab.results.arms import (
    OFFSETS,
    TITLES,
    LabelArm,
    LabelRun,
    arms_of,
    by_descent,
    gather,
    identity,
    label_alone,
    label_arms,
    members_of,
)
from tinsmith.lab.results.label_tables import (
    PICTURE,
    PROGRESS,
    baselines_of,
    both_rows,
    curve,
    scores_of,
    settings_of,
    standings_of,
    tables_of,
)
from tinsmith.lab.results.run_details import GRADIENT, Drawn, drawn_plates, failures_table, papers_words, run_document
from tinsmith.lab.results.systems import commonest_answer
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import left_out, read_run
from tinsmith.lab.runs.records import SPLIT_WORDS, RolloutRecord, Run, Split
from tinsmith.lab.study.record import DRAWS, CurveRecord, Draws, StudyRecord
from tinsmith.lab.study.report import claims_words, pictures, result_sections, sentences
from tinsmith.lab.study.study import Arm as StudyArm
from tinsmith.lab.study.study import Curves, Size, Study
from tinsmith.pages.console import console_table
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Block, Browser, Document, Plates, Section, Words, missing, note, present
from tinsmith.pages.drawing import class_slot
from tinsmith.pages.measures import Measure, Measures, choice_words, counted, listed
from tinsmith.pages.tables import RIGHT, WRONG, Cell, absent, figure, shown_table, table_of, text
from tinsmith.stats.monitors import AlarmKind, Limits
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.page_names import contract_name, outcome_name, reward_name

SCORE: Final = Metric.MACRO_F1  # The score of every claim: named before any run, and the only one.
GROUPS: Final = "train/groups/informative"


def compare_labels(folders: Sequence[Path], task: str | None = None, draws: Draws = DRAWS) -> RunsCompared:
    """Read runs, put seeds together, and judge the claims.

    `task` is the label that is compared; runs on two labels take part with what they say of it.
    """
    if task is not None and task not in tuple(Subject):
        what, allowed = "there is no such choice of a label", " or ".join(Subject)
        raise ConfigError(what, field="--task", value=task, allowed=allowed)
    return measured([_read(folder, task) for folder in folders], draws)


def _read(folder: Path, task: str | None) -> LabelRun:
    run = read_run(folder)
    if run.config.kind is Kind.JOINT:
        if task is not None:
            return label_alone(run, Subject(task))
        what, allowed = "a run on two labels is compared for one of them", f"--task {' or '.join(Subject)}"
        raise ConfigError(what, field="DIR", value=str(folder), allowed=allowed)
    if task is not None and run.config.task.name != task:
        raise ConfigError(
            "a run on another label", field="DIR", value=str(folder), allowed=f"runs on {task}, or on both labels"
        )
    return gather(run)


def measured(reads: Sequence[LabelRun], draws: Draws = DRAWS) -> RunsCompared:
    """Measure runs on one label as a study with an arm each."""
    groups, notes = arms_of(reads, draws.tables), list[str]()
    arms = [_agreeing(arm, notes) for _, arm in by_descent(groups)]
    out = left_out(reads, [arm.reads for arm in groups])
    for one in out:
        name = next(arm.name for arm in groups if identity(arm.reads[0]) == identity(one))
        folder, seed = one.run.folder.name, one.run.config.seed
        notes.append(f"{name}, seed {seed}: {folder} is left out, as its seed is there already.")
    every = {arm.name: arm for arm in arms}
    for arm in arms:
        if arm.answers_on(Split.TEST_OFFSET) is not None:
            offset = StudyArm(name := f"{arm.name}{OFFSETS}", name, is_aside=True)
            every[name] = replace(arm, arm=offset, split=Split.TEST_OFFSET)
    systems = {name: runs for name, arm in every.items() if (runs := arm.answers_on(arm.split)) is not None}
    claims, remarks = findings.claims_of(arms, systems)
    lost = findings.lost_classes(arms) if len(arms) > 1 else ()
    losses = [f"{one.arm} lost {one.label} (recall {one.recall}) {one.conclusion}." for one in lost]
    lead = [*findings.verdict_of(arms), *findings.sentences_of(arms), *losses]
    study = Study(
        name="labels",
        title=f"Comparison of {counted(sum(len(arm.reads) for arm in arms), 'run')}",
        question=listed([arm.name for arm in arms]),
        task=None,
        arms=[arm.arm for arm in arms],
        sizes={"found": Size()},
        score=SCORE,
        claims=claims,
        tables=[
            *([scores_of(names="System")] if baselines_of(arms) or any(arm.systems for arm in arms) else []),
            *([standings_of()] if len(arms) > 1 else []),
            *findings.lost_table(lost),
            *tables_of(arms),
        ],
        pictures=(PICTURE, Curves(lambda _: _curves(arms) if len(arms) > 1 else [])),
        notes=(*lead, *remarks, *notes, *findings.notes_of(arms, systems)),
    )
    return measured_runs(study, every, draws, settings_of({arm.name: arm for arm in arms}))


def _agreeing(arm: LabelArm, notes: list[str]) -> LabelArm:
    """Return an arm; its first run alone if its seeds differ in a paper's true label."""
    try:
        for split in Split:
            arm.answers_on(split)
    except DataError as error:
        notes.append(f"{error.what}: of {arm.name} only {arm.first.folder.name} counts.")
        return replace(arm, reads=arm.reads[:1])
    return arm


def _curves(arms: Sequence[LabelArm]) -> list[CurveRecord]:
    known = {**PROGRESS, GROUPS: "informative groups"}
    curves = [curve(title, key, {arm.name: (arm, key) for arm in arms}) for key, title in known.items()]
    for place, arm in enumerate(arms):
        shares = {label: (arm, f"eval/predicted_share/{label}") for label in arm.first.labels}
        informative = {label: (arm, f"{GROUPS}/{label}") for label in arm.first.labels}
        curves.append(
            curve(f"{arm.name}: answers", f"shares-{place}", {**shares, "invalid": (arm, "eval/invalid_rate")})
        )
        curves.append(curve(f"{arm.name}: informative groups", f"groups-{place}", informative))
    return [one for one in curves if any(steps for _, steps, _ in one.lines)]


def page_of_labels(comparison: RunsCompared) -> Document:
    """Return the page of a comparison."""
    runs = [run for arm in label_arms(comparison.results).values() for run in arm.runs]
    facts = (
        ("Runs", str(len(runs))),
        ("Experiments", str(len(comparison.record.arms))),
        ("Models", listed(sorted({run.model for run in runs}))),
        ("Tasks", listed(sorted({run.config.task.name or "not stated" for run in runs}))),
        ("Papers", listed(sorted({papers_words(run) for run in runs}))),
    )
    return page_of_runs(comparison, "Report of several runs", facts)


def console(comparison: RunsCompared) -> ConsoleTable:
    """Return the test scores of every arm, sampled and greedy, above those of the baselines, in 80 columns."""
    arms = list(label_arms(comparison.results).values())
    sizes = {arm.num_items for arm in comparison.results.arms.values()} - {0}
    papers = f", {sizes.pop():,} papers" if len(sizes) == 1 else ""
    return console_table(
        f"Test split{papers}: accuracy, macro-F1 with 95 % interval and greedy",
        ("accuracy", "macro-F1", "greedy", "min\nrecall", "most said", "JSON"),
        [_line(arm) for arm in arms],
        [(one.name, *_figures(one.measures, "")) for one in baselines_of(arms)],
    )


def _line(arm: LabelArm) -> Sequence[str]:
    one, greedy = arm.systems.get(Split.TEST), arm.systems.get(Split.TEST_GREEDY)
    name = f"{arm.name}{f', {len(arm.reads)} seeds' if len(arm.reads) > 1 else ''}"
    if one is None:
        return name, *["missing"] * 6
    top, share = commonest_answer(one.measures)
    most = f"{top} {100 * share:.0f} %" if top else "missing"
    greedily = _figure(greedy.measures.get("macro_f1") if greedy else None)
    return name, *_figures(one.measures, greedily), most, _figure(one.measures.get("parse_ok"))


def _figures(found: Measures, greedy: str) -> tuple[str, str, str, str]:
    match, macro, least = (found.get(key) for key in ("label_match", "macro_f1", "min_class_recall"))
    ends = "" if macro is None or macro.low is None or macro.high is None else f" {macro.low:.2f}-{macro.high:.2f}"
    return _figure(match), f"{_figure(macro)}{ends}", greedy, _figure(least)


def _figure(measure: Measure | None) -> str:
    return "missing" if measure is None else f"{measure.value:.3f}"


_LIMITS: Final = Limits()
_LONGEST: Final = 4000  # Characters of a text in the browser; what is longer is cut.
_SPLIT_NAMES: Final = {one.value: f"{'test, ' * one.value.startswith('test')}{SPLIT_WORDS[one]}" for one in Split}
_NEVER: Final = "Missing: nothing was evaluated."
_BOTH: Final = (
    "If independent: the product of the shares of right answers for either label; the difference is above zero where "
    "the two tend to be right on the same papers."
)
_SHARES: Final = partial(Drawn, shares=True, missing="Missing: the validation split was never answered.")
_OF_LABELS: Final = (
    _SHARES(
        name="shares",
        title="Predicted share by class",
        note="Validation split, sampled. A class above the limit in three evaluations running raises an alarm.",
        by_class="eval/predicted_share",
        invalid="eval/invalid_rate",
        limit=Limit(_LIMITS.max_share, f"alarm above {_LIMITS.max_share:g}"),
        alarms=(AlarmKind.SHARE, AlarmKind.INFORMATION),
    ),
    _SHARES(
        name="recalls",
        title="Recall by class",
        note="Validation split, sampled.",
        by_class="eval/recall",
        limit=Limit(_LIMITS.min_recall, f"alarm below {_LIMITS.min_recall:g}"),
        alarms=(AlarmKind.RECALL, AlarmKind.CHANCE),
    ),
    _SHARES(
        name="scores",
        title="Scores, sampled and greedy",
        note="Validation split. A balanced policy that draws its answers may fall back to one class when it is greedy.",
        lines=(
            *(("eval/macro_f1", "macro-F1"), ("eval/label_match", "accuracy")),
            *(("eval_greedy/macro_f1", "macro-F1, greedy"), ("eval_greedy/label_match", "accuracy, greedy")),
        ),
        alarms=(AlarmKind.GOODHART,),
    ),
    Drawn(
        name="groups",
        title="Informative groups by class",
        note="Share of the groups whose rewards differ. A class without any is lost for good.",
        by_class="train/groups/informative",
        shares=True,
        limit=Limit(_LIMITS.min_informative_rate, f"alarm below {_LIMITS.min_informative_rate:g}"),
        alarms=(AlarmKind.GROUPS,),
        missing="Missing: no step says which groups were informative.",
        only=Kind.RL,
    ),
    Drawn(name="worth", title="Reward of a right answer", note="By class.", by_class="reward/correct", missing=""),
    Drawn(
        name="duals",
        title="Price of a class's recall",
        note="The dual variables: they rise while a recall is below its target.",
        by_class="reward/dual",
        missing="",
    ),
)
_SPLITS: Final = (
    ("eval", "validation, sampled"),
    ("eval_greedy", "validation, greedy"),
    ("train", "training rollouts"),
)
_OF_RUN: Final = (
    Drawn(
        name="both",
        title="Both labels right",
        note="Share of answers.",
        lines=[(f"{split}/exact_match", name) for split, name in _SPLITS],
        shares=True,
        missing="",
    ),
    Drawn(
        name="nll",
        title="Training loss",
        note="Negative log-likelihood of the answer's tokens.",
        lines=(("train/nll", "training loss"),),
        unit="nats a token",
        missing="",
    ),
    Drawn(
        name="kl",
        title="KL divergence",
        note="Estimated on sampled tokens. Sampler to trainer is zero where the two are one model.",
        lines=(
            *(("kl/base", "to the base, training rollouts"), ("eval/kl_base", "to the base, validation")),
            ("optim/kl_sample_train", "sampler to trainer"),
        ),
        unit="nats a token",
        missing="Missing: no step has a KL divergence.",
    ),
    GRADIENT,
)


def label_document(run: Run) -> Document:
    """Return the page of a run on one or two labels; equal folders give equal pages."""
    members = members_of(run)
    tasks = {name: measured([member]) for name, member in members.items()}
    two = len(members) > 1
    prefixes = {name: f"{name.capitalize()}: " if two else "" for name in members}
    lines = [f"{prefixes[name]}{line}" for name, one in tasks.items() for line in sentences(one.record)]
    first, rows = next(iter(members.values())), both_rows(members) if two else []
    task_config = run.config.task
    task = "both labels" if run.config.kind is Kind.JOINT else task_config.name
    heads = ("n", "both right", "if independent", "difference", *(f"accuracy|{name}" for name in members))
    return run_document(
        run,
        kind="Report of one run",
        title=TITLES.get(run.config.name, ""),
        facts=(
            ("Reward", reward_name(run.config.reward_name) or "none"),
            ("Model", run.model),
            ("Task", f"{task}, prompt {task_config.prompt}, {contract_name(task_config.contract)}"),
            ("Papers", papers_words(run)),
        ),
        story=lines,
        notes=(),
        claims="; ".join(f"{prefixes[name]}{claims_words(one.record)}" for name, one in tasks.items()),
        alarms=None if two else "Alarms of the collapse monitor",
        top=() if two else pictures(next(iter(tasks.values())).record),
        sections=(
            *(
                [
                    Section(
                        "both", "Both labels", [shown_table(_BOTH, "System", heads, rows) if rows else missing(_NEVER)]
                    )
                ]
                if two
                else []
            ),
            *(part for name, one in tasks.items() for part in _of_label(members[name].run, one.record, prefixes[name])),
            Section("training", "Training", [Plates(drawn_plates(run, (_rewards(run), *_OF_RUN)))]),
            Section("failures", "Failures", [failures_table(first.failures) or Words("No rollout failed.")]),
            *([] if two else [Section("rollouts", "Rollouts", [browser(first)])]),
        ),
    )


def _of_label(run: Run, record: StudyRecord, prefix: str) -> list[Section]:
    """Return the sections on one label, with its curves; `prefix` names it if there are two."""
    name = prefix.lower().removesuffix(": ")
    flags = note("Red dotted lines are alarms, numbered as in their table.") if run.alarms else None
    picture = pictures(record, f"{name}-arms") if prefix else ()
    curves = Plates(drawn_plates(run, _OF_LABELS, f"{name}-" if name else ""))
    title = f"{prefix}Over the steps"
    return [Section(f"{name}steps", title, present(*picture, flags, curves)), *result_sections(record, prefix)]


def browser(label_run: LabelRun) -> Block:
    """Return the rollouts of a run, to look through."""
    if not label_run.examples:
        return missing("Missing: rollouts.jsonl has no readable line.")
    which = choice_words(len(label_run.examples), label_run.rollouts, "rollout", "split, true label and result")
    caption = f"{which} Prompts are not kept in the run folder; the paper's identifier finds them in the slice."
    slots = {label: f"class-{class_slot(label, place)}" for place, label in enumerate(label_run.run.labels)}

    def labelled(label: str | None, under: str = "") -> Cell:
        return Cell(text=label or "none", under=under, missing=not label, tone=slots.get(label or "", ""))

    table = table_of(
        caption,
        label_run.examples,
        ("Paper", lambda one: text(one.prompt_id)),
        (text("Split"), lambda one: text(_SPLIT_NAMES.get(one.split, one.split))),
        ("step", lambda one: Cell(text=str(one.step), under=f"sample {one.sample}", number=True)),
        (text("True label"), lambda one: labelled(one.gold)),
        (
            text("Predicted"),
            lambda one: labelled(one.predicted, f"confidence {one.confidence}" if one.confidence else ""),
        ),
        (text("Result"), _result),
        (text("Outcome"), lambda one: text(outcome_name(one.outcome))),
        ("reward", _reward),
        (text("Text"), lambda one: Cell(text=_written(one), verbatim=True)),
    )
    return Browser(table, ("Split", "Result", "Outcome", "True label", "Predicted"))


def _result(one: RolloutRecord) -> Cell:
    if one.failure or one.predicted is None:
        return Cell(text="failed rollout" if one.failure else "invalid answer", tone=WRONG)
    is_right = one.predicted == one.gold
    return Cell(text="right" if is_right else "wrong", tone=RIGHT if is_right else WRONG)


def _reward(one: RolloutRecord) -> Cell:
    if one.total is None:
        return absent("not rewarded")
    terms = [f"{name} {value:.2f}" for name, value in (one.terms or {}).items() if value]
    terms += [] if one.advantage is None else [f"advantage {one.advantage:.2f}"]
    return figure(f"{one.total:.2f}", Measure(one.total), ", ".join(terms))


def _written(one: RolloutRecord) -> str:
    if one.failure:
        return cut(f"{one.failure.where}: {one.failure.what}", _LONGEST)
    return cut(one.text, _LONGEST) or "(empty text)"


def _rewards(run: Run) -> Drawn:
    prefix = "train/reward/"
    names = dict.fromkeys(
        key.removeprefix(prefix) for row in run.metrics.values() for key in row if key.startswith(prefix)
    )
    terms = [name for name in names if name != "total"]
    return Drawn(
        name="rewards",
        title="Reward by term",
        note="Mean over the training rollouts of a step.",
        lines=[(f"{prefix}{name}", name) for name in ("total", *terms)],
        unit="reward",
        missing="",
    )
