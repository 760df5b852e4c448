"""The `openai` SDK: chats, completions, streams, log-probabilities, tools, schemas, and what it is refused."""

import json

from workbench import Workbench

from running import Running

PROGRAM = "with_openai"


def test_recipe(bench: Workbench, server: Running) -> None:
    assert bench.recipe(server, "openai").strip()


def test_a_chat_repeats_by_its_seed(bench: Workbench, server: Running) -> None:
    lines = bench.run(server, PROGRAM, "chat")
    first, again, other = lines["texts"]
    assert first == again != other
    assert lines["reason"] in ("length", "stop")
    usage = lines["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_a_stream_is_the_whole_in_pieces(bench: Workbench, server: Running) -> None:
    messages = bench.run(server, PROGRAM, "stream")
    assert messages["streamed"] == messages["whole"] != ""
    assert 0 < messages["tokens"] <= 24


def test_logprobs(bench: Workbench, server: Running) -> None:
    for token in bench.run(server, PROGRAM, "logprobs"):
        assert token["logprob"] < 0
        assert len(token["top"]) == 3
        assert token["top"] == sorted(token["top"], reverse=True)


def test_several_prompts_and_token_ids(bench: Workbench, server: Running) -> None:
    printed = bench.run(server, PROGRAM, "completions")
    one, same, two, _ = printed["texts"]
    assert one == same != two
    assert printed["tokens"] == [0, 1]


def test_echo_scores_the_prompt(bench: Workbench, server: Running) -> None:
    output = bench.run(server, PROGRAM, "echo")
    alone, more = output["alone"], output["more"]
    assert len(alone) == 4
    assert alone[0] is None
    assert all(logprob < 0 for logprob in alone[1:])
    assert more[:4] == alone
    assert len(more) > 4
    assert output["begins"]


def test_extras_of_vllm(bench: Workbench, server: Running) -> None:
    plain, same, best, greedy = bench.run(server, PROGRAM, "extras")
    assert plain == same
    assert best == greedy


def test_token_ids_of_a_text(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "ids")
    assert told["chat"][0]
    assert told["plain"][0]
    assert 0 < told["chat"][1] <= 4
    assert 0 < told["plain"][1] <= 4


def test_a_tool_is_called_and_its_answer_used(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "tools")
    assert (told["name"], told["given"]) == ("add", {"a": 19, "b": 23})
    assert told["reasons"] == ["tool_calls", "stop"]
    assert "is the sum" in told["answer"]


def test_a_tool_is_called_in_a_stream(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "tools_streamed")
    assert told == {"name": "add", "given": {"a": 19, "b": 23}, "reason": "tool_calls"}


def test_developers_names_and_begun_replies(bench: Workbench, server: Running) -> None:
    words, gone_on = bench.run(server, PROGRAM, "roles")
    assert "is the sum" in words
    assert gone_on.removeprefix("41").startswith(" is the sum")


def test_an_answer_by_schema(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "schema")
    assert told["right"] in (True, False)
    assert told["mark"] in ("high", "low")


def test_an_answer_in_json(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "json_object")
    # Random weights may find no end; what they wrote until then began an object.
    assert told["text"].lstrip().startswith("{")
    assert told["reason"] == "length" or isinstance(json.loads(told["text"]), dict)


def test_responses(bench: Workbench, server: Running) -> None:
    told = bench.run(server, PROGRAM, "responses")
    assert told["status"] == "completed"
    assert "is the sum" in told["text"]
    assert told["streamed"] == told["text"]
    assert told["last"] == "response.completed"
    assert told["call"] == ["add", {"a": 19, "b": 23}]


def test_the_list_says_how_long_a_context_is(bench: Workbench, server: Running) -> None:
    assert bench.run(server, PROGRAM, "models") > 0


def test_refusals_have_the_shape_of_openai(bench: Workbench, server: Running) -> None:
    unknown, embeddings, mistaken = bench.run(server, PROGRAM, "refusals")
    assert unknown[:2] == [404, True]
    assert mistaken[:2] == [400, True]
    assert embeddings[0] in (400, 404)
    assert embeddings[1]
    assert "embeddings" in embeddings[2]
