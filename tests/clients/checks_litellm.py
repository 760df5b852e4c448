"""`litellm` by both of its providers for such a server: chats, streams, tools, completions."""

from workbench import TALKER, Workbench

from running import Running

PROGRAM = "with_litellm"


def test_recipe(bench: Workbench, server: Running) -> None:
    assert "is the sum" in bench.recipe(server, "litellm", model=TALKER)


def test_a_chat_and_its_stream(bench: Workbench, server: Running) -> None:
    for lines in bench.run(server, PROGRAM, "chat").values():
        assert "is the sum" in lines["whole"]
        assert lines["streamed"] == lines["whole"]


def test_a_tool_is_called(bench: Workbench, server: Running) -> None:
    for messages in bench.run(server, PROGRAM, "tools").values():
        assert messages == ["add", {"a": 19, "b": 23}]


def test_a_text_is_completed(bench: Workbench, server: Running) -> None:
    one, other = bench.run(server, PROGRAM, "text").values()
    assert one == other != ""
