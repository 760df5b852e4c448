"""First sentence of a page: which side of chance, of the score before training and of the best baseline."""

from dataclasses import replace

import pytest

from tinsmith.lab.results.run_details import Beside, Verdict, side_of
from tinsmith.pages.measures import Measure

SCORE = Measure(0.5, 0.4, 0.6)


def test_below_chance_is_worse_than_guessing_and_says_nothing_of_baselines() -> None:
    constant = Beside(name="Constant", value=0.167, side=1)
    found = Verdict(
        score="macro-F1",
        found=Measure(0.31, 0.30, 0.32),
        chance=1 / 3,
        baselines=[constant],
        more="one class, neutral, in 276 of 276 greedy answers",
    )
    assert found.sentence == (
        "Worse than guessing: macro-F1 0.310 (0.300 to 0.320), chance 0.333, best baseline Constant 0.167; "
        "one class, neutral, in 276 of 276 greedy answers."
    )


@pytest.mark.parametrize(
    ("chance", "head"),
    [(0.65, "Worse than guessing"), (0.45, "No better than guessing"), (0.35, "Better than guessing")],
)
def test_the_interval_decides_on_which_side_of_chance_a_score_is(chance: float, head: str) -> None:
    assert Verdict(score="accuracy", found=SCORE, chance=chance).sentence.startswith(f"{head}: accuracy 0.500")


def test_the_best_of_the_baselines_is_the_one_that_is_named() -> None:
    low, high = Beside(name="always up", value=0.2, side=1), Beside(name="TF-IDF", value=0.8, side=-1)
    found = Verdict(score="accuracy", found=SCORE, chance=0.333, baselines=[low, high])
    assert found.sentence.startswith("Better than guessing, below the best baseline:")
    assert found.sentence.endswith("best baseline TF-IDF 0.800.")
    assert "above every baseline" in replace(found, baselines=[low]).sentence


def test_without_chance_the_score_stands_beside_that_before_training() -> None:
    before = Beside(name="before training", value=0.2, side=1)
    assert Verdict(score="mean reward", found=SCORE, before=before).sentence == (
        "Better than before training: mean reward 0.500 (0.400 to 0.600), before training 0.200, no baseline is known."
    )


def test_a_score_without_an_interval_is_compared_by_its_value() -> None:
    assert [side_of(Measure(0.5), level) for level in (0.4, 0.5, 0.6)] == [1, 0, -1]
