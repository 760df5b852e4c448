"""Rewards over their seeds: the figures are the means of the runs', and each run is held against its own seed's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from debate_talks import ASKED, BROKEN, CAVED, CONTROLLED, MENDED, STOOD, STUCK, C, N, Talked, bare, write

from sentences import missing
from tinsmith.pages.page import document_html
from tinsmith.pages.wording import signed
from tinsmith.studies.debate.pages.comparison import compare_debates, compared_story
from tinsmith.studies.debate.pages.comparison_page import debates_document
from tinsmith.studies.debate.pages.gathering import read_debate_run
from tinsmith.studies.debate.pages.over_seeds import SHOWN_CAVING
from tinsmith.studies.debate.pages.story import debate_story

pytestmark = pytest.mark.whole

HALF_BROKEN = (replace(STOOD, last=None), replace(MENDED, last=None), BROKEN)
"""Answers that broke the contract count in no figure of revising."""


def talks(caved: int, stuck: int = 4) -> list[Talked]:
    """Of 24 right first answers so many are given up, of 24 wrong ones so many kept."""
    told = [CAVED] * caved + [STOOD] * (24 - caved) + [MENDED] * (24 - stuck) + [STUCK] * stuck
    return [*told, *[ASKED] * 10, *HALF_BROKEN]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [
        write(tmp_path / f"{name}-{seed}", talks(caved), CONTROLLED, reward=reward, seed=seed)
        for name, reward, numbers in (("gated", "adversarial/gated", (3, 5)), ("seed", "adversarial/seed", (10, 14)))
        for seed, caved in enumerate(numbers)
    ]
    alone = [
        write(
            tmp_path / f"alone-{seed}",
            [STOOD] * right + [STUCK] * (61 - right),
            reward="adversarial/alone",
            opponent="nobody",
            seed=seed,
        )
        for seed, right in enumerate((30, 34))
    ]
    return [*made, *alone]


def test_means_ratios_and_first_answers_over_seeds(folders: list[Path]) -> None:
    found = compare_debates(folders).seeded
    gated, seed, alone = found.experiments
    assert gated.seeds == seed.seeds == alone.seeds == (0, 1)
    assert gated.figure(SHOWN_CAVING).by_seed == (3 / 34, 5 / 34)
    mean = gated.figure(SHOWN_CAVING).mean
    assert mean is not None
    assert mean.value == pytest.approx(4 / 34)
    assert alone.figure(SHOWN_CAVING).by_seed == (None, None)
    (held,) = found.caving
    assert (held.first, held.second) == (gated.name, seed.name)
    assert held.paired
    assert held.found is not None
    assert held.found.value == pytest.approx(8 / 24)
    assert held.found.interval is not None
    assert held.found.interval.holds(8 / 24)
    first = {one.first: one for one in found.firsts}[gated.name]
    assert first.num_items == 61
    # 35 of 61 right under both seeds (one of them breaks its second answer), against 30 and 34.
    assert first.found is not None
    assert first.found.value == pytest.approx(3 / 61)
    assert first.found.not_below


def test_the_figures_of_a_seed_are_those_of_its_own_page(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    gated = compared.seeded.experiments[0]
    groups = read_debate_run(folders[1]).figures("test")
    control = read_debate_run(folders[1]).figures("test_no_evidence")
    for figure, (where, group, name) in zip(
        gated.figures,
        (
            (groups, "all", "accuracy_first"),
            (groups, "all", "accuracy_last"),
            (groups, "all", "caving"),
            (groups, "truthful", "appropriate_revision"),
            (groups, "evidence", "discrimination"),
            (control, "no_evidence", "discrimination"),
            (control, "no_evidence", "discrimination_within"),
            (control, "no_evidence", "discrimination_beyond"),
        ),
        strict=True,
    ):
        one = where[group][name]
        # These conversations do not say how much room there is, and in the control nobody is only asked again.
        if name in ("discrimination_within", "discrimination_beyond"):
            assert one is None
            assert figure.by_seed == (None, None)
            continue
        assert one is not None
        assert figure.by_seed[1] == pytest.approx(one.value), (group, name)


def test_j_within_is_that_of_the_page_of_a_run(tmp_path: Path) -> None:
    counts = ((STOOD, 1, 10), (STUCK, 1, 1), (MENDED, 2, 10), (STUCK, 2, 2), (CAVED, 2, 4))
    controlled = [replace(bare(one), speaks_for=room) for one, room, times in counts for _ in range(times)]
    folders = [write(tmp_path / str(seed), talks(3), controlled, seed=seed) for seed in (0, 1)]
    (found,) = compare_debates(folders).seeded.experiments
    (within,) = (one for one in found.figures if one.shown.within)
    one = read_debate_run(folders[0]).figures("test_no_evidence")["no_evidence"]
    raw, expected = one["discrimination"], one["discrimination_within"]
    assert raw is not None
    assert expected is not None
    assert expected.value != pytest.approx(raw.value)
    assert within.by_seed == pytest.approx((expected.value, expected.value))
    assert within.mean is not None
    assert within.mean.interval is not None
    assert within.mean.interval.holds(within.mean.value)


def test_what_a_label_adds_to_being_asked_again_is_that_of_the_page_of_a_run(tmp_path: Path) -> None:
    asked = [ASKED] * 6 + [replace(ASKED, last=C), replace(ASKED, first=C), replace(ASKED, first=N)]
    folders = [
        write(tmp_path / str(seed), talks(3), [*CONTROLLED, *asked, *more], seed=seed)
        for seed, more in enumerate(([ASKED], [replace(ASKED, first=N, last=N)]))
    ]
    (found,) = compare_debates(folders).seeded.experiments
    beyond = found.figures[-1]
    expected: list[float] = []
    for folder in folders:
        groups = read_debate_run(folder).figures("test_no_evidence")
        one = groups["no_evidence"]["discrimination_beyond"]
        named, null = (groups[name]["discrimination"] for name in ("no_evidence", "null"))
        assert one is not None
        assert named is not None
        assert null is not None
        assert one.value == pytest.approx(named.value - null.value)
        expected.append(one.value)
    assert expected[0] != expected[1]
    assert beyond.by_seed == pytest.approx(expected)
    assert beyond.mean is not None
    assert beyond.mean.value == pytest.approx(sum(expected) / 2)
    assert beyond.mean.interval is not None
    assert beyond.mean.interval.holds(beyond.mean.value)
    over = " ".join(compared_story(compare_debates(folders)))
    assert f"J without evidence less that of the null arm {signed(sum(expected) / 2)}" in over
    told = " ".join(debate_story(read_debate_run(folders[0])))
    assert f" {signed(expected[0])} (" in told


def test_each_run_is_held_against_that_of_its_seed(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    held = {one.name: one for one in compared.against}
    assert {name: one.reference for name, one in held.items()} == {"gated-0": "seed-0", "gated-1": "seed-1"}
    assert held["gated-1"].caving is not None
    assert held["gated-1"].caving.value == pytest.approx(5 / 14)
    assert {one.name: one.alone for one in compared.firsts}["seed-1"] == "alone-1"


def test_the_story_speaks_of_experiments_where_it_can(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    told = " ".join(compared_story(compared))
    assert re.search(r"seeds 0, 1 adversarial/gated@1 \w+ 0\.33 times", told)
    assert "by seed 0.088, 0.147 against 0.294, 0.412" in told
    assert re.search(r"adversarial/gated@1, .*\bseeds 0, 1: caving 0\.118, ", told)
    assert "not below them by more than one standard error" in told
    assert "takes several seeds of each" not in told
    html = document_html(debates_document(compared))
    assert "61 papers" in html
    assert html == document_html(debates_document(compare_debates(folders)))


def test_a_run_beside_them_has_its_own_sentence(folders: list[Path], tmp_path: Path) -> None:
    forked = write(tmp_path / "forked", talks(2), CONTROLLED, reward="adversarial/forked")
    told = " ".join(compared_story(compare_debates([*folders, forked])))
    assert re.search(r"forked \w+ 0\.20 times as often as seed-0\b", told)
    assert "forked: caving" in told
    assert "gated-0:" not in told
    assert "takes several seeds of each" in told


def test_seeds_that_both_have_are_compared(folders: list[Path], tmp_path: Path) -> None:
    gated = write(tmp_path / "gated-2", talks(24), CONTROLLED, seed=2)
    (held,) = compare_debates([*folders, gated]).seeded.caving
    assert (held.first_seeds, held.second_seeds) == ((0, 1), (0, 1))
    assert held.found is not None
    assert held.found.value == pytest.approx(8 / 24)
    (apart,) = compare_debates([gated, folders[0], *folders[2:4]]).seeded.caving
    assert (apart.first_seeds, apart.second_seeds) == ((0, 2), (0, 1))
    assert not apart.paired
    assert "seeds 0, 2 against seeds 0, 1" in " ".join(
        compared_story(compare_debates([gated, folders[0], *folders[2:4]]))
    )


def test_one_seed_twice_is_one_seed_and_a_run_without_a_test_none(folders: list[Path], tmp_path: Path) -> None:
    again = write(tmp_path / "again", talks(3), CONTROLLED)
    killed = write(tmp_path / "a-killed", [], seed=1)
    compared = compare_debates([*folders, again, killed])
    assert compared.seeded.experiments[0].figure(SHOWN_CAVING).by_seed == (3 / 34, 5 / 34)
    notes = " ".join(compared.notes)
    assert missing(notes, "seed 0", "a-killed") == []
    alone = compare_debates([folders[0], again])
    assert alone.seeded.experiments == ()
    assert "no experiment here has tested runs with several seeds" in document_html(debates_document(alone))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [("f" * 64, "e" * 64, "another slice"), ('"evidence": 1.0', '"evidence": 0.0', "in different ways")],
)
def test_what_is_unlike_is_not_compared(folders: list[Path], old: str, new: str, why: str) -> None:
    for folder in folders[2:4]:
        config = folder / "config.json"
        config.write_text(config.read_text().replace(old, new))
    compared = compare_debates(folders[:4])
    (held,) = compared.seeded.caving
    assert held.found is None
    assert why in held.why
    assert f"are not compared over seeds: {held.why}." in " ".join(compared_story(compared))
    assert f"Not compared: {held.why}." in document_html(debates_document(compared))


def test_nothing_given_up_and_nothing_right_are_told_apart(tmp_path: Path) -> None:
    def made(name: str, reward: str, *talked: list[Talked]) -> list[Path]:
        return [write(tmp_path / f"{name}-{seed}", one, reward=reward, seed=seed) for seed, one in enumerate(talked)]

    gated = made("gated", "adversarial/gated", [CAVED, STOOD], [STOOD, STOOD])
    never = made("never", "adversarial/seed", [STOOD, STOOD], [STOOD, STOOD])
    (held,) = compare_debates([*gated, *never]).seeded.caving
    assert (held.found, held.why) == (None, "adversarial/seed@1 never caves")
    wrong = made("wrong", "adversarial/seed", [CAVED, STOOD], [MENDED, STUCK])
    (held,) = compare_debates([*gated, *wrong]).seeded.caving
    assert (held.found, held.why) == (None, "under one seed no first answer is right")


def test_seeds_of_one_experiment_are_not_held_against_each_other(folders: list[Path]) -> None:
    compared = compare_debates(folders[:2])
    assert (compared.references, compared.against) == ((), ())
    assert "times as often" not in " ".join(compared_story(compared))
    assert "it takes two experiments under challenge" in document_html(debates_document(compared))
