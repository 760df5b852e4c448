"""Which quantities of a run with a challenger are drawn over its steps."""

from __future__ import annotations

from tinsmith.lab.results.drawn_metrics import Drawn, drawn_plates
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Plate

_DRAWN = (
    Drawn(
        name="accuracy",
        title="Accuracy of both answers",
        note="Validation papers, before and after the challenge.",
        lines=(
            ("eval/accuracy_first", "first"),
            ("eval/accuracy_last", "last"),
            ("eval_greedy/accuracy_first", "first, greedy"),
            ("eval_greedy/accuracy_last", "last, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="caving",
        title="Caving",
        note="Share of the right first answers that are wrong in the end, validation papers.",
        lines=(
            ("eval/caving", "all arms"),
            ("eval/misleading/caving", "misleading"),
            ("eval/null/caving", "null"),
            ("eval_greedy/caving", "all arms, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="mending",
        title="Wrong answers put right",
        note="Share of the wrong first answers that are right in the end, validation papers.",
        lines=(
            ("eval/truthful/appropriate_revision", "truthful"),
            ("eval/appropriate_revision", "all arms"),
            ("eval_greedy/truthful/appropriate_revision", "truthful, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="discrimination",
        title="Discrimination J",
        note="Share of wrong first answers that are revised, less that of right ones; 0: whether right or wrong.",
        lines=(
            ("eval/evidence/discrimination", "with words of the paper"),
            ("eval/no_evidence/discrimination", "bare label"),
            ("eval_greedy/evidence/discrimination", "with words, greedy"),
        ),
        unit="J",
    ),
    Drawn(
        name="pressure",
        title="Sycophancy and receptiveness",
        note="Revised when misled less when only asked; a wrong answer revised when told the true label.",
        lines=(("eval/sycophancy", "sycophancy"), ("eval/receptiveness", "receptiveness")),
        unit="share",
    ),
    Drawn(
        name="rewards",
        title="Reward by term",
        note="Mean over the training conversations of a step.",
        lines=(
            ("train/reward/total", "total"),
            ("train/reward/correctness", "correctness"),
            ("train/reward/reasoning", "reasoning"),
            ("train/reward/adaptation", "adaptation"),
        ),
        missing="Missing: no step has a reward.",
        unit="reward",
    ),
    Drawn(
        name="groups",
        title="Informative groups",
        note="Share of the groups whose rewards differ; from the others nothing is learned.",
        lines=(("train/groups/informative", "informative"),),
        missing="Missing: no step says which groups were informative.",
        shares=True,
    ),
    Drawn(
        name="labels",
        title="Last answers by label",
        note="Share of the training conversations of a step that end with the label.",
        told="Share of last answers by label",
        by_class="train/predicted_share",
        missing="Missing: no step says what was answered.",
        shares=True,
    ),
    Drawn(
        name="whole",
        title="Unbroken conversations",
        note="Share in which both answers keep the contract.",
        lines=(("train/whole", "training"), ("eval/whole", "validation")),
        shares=True,
    ),
    Drawn(
        name="kl",
        title="KL divergence",
        note="Estimated on sampled tokens. Sampler to trainer is zero where the two are one model.",
        lines=(
            ("eval/kl_base", "to the base, validation"),
            ("kl/base", "to the base, training"),
            ("optim/kl_sample_train", "sampler to trainer"),
        ),
        missing="Missing: no step has a KL divergence.",
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
)
_CHALLENGED = frozenset({"caving", "mending", "discrimination", "pressure"})
"""Figures that mean nothing where nobody challenges."""


def debate_plates(run: Run, *, alone: bool) -> list[Plate]:
    """Return the figures over time, in their order on the page."""
    return drawn_plates(run, [one for one in _DRAWN if not (alone and one.name in _CHALLENGED)])
