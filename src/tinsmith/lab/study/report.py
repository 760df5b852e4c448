"""Sentences and page of a study: the same for every study, from its values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from tinsmith.lab.page.examples import prompt_block
from tinsmith.lab.study.files import PAGE, SECONDS_JSON, SECTIONS, STUDY_JSON, TABLES, write_json, write_text
from tinsmith.lab.study.keys import FEWEST_RATES
from tinsmith.lab.study.record import ArmGain, Column, CurveRecord, Seconds, StudyRecord, TableRecord, Tried, apart
from tinsmith.lab.study.record import Panel as PanelRecord
from tinsmith.pages.curves import Dots, Line, Panel, chart_svg, dots_svg
from tinsmith.pages.document import Block, ClaimTable, Document, Example, Facts, Fold, Section, Story, drawn, note
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import counted, listed, ranged, signed
from tinsmith.pages.page import document_html
from tinsmith.pages.tables import Table, shown, shown_table
from tinsmith.stats.gate import Claim, ClaimKind, Verdict
from tinsmith.stats.seed_tests import ENOUGH_SEEDS
from tinsmith.types.page_names import metric_name, p_words, setting_text

T = TypeVar("T")
LIKE_IT: Final = "no significant difference"  # The line below a rate that may be as good as the chosen one.
CAPTION: Final = (
    f"{LIKE_IT[0].upper()}{LIKE_IT[1:]}: the 95 % interval of its difference from the chosen rate, on the same papers, "
    "holds 0."
)
GAINS: Final = "Gains"  # Title of the table of what arms gained.
_GATE = (
    "Beats: on the same items, trained on no more of them. Learned: above the model before training, the task's "
    "baselines, and the control. Missing evidence refuses as a failed check does."
)


def sentences(found: StudyRecord) -> tuple[str, ...]:
    """Return what may be said: the headline, expectations, every arm, the claims, and the limits of all of it.

    Where nothing was expected and no gain is measured, notes lead: they hold the scores.
    """
    lead = () if found.expectations or found.gains else found.notes
    return (
        *(lead or (headline(found),)),
        *_expectations(found),
        *(f"{_capital(one.words)}: {found.score} {one.course}." for one in found.gains),
        *(f"{_capital(one.words)}: {more.score} {one.course}." for more in found.more_gains for one in more.gains),
        *_claims("ends above another", found.beats),
        *_claims("learned something that nothing simpler explains", found.learned),
        *(() if lead else found.notes),
        *_limits(found),
    )


def headline(found: StudyRecord) -> str:
    """Return a study in one sentence: whether the main arm's gain is shown, its score beside others, and the verdict.

    The main arm is that of the first allowed claim, else of the first claim, else the second beside the first. Without
    a score of each arm the claim's difference stands there.
    """
    scores, verdict = _scores(found), _verdict(found)
    claims = sorted(found.beats or found.learned, key=lambda one: one.verdict is not Verdict.ALLOWED)
    pairs = [(one.first, one.second if one.kind is ClaimKind.BEATS else "") for one in claims]
    rows = ["", *scores][-2:] if len(scores) < 2 else list(scores)[:2]
    first, second = next((one for one in pairs if one[0] in scores), (rows[-1], rows[0]))
    if first not in scores:
        return f"{_capital(f'{_difference(claims[0])}; {verdict}' if claims else verdict)}."
    score, before, after = scores[first]
    beside = [f"before training {before.value:.3f}"] if before is not None else []
    if found.baseline is not None:
        name, rival = found.baseline
        beside.append(f"{'below the ' if after.value < rival.value else ''}baseline {rival.value:.3f} ({name})")
    beside += [f"against {scores[second].after.value:.3f} for {second}"] if second in scores else []
    gained = [f"{_shown(one)}: {first}" for one in found.gains if one.words == first]
    head = next(iter(gained), _capital(first))
    return f"{head}: {', '.join([f'{score} {ranged(after)}', *beside])}; {verdict}."


def _difference(claim: Claim) -> str:
    """Return what a claim is about, with its interval."""
    span = "" if claim.interval is None else f" ({claim.interval.low:.3f} to {claim.interval.high:.3f})"
    return f"{claim.first}: {metric_name(claim.metric)} {signed(claim.value)}{span} over {claim.second}"


def _shown(gained: ArmGain) -> str:
    """Say whether an arm's gain is shown; where it is not, its p."""
    shown = "Gain shown" if gained.gain.value > 0.0 else "Loss shown"
    return shown if gained.holds else f"No gain shown (Holm {p_words(gained.p_holm)})"


class _Ends(NamedTuple):
    """An arm's score before and after training."""

    score: str
    before: Figure | None
    after: Figure


def _scores(found: StudyRecord) -> dict[str, _Ends]:
    """Return the score of every arm by its label: as it gained, or as the picture has it."""
    if found.gains:
        return {one.words: _Ends(found.score, one.before, one.after) for one in found.gains}
    if not found.panels:
        return {}
    panel, rows = found.panels[0], found.panel_rows or found.arms
    every = zip(rows, panel.before or (None,) * len(rows), panel.after, strict=True)
    return {row: _Ends(panel.title, before, after) for row, before, after in every if after is not None}


def _verdict(found: StudyRecord) -> str:
    """Return how many expectations were met; where there were none, how many claims are allowed."""
    if found.expectations:
        met, every = sum(one.met for one in found.expectations), len(found.expectations)
        return f"{met} of {counted(every, 'expectation')} {'was' if 1 in (met, every) else 'were'} met"
    claims = (*found.beats, *found.learned)
    allowed = sum(one.verdict is Verdict.ALLOWED for one in claims)
    return f"{allowed} of {counted(len(claims), 'claim')} allowed" if claims else "no claim was judged"


def _expectations(found: StudyRecord) -> list[str]:
    """Return how many were met, and which were not with their figures; then the others, whose table has theirs."""
    expected, seeds = found.expectations, counted(len(found.seeds), "seed")
    if not expected:
        return []
    met = [one.text for one in expected if one.met]
    missed = [f"{one.text} ({one.figures})" for one in expected if not one.met]
    head = f"Over {seeds}, {_verdict(found)}"
    first = f"{head}; not met: {listed(missed)}." if missed else f"{head}: {listed(met)}."
    return [first, f"Met: {listed(met)}."] if met and missed else [first]


def _claims(what: str, claims: Sequence[Claim]) -> list[str]:
    ruled = [_ruled(one) for verdict in Verdict for one in claims if one.verdict is verdict]
    allowed = sum(one.verdict is Verdict.ALLOWED for one in claims)
    return (
        [f"The gate allows {allowed} of {len(claims)} claims that an arm {what}: {'; '.join(ruled)}."] if claims else []
    )


def _ruled(claim: Claim) -> str:
    over = "" if claim.kind is ClaimKind.LEARNED else f" over {claim.second}"
    beside, figure = f"{over} in {metric_name(claim.judged_on or claim.metric)}", f"{signed(claim.value)}{claim.unit}"
    if claim.verdict is Verdict.ALLOWED:
        return f"{claim.first}{beside} ({figure})"
    failed = listed(list(dict.fromkeys(one.name.value for one in claim.checks if not one.passed)))
    return f"not {claim.first}{beside} ({figure}; {failed})"


def claims_words(found: StudyRecord) -> str:
    """Return which claims are allowed, in a line."""
    claims = (*found.beats, *found.learned)
    allowed = [
        f"{one.words}{_judged_on(one, found.score)} ({signed(one.value)})"
        for one in claims
        if one.verdict is Verdict.ALLOWED
    ]
    if not claims:
        return "nothing: no claim was judged"
    return (
        f"{len(allowed)} of {len(claims)} claims: {'; '.join(allowed)}" if allowed else f"none of {len(claims)} claims"
    )


def _judged_on(claim: Claim, score: str) -> str:
    metric = claim.judged_on or claim.metric
    return "" if metric == score else f" in {metric_name(metric)}"


def _capital(words: str) -> str:
    """Return words as a sentence begins; a key stays as it is spelled."""
    return words if "=" in words else words[:1].upper() + words[1:]


def _limits(study: StudyRecord) -> list[str]:
    """Say what a reader must know before anything of a study is repeated elsewhere."""
    found: list[str] = []
    if len(study.seeds) < ENOUGH_SEEDS:
        found.append(
            f"{counted(len(study.seeds), 'seed')} an arm {'speaks' if len(study.seeds) == 1 else 'speak'} for these "
            f"models; for the methods it takes {ENOUGH_SEEDS}."
        )
    has_runs = any("metrics_sha256" in one for one in study.hashes.values())  # others have no learning rate
    if has_runs and min((len(rates) for rates in study.rates.values()), default=0) < FEWEST_RATES:
        found.append(
            f"Fewer than {FEWEST_RATES} learning rates were tried for an arm, so that tuning may explain a difference."
        )
    by_arm = _tried(study)
    alike = chance_words(by_arm)
    if alike:
        found.append(alike)
    at_an_end = [
        name
        for name, rates in by_arm.items()
        if len(rates) > 1 and study.chosen[name] in (min(one.rate for one in rates), max(one.rate for one in rates))
    ]
    if at_an_end:
        found.append(
            f"The chosen rate of {listed(at_an_end)} is an end of what was tried; a better one may lie beyond."
        )
    return found


def _by_arm(study: StudyRecord, values: Mapping[str, T]) -> dict[str, T]:
    """Return values in the order of the arms, those of no arm last: files have them by the alphabet."""
    return {label: values[label] for label in dict.fromkeys([*study.arms, *values]) if label in values}


def _tried(study: StudyRecord) -> dict[str, tuple[Tried, ...]]:
    return {name: some for name, some in _by_arm(study, study.rates).items() if some}


def chance_words(by_name: Mapping[str, Sequence[Tried]]) -> str | None:
    """Say for whom validation does not tell the chosen rate from others; None where it tells all of them apart."""
    counts = {name: sum(one.like_the_chosen for one in tried) for name, tried in by_name.items()}
    found = [f"{alike} of {len(by_name[name]) - 1} others for {name}" for name, alike in counts.items() if alike]
    of = f"On validation the chosen rate has no significant difference from {listed(found)}"
    return f"{of}: which of these was chosen may be chance." if found else None


def rate_words(tried: Tried, chosen_rate: float | None) -> str:
    """Return what stands below a rate's score."""
    return "chosen" if tried.rate == chosen_rate else LIKE_IT if tried.like_the_chosen else ""


def page_of_study(found: StudyRecord, seconds: Mapping[str, Seconds], more: Sequence[Section] = ()) -> Document:
    """Return the page of a study; `seconds` by the labels of the arms, `more` after the tables."""
    facts = (
        ("Items' hash", found.data[:16]),
        ("Held out", f"{found.num_items:,} items"),
        ("Seeds", ", ".join(map(str, found.seeds))),
        *([("Settings chosen on seed", str(found.tuning_seed))] if found.rates or found.tuning_seed else []),
    )
    settings = tuple((key, setting_text(key, shown(value))) for key, value in sorted(found.settings.items()))
    return Document(
        kind="Report of a study",
        title=found.title,
        question=found.question,
        claims=claims_words(found),
        facts=facts,
        sections=(
            Section("summary", "Summary", [Story(sentences(found)), *pictures(found)]),
            *result_sections(found, more=more),
            _seconds(_by_arm(found, seconds)),
            _hashes(found.hashes),
            Section("settings", "Settings", (Facts(settings),)),
        ),
    )


def write_study(
    found: StudyRecord, seconds: Mapping[str, Seconds], out: Path, more: Sequence[Section] = ()
) -> tuple[Sequence[str], Document]:
    """Write the values of a study, its seconds, tables and page into its folder; return its sentences and the page."""
    story, page = sentences(found), page_of_study(found, seconds, more)
    write_json({**msgspec.to_builtins(found), "sentences": story}, out / STUDY_JSON, sort_keys=True)
    write_json(msgspec.to_builtins(seconds), out / SECONDS_JSON, sort_keys=True)
    if more:
        write_json([one.title for one in more], out / SECTIONS)
    write_page(page, out)
    return story, page


def drawn_anew(folder: Path) -> Document:
    """Return the page of a study that came to its end, from its values."""
    found = msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)
    seconds: dict[str, Seconds] = {}
    with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):  # not there, or of another version
        seconds = msgspec.json.decode((folder / SECONDS_JSON).read_bytes(), type=dict[str, Seconds])
    return page_of_study(found, seconds)


def write_page(page: Document, out: Path) -> None:
    """Write the tables and the page of a study into its folder."""
    write_text(document_markdown(page), out / TABLES)
    write_text(document_html(page), out / PAGE)


def pictures(found: StudyRecord, name: str = "arms") -> list[Block]:
    """Return the picture beside the sentences."""
    return [*_panels(found, name), *map(_curve, found.curves[:1] if not found.panels else ())]


def result_sections(found: StudyRecord, prefix: str = "", more: Sequence[Section] = ()) -> list[Section]:
    """Return all that was measured; `prefix` begins the titles of one of several studies on a page."""
    gains = [(found.score, found.gains), *((one.score, one.gains) for one in found.more_gains)]
    folded = [Fold(one.title, _table_blocks(one)) for one in found.tables if one.is_folded]
    tables = [(one.title, _table_blocks(one)) for one in found.tables if not one.is_folded]
    before: list[tuple[str, Sequence[Block]]] = [
        ("Expectations", (_expected(found),) if found.expectations else ()),
        (GAINS, [block for one in gains for block in _table_blocks(gains_record(*one))] if found.gains else ()),
        *tables,
    ]
    after: list[tuple[str, Sequence[Block]]] = [
        ("Training curves", [*map(_curve, found.curves if found.panels else found.curves[1:]), *folded]),
        ("Answers", example_blocks(found) if found.examples else ()),
        ("Learning rates", _rates(found) if found.rates else ()),
        ("Claims", _claim_blocks(found) if found.beats or found.learned else ()),
    ]
    parts = [
        [Section(_name(f"{prefix}{title}"), f"{prefix}{title}", blocks) for title, blocks in some if blocks]
        for some in (before, after)
    ]
    return [*parts[0], *more, *parts[1]]


def _name(title: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()).strip("-")


def _expected(found: StudyRecord) -> Table:
    caption = f"What {found.source} reports, and what came out here." if found.source else "Expected before the runs."
    rows = [(one.text, "yes" if one.met else "no", one.figures) for one in found.expectations]
    return shown_table(caption, "Expected", ("Met", "Figures"), rows)


def gains_record(score: str, gains: Sequence[ArmGain]) -> TableRecord:
    """Return the table of what arms gained in a score."""
    caption = (
        f"{_capital(score)}, held-out items, sampled: means over seeds and items, 95 % intervals over both; p "
        "corrected over the arms."
    )
    greedily = [f"{one.greedy_before:.3f} to {one.greedy_after:.3f}" for one in gains]
    columns = ("before", "after", apart("gain"), "p|Holm", "greedily|before and after")
    return TableRecord(
        title=GAINS,
        caption=caption,
        columns=tuple(one if isinstance(one, Column) else Column(head=one) for one in columns),
        rows=tuple(
            (one.words, (one.before, one.after, one.gain, p_words(one.p_holm).removeprefix("p "), greedy))
            for one, greedy in zip(gains, greedily, strict=True)
        ),
    )


def _table_blocks(record: TableRecord) -> list[Block]:
    rows = [(name, *cells) for name, cells in record.rows]
    table = shown_table(record.caption, record.names, record.columns, rows)
    return [*([note(record.note)] if record.note else []), table]


def _panels(found: StudyRecord, name: str) -> list[Block]:
    if not found.panels:
        return []
    panels: list[Panel] = []
    for place, one in enumerate(found.panels):
        ends = _ends(one)
        after = Dots("after" if one.before else one.title, series_mark(0 if one.before else place), one.after)
        dots = [Dots("before", series_mark(6), one.before), after] if one.before else [after]
        panels.append(Panel(title=one.title, dots=dots, high=max(1.0, *ends), low=min(ends)))
    rows = found.panel_rows or found.arms
    first = zip(rows, found.panels[0].after, strict=True)
    summary = "; ".join(f"{label} {'missing' if one is None else f'{one.value:.3f}'}" for label, one in first)
    svg = dots_svg(name, f"{found.panels[0].title}: {summary}.", list(rows), panels, width=7.6)
    return [drawn(svg, "Missing: nothing was evaluated.")]


def _ends(panel: PanelRecord) -> list[float]:
    figures = [one for one in (*panel.before, *panel.after) if one is not None]
    return [0.0, *(end for one in figures for end in (one.value, one.low, one.high) if end is not None)]


def _curve(curve: CurveRecord) -> Block:
    lines: list[Line] = []
    for place, (label, places, figures) in enumerate(curve.lines):
        values = [one.value for one in figures]
        low = [one.value if one.low is None else one.low for one in figures]
        high = [one.value if one.high is None else one.high for one in figures]
        ends = (low, high) if any(one.low is not None for one in figures) else (None, None)
        lines.append(Line(label, series_mark(place), places, values, *ends))
    ends = ", ".join(f"{one.label} from {one.values[0]:.3f} to {one.values[-1]:.3f}" for one in lines if one.values)
    label = f"{_capital(curve.label)} by {curve.axis}: {ends}."
    svg = chart_svg(curve.name, label, lines, axis=curve.axis, unit=curve.label, shares=curve.shares)
    return drawn(svg, "Missing: nothing was measured.")


def _rates(found: StudyRecord) -> list[Block]:
    """Return what each learning rate that was tried scored on validation."""
    by_arm = _tried(found)
    shown = [
        (name, ", ".join(f"{one.validation:.3f} at {one.rate:g}" for one in some)) for name, some in by_arm.items()
    ]
    label = f"Validation score by learning rate. {'; '.join(f'{name}: {values}' for name, values in shown)}."
    lines = [
        Line(name, series_mark(place), list(range(1, len(some) + 1)), [one.validation for one in some])
        for place, (name, some) in enumerate(by_arm.items())
    ]
    svg = chart_svg("rates", label, lines, axis="learning rate, the lowest first", unit="validation score")
    caption = (
        f"Score on a part of the training items, seed {found.tuning_seed}; what is held out was not used. {CAPTION}"
    )
    rows = [
        (name, f"{one.rate:g}", f"{one.validation:.3f}", f"{one.tie_break:.3f}", one.behind, rate_words(one, chosen))
        for name, some in by_arm.items()
        for chosen in [found.chosen.get(name)]
        for one in some
    ]
    heads = ("rate", "validation|sampled", "validation|greedy", apart("behind", missing=""), "Finding")
    return [drawn(svg, ""), shown_table(caption, "Arm", heads, rows)]


def example_blocks(found: StudyRecord) -> list[Block]:
    """Return held-out items as every arm answered them."""
    chosen = note(
        f"{len(found.examples)} held-out items, drawn whatever was answered; of each the first sampled answer in the "
        "runs with the first seed. Before training all runs are one model; where they drew the same, it stands once."
    )
    return [chosen, *(Example(one.title, [prompt_block(one.prompt)], one.replies) for one in found.examples)]


def _claim_blocks(found: StudyRecord) -> list[Block]:
    """Return a table of claims of each kind."""
    learned = "Something was learned that nothing simpler explains"
    kinds = (("One beats the other", found.beats), (learned, found.learned))
    return [note(_GATE), *(Fold(title, [ClaimTable(claims)]) for title, claims in kinds if claims)]


def _seconds(seconds: Mapping[str, Seconds]) -> Section:
    caption = (
        "Seconds of sampling, scoring and training in one run, a mean over seeds, as this machine was then, with "
        "other runs beside it. No two runs of the study have these in common; all else on this page they have."
    )
    heads = (
        Column(head="seconds", form=".1f"),
        Column(head="seconds|one update", form=".2f", missing="not trained"),
        Column(head="seconds|with examinations", form=".0f"),
    )
    rows = [
        (label, Figure(one.training), None if one.a_step is None else Figure(one.a_step), Figure(one.run))
        for label, one in seconds.items()
    ]
    return Section("seconds", "Seconds", (shown_table(caption, "Arm", heads, rows),))


def _hashes(hashes: Mapping[str, Mapping[str, str | None]]) -> Section:
    """Return what the runs of a study give again, wherever and however often they are run."""
    known = {kind for each in hashes.values() for kind in each}
    of_runs = ("weights", "rollouts", "metrics", "trace") if known != {"weights_sha256"} else ("weights",)
    kinds = (*of_runs, *(["file"] if "file_sha256" in known else []))
    rows = [(run, *((hashes[run].get(f"{kind}_sha256") or "missing")[:16] for kind in kinds)) for run in sorted(hashes)]
    return Section("hashes", "Hashes", (shown_table("The first 16 digits of each SHA-256.", "Run", kinds, rows),))
