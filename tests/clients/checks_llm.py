"""The command `llm`: a prompt, a stream, a tool of Python, a schema."""

import json

import pytest
from workbench import TALKER, Workbench, recipe

from running import KEY, Running

ADD = 'def add(a: int, b: int) -> str:\n    "Adds two numbers."\n    return str(a + b)\n'
RIGHT = {
    "type": "object",
    "properties": {"right": {"type": "boolean"}},
    "required": ["right"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def home(bench: Workbench, server: Running) -> Workbench:
    """The page's file of models, where `llm` looks for it."""
    folder = bench.folder / "llm"
    folder.mkdir()
    [(name, text), _] = recipe("llm", server.url, TALKER)
    (bench.folder / name).write_text(text, encoding="utf-8")
    assert name == "llm/extra-openai-models.yaml"
    return bench


def ask(home: Workbench, server: Running, *arguments: str) -> str:
    return home.command(server, "llm", "-m", "mine", "--key", KEY, *arguments, LLM_USER_PATH="llm")


def test_recipe(home: Workbench, server: Running) -> None:
    assert "is the sum" in home.recipe(server, "llm", model=TALKER)


def test_whole_and_streamed(home: Workbench, server: Running) -> None:
    whole = ask(home, server, "What is 19 + 23?", "--no-stream", "-o", "temperature", "0")
    assert "is the sum" in whole
    assert ask(home, server, "What is 19 + 23?", "-o", "temperature", "0") == whole


def test_a_tool_is_called_and_its_answer_used(home: Workbench, server: Running) -> None:
    printed = ask(home, server, "What is 19 + 23?", "--functions", ADD, "--td")
    assert "Tool call: add({'a': 19, 'b': 23})" in printed
    assert "is the sum" in printed


def test_an_answer_by_schema(home: Workbench, server: Running) -> None:
    lines = json.loads(ask(home, server, "Right?", "--no-stream", "--schema", json.dumps(RIGHT)))
    assert lines["right"] in (True, False)
