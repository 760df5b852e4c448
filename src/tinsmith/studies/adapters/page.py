"""What may be said of adapters, and their page: scores as of every study, beside what each adapter takes."""

from __future__ import annotations

from collections.abc import Mapping

from tinsmith.lab.results.claim_tables import HEADINGS
from tinsmith.lab.study.page import (
    OwnColumn,
    rates_section,
    scores_section,
    seconds_section,
    settings_section,
    study_document,
    study_facts,
)
from tinsmith.lab.study.results import Seconds, limits
from tinsmith.pages.document import Document, Heading, Section, Story, Words
from tinsmith.pages.tables import Cell, Table, absent, column, number, table_of, text, whole
from tinsmith.pages.wording import listed, told
from tinsmith.stats.gate.claim import ClaimKind
from tinsmith.studies.adapters.results import METRIC, AdaptersFound, Apart
from tinsmith.studies.adapters.settings import QUESTION, WORDS
from tinsmith.types.adapters import AdapterKind

_LORA = WORDS[AdapterKind.LORA]
_ELSEWHERE = "held elsewhere"


def adapter_sentences(study: AdaptersFound) -> tuple[str, ...]:
    """Return what may be said, the comparison first."""
    said = [_compared(name, one.apart, study) for name, one in study.adapters.items() if one.apart is not None]
    return (*said, *_against_baselines(study), *_memory(study), *limits(study))


def _compared(name: str, apart: Apart, study: AdaptersFound) -> str:
    gap = f"{apart.value:+.3f} ({apart.low:+.3f} to {apart.high:+.3f}, Holm p = {apart.p_holm:.3f})"
    on = f"macro-F1 of {study.num_items} test papers over {len(study.seeds)} seeds"
    if apart.low > 0.0 and apart.p_holm < 0.05:
        return f"{name} scores higher than {_LORA} here: {gap}, {on}."
    if apart.high < 0.0 and apart.p_holm < 0.05:
        return f"{name} scores lower than {_LORA} here: {gap}, {on}."
    most = max(abs(apart.low), abs(apart.high))
    return (
        f"{name} and {_LORA} are not told apart: {gap}, {on}; what is excluded is a difference above {most:.3f}, "
        "not a smaller one."
    )


def _against_baselines(study: AdaptersFound) -> list[str]:
    found = {name: scores[METRIC] for name, scores in study.baselines if name != "Oracle"}
    if not found:
        return []
    best = max(found, key=lambda name: found[name].value)
    below = [row.name for row in study.rows if row.selected.macro_f1.value < found[best].value]
    ends = f"{best}, the best of the slice's baselines, has {told(found[best])}"
    if not below:
        return [f"{ends}; every adapter's mean is above that."]
    return [f"{ends}; {listed(below)} {'is' if len(below) == 1 else 'are'} below that."]


def _memory(study: AdaptersFound) -> list[str]:
    """What four bits save, of the first adapter that has them."""
    sizes = (one.bytes for one in study.adapters.values())
    held = next((size for size in sizes if size is not None and size.linears_to_fp32 < 1.0), None)
    if held is None:
        return []
    return [
        f"In four bits the linear weights of the base's layers take {held.linears_to_fp32:.3f} of their bytes as fp32 "
        f"({2 * held.linears_to_fp32:.3f} of bf16), and the whole base {held.whole_to_fp32:.3f} "
        f"({2 * held.whole_to_fp32:.3f}): its embedding is held as bf16."
    ]


def adapter_page(study: AdaptersFound, sentences: tuple[str, ...], seconds: Mapping[str, Seconds]) -> Document:
    """Return the page; `seconds` by the name of the row."""
    apart = {name: one.apart for name, one in study.adapters.items()}
    own = (
        OwnColumn(head=column(f"above {_LORA}", "paired"), cell=lambda row: _gap(apart[row.name])),
        OwnColumn(head=column("p", "Holm"), cell=lambda row: _p_value(apart[row.name])),
    )
    gate = tuple(gap.gate for gap in apart.values() if gap is not None)
    claims = (
        Heading(HEADINGS[ClaimKind.BEATS]),
        Story(gate),
        Heading(HEADINGS[ClaimKind.LEARNED]),
        Words("This takes a control on shuffled labels, which this study does not train."),
        Story(tuple(one.learned for one in study.adapters.values())),
    )
    return study_document(
        title="Adapters",
        question=QUESTION,
        facts=study_facts(study),
        sentences=sentences,
        sections=(
            scores_section(study, own=own),
            Section("cost", "Cost", (_cost(study),)),
            Section("claims", "Claims", claims),
            rates_section(study),
            seconds_section(seconds),
            settings_section(study),
        ),
    )


def _gap(apart: Apart | None) -> Cell:
    if apart is None:
        return absent("the reference")
    under = f"{apart.low:+.3f} to {apart.high:+.3f}"
    return Cell(text=f"{apart.value:+.3f}", under=under, number=True)


def _p_value(apart: Apart | None) -> Cell:
    return number(None if apart is None else apart.p_holm, "the reference")


def _cost(study: AdaptersFound) -> Table:
    return table_of(
        "Bytes as held in memory; the adapter's of its file. Gradient norms are means over steps and seeds, before "
        "clipping.",
        [(name, one.bytes, one.gradient) for name, one in study.adapters.items()],
        ("Adapter", lambda row: text(row[0])),
        ("trained|parameters", lambda row: whole(row[1] and row[1].parameters, _ELSEWHERE)),
        ("adapter|bytes", lambda row: whole(row[1] and row[1].adapter, _ELSEWHERE)),
        ("base|bytes, linear weights", lambda row: whole(row[1] and row[1].linears, _ELSEWHERE)),
        ("base|bytes, whole", lambda row: whole(row[1] and row[1].whole, _ELSEWHERE)),
        ("of fp32|linear weights", lambda row: number(row[1] and row[1].linears_to_fp32, _ELSEWHERE)),
        ("of fp32|whole", lambda row: number(row[1] and row[1].whole_to_fp32, _ELSEWHERE)),
        ("gradient|direction", lambda row: number(row[2] and row[2].direction, "not told")),
        ("gradient|magnitude", lambda row: number(row[2] and row[2].magnitude, "has none")),
        ("magnitude|share of the square", lambda row: number(row[2] and row[2].share, "has none")),
    )
