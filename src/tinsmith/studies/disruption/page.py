"""The page of a run on one or two labels: its scores, claims and evaluations as a study of one arm, and rollouts."""

from __future__ import annotations

import json
from functools import partial
from typing import Final

from markupsafe import Markup

from tinsmith.lab.results.arms import SHOWN, Member, members_of
from tinsmith.lab.results.label_tables import both_rows
from tinsmith.lab.results.run_details import GRADIENT, Drawn, drawn_plates, failures_table, papers_words, run_document
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import SPLIT_WORDS, RolloutRecord, Run, Split
from tinsmith.lab.study.report import pictures, result_sections, sentences, shown_table
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Block, Browser, Document, Pairs, Plates, Section, Words, kept, missing, note
from tinsmith.pages.palette import class_slot
from tinsmith.pages.wording import counted
from tinsmith.stats.monitors.alarms import AlarmKind, Limits
from tinsmith.studies.disruption.comparison import LabelRuns, measured

_LIMITS: Final = Limits()
_LONGEST: Final = 4000
"""Characters of a text in the browser; what is longer is cut."""
_COLUMNS: Final = (
    *("step", "split", "prompt_id", "sample", "gold", "predicted", "outcome", "confidence", "total", "advantage"),
)
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
    first, rows = next(iter(members.values())), both_rows(members) if two else []
    heads = ("n", "both right", "if independent", "difference", *(f"label_match|{name}" for name in members))
    return run_document(
        run,
        kind="Report of one run",
        facts=_facts(run),
        story=lines,
        notes=(),
        alarms=None if two else "Alarms of the collapse monitor",
        top=() if two else pictures(next(iter(found.values())).record),
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
            *(section for name, one in found.items() for section in _of_label(one, prefixes[name])),
            Section("training", "Training", [Plates(drawn_plates(run, (_rewards(run), *_OF_RUN)))]),
            Section("failures", "Failures", [failures_table(first.failures) or Words("No rollout failed.")]),
            *([] if two else [Section("rollouts", "Rollouts", [browser(first)])]),
        ),
    )


def _of_label(found: LabelRuns, prefix: str) -> list[Section]:
    """Return what was measured of a label, with its curves; `prefix` names it where there are two."""
    run, name = found.arms[0].first, prefix.lower().removesuffix(": ")
    flags = note("Red dotted lines are alarms, numbered as in their table.") if run.alarms else None
    picture = pictures(found.record, f"{name}-arms") if prefix else ()
    curves = Plates(drawn_plates(run, _OF_LABELS, f"{name}-" if name else ""))
    title = f"{prefix}Over the steps"
    return [Section(f"{name}steps", title, kept(*picture, flags, curves)), *result_sections(found.record, prefix)]


def browser(found: Member) -> Browser | Block:
    """Return the rollouts of a run, to look through."""
    if not found.shown:
        return missing("Missing: rollouts.jsonl has no readable line.")
    labels = found.run.labels
    payload = {
        "labels": list(labels),
        "slots": [class_slot(label, place) for place, label in enumerate(labels)],
        "splits": {one.value: f"{'test, ' * one.value.startswith('test')}{SPLIT_WORDS[one]}" for one in Split},
        "columns": (*_COLUMNS, "terms", "text", "failure"),
        "rows": [_row(one) for one in found.shown],
    }
    rule = f"All {counted(found.rollouts, 'rollout')} of the run are here."
    if found.rollouts > len(found.shown):
        rule = (
            f"{len(found.shown):,} of the run's {found.rollouts:,} rollouts are here (at most {SHOWN:,}): in "
            "turn one of every split, true label and result, within each by a hash of its place, so that rare "
            "results are complete and frequent ones are a sample. Shares among them are not those of the run."
        )
    return Browser(data=Markup(embedded(payload)), rule=rule, shown=len(found.shown))


def embedded(value: object) -> str:
    """Return JSON in which nothing can end a script element or begin a comment, an entity or a line."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Inside JSON these can only stand in strings, where an escape means the same.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _row(one: RolloutRecord) -> list[object]:
    text = one.text if len(one.text) <= _LONGEST else one.text[:_LONGEST] + " [cut]"
    failure = [one.failure.where, one.failure.what[:_LONGEST]] if one.failure else None
    return [*(getattr(one, name) for name in _COLUMNS), one.terms, text, failure]


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
