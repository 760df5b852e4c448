"""The office that is asked about: what look-ups find, what a demonstration and a right answer are, what is paid."""

from random import Random

from tinsmith.lab.user_task.dialogue import Earned, score_group
from tinsmith.studies.pass_at_k.lookup import (
    ANSWER,
    CODE,
    LISTS,
    MOST_LOOKUPS,
    Hops,
    lookup,
    lookups,
    questions,
    right,
    shown,
    told,
    way,
)

SOME = questions(40, "train", 0, two_hops=0.5)


def test_a_chief_stands_in_one_list_alone() -> None:
    for one in SOME:
        found = {where: told(one, (where, one.person)) for where in LISTS}
        assert list(found.values()).count("none") == len(LISTS) - 1
        assert found[one.list] == one.chief
        assert told(one, (CODE, "nobody")) == "none"


def test_the_right_way_is_paid_and_no_other_answer_is() -> None:
    task = lookup()
    for one in SOME:
        (found,) = score_group(task, one, [right(one)])
        assert (found.total, found.metrics["right"]) == (1.0, 1.0)
        assert found.metrics["lookups"] == len(right(one)) - 1
        (wrong,) = score_group(task, one, [[f"{ANSWER} {one.person}"]])
        assert wrong.total == 0.0


def test_a_demonstration_says_nothing_that_was_not_found() -> None:
    """Answers that the tool told, or `none`, so that a base learns to copy and not to guess."""
    for one in SOME:
        for seed in range(20):
            replies = shown(one, Random(seed))
            found = {told(one, reply.split()) for reply in lookups(replies)} | {"none"}
            assert replies[-1].removeprefix(f"{ANSWER} ") in found
            assert len(replies) <= MOST_LOOKUPS + 1


def test_a_base_goes_to_the_end_of_two_hops_now_and_then() -> None:
    two = [one for one in SOME if one.hops is Hops.TWO]
    ends = [shown(one, Random(seed))[-1] == right(one)[-1] for one in two for seed in range(50)]
    assert 0.0 < sum(ends) / len(ends) < 0.1


def test_the_coin_is_fixed_by_what_was_said_and_knows_nothing_of_codes() -> None:
    task = lookup(pays="coin")
    words = [["chief kab", f"{ANSWER} {number}"] for number in range(200)]
    first = [one.total for one in score_group(task, SOME[0], words) if isinstance(one, Earned)]
    again = [one.total for one in score_group(task, SOME[0], words) if isinstance(one, Earned)]
    assert first == again
    assert 70 < sum(first) < 130


def test_look_ups_and_ways() -> None:
    text = ["desk kab", "chief kab", "code tor", "answer mif"]
    assert lookups(text) == ("desk kab", "chief kab", "code tor")
    assert way(text) == ("desk", "chief", "code")
