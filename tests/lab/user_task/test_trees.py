"""Trees of rollouts: what a Spawn leads to, what children bring the one above, and depths compared for themselves."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tinker import types

from tinsmith.lab.grouping import ScoredGroup, score_groups
from tinsmith.lab.rollouts import Failure, Rollout, Sampling, sample_groups
from tinsmith.lab.user_task.dialogue import Earned, converse
from tinsmith.lab.user_task.items import UserSplit, named_item
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.lab.user_task.task import Child, Spawn, Task, Turns, of_conversation, of_group, of_tree
from tinsmith.ops.advantages import Advantage
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.tokenizer import train_tokenizer
from tinsmith.types.errors import ConfigError, TaskError


def reply(item: str, said: Sequence[str], _: int) -> Spawn | None:
    """Ask about both halves of a word; a dash stands for a half that failed."""
    if said[-1] != "cut" or len(item) < 2:
        return None
    half = len(item) // 2
    return Spawn([item[:half], item[half:]], lambda answers: " ".join(str(one or "-") for one in answers))


def own(item: str, said: Sequence[str]) -> float:
    return len(item) / 100 + float(said[-1].isdigit())


def below(_: str, __: Sequence[str], children: Sequence[Child]) -> float:
    return 10.0 * sum(one.earned for one in children)


def task(deepest: int = 2, **parts: Any) -> Task:
    return Task(
        **{
            "items": ["abcd"],
            "prompt": "{item}",
            "turns": Turns(reply=reply, most=2, deepest=deepest),
            "reward": {"own": of_conversation(own), "below": of_tree(below)},
            "metrics": {"rollouts": of_tree(lambda _, __, children: 1 + sum(1 + one.below() for one in children))},
            **parts,
        }
    )


def test_a_spawn_goes_before_the_next_reply_and_at_the_deepest_ends_the_conversation() -> None:
    one = converse(task(), "abcd")
    requests = one.say("cut")
    assert list(requests.items) == ["ab", "cd"]
    assert one.tell(requests.then(["1", None])) == "1 -"
    lowest = converse(task(), "ab")
    lowest.depth = 2
    assert lowest.say("cut") is None
    assert lowest.failed is None


def test_a_spawn_of_a_task_without_trees_fails_the_conversation() -> None:
    one = converse(task(deepest=0), "abcd")
    assert one.say("cut") is None
    assert "Spawn" in one.failed.what


@pytest.mark.parametrize(("deepest", "forks"), [(-1, 1), (1, 2)])
def test_a_depth_below_zero_and_a_tree_that_forks_are_refused(deepest: int, forks: int) -> None:
    with pytest.raises(ConfigError, match="tree") as caught:
        Turns(reply=reply, deepest=deepest, forks=forks)
    assert caught.value.field == "deepest"


def test_in_demonstrations_right_answers_stand_for_what_children_would_say() -> None:
    assert converse(task(answer=lambda item: item.upper()), "abcd").say_shown("cut") == "AB CD"
    lost = converse(task(), "abcd")
    assert lost.say_shown("cut") is None
    assert "answer" in lost.failed.what


class Scripted:
    """A sampling client that writes what a script says of the last text that it is asked after."""

    def __init__(self, script: dict[str, str], tokenizer: Any) -> None:
        self.script, self.tokenizer, self.asked = script, tokenizer, list[tuple[str, int, int | None]]()

    def sample(self, prompt: types.ModelInput, count: int, params: types.SamplingParams) -> Any:
        text = self.tokenizer.decode(prompt.to_ints())
        last = text.rpartition("<|user|>")[2].partition("<|end|>")[0]
        self.asked.append((last, count, params.seed))
        if last not in self.script:
            return Answered(None)
        tokens = [*self.tokenizer.encode(self.script[last], add_special_tokens=False), 0]
        one = SimpleNamespace(tokens=tokens, logprobs=[-1.0] * len(tokens))
        return Answered(SimpleNamespace(sequences=[one] * count))


class Answered:
    """A future that is there."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def result(self, _: float | None = None) -> Any:
        if self.answer is None:
            raise OSError("not there")
        return self.answer


SCRIPT = {"abcd": "cut", "ab": "1", "cd": "cut", "c": "3", "d": "x", "3 x": "4", "1 4": "5"}


def sampled(
    script: dict[str, str] = SCRIPT, **changes: Any
) -> tuple[list[Rollout[Any, Any] | Failure[Any]], Scripted, Any]:
    made, tokenizer = replace(task(), **changes), train_tokenizer(list(script) + list(script.values()), 300)
    item = named_item(made, "abcd")
    subject = UserSubject(
        task=made, split=UserSplit(train=(item,), held_out=(), repeated=0), renderer=renderer_for(tokenizer)
    )
    client: Any = Scripted(script, tokenizer)
    sampling = Sampling(samples=2, max_tokens=4, temperature=1.0, seed=3)
    (group,) = sample_groups(client, subject, [item], sampling)
    return group, client, subject


def test_children_are_asked_before_the_one_above_goes_on_and_bring_it_their_own_rewards() -> None:
    group, client, _ = sampled()
    one = group[0]
    assert [turn.text for turn in one.turns] == ["cut", "5"]
    assert [(each.item.item, each.text, each.depth) for each in one.below()] == [
        ("ab", "1", 1),
        ("cd", "4", 1),
        ("c", "3", 2),
        ("d", "x", 2),
    ]
    earned = {each.item.item: each.answer for each in (one, *one.below())}
    assert all(isinstance(each, Earned) for each in earned.values())
    assert earned["cd"].terms == {"own": 1.02, "below": 10 * (1.01 + 0.01)}
    assert earned["abcd"].terms == {"own": 1.04, "below": 10 * (1.02 + 1.02)}, "children's own terms, not the tree's"
    assert earned["abcd"].metrics == {"rollouts": 5.0}
    assert [(text, count) for text, count, _ in client.asked] == [
        ("abcd", 2),
        ("ab", 2),
        ("cd", 2),
        ("c", 2),
        ("d", 2),
        ("3 x", 2),
        ("1 4", 2),
    ], "what stands at the same tokens is asked together"
    assert len({seed for _, _, seed in client.asked}) == len(client.asked)


def test_a_group_of_children_is_all_that_a_tree_s_group_asks_of_one_item_at_one_depth() -> None:
    def rare(_: str, texts: Sequence[str]) -> list[float]:
        return [1.0 / texts.count(text) for text in texts]

    group, _, _ = sampled(reward=of_group(rare), metrics={})
    assert [one.answer.total for one in group] == [0.5, 0.5]
    assert {one.answer.total for root in group for one in root.below()} == {0.5}, (
        "one of each half in each of two trees"
    )


def test_a_child_that_fails_is_in_no_sum_and_the_one_above_goes_on() -> None:
    group, _, subject = sampled({**{key: SCRIPT[key] for key in SCRIPT if key != "ab"}, "- 4": "5"})
    one = group[0]
    assert isinstance(one.children[0], Failure)
    assert one.answer.observations == ("- 4",)
    assert one.answer.terms == {"own": 1.04, "below": 10 * 1.02}
    failed, *others = subject.facts(one)["tree"]
    assert (failed["prompt_id"], failed["depth"]) == (one.children[0].item.prompt_id, 1)
    assert "not there" in failed["failure"]["what"]
    assert [line["depth"] for line in others] == [1, 2, 2]


def test_a_reward_that_fails_for_every_rollout_of_a_step_ends_it_though_it_pays_what_they_spawned() -> None:
    def for_children(item: str, _: str) -> float:
        if item == "abcd":
            raise ValueError("no tree")
        return 1.0

    with pytest.raises(TaskError, match="no tree"):
        sampled(reward=for_children)


def tree(random: Random, depth: int = 0) -> Rollout[Any, Any]:
    children = [tree(random, depth + 1) for _ in range(random.randrange(3))] if depth < 2 else []
    answer = round(random.random(), 3)
    return Rollout(item=None, sample=0, depth=depth, answer=answer, children=tuple(children))


def test_every_depth_is_compared_for_itself_and_leaves_its_own_reward_out() -> None:
    random = Random(4)
    group = [tree(random) for _ in range(6)]
    (found,) = score_groups(
        [group],
        lambda some: [NamedTerms(values={}, total=one.answer) for one in some],
        advantage=Advantage.RLOO,
        zero_variance_filter=True,
    )
    nodes = [each for one in group for each in (one, *one.below())]
    assert {one.depth for one in nodes} == {0, 1, 2}
    assert len(found.scored) == 6
    assert len(found.compared) == len(nodes)
    for one in found.every:
        others = [each.answer for each in nodes if each.depth == one.rollout.depth and each is not one.rollout]
        assert one.advantage == pytest.approx(one.rollout.answer - sum(others) / len(others), abs=1e-12)


def test_a_depth_without_another_rollout_is_left_out_and_the_others_are_trained_on() -> None:
    child: Rollout[Any, Any] = Rollout(item=None, sample=0, depth=1, answer=1.0)
    roots = [Rollout(item=None, sample=n, answer=float(n), children=(child,) * (1 - n)) for n in range(2)]
    found: ScoredGroup[Any, Any]
    (found,) = score_groups(
        [roots],
        lambda some: [NamedTerms(values={}, total=one.answer) for one in some],
        advantage=Advantage.CENTER,
        zero_variance_filter=True,
    )
    assert [one.advantage for one in found.every] == [-0.5, 0.5, None]
    assert found.informative


def test_an_item_under_another_prompt_is_asked_that() -> None:
    _, _, subject = sampled()
    item = subject.split.train[0]
    other = replace(item, messages=(replace(item.messages[0], content="ab"),))
    assert subject.prompt(other) == subject.renderer.build_generation_prompt(other.messages) != subject.prompt(item)
