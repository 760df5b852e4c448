"""The page of a rubric's quality: the answer on top, what cannot be claimed, nothing from outside."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from golden_pages import assert_golden
from sentences import missing
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.page import document_html
from tinsmith.pages.wording import p_words, signed
from tinsmith.studies.rubrics.quality.page import QualityRun, cannot_be_claimed, quality_page, quality_story
from tinsmith.studies.rubrics.quality.statistics import Condition, CriterionVerdicts, JudgedPair, rubric_quality


def judged(
    helped: int, hurt: int = 0, same: int = 40, *, other: int = 0, prompts: int | None = None
) -> list[JudgedPair]:
    """`other` pairs more are right with another pair's rubric than without."""
    kinds = [(False, True)] * helped + [(True, False)] * hurt + [(True, True)] * same
    return [
        JudgedPair(
            pair_id=str(i),
            prompt=str(i % (prompts or len(kinds))),
            right={Condition.WITHOUT: without, Condition.OWN: own, Condition.OTHER: without or i < other},
        )
        for i, (without, own) in enumerate(kinds)
    ]


VERDICTS = [
    CriterionVerdicts(criterion="says <b>", chosen=True, rejected=False),
    CriterionVerdicts(criterion="is there & idle", chosen=True, rejected=True),
]


def made(pairs: list[JudgedPair], **changes: object) -> QualityRun:
    run = QualityRun(
        judge="my <judge>",
        source="pairs.jsonl",
        sha256="ab" * 32,
        seed=0,
        drawn=len(pairs),
        without_rubrics=0,
        unrated=0,
        failures=(),
        cost=(("calls", "360"), ("money", "$0.12")),
        quality=rubric_quality(pairs, VERDICTS, seed=0),
    )
    return replace(run, **changes)  # pyright: ignore[reportArgumentType]


def test_gain_and_p_are_said_first_and_the_page_is_as_it_was() -> None:
    run = made(judged(20, 4), without_rubrics=0)
    first = quality_story(run.quality, run.judge)[0]
    assert "gain +0.250" in first
    assert "exact p = 0.002" in first  # 2 * sum C(24, 0..4) / 2^24
    shown = document_markdown(quality_page(run))
    assert shown.count("is there & idle") == 2  # named, and in the table
    assert shown.count("\n| --- |") == 4
    assert_golden("quality", document_html(replace(quality_page(run), question="What does it add?")))


def test_it_says_when_it_cannot_tell_and_how_many_pairs_it_takes() -> None:
    few = quality_story(rubric_quality(judged(4), (), seed=0), "m")[0]
    assert few.startswith("These pairs do not show whether the rubric adds anything.")
    assert missing(few, 4, 6, "0.05") == []
    assert re.search(r"\b\d+ pairs\b.*\b\d+ pairs\b", few)
    many = quality_story(rubric_quality(judged(12, 6), (), seed=0), "m")[0]
    assert "p = 0.238" in many
    assert "p is above 0.05." in many
    none = quality_story(rubric_quality(judged(3, 3), (), seed=0), "m")[0]
    assert "no telling how many pairs would show one" in none
    limits = cannot_be_claimed(rubric_quality(judged(4), (), seed=0), built_in=False, by_rules=False, drawn=44)
    assert any("may still be there" in each for each in limits)


def test_a_control_that_adds_too_takes_the_claim_back() -> None:
    quality = rubric_quality(judged(20, other=18), (), seed=0)
    assert "adds too (+0.300" in quality_story(quality, "m")[1]
    limits = cannot_be_claimed(quality, built_in=False, by_rules=False, drawn=60)
    assert limits[0].startswith("That the gain comes from what the rubric says")
    clean = rubric_quality(judged(20), (), seed=0)
    assert "(0.000, p = 1.000)" in quality_story(clean, "m")[1]
    assert not any("comes from" in each for each in cannot_be_claimed(
        clean, built_in=False, by_rules=False, drawn=60
    ))  # fmt: skip


def test_clusters_failures_and_construction_are_told() -> None:
    pairs = judged(20, prompts=15)
    run = made(
        pairs,
        judge="rules",
        source=None,
        drawn=len(pairs) + 2,
        failures=(("timed_out", 3),),
        without_rubrics=5,
        unrated=1,
    )
    text = document_markdown(quality_page(run))
    assert "15 prompts" in text
    assert "they are too narrow" in text
    assert "right by construction" in text
    assert "(timed out 3)" in text
    assert "2 pairs of 62 left out" in text
    assert missing(text, "5 pairs", "1 pair") == []


def test_a_rubric_that_takes_away_is_said_to() -> None:
    said = quality_story(rubric_quality(judged(1, 12), VERDICTS, seed=0), "rules")
    assert said[0].startswith("The rubric takes away from this judge's accuracy")
    assert "The judge by rules prefers" in said[0]
    assert "1 of 2 criteria" in said[2]


@pytest.mark.parametrize(("value", "words"), [(0.05, "p = 0.050"), (0.0005, "p = 0.0005"), (0.0, "p < 0.0001")])
def test_small_chances_keep_their_figures(value: float, words: str) -> None:
    assert p_words(value) == words
    assert signed(-0.0004) == "0.000"
