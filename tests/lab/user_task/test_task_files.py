"""The file of a user's own task: what is in it, what it imports, its own keys, and mistakes told with file and line."""

import ast
import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from tinsmith.lab.user_task.functions import function_in_file, load_file, reached_sha256
from tinsmith.studies.confidence.countdown import countdown
from tinsmith.types.errors import ConfigError

GOOD = """\
    from tinsmith import Task

    def right(item, text):
        return float(item in text)

    task = Task(items=["a", "b"], prompt="Say {item}.", reward=right)
"""


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def test_a_file_has_a_task_and_its_identity_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    found = load_file(path)
    assert list(found.make({}).rewards) == ["right"]
    assert load_file(path).sha256 == found.sha256
    path.write_text(path.read_text() + "# more\n")
    assert load_file(path).sha256 != found.sha256
    assert not (tmp_path / "__pycache__").exists()


def test_modules_beside_it_are_imported_as_they_are_now_and_belong_to_its_identity(tmp_path: Path) -> None:
    write(tmp_path, "from inner_of_mine import LETTERS\n", "words_of_mine.py")
    write(tmp_path, "LETTERS = ['a']\n", "inner_of_mine.py")
    write(tmp_path, "1 / 0", "not_imported_of_mine.py")
    path = write(
        tmp_path,
        """\
        from tinsmith import Task
        from words_of_mine import LETTERS
        task = Task(items=LETTERS, prompt="{item}", reward=lambda item, text: 1.0)
        """,
    )
    before = load_file(path)
    assert sorted(before.sha256) == ["inner_of_mine.py", "mine.py", "words_of_mine.py"]
    write(tmp_path, "LETTERS = ['a', 'b']\n", "inner_of_mine.py")
    after = load_file(path)
    assert list(after.make({}).items) == ["a", "b"]
    changed = {name for name in after.sha256 if after.sha256[name] != before.sha256[name]}
    assert changed == {"inner_of_mine.py"}
    assert str(tmp_path) not in sys.path


NAMED = """\
    from functools import wraps
    from tinsmith import Task
    from inner_of_mine import GOOD
    import page_of_mine

    WEIGHT = 2
    WEIGHT = WEIGHT / 8
    LETTERS = []
    for letter in "ab":
        LETTERS.append(letter)
    try:
        from math import floor
    except ImportError:
        floor = int

    def scaled(by):
        return lambda f: wraps(f)(lambda item, text: by * f(item, text))

    @scaled(1.0)
    def right(item, text):
        return floor(GOOD) * WEIGHT

    def mine():
        return Task(items=LETTERS, prompt="{item}", reward=right)

    def other():
        return page_of_mine.words()
"""


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("def words(): ...", "def words(): return 1", []),
        ("page_of_mine.words()", "page_of_mine", []),
        ("GOOD = 1", "GOOD = 3", ["inner_of_mine.py"]),
        ("scaled(1.0)", "scaled(-1.0)", ["named.py:mine"]),
        ("WEIGHT = 2", "WEIGHT = 64", ["named.py:mine"]),
        ("append(letter)", "append(letter * 2)", ["named.py:mine"]),
        ("import floor", "import ceil as floor", ["named.py:mine"]),
        ("* WEIGHT", "+ WEIGHT", ["named.py:mine"]),
    ],
)
def test_the_identity_of_a_task_by_name_is_of_all_that_it_reaches(
    tmp_path: Path, before: str, after: str, changed: list[str]
) -> None:
    def digests(was: str, now: str) -> Mapping[str, str]:
        write(tmp_path, "GOOD = 1\n".replace(was, now), "inner_of_mine.py")
        write(tmp_path, "def words(): ...\n".replace(was, now), "page_of_mine.py")
        return function_in_file(write(tmp_path, NAMED.replace(was, now), "named.py"), "mine").sha256

    first, second = digests("", ""), digests(before, after)
    assert sorted(first) == sorted(second) == ["inner_of_mine.py", "named.py:mine"]
    assert [name for name in sorted(first) if first[name] != second[name]] == changed


def test_arguments_of_a_function_are_keys_of_its_own(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """\
        from tinsmith import Task

        def task(level: int = 2, word: str = "a", share: float = 0.5, loud=False):
            '''Make it.

            level: how hard it is
            word (str): what is asked for
            '''
            items = [word * (place + 1) for place in range(level)]
            return Task(items=items, prompt="{item}", reward=lambda item, text: 1.0)
        """,
    )
    found = load_file(path)
    assert [(key.name, key.kind, key.default, key.words) for key in found.keys] == [
        ("level", int, 2, "how hard it is"),
        ("word", str, "a", "what is asked for"),
        ("share", float, 0.5, ""),
        ("loud", bool, False, ""),
    ]
    assert list(found.make({"level": 3, "word": "b"}).items) == ["b", "bb", "bbb"]


TASK = "from tinsmith import Task\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import tinsmith\ndef f(:\n", ["mine.py, line 2", "SyntaxError"]),
        ("x = 1\ny = x / 0\n", ["mine.py, line 2", "ZeroDivisionError"]),
        ("import nothing_of_this_name\n", ["mine.py, line 1", "nothing_of_this_name"]),
        ("import json\n\njson.loads('{')\n", ["mine.py, line 3", "JSONDecodeError"]),
        ("import sys\nsys.exit(4)\n", ["mine.py, line 2", "SystemExit"]),
        (TASK, ["mine.py", "task"]),
        (TASK + "task = 3\n", ["mine.py", "int"]),
        (TASK + "task = Task()\n", ["mine.py, line 2", "TypeError"]),
        (TASK + "\ntask = Task(items=[1], prompt='', reward={'Bad': len})\n", ["mine.py, line 3", "reward = 'Bad'"]),
        (TASK + "task = Task(items=[1], prompt='', reward=lambda text: 1)\n", ["mine.py, line 2", "two arguments"]),
        (TASK + "\ndef task(level):\n    pass\n", ["mine.py, line 3", "level"]),
        (TASK + "def task(level=[]):\n    pass\n", ["mine.py, line 2", "level"]),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as lines:
        load_file(path)
    for each in words:
        assert each in str(lines.value)


@pytest.mark.parametrize(("body", "words"), [("1 / level", "line 3: ZeroDivisionError"), ("None", "NoneType")])
def test_a_function_that_makes_no_task_is_a_mistake(tmp_path: Path, body: str, words: str) -> None:
    found = load_file(write(tmp_path, TASK + f"def task(level=0):\n    return {body}\n"))
    with pytest.raises(ConfigError) as messages:
        found.make({"level": 0})
    assert words in str(messages.value)


def test_a_file_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as printed:
        load_file(tmp_path / "gone.py")
    assert "tinsmith new gone.py" in printed.value.fix
    (tmp_path / "gones.py").touch()
    with pytest.raises(ConfigError) as mistyped:
        load_file(tmp_path / "gone.py")
    assert mistyped.value.fix.startswith("perhaps gones.py; ")


def test_a_task_is_hashed_while_a_collection_of_garbage_makes_syntax_trees() -> None:
    def _parses(*_: object) -> None:
        ast.parse("a + b * (c - (d + 1))")

    thresholds, once = gc.get_threshold(), reached_sha256(countdown)
    gc.callbacks.append(_parses)
    gc.set_threshold(1)
    try:
        assert reached_sha256(countdown) == once
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(_parses)
