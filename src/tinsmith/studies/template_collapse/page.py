"""What may be said of template collapse, and its page: information and entropy over the steps first, then success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.results.drawn_metrics import last_values
from tinsmith.lab.study.arm_gains import claim_folds, gain_words, gains_table
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds, limits_of
from tinsmith.pages.curves import Chart, Line, chart_svg
from tinsmith.pages.document import Block, Document, Fold, Section, drawn, note
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, number, table_of, text, whole
from tinsmith.pages.wording import counted, listed, signed
from tinsmith.studies.template_collapse.results import Collapse, CollapseFound
from tinsmith.studies.template_collapse.settings import BONUS, FILTERED, PLAIN, QUESTION, SHUFFLED, STOPPED

CHEAP = 0.75
"""Of the unfiltered run's updates: what the filter is published to need at most."""


def collapse_sentences(found: CollapseFound) -> tuple[str, ...]:
    """Return what may be said; what did not come out as it is published comes first."""
    bonus, filtered = found.collapse[BONUS], found.collapse[FILTERED]
    seeds = counted(len(found.seeds), "seed")
    if not bonus.collapsed:
        told = "no answers that stop depending on the question are shown, so the filter has nothing to prevent"
    elif filtered.collapsed:
        told = "answers stop depending on the question, and the filter does not prevent it"
    else:
        told = "answers stop depending on the question, and with the filter that is not shown"
    missed = _missed(found)
    ends = f"; what did not come out: {listed(missed)}." if missed else "."
    return (
        f"Over {seeds} of RL with an entropy bonus {told}{ends}",
        *(_moved(found, name) for name in (PLAIN, BONUS, FILTERED, STOPPED)),
        _cost(found),
        *(f"{one.words}: right answers {gain_words(one)}." for one in found.gains),
        _control(found),
        *limits_of(found, {}),
    )


def _missed(found: CollapseFound) -> list[str]:
    """Name what was published of the filter, or is a control, and is not seen here; the collapse stands before it."""
    missed: list[str] = []
    fell = found.gain(BONUS)
    if found.collapse[BONUS].collapsed and fell.holds and fell.gain.value < 0.0:
        missed.append(f"right answers that outlast the collapse ({fell.before.value:.3f} to {fell.after.value:.3f})")
    bonus, filtered = found.gain(BONUS).after.value, found.gain(FILTERED).after.value
    if filtered < bonus:
        missed.append(f"as many right answers with the filter ({filtered:.3f}, without {bonus:.3f})")
    if _share(found) > CHEAP:
        missed.append(f"at most {CHEAP} of the groups with the filter ({_share(found):.2f})")
    if not _flat(found.collapse[SHUFFLED].information):
        missed.append("a control whose information stays")
    return missed


def _share(found: CollapseFound) -> float:
    """Return how much of the unfiltered run's groups the filter trains on."""
    return found.collapse[FILTERED].updates / found.collapse[BONUS].updates


def _flat(one: Measure) -> bool:
    """Whether a change may be none, by its interval."""
    return one.low is None or one.high is None or one.low <= 0.0 <= one.high


def _moved(found: CollapseFound, name: str) -> str:
    one, words = found.collapse[name], found.gain(name).words
    first, last = one.trace[0], one.trace[-1]
    stopped = ""
    if one.stopped_at is not None:
        runs = counted(len(found.seeds), "run")
        stopped = f"; {one.num_stopped} of {runs} stopped, at step {one.stopped_at:.0f} (mean)"
    return (
        f"{words}: I(X; Z) goes from {first.information:.2f} to {last.information:.2f} nats of {found.cap:.2f} "
        f"({_signed(one.information)}), H(Z | X) from {first.given:.2f} to {last.given:.2f} ({_signed(one.given)})"
        f"{stopped}."
    )


def _cost(found: CollapseFound) -> str:
    share = _share(found)
    how = "" if share <= CHEAP else f", more than the {CHEAP} that are published"
    return f"The filter trains on {share:.2f} of the groups of the run without it{how}."


def _control(found: CollapseFound) -> str:
    one = found.collapse[SHUFFLED].information
    what = "which may be none" if _flat(one) else "which is not flat: RL on noise moves it too"
    return f"On shuffled labels I(X; Z) moves by {_signed(one)}, {what}."


def _signed(one: Measure) -> str:
    if one.low is None or one.high is None:
        return signed(one.value)
    return f"{signed(one.value)}, {signed(one.low)} to {signed(one.high)}"


def collapse_page(found: CollapseFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; `seconds` by the words of the arm."""
    caption = (
        "Right letters of held-out prompts, sampled: means over seeds and items, 95 % intervals over seeds and first "
        "words, p corrected over the arms."
    )
    return study_document(
        title="Template collapse",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} items"),
            ("Seeds", ", ".join(map(str, found.seeds))),
        ),
        sentences=sentences,
        beside=(_curve(found, "information", "I(X; Z), nats an answer"),),
        sections=(
            Section("information", "Information and entropy", _information(found)),
            Section("gains", "Right answers", (gains_table(found.gains, caption),)),
            Section("claims", "Claims", claim_folds(found, "right")),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _curve(found: CollapseFound, name: str, unit: str) -> Block:
    lines = [
        Line(
            label=gain.words,
            mark=series_mark(place),
            steps=[one.step for one in found.collapse[gain.name].trace],
            values=[getattr(one, name) for one in found.collapse[gain.name].trace],
        )
        for place, gain in enumerate(found.gains)
    ]
    svg = chart_svg(
        Chart(name=name, label=f"{unit} over the steps: {last_values(lines)}.", lines=lines, axis="step", unit=unit)
    )
    return drawn(svg, "Missing: nothing was evaluated.")


def _information(found: CollapseFound) -> Sequence[Block]:
    words = {one.name: one.words for one in found.gains}
    rows: list[tuple[str, Collapse]] = [(words[name], one) for name, one in found.collapse.items()]
    table = table_of(
        "The last evaluation less the first, in nats an answer: means over seeds, Student's 95 % intervals over seeds. "
        "Updates: groups that were trained on.",
        rows,
        ("Arm", lambda row: text(row[0])),
        ("I(X; Z)|change", lambda row: _cell(row[1].information)),
        ("H(Z given X)|change", lambda row: _cell(row[1].given)),
        ("retrieval|at the end", lambda row: number(row[1].trace[-1].retrieval)),
        ("updates|a run", lambda row: number(row[1].updates, digits=0)),
        ("stopped", lambda row: whole(row[1].num_stopped)),
        ("stopped at", lambda row: number(row[1].stopped_at, "ran to its end", digits=0)),
    )
    trace = table_of(
        "Every evaluation, means over seeds.",
        [(name, one) for name, each in rows for one in each.trace],
        ("Arm", lambda row: text(row[0])),
        ("step", lambda row: whole(row[1].step)),
        ("I(X; Z)", lambda row: number(row[1].information)),
        ("H(Z given X)", lambda row: number(row[1].given)),
        ("retrieval", lambda row: number(row[1].retrieval)),
        ("right", lambda row: number(row[1].reward)),
    )
    return (
        note(
            "H(Z) = I(X; Z) + H(Z | X). I is at most the log of how many prompts are scored, however much more "
            "an answer tells; retrieval is the share of answers that are likeliest after their own prompt."
        ),
        table,
        _curve(found, "given", "H(Z | X), nats an answer"),
        Fold("The figures", [trace]),
    )


def _cell(one: Measure) -> Cell:
    under = "" if one.low is None or one.high is None else f"{signed(one.low)} to {signed(one.high)}"
    return Cell(text=signed(one.value), under=under, number=True)
