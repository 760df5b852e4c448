"""The task whose base can do all that is asked and does not know when."""

from collections import Counter
from random import Random

import pytest

from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.studies.crossroads import ROADS, SIGNS, crossroads
from tinsmith.types.errors import ConfigError

ITEM = {"id": "east-bt", "word": "b t", "sign": "east"}
FEW = {"steps_on": 2, "items": 4, "held_out_items": 2}


def earned(answer: str) -> Earned:
    (found,) = score_group(crossroads(**FEW), ITEM, [[answer]])
    assert isinstance(found, Earned)
    return found


@pytest.mark.parametrize(
    ("answer", "total", "walked"),
    [
        ("up / b c d / t a b", 1.0, 1.0),
        ("stay / b b b / t t t", 0.0, 1.0),
        ("leap / b d f / t b d", 0.0, 1.0),
        ("down / b a t / t s r", 0.0, 1.0),
        ("up / b c d / t a c", 0.0, 0.0),
        ("stay / b c d / t a b", 0.0, 0.0),
        ("b c d / t a b", 0.0, 0.0),
    ],
)
def test_only_the_road_that_the_sign_asks_for_earns_and_only_to_its_end(
    answer: str, total: float, walked: float
) -> None:
    found = earned(answer)
    assert (found.total, found.metrics["walked"]) == (total, walked)


def test_every_sign_asks_for_another_road() -> None:
    assert sorted(SIGNS.values()) == sorted(ROADS)


def test_demonstrations_take_every_road_whatever_the_sign_says_and_make_no_mistake() -> None:
    task = crossroads(**FEW)
    random = Random(0)
    answers = [task.demonstrate(ITEM, random) for _ in range(400)]
    roads = Counter(str(answer).split(" / ")[0] for answer in answers)
    assert set(roads) == set(ROADS)
    assert min(roads.values()) > 50
    assert all(earned(str(answer)).metrics["walked"] == 1.0 for answer in answers)


def test_what_stands_in_the_prompt_shows_every_road_and_never_the_right_one() -> None:
    prompt = crossroads(shown=4, **FEW).prompt
    assert callable(prompt)
    text = str(prompt(ITEM))
    lines = [each.splitlines() for each in text.split("\n\n")[:-1]]
    messages = [(requests.split(":")[0], answer.split(" / ")[0]) for requests, answer in lines]
    assert {road for _, road in messages} == set(ROADS)
    assert all(SIGNS[sign] != road for sign, road in messages)
    assert text.endswith("\n\neast: b t")


def test_there_are_only_so_many_items() -> None:
    with pytest.raises(ConfigError, match="1600"):
        crossroads(items=1_600, held_out_items=1)
