"""`check_reward=true`: rewards that pay for what is no answer are found out, and exact ones are not accused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from command_line import command
from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.experiment import plan_fingerprint
from tinsmith.lab.user_task.items import named_item
from tinsmith.lab.user_task.learned_reward import LearnedReward
from tinsmith.lab.user_task.reward_check import RewardCheck, Tried, check_lines, check_reward, mutants
from tinsmith.lab.user_task.step_reward import Conversation, Scored, StepReward
from tinsmith.lab.user_task.task import Child, Reward, Spawn, Task, Turns, of_conversation, of_group, of_tree
from tinsmith.types.errors import ConfigError

ITEMS = [{"id": f"n{n}", "n": n, "twice": str(2 * n)} for n in range(10, 22)]


def exact(item: dict[str, Any], text: str) -> float:
    return float(text.strip() == item["twice"])


def task(reward: Reward | StepReward = exact, **more: Any) -> Task:
    answer: Callable[[Any], str] = lambda item: item["twice"]  # noqa: E731
    return Task(**{"items": ITEMS, "prompt": "Twice {n}", "reward": reward, "answer": answer, **more})


def checked(task: Task) -> RewardCheck:
    return check_reward(task, [named_item(task, one) for one in ITEMS])


def alike(found: RewardCheck) -> set[Tried]:
    return {how for how in Tried if found.as_much(how)}


def test_an_exact_reward_pays_nothing_else() -> None:
    found = checked(task())
    assert found.rights == (1.0,) * len(ITEMS)
    assert found.failed == 0
    assert not alike(found)
    assert all(found.of(how) for how in Tried)


def test_a_reward_that_looks_for_the_answer_anywhere_pays_for_several_at_once() -> None:
    found = checked(task(lambda item, text: float(item["twice"] in text)))
    assert alike(found) == {Tried.SEVERAL}
    assert len(found.as_much(Tried.SEVERAL)) == len(found.of(Tried.SEVERAL))


def test_a_reward_of_short_answers_pays_for_empty_ones_and_one_of_long_answers_for_the_prompt() -> None:
    assert Tried.EMPTY in alike(checked(task(lambda _, text: 1.0 / (1 + len(text)))))
    assert Tried.ECHO in alike(checked(task(lambda _, text: float(len(text)))))


def test_a_digit_that_does_not_matter_is_found_among_mutants() -> None:
    found = checked(task(lambda item, text: float(text.strip()[:1] == item["twice"][:1])))
    assert Tried.MUTANT in alike(found)


def test_part_of_the_reward_is_no_accusation_but_is_counted() -> None:
    one = task(lambda item, text: exact(item, text) or 0.1 * text.isdecimal())
    found = checked(one)
    assert not alike(found)
    assert {each.reward for each in found.of(Tried.OTHER)} == {0.1}
    lines = check_lines(one, [named_item(one, each) for each in ITEMS])
    assert any(line.startswith(Tried.OTHER.value) and "48 of 48 earn something" in line for line in lines)


def test_where_no_answer_is_named_the_best_demonstration_stands_for_it() -> None:
    def shown(item: dict[str, Any], random: Random) -> str:
        return str(2 * item["n"] + random.randint(-1, 1))

    found = checked(task(answer=None, demonstrate=shown))
    assert (set(found.rights), alike(found)) == ({1.0}, set())


def test_without_answers_and_demonstrations_what_is_empty_is_tried_alone() -> None:
    found = checked(task(answer=None))
    assert found.rights == ()
    assert {one.how for one in found.paid} == {Tried.EMPTY, Tried.RANDOM, Tried.ECHO}
    assert "answer=" in check_lines(task(answer=None), [named_item(task(), one) for one in ITEMS])[0]


def test_each_answer_of_a_group_reward_stands_beside_the_right_one() -> None:
    def best(item: dict[str, Any], texts: Sequence[str]) -> list[float]:
        return [float(exact(item, one) == max(exact(item, each) for each in texts)) for one in texts]

    assert not alike(checked(task(of_group(best))))


def test_a_conversation_goes_as_the_task_says_and_its_last_reply_is_tried_otherwise() -> None:
    def reply(_: dict[str, Any], replies: Sequence[str]) -> str | None:
        return "And now?" if replies[-1] == "wait" else None

    found = checked(task(reply=reply, answer=lambda item: ["wait", item["twice"]]))
    assert found.rights == (1.0,) * len(ITEMS)
    assert not alike(found)
    assert {how for how in Tried if found.of(how)} == set(Tried)


def test_what_a_reward_remembers_of_this_is_forgotten() -> None:
    class Counts(StepReward):
        def __init__(self) -> None:
            self.number = 0

        def __call__(self, answers: Sequence[Conversation]) -> list[Scored]:
            self.number += len(answers)
            return [Scored(terms={"reward": exact(one.item, one.text)}) for one in answers]

    one = Counts()
    assert not alike(checked(task(one)))
    assert one.number == 0


def test_a_reward_that_fails_is_counted_and_not_called_unpaid() -> None:
    def brittle(item: dict[str, Any], text: str) -> float:
        return 1.0 if int(text) == 2 * item["n"] else 0.0

    found = checked(task(brittle))
    assert found.failed >= 2 * len(ITEMS), "neither an empty answer nor the prompt is a number"
    assert not alike(found)


def test_a_demonstration_stands_for_a_named_answer_that_earns_nothing() -> None:
    def shown(item: dict[str, Any], random: Random) -> str:
        return item["twice"] if random.random() < 0.02 else "?"

    one = task(answer=lambda item: item["twice"] if item["n"] % 2 else "no idea", demonstrate=shown)
    found = checked(one)
    assert found.rights == (1.0,) * len(ITEMS)
    assert found.replaced == len(ITEMS) / 2
    assert not alike(found)
    assert f"on {len(ITEMS) // 2} items" in check_lines(one, [named_item(one, each) for each in ITEMS])[0]


def test_what_is_paid_where_the_right_answer_is_not_is_no_pay_as_much_and_is_counted_for_itself() -> None:
    one = task(lambda item, text: exact(item, text) if item["n"] > 15 else float("1" in text))
    one = replace(one, answer=lambda item: item["twice"] if item["n"] > 15 else "no idea")
    found = checked(one)
    assert set(found.rights) == {0.0, 1.0}
    assert not alike(found)
    assert {int(each.item[1:]) > 15 for how in Tried for each in found.instead(how)} == {False}
    lines = check_lines(one, [named_item(one, each) for each in ITEMS])
    count = len(found.instead(Tried.ECHO))
    assert any(line.startswith(Tried.ECHO.value) and f"{count} WHERE THE RIGHT ANSWER" in line for line in lines)


LETTERS = [{"id": word, "word": word} for word in ("abcd", "bcda", "cdab", "dabc", "aabb", "bbcc")]


def halves(item: Mapping[str, str], said: Sequence[str], _: int) -> Spawn | None:
    half = len(item["word"]) // 2
    if said[-1] != "cut" or not half:
        return None
    parts = item["word"][:half], item["word"][half:]
    return Spawn([{"word": part} for part in parts], lambda answers: " ".join(str(one) for one in answers))


def raised(item: Mapping[str, str], said: Sequence[str]) -> float:
    return float(said[-1] == item["word"].upper())


def below(_: Mapping[str, str], __: Sequence[str], children: Sequence[Child]) -> float:
    return 0.25 * sum(one.earned for one in children)


def upper(item: Mapping[str, str], *_: Random) -> str | list[str]:
    return item["word"].upper() if len(item["word"]) == 1 else ["cut", item["word"].upper()]


@pytest.mark.parametrize("way", ["answer", "demonstrate"])
def test_what_a_conversation_spawns_is_answered_as_the_task_shows_it(way: str) -> None:
    one = Task(
        items=LETTERS,
        prompt="{word}",
        turns=Turns(reply=halves, most=2, deepest=2),
        reward={"own": of_conversation(raised), "below": of_tree(below)},
        **{way: upper},
    )
    found = check_reward(one, [named_item(one, each) for each in LETTERS])
    assert found.rights == (1.5,) * len(LETTERS), "both halves earn 1"
    assert found.failed == 0
    assert not alike(found)
    assert {each.reward for each in found.of(Tried.OTHER)} == {0.5}
    assert {each.reward for each in found.of(Tried.EMPTY)} == {0.0}


def test_of_a_learned_reward_the_labels_are_checked() -> None:
    def read(item: dict[str, Any], text: str) -> str:
        return f"{item['n']}: {text}"

    one = task(LearnedReward(label=exact, features=read, every=1))
    found = checked(one)
    assert found.rights == (1.0,) * len(ITEMS)
    assert not alike(found)
    assert "label" in check_lines(one, [named_item(one, each) for each in ITEMS])[0]
    anywhere = LearnedReward(label=lambda item, text: float(item["twice"] in text), features=read)
    assert alike(checked(task(anywhere))) == {Tried.SEVERAL}


def test_features_and_labels_that_fail_are_counted() -> None:
    def first(_: dict[str, Any], text: str) -> list[float]:
        return [float(text[0] == "1")]

    empty = checked(task(LearnedReward(label=exact, features=first)))
    assert empty.failed == 2 * len(ITEMS), "an answer without its one word is empty too"
    wrong = checked(task(LearnedReward(label=lambda _, text: float(text), features=lambda *_: "")))
    assert wrong.failed > len(ITEMS)


def test_mutants_differ_from_their_text_and_are_the_same_again() -> None:
    text = "put the key in box 3"
    found = mutants(text, ["lamp"], Random(1), 20)
    assert found == mutants(text, ["lamp"], Random(1), 20)
    assert len(set(found)) == len(found) == 20
    assert all(one.split() != text.split() for one in found)
    assert all(abs(len(one.split()) - 6) <= 1 for one in found)
    assert mutants("", ["lamp"], Random(1)) == []


def test_a_dry_run_says_it_and_only_a_dry_run_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    assert command(capsys, "new", "mine.py").code == 0
    ran = command(capsys, "run", "mine.py", "dry_run=true", "check_reward=true", code=0)
    assert all(how.value in ran.out for how in Tried)
    assert "right answers earn 1.2" in ran.out
    refused = command(capsys, "run", "mine.py", "check_reward=true", code=2)
    assert "check_reward" in refused.err
    assert "dry_run=true check_reward=true" in refused.err


def test_it_is_no_part_of_what_a_run_is() -> None:
    plain, checking = plan_of("sandbagger", {}), plan_of("sandbagger", {"dry_run": "true", "check_reward": "true"})
    assert plan_fingerprint(plain) == plan_fingerprint(checking)
    with pytest.raises(ConfigError, match="dry run"):
        plan_of("sandbagger", {"check_reward": "true"})


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_an_empty_answer_is_found_where_a_reward_takes_away(shift: float) -> None:
    """A penalty for what is wrong pays for saying nothing."""

    def penalty(item: dict[str, Any], text: str) -> float:
        return shift - sum(word != item["twice"] for word in text.split())

    found = checked(task(penalty))
    assert Tried.EMPTY in alike(found)
    assert Tried.OTHER not in alike(found)
    exact_below = checked(task(lambda item, text: exact(item, text) - 1.0))
    assert not alike(exact_below)
