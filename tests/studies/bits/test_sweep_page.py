"""The page and the table of a sweep: every cell is there, and what is wrong stands out."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from golden_pages import assert_golden
from tinsmith.lab.difference.runs import Phase
from tinsmith.studies.bits.page import sweep_html, sweep_table
from tinsmith.studies.bits.results import Apart, CellResult, Place, Sampled, Sweep, Trained, Verdict, story

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


class Words(HTMLParser):
    """What a reader sees, the addresses, and the ids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.addresses += [v or "" for n, v in attrs if n in ("src", "href", "xlink:href")]
        self.ids += [v or "" for n, v in attrs if n == "id"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def test_the_page_is_whole_and_names_every_cell() -> None:
    html = sweep_html(swept(LOAD, ABSENT))
    page = Words(html)
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"#000[0-2][0-9a-f]{2}", html)
    assert html.count("<svg") == 2
    for words in ("a<b>", "batch=1", LOAD.title, "not available here: there is <none>", PLACE.tensor):
        assert words in page.text
    assert "5 of 32" in page.text
    assert "37.5 %" in page.text
    assert "train_rollout_logprob_abs_diff" in page.text


def test_a_mixtures_routes_have_a_section_a_column_and_a_sentence() -> None:
    def routed(one: CellResult, share: float) -> CellResult:
        sampled = tuple(replace(each, against=replace(each.against, unequal_routes=share)) for each in one.sampled)
        return replace(one, sampled=sampled)

    still, moved = routed(cell("batch=1", Verdict.KEPT), 0.0), routed(LOAD, 0.0125)
    found = swept(still, moved)
    assert found.routed == (still, moved)
    said = " ".join(story(found))
    assert f"In 1 of 2 cells every compared token takes the same experts; not in {LOAD.title} (1.2 %)." in said
    page = Words(sweep_html(found))
    assert "sampler from trainer" in page.text
    assert "1.25 %" in page.text
    assert "routes" in page.ids
    dense = Words(sweep_html(swept(LOAD)))
    assert "routes" not in dense.ids


def test_the_page_is_the_same_every_time() -> None:
    html = sweep_html(swept(LOAD))
    assert html == sweep_html(swept(LOAD))
    assert_golden("sweep", html)


def test_a_sweep_of_the_reference_alone_has_a_page() -> None:
    one = swept()
    assert "<svg" in sweep_html(
        Sweep(model=one.model, completions=1, prompt=1, tokens=1, steps=1, machine={}, cells=one.cells[:1])
    )


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
    assert verdict.value in Words(sweep_html(sweep)).text


def test_the_console_has_a_line_for_each_cell() -> None:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(sweep_table(swept(LOAD, ABSENT)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"batch=1 +1/1 +1/1 +0 % +0 +0 % +equal +kept", text)
    assert re.search(r"arithmetic=fast batch=32 +5/5 +5/5 +37.5 % +2.5e-06 +0 % +other +different", text)
    assert re.search(r"padding=left +not here", text)
