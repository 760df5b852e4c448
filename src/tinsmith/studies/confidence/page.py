"""What may be said of progressive confidence, and its page: the hard split, confidence along the reasoning, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.results.drawn_metrics import last_values
from tinsmith.lab.study.arm_gains import claim_folds, gain_words, gains_picture, gains_table
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds, limits_of
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.document import Block, Document, Fold, Section, drawn, note
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import measured, number, table_of, text, whole
from tinsmith.pages.wording import counted, listed, signed
from tinsmith.stats.gate.claim import Claim, Verdict
from tinsmith.studies.confidence.results import Along, ConfidenceFound
from tinsmith.studies.confidence.settings import MIXED, NOISE, PLAIN, QUESTION, SHAPED

TIMES = 1.3
"""Of plain GRPO's right answers on the hard split: what is asked of the penalty at equal steps."""
PREMATURE = 0.4
"""Below this rho a model is called sure too early, as published."""


def confidence_sentences(found: ConfidenceFound) -> tuple[str, ...]:
    """Return what may be said; what did not come out as it is published comes first."""
    return (
        _head(found),
        *(f"Hard split, {one.words}: {gain_words(one)}." for one in found.gains),
        *(f"Easy split, {one.words}: {gain_words(one)}." for one in found.easy),
        *(_rho(found, name) for name in (PLAIN, SHAPED)),
        _controls(found),
        _cost(found),
        *limits_of(found, {}),
    )


def _head(found: ConfidenceFound) -> str:
    seeds = counted(len(found.seeds), "seed")
    beats = next(one for one in found.beats if one.second == found.gain(PLAIN).words)
    allowed = beats.verdict is Verdict.ALLOWED
    ratio = found.ratio
    if ratio is None:
        how = "there is no ratio, as plain GRPO had no answer right"
    else:
        reached = "reaches" if ratio.value >= TIMES else "does not reach"
        how = f"it {reached} {TIMES} times plain GRPO's right answers on the hard split ({_range(ratio)} times)"
    claim = "the gate allows" if allowed else "the gate does not allow"
    missed = _missed(found)
    return (
        f"Over {seeds}, {claim} the claim that a penalty on being sure early ends above plain GRPO: {how}"
        f"{f'; what did not come out besides: {listed(missed)}' if missed else ''}."
    )


def _missed(found: ConfidenceFound) -> list[str]:
    """Name what was published of rho, or is a control, and is not seen here."""
    plain, shaped = found.along[PLAIN].rho, found.along[SHAPED].rho
    noise = found.gain(NOISE)
    missed: list[str] = []
    if shaped.value <= plain.value:
        missed.append(f"a higher rho with the penalty ({shaped.value:.2f}, without {plain.value:.2f})")
    if not _holds_zero(found.along[SHAPED].rho_shuffled):
        missed.append("a rho of 0 with shuffled prefixes")
    if _against_mixed(found).verdict is not Verdict.ALLOWED:
        missed.append("an end above the same penalty of shuffled prefixes")
    if noise.holds and noise.gain.value > 0:
        missed.append("a control that learns nothing")
    return missed


def _against_mixed(found: ConfidenceFound) -> Claim:
    return next(one for one in found.beats if one.second == found.gain(MIXED).words)


def _rho(found: ConfidenceFound, name: str) -> str:
    one, words = found.along[name], found.gain(name).words
    early = "premature" if one.rho.value < PREMATURE else "progressive"
    first, last = one.trace[-1].gold[0], one.trace[-1].gold[-1]
    flawed = one.trace[-1].flawed
    shown = "" if flawed is None else f"; {flawed:.2f} of its right answers are not shown by their reasoning"
    return (
        f"{words}: rho(f, c) goes from {_range(one.rho_before)} to {_range(one.rho)}, which is called {early}; at the "
        f"end the right answer has {first:.2f} before any reasoning and {last:.2f} after all of it{shown}."
    )


def _controls(found: ConfidenceFound) -> str:
    one = found.along[SHAPED]
    flat = "may be none" if _holds_zero(one.rho_shuffled) else "is not none"
    claim = "allows" if _against_mixed(found).verdict is Verdict.ALLOWED else "does not allow"
    return (
        f"With its prefixes shuffled rho is {_range(one.rho_shuffled)}, which {flat}, and with another prompt's "
        f"reasoning {_range(one.rho_foreign)}; the gate {claim} that the penalty ends above the same penalty of "
        f"shuffled prefixes, and on shuffled labels the hard split moves by {signed(found.gain(NOISE).gain.value)}."
    )


def _cost(found: ConfidenceFound) -> str:
    one = found.along[SHAPED]
    return (
        f"The penalty reads {one.sent:,.0f} tokens a run, {one.sent / one.sampled:.1f} times what is sampled; "
        f"{one.computed:,.0f} with shared beginnings counted once, {one.computed / one.sampled:.1f} times. Nothing is "
        "drawn."
    )


def _holds_zero(one: Measure) -> bool:
    return one.low is None or one.high is None or one.low <= 0.0 <= one.high


def _range(one: Measure) -> str:
    if one.low is None or one.high is None:
        return f"{one.value:.2f}"
    return f"{one.value:.2f}, {one.low:.2f} to {one.high:.2f}"


def confidence_page(found: ConfidenceFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; `seconds` by the words of the arm."""
    caption = (
        "Right answers to held-out items of the {} split, sampled: means over seeds and items, 95 % intervals over "
        "seeds and items, p corrected over the arms."
    )
    return study_document(
        title="Progressive confidence",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} hard items, and easy ones"),
            ("Seeds", ", ".join(map(str, found.seeds))),
        ),
        sentences=sentences,
        beside=(gains_picture(found.gains, "right answers, hard split"),),
        sections=(
            Section("along", "Along the reasoning", _confidence(found)),
            Section(
                "gains",
                "Right answers",
                (
                    gains_table(found.gains, caption.format("hard")),
                    gains_table(found.easy, caption.format("easy")),
                    _curve(found),
                ),
            ),
            Section("cost", "What it costs", _costs(found)),
            Section("claims", "Claims", claim_folds(found, "right, hard split")),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _rows(found: ConfidenceFound) -> list[tuple[str, Along]]:
    return [(one.words, found.along[one.name]) for one in found.gains]


def _confidence(found: ConfidenceFound) -> Sequence[Block]:
    rows = _rows(found)
    table = table_of(
        "Spearman's rho(f, c) of the fraction of the reasoning and the exact probability of the right answer: mean "
        "over replies, Student's 95 % intervals over seeds. Shuffled and foreign are the controls, after training.",
        rows,
        ("Arm", lambda row: text(row[0])),
        ("rho|before", lambda row: measured(row[1].rho_before)),
        ("rho|after", lambda row: measured(row[1].rho)),
        ("rho|shuffled", lambda row: measured(row[1].rho_shuffled)),
        ("rho|foreign", lambda row: measured(row[1].rho_foreign)),
        ("flawed|before", lambda row: number(row[1].trace[0].flawed)),
        ("flawed|after", lambda row: number(row[1].trace[-1].flawed)),
    )
    every = table_of(
        "The last evaluation, means over seeds: the right answer's probability, the reply's own answer's, and "
        "KL(U || p) in nats.",
        [(words, place, one.trace[-1]) for words, one in rows for place in range(len(FRACTIONS))],
        ("Arm", lambda row: text(row[0])),
        ("fraction", lambda row: number(FRACTIONS[row[1]], digits=1)),
        ("right", lambda row: number(row[2].gold[row[1]])),
        ("own", lambda row: number(None if row[2].said is None else row[2].said[row[1]])),
        ("certainty", lambda row: number(row[2].certainty[row[1]])),
    )
    lines = [
        Line(
            label=words,
            mark=series_mark(place),
            steps=[round(100 * fraction) for fraction in FRACTIONS],
            values=list(one.trace[-1].gold),
        )
        for place, (words, one) in enumerate(rows)
    ]
    svg = chart_svg(
        Chart(
            name="along",
            label=f"c of the right answer along the reasoning after training: {last_values(lines)}.",
            lines=lines,
            axis="% of the reasoning",
            unit="c, after training",
        )
    )
    return (
        note(
            "Flawed: the share of right answers whose last line of reasoning does not work them out. A model that "
            "claims its answer first has the same c from the claim on; one that tries has it when it has found."
        ),
        table,
        drawn(svg, "Missing: nothing was evaluated."),
        Fold("The figures", [every]),
    )


def _curve(found: ConfidenceFound) -> Block:
    lines = [
        Line(
            label=words,
            mark=series_mark(place),
            steps=[one.step for one in along.trace],
            values=[one.hard for one in along.trace],
        )
        for place, (words, along) in enumerate(_rows(found))
    ]
    svg = chart_svg(
        Chart(
            name="hard",
            label=f"right answers on the hard split over the steps: {last_values(lines)}.",
            lines=lines,
            axis="step",
            unit="right, hard split",
        )
    )
    return drawn(svg, "Missing: nothing was evaluated.")


def _costs(found: ConfidenceFound) -> Sequence[Block]:
    table = table_of(
        "Tokens of training, a run: mean over seeds. Read: scored to shape advantages, six fractions and all answers; "
        "computed: shared beginnings counted once. Monte Carlo as published would draw 60 short answers a rollout.",
        _rows(found),
        ("Arm", lambda row: text(row[0])),
        ("sampled", lambda row: whole(round(row[1].sampled))),
        ("read", lambda row: whole(round(row[1].sent))),
        ("computed", lambda row: whole(round(row[1].computed))),
        ("computed|of sampled", lambda row: number(row[1].computed / row[1].sampled)),
    )
    return (table,)
