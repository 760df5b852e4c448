"""Several turns that draw from a seed, fork or ask a model; items that are tested; metrics that do not apply."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tinsmith.cli.registered import plan_of
from tinsmith.lab.user_task.dialogue import Earned, Failed, converse, earned, score_group
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.step_reward import Conversation, Scored, StepReward
from tinsmith.lab.user_task.task import Ask, Model, Task, Turns
from tinsmith.types.errors import ConfigError, DataError, InputError

ITEMS = [{"id": str(n), "n": n} for n in range(6)]


def last(item: Any, answer: str) -> float:
    return float(answer == str(item["n"]))


def hint(item: Any, replies: Sequence[str], seed: int) -> str | None:
    return f"{item['n'] + seed % 7} or {replies[-1]}?"


def task(**changed: Any) -> Task:
    parts: dict[str, Any] = {"items": ITEMS, "prompt": "{n}", "reward": last, "turns": Turns(reply=hint, most=2)}
    return Task(**{**parts, **changed})


def test_what_is_said_follows_from_the_item_the_replies_and_the_groups_seed() -> None:
    first, again, other = (converse(task(), ITEMS[2], seed) for seed in (3, 3, 4))
    assert [one.say("9") for one in (first, again, other)] == ["5 or 9?", "5 or 9?", "6 or 9?"]
    assert first.say("2") is None
    with pytest.raises(InputError, match="no reply is due"):
        first.say("2")


def test_a_copy_goes_on_from_where_a_conversation_stands() -> None:
    one = converse(task(), ITEMS[2], 3)
    one.say("9")
    other = copy.copy(one)
    one.say("2")
    other.say("3")
    found = [each.total for each in earned(one.task, [one, other]) if isinstance(each, Earned)]
    assert found == [1.0, 0.0]
    assert one.observations == other.observations


def asks(item: Any, replies: Sequence[str], seed: int) -> Ask:
    del replies, seed
    return Ask(f"say {item['n']}", lambda text: text.strip().upper())


def test_a_question_to_a_model_is_answered_before_the_next_reply() -> None:
    one = converse(task(turns=Turns(reply=asks, most=2, model=Model())), ITEMS[1])
    requests = one.say("x")
    assert requests.prompt == "say 1"
    with pytest.raises(InputError, match="no reply is due"):
        one.say("y")
    assert one.tell(requests.then(" yes ")) == "YES"
    assert one.say("1") is None
    assert one.observations == ("YES",)


def test_a_question_without_a_model_fails_the_conversation() -> None:
    one = converse(task(turns=Turns(reply=asks)), ITEMS[1])
    assert one.say("x") is None
    assert "Ask" in one.failed.what


def nothing(item: Any, answer: Any) -> Any:
    del item, answer


class Seeds(StepReward):
    """Pays what the group's seed says, and measures what was heard."""

    terms: ClassVar[tuple[str, ...]] = ("drawn", "length")
    metrics: ClassVar[tuple[str, ...]] = ("heard", "never")

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored | Failed]:
        return [
            Scored(
                terms={"drawn": one.seed / 10, "length": len(one.replies) / 10},
                metrics={"heard": float(len(one.observations)), "never": None},
            )
            for one in answers
        ]


def test_a_reward_of_a_step_knows_the_seed_and_what_was_heard() -> None:
    one = task(reward=Seeds())
    assert one.measured == ("heard", "never")
    played = [converse(one, ITEMS[0], seed) for seed in (1, 2)]
    for talk in played:
        talk.say("a")
        talk.say("b")
    found = earned(one, played)
    assert [each.total for each in found if isinstance(each, Earned)] == [0.3, 0.4]
    assert [each.metrics for each in found if isinstance(each, Earned)] == [{"heard": 1.0}] * 2


def test_a_metric_may_not_apply_and_a_reward_must() -> None:
    one = task(turns=None, metrics={"of_even": lambda item, text: None if item["n"] % 2 else len(text)})
    even, odd = (score_group(one, item, [["ab"]])[0] for item in ITEMS[:2])
    assert (even.metrics, odd.metrics) == ({"of_even": 2.0}, {})
    (lost,) = score_group(task(turns=None, reward=nothing), ITEMS[0], [["ab"]])
    assert isinstance(lost, Failed)


def test_tested_items_are_apart_from_those_trained_on(tmp_path: Path) -> None:
    one = task(items=ITEMS[:4], held_out=0.25, tested=ITEMS[4:])
    split = split_items(one, tmp_path, 0)
    assert [each.prompt_id for each in split.tested] == ["4", "5"]
    assert len(split.train) + len(split.held_out) == 4
    assert split.sha256 != split_items(task(items=ITEMS[:4], held_out=0.25), tmp_path, 0).sha256
    with pytest.raises(DataError, match="1 tested items") as caught:
        split_items(task(items=ITEMS[:4], tested=ITEMS[3:]), tmp_path, 0)
    assert caught.value.field == "tested"


def test_only_a_task_that_tests_has_the_key_of_how_many(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = "from tinsmith import Task\ntask = Task(items=[1, 2, 3], prompt='{item}', reward=lambda item, text: 0.0"
    file.write_text(f"{text}, tested=[4, 5])\n")
    assert plan_of(str(file), {"test_items": "1"}).settings.test_items == 1
    file.write_text(f"{text})\n")
    with pytest.raises(ConfigError, match="test_items"):
        plan_of(str(file), {"test_items": "1"})


@pytest.mark.parametrize(
    "parts",
    [
        {"reply": nothing},
        {"controls": {"evaluated": None}},
        {"turns": lambda: Turns(reply=nothing)},
        {"turns": lambda: Turns(reply=hint, most=0)},
        {"turns": lambda: Turns(reply=hint, forks=0)},
        {"turns": lambda: Turns(reply=hint, forks=2, most=3)},
    ],
)
def test_turns_that_are_none_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        task(**{name: part() if name == "turns" else part for name, part in parts.items()})
