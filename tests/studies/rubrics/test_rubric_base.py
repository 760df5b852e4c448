"""The rubrics' base: it never reads what it is evaluated on, it is asked for words, and it is built once."""

from dataclasses import replace
from pathlib import Path

import pytest

from tinsmith.lab.nano_base import build_base, cached_base, seconds_left
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.rubrics.dataset import builtin_dataset, split_tasks
from tinsmith.studies.rubrics.rlvr import LEXICON, RubricBaseRecipe, demonstrations, rubric_conversations
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

pytestmark = pytest.mark.whole

TINY = RubricBaseRecipe(num_layers=1, steps=3, batch_size=4, warm_up=1, count=40)
ASKS_FOR_WORDS = "\nReturn words."


def test_no_held_out_prompt_is_read() -> None:
    read = "\n".join(
        message.content for conversation in rubric_conversations(RubricBaseRecipe()) for message in conversation
    )
    for train_ratio in (0.75, 0.9):
        test = split_tasks(builtin_dataset().tasks, train_ratio=train_ratio).test
        assert test
        assert [task.prompt for task in test if task.prompt in read] == []
    # Its kinds of instruction are read, though, in other words.
    assert "Write one short line with the word " in read


def test_conversations_are_the_demonstrations_and_between_them_questions_for_words() -> None:
    recipe = RubricBaseRecipe(count=60, reading_every=3, seed=4)
    shown = demonstrations(60, seed=derive(4, "demonstrations"), obeying=recipe.obeying)
    for i, (conversation, one) in enumerate(zip(rubric_conversations(recipe), shown, strict=True)):
        requests, answered = conversation
        assert (requests.role, answered.role) == (Role.USER, Role.ASSISTANT)
        if i % 3:
            assert (requests.content, answered.content) == one
        else:
            assert requests.content == one[0] + ASKS_FOR_WORDS
            words = answered.content.split()
            assert words
            assert set(words) <= set(LEXICON)
            places = [one[0].index(word) for word in words]
            assert places == sorted(places)


def test_the_words_a_question_names_are_all_of_them() -> None:
    replies = {
        request.content.removesuffix(ASKS_FOR_WORDS): reply.content
        for request, reply in rubric_conversations(RubricBaseRecipe(count=400, reading_every=1))
    }
    listed = [(prompt, reply) for prompt, reply in replies.items() if prompt.startswith("List ")]
    assert len(listed) > 20
    for prompt, reply in listed:
        first, second, third = reply.split()
        assert prompt == f"List {first}, {second} and {third}. One a line, each after a dash."


def test_without_reading_nothing_is_asked_for_words() -> None:
    conversations = rubric_conversations(RubricBaseRecipe(count=40, reading_every=0))
    assert not any(ASKS_FOR_WORDS in question.content for question, _ in conversations)


def test_a_base_is_built_once_and_never_mixed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    lines: list[str] = []
    folder = cached_base(TINY, rubric_conversations(TINY), lines.append)
    assert folder.parent == tmp_path / "home" / "bases"
    assert lines[0] == "building a base model from scratch, once"
    assert lines[-1].startswith("  base: step 3/3,")
    lines.clear()
    assert cached_base(TINY, rubric_conversations(TINY), lines.append) == folder
    assert lines == []
    others = [replace(TINY, seed=1), replace(TINY, obeying=0.5), replace(TINY, reading_every=4)]
    assert len({folder, *(cached_base(other, rubric_conversations(other), lines.append) for other in others)}) == 4

    build_base(TINY, rubric_conversations(TINY), tmp_path / "again")
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name


def test_what_is_left_begins_as_forecast_and_ends_as_measured() -> None:
    assert seconds_left(1, 1000, 0.0, 50.0) == pytest.approx(49.95)
    assert 50.0 < seconds_left(100, 1000, 10.0, 50.0) < 90.0
    assert seconds_left(901, 1000, 90.0, 50.0) == pytest.approx(9.405)


def test_too_little_to_read_is_refused(tmp_path: Path) -> None:
    one = (Message(role=Role.USER, content="Say risk."), Message(role=Role.ASSISTANT, content="risk"))
    with pytest.raises(DataError, match="4 or more") as caught:
        build_base(TINY, [one] * 3, tmp_path / "base")
    assert caught.value.field == "conversations"
    assert not (tmp_path / "base").exists()
