"""Which quantities of a run on rubrics are drawn over its steps."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.lab.results.drawn_metrics import Drawn, chart_plate, drawn_plates, flags_of
from tinsmith.pages.curves import Limit, Line
from tinsmith.pages.document import Plate
from tinsmith.pages.palette import series_mark
from tinsmith.stats.alarms import AlarmKind
from tinsmith.studies.rubrics.pages.gains import Constant, rate_of
from tinsmith.studies.rubrics.pages.gathering import Examination, RubricRun

_DRAWN = (
    Drawn(
        name="distinct",
        title="Distinct texts",
        note="Share of the responses of an examination that are not the same as another one.",
        told="Share of distinct texts",
        lines=(("eval/distinct_texts", "sampled"), ("eval_greedy/distinct_texts", "greedy")),
        marks=(0, 1),
        shares=True,
        alarms=(AlarmKind.SAME_TEXT,),
    ),
    Drawn(
        name="reward",
        title="Training reward",
        note="Mean over the training responses of a step; with a rubric tree it is not the pass rate.",
        lines=(("train/reward/total", "reward"), ("train/pass_rate", "pass rate")),
        missing="Missing: no step has a reward.",
        shares=True,
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
        name="tokens",
        title="Tokens an answer",
        note="A reward that can be had by writing more or less shows here.",
        lines=(
            ("train/tokens/answer", "training"),
            ("eval/tokens/answer", "examined, sampled"),
            ("eval_greedy/tokens/answer", "examined, greedy"),
        ),
        missing="Missing: no step counts its tokens.",
        unit="tokens",
    ),
    Drawn(
        name="kl",
        title="KL divergence to the base",
        note="Estimated on sampled tokens.",
        lines=(("eval/kl_base", "examined prompts"), ("kl/base", "training responses")),
        missing="Missing: no examination has a KL divergence.",
        unit="nats a token",
    ),
    Drawn(
        name="parity",
        title="Sampler to trainer",
        note="KL divergence between the two on the sampled tokens: zero where they are one model.",
        lines=(("optim/kl_sample_train", "sampler to trainer"),),
        missing="Missing: the two were never compared.",
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


def rubric_plates(run: RubricRun, constant: Constant | None) -> list[Plate]:
    """Return the figures over time, in their order on the page."""
    return [_pass_rates(run, constant), *drawn_plates(run.run, _DRAWN)]


def _pass_rates(run: RubricRun, constant: Constant | None) -> Plate:
    words = "Held-out prompts" if run.held_out else "Prompts that are also trained on"
    drawn = Drawn(
        name="pass-rate",
        title="Pass rate",
        note=f"{words}; bands are 95 % intervals over prompts.",
        shares=True,
        limit=None if constant is None else Limit(constant.mean, "best text for all"),
    )
    lines = [_rates(run.sampled, "sampled", 0), _rates(run.greedy, "greedy", 1)]
    return chart_plate(drawn, lines, flags=flags_of(run.run, AlarmKind.JUDGE_FAILED))


def _rates(examinations: Sequence[Examination], label: str, place: int) -> Line:
    rates = [rate_of(one) for one in examinations]
    whole = all(rate.low is not None and rate.high is not None for rate in rates)
    return Line(
        label=label,
        mark=series_mark(place),
        steps=[one.step for one in examinations],
        values=[rate.value for rate in rates],
        low=[rate.low or 0.0 for rate in rates] if whole else None,
        high=[rate.high or 0.0 for rate in rates] if whole else None,
    )
