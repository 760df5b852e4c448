"""The page of a run on one or two labels: its scores, claims and evaluations as a study of one arm, and rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from tinsmith.lab.results.arms import Member
from tinsmith.lab.results.browser import browser
from tinsmith.lab.results.drawn_metrics import GRADIENT, Drawn, drawn_plates
from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.gathering import Gathered
from tinsmith.lab.results.run_details import failures_section, run_document
from tinsmith.lab.results.run_map import papers_words
from tinsmith.lab.results.two_labels import BOTH_HEADS, both_rows, members_of
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.report import pictures, result_sections, sentences, shown_table
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Document, Pairs, Plates, Section, kept, missing, note
from tinsmith.stats.monitors.alarms import AlarmKind, Limits
from tinsmith.studies.disruption.comparison import LabelRuns, measured

_LIMITS: Final = Limits()
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
            *(("eval/macro_f1", "macro-F1"), ("eval/label_match", "label_match")),
            *(("eval_greedy/macro_f1", "macro-F1, greedy"), ("eval_greedy/label_match", "label_match, greedy")),
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
    """Return the page of a run on one or two labels; the same folder, the same page."""
    members = members_of(run)
    found = {name: measured([member]) for name, member in members.items()}
    two = len(members) > 1
    prefixes = {name: f"{name.capitalize()}: " if two else "" for name in members}
    lines = [f"{prefixes[name]}{line}" for name, one in found.items() for line in sentences(one.record)]
    gathered = next(iter(members.values())).gathered
    return run_document(
        run,
        kind="Report of one run",
        facts=_facts(run),
        story=lines,
        notes=(),
        alarms=None if two else "Alarms of the collapse monitor",
        top=() if two else pictures(next(iter(found.values())).record),
        sections=(
            *([_both(members)] if two else []),
            *(section for name, one in found.items() for section in _of_label(one, prefixes[name])),
            Section("training", "Training", [Plates(drawn_plates(run, (_rewards(run), *_OF_RUN)))]),
            failures_section(failures_table(gathered.failures)),
            *([] if two else [_rollouts(run, gathered)]),
        ),
    )


def _both(members: Mapping[str, Member]) -> Section:
    rows = both_rows(members)
    heads = (*BOTH_HEADS, *(f"label_match|{name}" for name in members))
    return Section("both", "Both labels", [shown_table(_BOTH, "System", heads, rows) if rows else missing(_NEVER)])


def _of_label(found: LabelRuns, prefix: str) -> list[Section]:
    """Return what was measured of a label, with its curves; `prefix` names it where there are two."""
    run, name = found.arms[0].first, prefix.lower().removesuffix(": ")
    flags = note("Red dotted lines are alarms, numbered as in their table.") if run.alarms else None
    picture = pictures(found.record, f"{name}-arms") if prefix else ()
    curves = Plates(drawn_plates(run, _OF_LABELS, f"{name}-" if name else ""))
    title = f"{prefix}Over the steps"
    return [Section(f"{name}steps", title, kept(*picture, flags, curves)), *result_sections(found.record, prefix)]


def _rollouts(run: Run, gathered: Gathered) -> Section:
    found = browser(gathered, run.labels) or missing("Missing: rollouts.jsonl has no readable line.")
    return Section("rollouts", "Rollouts", [found])


def _facts(run: Run) -> Pairs:
    config = run.config
    task = "both labels" if config.kind is Kind.JOINT else config.task.name
    return (
        ("Reward", config.reward_name or "none"),
        ("Model", config.model_name or "not stated"),
        ("Task", f"{task}, prompt {config.task.prompt}, contract {config.task.contract}"),
        ("Papers", papers_words(run)),
    )


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
