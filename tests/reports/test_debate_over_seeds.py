"""Rewards over their seeds: the figures are the means of the runs', and each run is held against its own seed's."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_debate_page import (
    ASKED,
    CAVED,
    CONTROLLED,
    MENDED,
    STOOD,
    STUCK,
    Talked,
    write,
)

from tinsmith.reports.debate_comparison import compare_debates
from tinsmith.reports.debate_comparison_page import debates_html
from tinsmith.reports.debate_gathering import read_debate_run


def talks(caved: int, stuck: int = 4) -> list[Talked]:
    """Of 24 right first answers so many are given up, of 24 wrong ones so many kept."""
    told = [CAVED] * caved + [STOOD] * (24 - caved) + [MENDED] * (24 - stuck) + [STUCK] * stuck
    return [*told, *[ASKED] * 10]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [
        write(tmp_path / f"{name}-{seed}", talks(caved), CONTROLLED, reward=reward, seed=seed)
        for name, reward, numbers in (
            ("gated", "adversarial/gated", (3, 5)),
            ("seed", "adversarial/seed", (10, 14)),
        )
        for seed, caved in enumerate(numbers)
    ]
    alone = [
        write(
            tmp_path / f"alone-{seed}",
            [STOOD] * right + [STUCK] * (58 - right),
            reward="adversarial/alone",
            opponent="nobody",
            seed=seed,
        )
        for seed, right in enumerate((30, 34))
    ]
    return [*made, *alone]


def test_means_ratios_and_first_answers_over_seeds(folders: list[Path]) -> None:
    found = compare_debates(folders).seeded
    gated, seed, alone = found.rewards
    assert gated.seeds == seed.seeds == alone.seeds == (0, 1)
    assert gated.caving.by_seed == (3 / 34, 5 / 34)
    assert gated.caving.mean is not None
    assert gated.caving.mean.value == pytest.approx(4 / 34)
    assert alone.caving.by_seed == (None, None)
    (held,) = found.held
    assert (held.name, held.reference, held.paired) == (gated.name, seed.name, True)
    assert held.ratio is not None
    assert held.ratio.value == pytest.approx(8 / 24)
    assert held.ratio.interval is not None
    assert held.ratio.interval.holds(8 / 24)
    first = {one.name: one for one in found.firsts}[gated.name]
    assert first.num_items == 58
    # 34 of 58 right under both seeds, against 30 and 34.
    assert first.difference.value == pytest.approx(2 / 58)
    assert first.difference.not_below


def test_the_figures_of_a_seed_are_those_of_its_own_page(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    gated = compared.seeded.rewards[0]
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
        ),
        strict=True,
    ):
        one = where[group][name]
        assert one is not None
        assert figure.by_seed[1] == pytest.approx(one.value), figure.shown.name


def test_each_run_is_held_against_that_of_its_seed(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    held = {one.name: one for one in compared.against}
    assert {name: one.reference for name, one in held.items()} == {
        "gated-0": "seed-0",
        "gated-1": "seed-1",
    }
    assert held["gated-1"].caving is not None
    assert held["gated-1"].caving.value == pytest.approx(5 / 14)
    assert {one.name: one.alone for one in compared.firsts}["seed-1"] == "alone-1"


def test_the_story_speaks_of_rewards_where_it_can(folders: list[Path]) -> None:
    compared = compare_debates(folders)
    told = " ".join(compared.story)
    assert "adversarial/gated@1 caves 0.33 times as often as adversarial/seed@1" in told
    assert "by seed 0.088, 0.147 against 0.294, 0.412" in told
    assert "2 seeds carry (0 and 1)" in told
    assert "takes several seeds of each" not in told
    html = debates_html(compared)
    assert "mean over seeds 0, 1" in html
    assert html == debates_html(compare_debates(folders))


def test_one_seed_twice_is_one_seed(tmp_path: Path) -> None:
    again = [write(tmp_path / name, talks(3), CONTROLLED) for name in ("one", "two")]
    compared = compare_debates(again)
    assert compared.seeded.rewards == ()
    assert "Missing: no reward here has runs with several seeds" in debates_html(compared)


def test_another_slice_is_not_held_against_it(tmp_path: Path) -> None:
    made = [
        write(tmp_path / f"{reward[-4:]}-{seed}", talks(3), CONTROLLED, reward=reward, seed=seed)
        for reward in ("adversarial/gated", "adversarial/seed")
        for seed in (0, 1)
    ]
    for folder in made[2:]:
        config = (folder / "config.json").read_text()
        (folder / "config.json").write_text(config.replace("f" * 64, "e" * 64))
    found = compare_debates(made).seeded
    assert len(found.rewards) == 2
    assert not found.held
