"""The page and the table of a sweep: every cell is there, and what is wrong stands out."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from tinsmith.lab.difference.runs import Phase
from tinsmith.pages.page import document_html
from tinsmith.pages.tables import RowKind, Table
from tinsmith.studies.bits.page import story, sweep_page, sweep_table
from tinsmith.studies.bits.values import Apart, CellResult, Place, Sampled, Sweep, Trained, Verdict

SAME = Apart(
    tokens=64,
    div_index=None,
    avg_std_top1_prob=0.0,
    unequal_bits=0.0,
    max_difference=0.0,
    mean_difference=0.0,
    kl_k3=0.0,
    flip_rate=0.0,
)
OTHER = Apart(
    tokens=60,
    div_index=7,
    avg_std_top1_prob=1e-3,
    unequal_bits=0.375,
    max_difference=2.5e-6,
    mean_difference=1e-7,
    kl_k3=1e-13,
    flip_rate=0.01,
)
PLACE = Place(
    step=1, phase=Phase.GRADIENT, tensor="model.layers.0.<b>.lora_B.weight", size=3e-7, tensors=4, of_tensors=9
)


def cell(title: str, verdict: Verdict, apart: Apart = SAME, *, unique: int = 1) -> CellResult:
    same = apart is SAME
    return CellResult(
        title=title,
        changes=dict(each.split("=") for each in title.split() if "=" in each),
        cell={"batch": "32", "neighbours": "24"},
        verdict=verdict,
        sampled=tuple(
            Sampled(
                temperature=temperature,
                completions=32,
                unique=unique,
                unique_bits=unique,
                within=SAME if unique == 1 else apart,
                against=apart,
                trainer=SAME,
            )
            for temperature in (0.0, 1.0)
        ),
        trained=Trained(
            steps=3,
            weights_sha256="ab" * 32,
            equal=same,
            first=None if same else PLACE,
            weight_difference=0.0 if same else 4e-6,
        ),
        peers={"train_rollout_logprob_abs_diff": 0.0, "k3_kl": 0.0},
    )


def swept(*more: CellResult) -> Sweep:
    cells = (cell("reference", Verdict.REFERENCE), cell("batch=1", Verdict.KEPT), *more)
    return Sweep(model="a<b>", completions=32, prompt=40, tokens=32, steps=3, machine={}, cells=cells)


LOAD = cell("arithmetic=fast batch=32 neighbours=24", Verdict.DIFFERENT, OTHER, unique=5)
ABSENT = CellResult(
    title="padding=left",
    changes={"padding": "left"},
    cell={"padding": "left"},
    verdict=Verdict.UNAVAILABLE,
    unavailable="there is <none>",
)


def table(sweep: Sweep, section: str) -> Table:
    (found,) = (one for one in sweep_page(sweep).sections if one.anchor == section)
    (made,) = (one for one in found.blocks if isinstance(one, Table))
    return made


def test_the_tables_name_every_cell_with_its_figures() -> None:
    made = swept(LOAD, ABSENT)
    sampling = {row.name.text: row for row in table(made, "sampling").rows}
    assert [cell.text for cell in sampling[LOAD.title].cells][:7] == [
        *["5 of 32", "5 of 32", "7", "0.001", "37.5 %", "37.5 %", "2.5e-06"]
    ]
    assert "max |d|" in [head.text for head in table(made, "sampling").heads]
    assert "there is <none>" in sampling[ABSENT.title].remark
    assert [row.name.text for row in table(made, "cells").rows] == [one.title for one in made.cells]
    assert PLACE.tensor in table(made, "training").rows[2].cells[1].text
    assert [head.text for head in table(made, "peers").heads] == ["Cell", "train_rollout_logprob_abs_diff", "k3_kl"]


def test_a_mixtures_routes_have_a_section_a_column_and_a_sentence() -> None:
    def routed(one: CellResult, share: float) -> CellResult:
        sampled = tuple(replace(each, against=replace(each.against, unequal_routes=share)) for each in one.sampled)
        return replace(one, sampled=sampled)

    still, moved = routed(cell("batch=1", Verdict.KEPT), 0.0), routed(LOAD, 0.0125)
    found = swept(still, moved)
    assert found.routed == (still, moved)
    said = " ".join(story(found))
    assert f"In 1 of 2 cells every compared token takes the same experts; not in {LOAD.title} (1.2 %)." in said
    assert [row.cells[0].text for row in table(found, "routes").rows] == ["0 %", "1.25 %"]
    assert "routes" not in [one.anchor for one in sweep_page(swept(LOAD)).sections]


def test_a_sweep_of_the_reference_alone_has_a_page() -> None:
    one = swept()
    alone = Sweep(model=one.model, completions=1, prompt=1, tokens=1, steps=1, machine={}, cells=one.cells[:1])
    assert document_html(sweep_page(alone)).count("<svg") == 2


def test_the_story_says_what_was_shown() -> None:
    told = story(swept(LOAD, ABSENT, cell("deviation=x", Verdict.SEEN, OTHER)))
    assert told[0].startswith("1 of 1 cells that are promised to be equal are")
    assert any("5 unique of 32 completions at temperature 0" in each for each in told)
    seen = next(each for each in told if each.startswith("deviation=x is seen"))
    assert "training first at step 1, gradient, model.layers.0.<b>.lora_B.weight" in seen
    assert told[-1] == "Not available here: padding=left."


@pytest.mark.parametrize(("verdict", "words"), [(Verdict.BROKEN, "Broken: threads=2"), (Verdict.UNSEEN, "is not seen")])
def test_what_is_wrong_is_counted_and_told(verdict: Verdict, words: str) -> None:
    sweep = swept(cell("threads=2", verdict, OTHER if verdict is Verdict.BROKEN else SAME))
    assert [each.title for each in sweep.wrong] == ["threads=2"]
    assert any(words in each for each in story(sweep))
    assert table(sweep, "cells").rows[-1].kind is RowKind.CHOSEN


def test_the_console_has_a_line_for_each_cell() -> None:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(sweep_table(swept(LOAD, ABSENT)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"batch=1 +1/1 +1/1 +0 % +0 +0 % +equal +kept", text)
    assert re.search(r"arithmetic=fast batch=32 +5/5 +5/5 +37.5 % +2.5e-06 +0 % +other +different", text)
    assert re.search(r"padding=left +not here", text)
