"""A right conversation is learned reply by reply; what is said in between is only read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tinsmith.lab.grouping import Example, example_datum
from tinsmith.lab.user_task.dialogue import right_example
from tinsmith.lab.user_task.items import UserItem, split_items
from tinsmith.lab.user_task.task import Task
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import TaskError

ITEM = {"id": "one", "a": "seven", "b": "nine"}


def told(item: Any, said: Sequence[str]) -> str | None:
    return f"found {item['b']}" if said[-1].startswith("look") else None


def task(**changes: Any) -> Task:
    kept: dict[str, Any] = {
        "items": [ITEM],
        "prompt": "What of {a}?",
        "held_out": 0.0,
        "reward": lambda item, text: float(text == item["b"]),  # pyright: ignore
        "reply": told,
        "answer": lambda item: [f"look {item['a']}", item["b"]],  # pyright: ignore
    }
    return Task(**{**kept, **changes})


def item(one: Task) -> UserItem:
    return split_items(one, Path(), 0).train[0]


def test_each_reply_is_learned_and_what_is_told_is_not(renderer: Renderer) -> None:
    found = right_example(task(), item(task()), renderer)
    stop = renderer.stop_sequences()[0]
    parts: list[list[int]] = []
    last = False
    for token, learned in zip(found.tokens, found.learned, strict=True):
        if learned and not last:
            parts.append([])
        if learned:
            parts[-1].append(token)
        last = learned
    assert [renderer.parse_response(part).message.content for part in parts] == ["look seven", "nine"]
    assert [part[-1] for part in parts] == [stop, stop]


def test_its_tokens_are_those_that_sampling_comes_by(renderer: Renderer) -> None:
    """The prompt of the second reply is what the environment makes of the first one."""
    found = right_example(task(), item(task()), renderer)
    first = found.learned.index(True)
    end = found.learned.index(False, first)
    prompt = renderer.extend(
        found.tokens[:first], found.tokens[first:end], (Message(role=Role.USER, content="found nine"),)
    )
    assert found.tokens[: len(prompt)] == prompt
    assert found.learned[len(prompt)]
    assert not any(found.learned[end : len(prompt)])


def test_one_text_is_one_reply(renderer: Renderer) -> None:
    one = task(answer=lambda item: item["b"], reply=None)  # pyright: ignore
    found = right_example(one, item(one), renderer)
    assert found == Example.after(found.learned.index(True), found.tokens)


def test_a_datum_weighs_the_learned_tokens_alone() -> None:
    datum = example_datum(Example(tokens=(5, 6, 7, 8, 9), learned=(False, True, False, False, True)), 0.25)
    assert datum.loss_fn_inputs["weights"].tolist() == [0.25, 0.0, 0.0, 0.25]
    assert datum.loss_fn_inputs["target_tokens"].tolist() == [6, 7, 8, 9]


def twice(item: Any) -> list[str]:
    return [item["b"], item["b"]]


def nothing(item: Any) -> list[str]:
    del item
    return []


def no_text(item: Any) -> list[Any]:
    return [item["a"], 3]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (twice, "no reply"),
        (nothing, "no text"),
        (no_text, "no text"),
        (lambda item: item["c"], "KeyError"),  # pyright: ignore
    ],
)
def test_an_answer_that_cannot_be_read_is_told(renderer: Renderer, answer: Any, words: str) -> None:
    one = task(answer=answer)
    with pytest.raises(TaskError, match=words):
        right_example(one, item(one), renderer)
