"""The `anthropic` SDK on /v1/messages: messages, streams, tools, and what it is refused."""

from workbench import TALKER, Workbench

from running import Running

PROGRAM = "with_anthropic"


def test_recipe(bench: Workbench, server: Running) -> None:
    assert "is the sum" in bench.recipe(server, "anthropic", model=TALKER)


def test_a_message(bench: Workbench, server: Running) -> None:
    lines = bench.run(server, PROGRAM, "message")
    assert "is the sum" in lines["text"]
    assert lines["reasons"] == ["end_turn", "max_tokens", "stop_sequence"]
    assert lines["sequence"] == "sum"
    assert lines["tokens"][0] > 10
    assert lines["tokens"][1] == 2


def test_a_stream_is_the_whole_in_pieces(bench: Workbench, server: Running) -> None:
    messages = bench.run(server, PROGRAM, "stream")
    assert messages["streamed"] == messages["whole"] != ""
    assert messages["reason"] == "end_turn"


def test_a_tool_is_called_and_its_answer_used(bench: Workbench, server: Running) -> None:
    printed = bench.run(server, PROGRAM, "tools")
    assert (printed["name"], printed["given"]) == ("add", {"a": 19, "b": 23})
    assert printed["reasons"] == ["tool_use", "end_turn", "tool_use"]
    assert "is the sum" in printed["answer"]
    assert printed["streamed"] == [{"a": 19, "b": 23}]


def test_refusals_have_the_shape_of_anthropic(bench: Workbench, server: Running) -> None:
    unknown, mistaken, thinking = bench.run(server, PROGRAM, "refusals")
    assert unknown == [404, "error", "not_found_error"]
    assert mistaken == thinking == [400, "error", "invalid_request_error"]
