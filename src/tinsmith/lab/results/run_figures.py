"""Which quantities of a run on the labels of papers are drawn over its steps, and what each figure is called."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.results.drawn_metrics import Drawn, drawn_plates
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Run
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Plate
from tinsmith.stats.monitors.alarms import AlarmKind, Limits

_LIMITS: Final = Limits()
TERMS: Final = ("parse", "contract", "task", "think")
_NO_EVALUATION: Final = "Missing: the validation split was never answered."

_OF_CLASSES: Final = (
    Drawn(
        name="shares",
        title="Predicted share by class",
        note="Validation split, sampled. A class above the limit in three evaluations running raises an alarm.",
        told="Share of all answers by class",
        by_class="eval/predicted_share",
        invalid="eval/invalid_rate",
        shares=True,
        limit=Limit(_LIMITS.max_share, f"alarm above {_LIMITS.max_share:g}"),
        alarms=(AlarmKind.SHARE, AlarmKind.INFORMATION),
        missing=_NO_EVALUATION,
    ),
    Drawn(
        name="recalls",
        title="Recall by class",
        note="Validation split, sampled.",
        by_class="eval/recall",
        shares=True,
        limit=Limit(_LIMITS.min_recall, f"alarm below {_LIMITS.min_recall:g}"),
        alarms=(AlarmKind.RECALL, AlarmKind.CHANCE),
        missing=_NO_EVALUATION,
    ),
    Drawn(
        name="scores",
        title="Scores, sampled and greedy",
        note="Validation split. A balanced policy that draws its answers may fall back to one class when it is greedy.",
        told="Macro-F1 and label_match",
        lines=(
            ("eval/macro_f1", "macro-F1"),
            ("eval/label_match", "label_match"),
            ("eval_greedy/macro_f1", "macro-F1, greedy"),
            ("eval_greedy/label_match", "label_match, greedy"),
        ),
        marks=(0, 1, 2, 3),
        shares=True,
        alarms=(AlarmKind.GOODHART,),
        missing=_NO_EVALUATION,
    ),
    Drawn(
        name="groups",
        title="Informative groups by class",
        note="Share of the groups whose rewards differ. A class without any teaches nothing more, and is lost "
        "for good.",
        told="Share of groups that carry a gradient, by class,",
        by_class="train/groups/informative",
        shares=True,
        limit=Limit(_LIMITS.min_informative_rate, f"alarm below {_LIMITS.min_informative_rate:g}"),
        alarms=(AlarmKind.GROUPS,),
        missing="Missing: no step says which groups were informative.",
        only=Kind.RL,
    ),
    Drawn(
        name="worth",
        title="What a right answer is worth",
        note="By class: this reward reacts to what was answered so far.",
        told="Reward of a right answer by class",
        by_class="reward/correct",
        unit="reward",
        missing="",
    ),
)
_OF_TRAINING: Final = (
    Drawn(
        name="rewards",
        title="Reward by term",
        note="Mean over the training rollouts of a step.",
        told="Mean reward by term",
        lines=(("train/reward/total", "total"), *((f"train/reward/{term}", term) for term in TERMS)),
        marks=(None, 0, 1, 2, 3),
        unit="reward",
        missing="Missing: no step has a reward.",
        only=Kind.RL,
    ),
    Drawn(
        name="nll",
        title="Training loss",
        note="Negative log-likelihood of the answer's tokens.",
        lines=(("train/nll", "training loss"),),
        marks=(0,),
        unit="nats a token",
        missing="Missing: no step has a loss.",
        only=Kind.SFT,
    ),
)
_OF_STEPS: Final = (
    Drawn(
        name="duals",
        title="Price of a class's recall",
        note="The dual variables: they rise while a recall is below its target.",
        told="Dual variable by class",
        by_class="reward/dual",
        unit="price",
        missing="",
    ),
    Drawn(
        name="kl",
        title="KL divergence",
        note="Estimated on sampled tokens. Sampler to trainer is zero where the two are one model.",
        lines=(
            ("kl/base", "to the base, training rollouts"),
            ("eval/kl_base", "to the base, validation"),
            ("optim/kl_sample_train", "sampler to trainer"),
        ),
        marks=(0, 1, 3),
        unit="nats a token",
        missing="Missing: no step has a KL divergence.",
    ),
    Drawn(
        name="gradient",
        title="Gradient norm",
        note="Before clipping, at every optimizer step.",
        lines=(("optim/grad_norm", "gradient norm"),),
        marks=(2,),
        unit="norm",
        missing="Missing: no step has a gradient norm.",
    ),
)


def run_plates(run: Run) -> list[Plate]:
    """Return the figures over time of a run, in their order on the page."""
    return drawn_plates(run, (*_OF_CLASSES[:3], *_OF_TRAINING, *_OF_CLASSES[3:], *_OF_STEPS))


def class_plates(run: Run, prefix: str) -> list[Plate]:
    """Return the figures that tell of classes, with ids that begin with `prefix`: one of several tasks on a page."""
    return drawn_plates(run, _OF_CLASSES, prefix)
