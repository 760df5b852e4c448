"""What is found of samples that are made up, so that every figure of the study is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tinsmith.lab.study.page import study_markdown
from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.pages.page import document_html
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.pass_at_k.page import pass_at_k_page
from tinsmith.studies.pass_at_k.reading import ArmSamples, Sample
from tinsmith.studies.pass_at_k.results import PassFound, measured, with_signs
from tinsmith.studies.pass_at_k.settings import BASE, COIN, GRPO, SFT
from tinsmith.studies.pass_at_k.story import sentences
from tinsmith.studies.pass_at_k.world import Hops

FEW = Draws(claims=Bootstrap(draws=200), tables=Bootstrap(draws=200))
VALUES = StudyValues(
    data="ab" * 32,
    num_items=4,
    seeds=(1, 2),
    tuning_seed=0,
    settings={"steps": "2"},
    rates={},
    hashes={"base-seed=1": {"weights_sha256": "c" * 64}},
)


def sample(right: bool, *looked_up: str) -> Sample:
    return Sample(right=right, looked_up=looked_up, way=tuple(one.split()[0] for one in looked_up))


def arm(words: str, solved: Sequence[int], ways: int) -> ArmSamples:
    """Two questions of two hops and two of one; of four samples so many are right, in so many ways."""
    names = ("held_out-two-0", "held_out-two-1", "held_out-one-2", "held_out-one-3")
    one = {
        name: [sample(place < count, f"chief p{place % ways}", "code c") for place in range(4)]
        for name, count in zip(names, solved, strict=True)
    }
    return ArmSamples(words=words, by_seed=(one, one))


@pytest.fixture(scope="module")
def found() -> PassFound:
    arms = {
        BASE: arm("base", (1, 0, 2, 2), 2),
        SFT: arm("SFT", (4, 0, 4, 4), 1),
        GRPO: arm("GRPO", (2, 1, 4, 4), 3),
        COIN: arm("GRPO, paid by a coin", (1, 0, 2, 2), 2),
    }
    return with_signs(measured(VALUES, arms, FEW))


def test_pass_at_k_is_the_mean_over_the_questions(found: PassFound) -> None:
    assert found.samples == 4
    assert found.at(BASE, 1).value == (1 / 4 + 0) / 2
    assert found.at(BASE, 2).value == (1 / 2 + 0) / 2
    assert found.at(BASE, 4).value == 1 / 2
    assert found.at(GRPO, 4).value == 1.0
    assert found.at(BASE, 1, Hops.ONE).value == 1 / 2


def test_a_sample_that_looked_up_more_is_wrong_within_fewer(found: PassFound) -> None:
    assert found.at(GRPO, 4, turns=1).value == 0.0
    assert found.at(GRPO, 4, turns=2).value == 1.0


def test_boundaries_are_compared_seed_by_seed_and_together(found: PassFound) -> None:
    alone = [one for one in found.swaps if one.arm == GRPO and one.hops is Hops.TWO]
    assert [(one.seed, one.gained, one.lost) for one in alone] == [(1, 1, 0), (2, 1, 0), (None, 2, 0)]
    # One question, twice: as much evidence as one question.
    assert alone[-1].p_value == 1.0
    assert found.swap(COIN).p_value == 1.0


def test_signs_are_directions_and_one_that_did_not_come_out_is_said_first(found: PassFound) -> None:
    assert [one.came_out for one in found.signs] == [True, False, True, True]
    told = sentences(found)
    assert told[0].startswith("Of 4 signs that were expected 3 came out: ")
    assert "; not: SFT loses more of them than it gains (0 gained, 0 lost, p = 1)" in told[0]
    assert any("is flat" in one for one in told)
    moved = tuple(replace(one, p_value=0.01) if one.arm == COIN else one for one in found.swaps)
    assert sentences(replace(found, swaps=moved))[0].endswith("by a coin, is not flat.")
    assert any("2 seeds an arm speak for these models" in one for one in told)


def test_the_page_and_its_tables_say_the_same(found: PassFound) -> None:
    page = pass_at_k_page(found, sentences(found), {})
    html, tables = document_html(page), study_markdown(page)
    for words in ("Boundaries", "pass@(4, T)", "GRPO, paid by a coin"):
        assert words in html
    assert "| GRPO (two hops) | 0.375" in tables
    assert "nan" not in tables
