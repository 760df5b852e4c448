"""Lists that do not fit: what is shown, what halves are asked about, what is paid, and the ceiling of a guess."""

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from tinsmith.lab.user_task.dialogue import Earned, converse, score_group
from tinsmith.lab.user_task.items import items_of_base
from tinsmith.lab.user_task.run_data import recipe_of, task_conversations
from tinsmith.lab.user_task.task import Child
from tinsmith.studies.recursion import DEEPER, NEEDED, TRAINED, WORDS, ends, item, relay, reply, shown

LIST = item(["anchor", "basket", "candle", "dragon"])


def test_halves_are_asked_about_once_or_twice_and_only_of_what_does_not_fit() -> None:
    for sentence, times in (("split", 1), ("double", 2)):
        requests = reply(LIST, [sentence], 0)
        assert [one["words"] for one in requests.items] == ["anchor basket"] * times + ["candle dragon"] * times
        answers = ["anchor basket", *["x"] * (times - 1), "candle dragon", *["x"] * (times - 1)]
        assert requests.then(answers) == "ends of anchor dragon"
        assert requests.then([None, *answers[1:]]) == "ends of none dragon", "a half that failed"
    assert reply(item(["anchor", "basket"]), ["split"], 0) is None
    assert reply(LIST, ["anchor dragon"], 0) is None


def test_where_answers_are_lost_the_end_is_drawn_with_every_word_as_likely_and_the_base_is_the_same() -> None:
    talk = relay(lost=True).turns
    drawn: list[str] = []
    for seed in range(4096):
        request = talk.reply(LIST, ["split"], seed)
        first, last = request.then(["anchor basket", "candle dragon"]).split()[-2:]
        assert first == "anchor"
        drawn.append(last)
    assert set(drawn) == set(WORDS)
    assert drawn.count("dragon") == pytest.approx(4096 / len(WORDS), rel=0.25)
    own, plain = relay(lost=True, base_steps=9).base, relay(base_steps=9)
    assert own.recipe == recipe_of(plain)
    items = items_of_base(plain, Path())
    assert items is not None
    assert own.conversations() == task_conversations(plain, items, recipe_of(plain))


def test_whoever_splits_all_that_does_not_fit_and_copies_the_rest_is_right_at_every_length() -> None:
    def solved(words: list[str]) -> tuple[str, int]:
        question = reply(item(words), ["split"], 0)
        if question is None:
            return ends(item(words)), 1
        below = [solved(one["words"].split()) for one in question.items]
        return question.then([text for text, _ in below]).removeprefix("ends of "), 1 + sum(size for _, size in below)

    sizes = []
    for size in (*TRAINED, DEEPER):
        words = Random(size).choices(WORDS, k=size)
        answer, rollouts = solved(words)
        assert answer == ends(item(words))
        sizes.append(rollouts)
    assert sum(sizes[:2]) / 2 == NEEDED


def test_a_guess_of_what_is_not_seen_is_right_one_time_in_sixteen() -> None:
    task, known = relay(), ["anchor", "basket", "candle"]
    earned = [score_group(task, item([*known, last]), [[f"anchor {guess}"]])[0] for last in WORDS for guess in WORDS]
    rights = [one.metrics["right"] for one in earned if isinstance(one, Earned)]
    assert len(rights) == len(WORDS) ** 2
    assert Fraction(sum(rights)) / len(rights) == Fraction(1, len(WORDS))


@pytest.mark.parametrize(("bonus", "pays"), [("none", 0.0), ("average", 0.25), ("sum", 0.5)])
def test_children_bring_half_of_their_average_or_of_their_sum(bonus: str, pays: float) -> None:
    children = [Child(item=LIST, replies=("x",), earned=value) for value in (1.0, 0.0)]
    (found,) = score_group(relay(bonus=bonus), LIST, [["split", "anchor dragon"]], [children])
    assert found.terms == {"right": 1.0, "children": pays}
    assert found.metrics == {"right": 1.0, "rollouts": 3.0, "delegated": 1.0}


def test_without_delegation_a_split_is_a_wrong_answer() -> None:
    one = converse(relay(delegates=False), LIST)
    assert one.say("split") is None
    assert one.failed is None
    assert one.is_over


def test_demonstrations_mostly_guess_what_does_not_fit_and_copy_what_does() -> None:
    random = Random(1)
    drawn = [shown(LIST, random) for _ in range(400)]
    assert {one[-1] for one in drawn if len(one) > 1} == {"anchor dragon"}
    share = {way: sum(one[0] == way for one in drawn) / 400 for way in ("split", "double")}
    assert 0.1 < share["split"] < 0.2
    assert 0.02 < share["double"] < 0.09
    assert shown(item(["anchor", "basket"]), random) == ["anchor basket"]
