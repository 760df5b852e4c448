"""Right answers by rule: every checker accepts them, they are about the request, and they repeat."""

import hashlib
import os
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from tinsmith.studies.instructions.answers import NOT_BUILT, can_be_followed, right_answer, topics
from tinsmith.studies.instructions.draws import Pools, Suite, draw, followed, kinds_of, pools
from tinsmith.studies.instructions.task import instructions
from tinsmith.types.errors import DataError

Item = dict[str, Any]
REQUESTS = pools(Suite.IFEVAL, 0, new_kinds=False)[0].requests


def drawn(kinds: tuple[str, ...], count: int, seed: int, *, most: int) -> list[Item]:
    random, pool = Random(seed), Pools(requests=REQUESTS, kinds=kinds)
    items = [draw(pool, random, fewest=1, most=most) for _ in range(count)]
    return [one for one in items if can_be_followed(one)]


def accepted(item: Item, answer: str) -> bool:
    return all(followed(item["prompt"], item["kinds"], item["kwargs"], answer).strict)


def item_of(request: str, **given: dict[str, Any]) -> Item:
    kinds = [name.replace("__", ":") for name in given]
    return {"request": request, "prompt": request, "kinds": kinds, "kwargs": list(given.values())}


def mentions(text: str, request: str) -> bool:
    """Say whether a text names a request's topic, in any of the languages; however its words are joined or marked."""
    topic, text = topics()[request], " ".join(text.replace("*", "").replace("-", " ").split())
    return any(name.lower() in text.lower() for name in (*topic.names, *topic.languages.values()))


@pytest.mark.parametrize("kind", sorted(set(kinds_of(Suite.BOTH)) - NOT_BUILT))
def test_an_answer_to_every_kind_is_accepted_and_about_the_request(kind: str) -> None:
    items = drawn((kind,), 8, 3, most=1)
    assert items
    for one in items:
        answer = right_answer(one)
        assert accepted(one, answer), (one["prompt"], answer)
        assert mentions(answer, one["request"]), answer


def test_every_prompt_with_up_to_three_instructions_has_an_answer() -> None:
    items = drawn(kinds_of(Suite.IFEVAL), 260, 4, most=3)
    assert len(items) >= 250
    answers = [right_answer(one) for one in items]
    assert all(accepted(one, text) for one, text in zip(items, answers, strict=True))
    assert all(mentions(text, one["request"]) for one, text in zip(items, answers, strict=True))
    assert len(set(answers)) == len({one["prompt"] for one in items})


def test_answers_to_one_request_differ_and_are_readable() -> None:
    none = [item_of(one, punctuation__no_comma={}) for one in REQUESTS[:60]]
    answers = [right_answer(one) for one in none]
    assert len(set(answers)) == 60
    assert all(text[0].isupper() and text[-1] in ".?!" for text in answers)
    assert all(12 <= len(text.split()) <= 60 for text in answers)


_PROGRAM = """
import hashlib
from random import Random
from tinsmith.studies.instructions.answers import right_answer
from tinsmith.studies.instructions.task import instructions
task = instructions(items=8, held_out_items=2)
print(hashlib.sha256("|".join(map(right_answer, task.items)).encode()).hexdigest())
"""


def test_answers_repeat_in_another_process() -> None:
    task = instructions(items=8, held_out_items=2)
    assert task.answer is right_answer
    assert isinstance(task.items, list)
    here = hashlib.sha256("|".join(map(right_answer, task.items)).encode()).hexdigest()
    other = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == here


@pytest.mark.parametrize(
    "item",
    [
        item_of(
            "Explain tea to a ten-year-old.",
            detectable_content__postscript={"postscript_marker": "P.P.S"},
            keywords__letter_frequency={"letter": "p", "let_frequency": 2, "let_relation": "less than"},
        ),
        item_of(
            "Explain tea to a ten-year-old.",
            detectable_format__multiple_sections={"section_spliter": "PART", "num_sections": 2},
            change_case__english_lowercase={},
        ),
        item_of(
            "Tell how tea could go wrong, and what to do then.",
            combination__repeat_prompt={"prompt_to_repeat": "Tell how tea could go wrong, and what to do then."},
            punctuation__no_comma={},
        ),
        item_of(
            "Explain tea to a ten-year-old.",
            combination__repeat_prompt={"prompt_to_repeat": "Explain tea to a ten-year-old."},
            length_constraints__nth_paragraph_first_word={
                **{"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "stone"}
            },
        ),
    ],
)
def test_what_cannot_be_followed_is_known_and_never_drawn(item: Item) -> None:
    assert not can_be_followed(item)
    for left in range(2):
        assert can_be_followed({**item, "kinds": [item["kinds"][left]], "kwargs": [item["kwargs"][left]]})


@pytest.mark.parametrize("kind", sorted(NOT_BUILT))
def test_what_is_not_built_is_told_by_name(kind: str) -> None:
    with pytest.raises(DataError) as lines:
        right_answer(drawn((kind,), 1, 0, most=1)[0])
    first = str(lines.value).splitlines()[0]
    assert kind in first
    assert "suite=ifeval" in first
