"""What a study of adapters found, as values, and what may be said of it in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.analysis.claims import Comparison, judge
from tinsmith.analysis.estimates import Bootstrap, difference, estimate
from tinsmith.analysis.rates import Metric
from tinsmith.analysis.runs import Runs
from tinsmith.analysis.significance import holm
from tinsmith.data.baseline_report import Baseline
from tinsmith.reports.arms import Arm
from tinsmith.reports.baseline_rivals import rival
from tinsmith.reports.measures import Measure, from_estimate
from tinsmith.reports.tried_rates import Tried, chance_words
from tinsmith.reports.wording import listed, told
from tinsmith.types.adapters import AdapterKind

METRIC = Metric.MACRO_F1
"""What adapters are compared on: named before any run."""

WORDS = {
    AdapterKind.LORA: "LoRA",
    AdapterKind.DORA: "DoRA",
    AdapterKind.QLORA: "QLoRA",
    AdapterKind.QDORA: "QDoRA",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """What weights take."""

    parameters: int
    """Trained ones."""
    adapter: int
    """Bytes of the adapter's file, fp32."""
    linears: int
    """Bytes of the base's linear weights in its layers, as they are held in memory."""
    whole: int
    """Bytes of the whole base: embedding, norms and a free head stay fp32."""
    linears_to_fp32: float
    whole_to_fp32: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorm:
    """The gradient's L2 norm, mean over steps and seeds, before clipping."""

    direction: float
    """Of A and B together."""
    magnitude: float | None
    """Of DoRA's magnitudes; None where there are none."""
    share: float | None
    """Mean share of the magnitudes in the squared norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """An adapter's score less LoRA's, on the same papers."""

    value: float
    low: float
    high: float
    p_holm: float
    gate: str
    """What the claim gate says of "it beats LoRA"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRow:
    """One adapter at the rate that was chosen for it."""

    adapter: AdapterKind
    rate: float
    tuned: tuple[Tried, ...]
    seeds: tuple[int, ...]
    macro_f1: Measure
    """Selected checkpoints on the test split, sampled; mean and interval over seeds and papers."""
    label_match: float
    min_class_recall: float
    greedy_macro_f1: float | None
    apart: Apart | None
    """None: it is LoRA."""
    bytes: Bytes | None
    """None: a server elsewhere has the weights."""
    gradient: GradientNorm | None
    """None: the server told no trace."""
    weights_sha256: tuple[str | None, ...]
    """Last weights by seed."""

    @property
    def at_an_end(self) -> bool:
        """Whether the chosen rate is the smallest or the largest that was tried."""
        return self.rate in (self.tuned[0].rate, self.tuned[-1].rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A baseline of the slice."""

    name: str
    macro_f1: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterStudy:
    """All of it but the times, which no two runs have in common."""

    rows: tuple[AdapterRow, ...]
    baselines: tuple[Scored, ...]
    settings: dict[str, object]
    """What all runs were trained with."""
    data: str
    """Fingerprint of the slice."""
    num_items: int
    tuning_seed: int

    def story(self) -> tuple[str, ...]:
        """Return what may be said, the comparison first."""
        said = [_compared(row, self) for row in self.rows if row.apart is not None]
        return (*said, *_against_baselines(self), *_memory(self), *_caveats(self))


@dataclass(frozen=True, slots=True)
class Compared:
    """What is computed of an arm's answers to the test split."""

    macro_f1: Measure
    label_match: float
    min_class_recall: float
    apart: Apart | None


def compared(arms: Sequence[Arm], answers: Sequence[Runs]) -> list[Compared]:
    """Score every arm, and compare all but the first with the first.

    Raises:
        DataError: they were not tested on the same papers.
    """
    bootstrap = Bootstrap()
    lora, others = answers[0], list(answers[1:])
    claims = judge(
        [
            Comparison(
                first=one,
                second=lora,
                metric=METRIC,
                metadata=_metadata(arm, one),
                parity=arm.parity(),
            )
            for arm, one in zip(arms[1:], others, strict=True)
        ],
        bootstrap,
    )
    gaps = [difference(one, lora, METRIC, bootstrap) for one in others]
    p_values = holm([gap.p_value for gap in gaps])
    apart: list[Apart | None] = [None]
    for gap, p_value, claim in zip(gaps, p_values, claims, strict=True):
        assert gap.interval is not None, "macro-F1 is defined in every resample"
        apart.append(
            Apart(
                value=gap.value,
                low=gap.interval.low,
                high=gap.interval.high,
                p_holm=p_value,
                gate=claim.sentence(),
            )
        )
    return [
        Compared(
            macro_f1=from_estimate(estimate(one, METRIC, bootstrap)),
            label_match=one.score(Metric.LABEL_MATCH),
            min_class_recall=one.score(Metric.MIN_CLASS_RECALL),
            apart=gap,
        )
        for one, gap in zip(answers, apart, strict=True)
    ]


def _metadata(arm: Arm, answers: Runs) -> Runs | None:
    report = arm.first.baselines
    scores = report.scores if report else []
    found = next((score for score in scores if score.baseline is Baseline.METADATA), None)
    return rival(found, arm.first, answers) if found else None


def _compared(row: AdapterRow, study: AdapterStudy) -> str:
    apart, name = row.apart, WORDS[row.adapter]
    assert apart is not None
    gap = f"{apart.value:+.3f} ({apart.low:+.3f} to {apart.high:+.3f}, Holm p = {apart.p_holm:.3f})"
    on = f"macro-F1 of {study.num_items} test papers over {len(row.seeds)} seeds"
    if apart.low > 0.0 and apart.p_holm < 0.05:
        return f"{name} scores higher than LoRA here: {gap}, {on}."
    if apart.high < 0.0 and apart.p_holm < 0.05:
        return f"{name} scores lower than LoRA here: {gap}, {on}."
    most = max(abs(apart.low), abs(apart.high))
    return (
        f"{name} and LoRA are not told apart: {gap}, {on}; what is excluded is a difference above {most:.3f}, "
        "not a smaller one."
    )


def _against_baselines(study: AdapterStudy) -> list[str]:
    found = [one for one in study.baselines if one.name != "Oracle"]
    if not found:
        return []
    best = max(found, key=lambda one: one.macro_f1.value)
    below = [WORDS[row.adapter] for row in study.rows if row.macro_f1.value < best.macro_f1.value]
    ends = f"{best.name}, the best of the slice's baselines, has {told(best.macro_f1)}"
    if not below:
        return [f"{ends}; every adapter's mean is above that."]
    return [f"{ends}; {listed(below)} {'is' if len(below) == 1 else 'are'} below that."]


def _memory(study: AdapterStudy) -> list[str]:
    held = next(
        (row.bytes for row in study.rows if row.adapter.quantised and row.bytes is not None), None
    )
    if held is None:
        return []
    return [
        f"In four bits the linear weights of the base's layers take {held.linears_to_fp32:.3f} of their bytes as fp32 "
        f"({2 * held.linears_to_fp32:.3f} of bf16), and the whole base {held.whole_to_fp32:.3f} "
        f"({2 * held.whole_to_fp32:.3f}): its embedding is held as bf16."
    ]


def _caveats(study: AdapterStudy) -> list[str]:
    alike = chance_words({WORDS[row.adapter]: row.tuned for row in study.rows})
    said = [alike] if alike else []
    for row in study.rows:
        if row.at_an_end:
            end = "smallest" if row.rate == row.tuned[0].rate else "largest"
            said.append(
                f"The rate chosen for {WORDS[row.adapter]} is the {end} that was tried: its row may be better yet."
            )
    return said
