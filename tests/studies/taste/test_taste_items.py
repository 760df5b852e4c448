"""Prompts and answers about pairs: both orders beside each other, letters and JSON, and what cannot be read."""

from pathlib import Path

import pytest
from taste_corpora import world, write

from tinsmith.studies.taste.pairs import Answers, PairSettings, Preference, Side, Text, draw_pairs
from tinsmith.studies.taste.task import Reply, items_of, prompt_of, read_reply, written


@pytest.mark.parametrize("preference", list(Preference))
def test_a_pair_is_two_items_whose_answers_name_one_paper(tmp_path: Path, preference: Preference) -> None:
    pairs = draw_pairs(write(tmp_path / "c", world()), PairSettings(preference=preference))
    train = pairs[Side.TRAIN]
    items = list(items_of(train, Text.TITLE))
    assert [one["id"] for one in items[:2]] == [f"{train[0].id}-ab", f"{train[0].id}-ba"]
    assert len(items) == 2 * len(train) == len({one["id"] for one in items})
    for pair, there, back in zip(train, items[::2], items[1::2], strict=True):
        assert (there["first"], there["second"]) == (back["second"], back["first"])
        assert {there["answer"], back["answer"]} == {"A", "B"}
        right = pair.a if pair.a_right else pair.b
        assert there["first" if there["answer"] == "A" else "second"] == right.title.strip()
        assert (there["pair"], there["gap"], there["year"]) == (pair.id, pair.gap, pair.a.year)
    answers = [one["answer"] for one in items[::2]]
    assert {"A", "B"} == set(answers)  # which of the two is called a is drawn


@pytest.mark.parametrize("answers", list(Answers))
def test_what_is_written_is_read_in_form(answers: Answers) -> None:
    for letter in ("A", "B"):
        assert read_reply(f" {written(letter, answers)}\n", answers) == Reply(letter, in_form=True)


@pytest.mark.parametrize(
    ("text", "answers", "letter"),
    [
        ("A.", Answers.LETTER, "A"),
        ("B: the second one", Answers.LETTER, "B"),
        ("**A**", Answers.LETTER, "A"),
        ("As it is", Answers.LETTER, None),
        ("A\nIt is on strings", Answers.LETTER, "A"),
        ("(B) the second one", Answers.LETTER, "B"),
        ("A paper on strings is cited more, so B", Answers.LETTER, None),
        ("A's field is larger", Answers.LETTER, None),
        ("the answer is A", Answers.LETTER, "A"),
        ("The answer is **B**.", Answers.LETTER, "B"),
        ("Answer: B", Answers.LETTER, "B"),
        ("The answer is A paper on strings", Answers.LETTER, None),
        ("A: x\nB: y\nAnswer: B", Answers.LETTER, "B"),
        ("A: on strings\nB: on knots", Answers.LETTER, None),
        ("B: it is newer. No: the answer is A.", Answers.LETTER, "A"),
        ("Answer: A. On reflection, Answer: B", Answers.LETTER, "B"),
        ("A? No, B.", Answers.LETTER, None),
        ("", Answers.LETTER, None),
        ('So {"more_cited": "B"}', Answers.JSON, "B"),
        ('{"more_cited": "A", "why": 1}', Answers.JSON, "A"),
        ('{"more_cited": "C"}', Answers.JSON, None),
        ('{"more_cited": ["A"]}', Answers.JSON, None),
        ("A", Answers.JSON, None),
        ("[1]", Answers.JSON, None),
    ],
)
def test_what_says_more_is_read_and_out_of_form(text: str, answers: Answers, letter: str | None) -> None:
    assert read_reply(text, answers) == (None if letter is None else Reply(letter, in_form=False))


def test_a_prompt_shows_both_texts_and_the_form() -> None:
    item = {"first": "One {title}", "second": "Another"}
    for answers in Answers:
        prompt = prompt_of(item, answers)
        assert prompt.index("A: One {title}") < prompt.index("B: Another")
        assert written("A", answers) in prompt.splitlines()[-1]
