"""Names in front of words: no width breaks them, and a pipe breaks nothing."""

import pytest

from tinsmith.cli.columns import rows, wrapped

TABLE = (
    ("experiment", "question"),
    ("control/shuffled_labels@1", "What is learned where there is nothing to learn, and how=soon?"),
    ("rlvr@1", "Short."),
)


def test_in_a_pipe_a_row_is_a_line() -> None:
    assert rows(TABLE, None) == [
        "experiment                 question",
        "control/shuffled_labels@1  What is learned where there is nothing to learn, and how=soon?",
        "rlvr@1                     Short.",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_names_and_words_are_whole_at_every_width(width: int) -> None:
    lines = rows(TABLE, width)
    words = [word for line in lines for word in line.split()]
    assert words == [word for row in TABLE for cell in row for word in cell.split()]
    assert all(len(line) <= max(width, 34) for line in lines)


def test_a_heading_of_its_own_and_an_empty_column_take_no_room() -> None:
    messages = rows([("a", "", "x"), ("where and how fast:",), ("bcd", "", "y")], None)
    assert messages == ["a    x", "where and how fast:", "bcd  y"]


def test_a_text_is_wrapped_at_spaces_alone() -> None:
    text = "values: learning_rate=0.0015 adapter=lora\nnext"
    assert wrapped(text, None) == text
    assert wrapped(text, 32).split() == text.split()
    assert all(len(line) <= 32 for line in wrapped(text, 32).splitlines())
