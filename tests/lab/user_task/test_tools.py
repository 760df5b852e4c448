"""Tools of a task: how calls are read by type, what is told of wrong ones, what feeds what, records and replays."""

import json
from pathlib import Path
from typing import Any, NewType

import pytest
from own_task import lines, whole

from command_line import Run
from tinsmith import Examples, Task, tools_of
from tinsmith.lab.user_task.dialogue import converse
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.reward_check import filter_examples
from tinsmith.types.errors import ConfigError, DataError, TaskError

City = NewType("City", str)
Degrees = NewType("Degrees", float)
KNOWN = {"rome": 28.5, "new york, ny": 21.0}


def degrees(city: City, late: bool) -> Degrees:
    """The temperature of a city."""
    return Degrees(KNOWN[city] - 4.0 * late)


def warmer(first: Degrees, second: Degrees) -> bool:
    if first == second:
        raise ValueError("they are alike")
    return first > second


def broken(times: int) -> str:
    del times
    raise OSError("the line is dead")


TOOLS = tools_of(degrees, warmer, broken)


def test_a_call_is_read_by_the_types_of_its_parameters_and_has_one_spelling() -> None:
    for text in ("degrees(rome, true)", " degrees( rome ,True )", 'degrees("rome", true)', "degrees('rome',true)"):
        assert str(TOOLS.read(text)) == "degrees(rome, True)"
        assert TOOLS.answer(text) == "24.5"
    call = TOOLS.read("warmer(1, 0.5)")
    assert (call.arguments, TOOLS.answer("warmer(1, 0.5)")) == ((1.0, 0.5), "True")
    assert TOOLS.answer('degrees("new york, ny", false)') == "21.0"


def test_what_calls_no_tool_ends_the_conversation_and_a_wrong_call_is_told() -> None:
    assert [TOOLS.answer(text) for text in ("28.5", "degrees rome", "it is (warm)", "")] == [None] * 4
    for text, part in {
        "rain(rome)": "no tool rain",
        "degrees(rome)": "degrees(city: City, late: bool) -> Degrees",
        "warmer(hot, cold)": "warmer(first: Degrees, second: Degrees) -> bool",
        "degrees(rome, perhaps)": "late: bool",
        "degrees(oslo, false)": "error: oslo",
        "warmer(1, 1.0)": "error: they are alike",
    }.items():
        messages = TOOLS.answer(text)
        assert messages.startswith("error: ")
        assert part in messages
    with pytest.raises(OSError, match="dead"):
        TOOLS.answer("broken(1)")


def sale(shop: str, goods: str) -> str:
    return f"{goods} at {shop}"


def test_two_calls_have_two_spellings_and_what_is_no_row_of_arguments_is_told() -> None:
    tools = tools_of(sale)
    calls = ['sale("a, b", c)', 'sale(a, "b, c")']
    assert [str(tools.read(call)) for call in calls] == calls
    replayed = tools.replayed({calls[0]: "c at a, b"})
    assert replayed.answer(calls[0]) == "c at a, b"
    with pytest.raises(TaskError):
        replayed.answer(calls[1])
    for wrong in ("sale(a\r,b)", f"sale({'x' * 140_000},b)"):
        assert tools.answer(wrong) == "error: it is sale(shop: str, goods: str) -> str"


def test_an_output_feeds_the_parameters_of_its_type_and_no_other() -> None:
    edges = [(first.name, second.name, parameter) for first, second, parameter in TOOLS.edges()]
    assert edges == [("degrees", "warmer", "first"), ("degrees", "warmer", "second"), ("warmer", "degrees", "late")]
    first, *_ = TOOLS.described().splitlines()
    assert first == "degrees(city: City, late: bool) -> Degrees: The temperature of a city."


def test_functions_without_usable_types_or_with_one_name_are_refused() -> None:
    def untyped(city):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return city

    def listed(cities: list[str]) -> str:
        return cities[0]

    for wrong in (untyped, listed, lambda: "x"):
        with pytest.raises(ConfigError) as refused:
            tools_of(wrong)
        assert refused.value.field == "tools"
    with pytest.raises(ConfigError, match="one name"):
        tools_of(degrees, degrees)


def task(tools: Any = TOOLS, **fields: Any) -> Task:
    given: dict[str, Any] = {
        "items": [{"id": "a", "city": "rome", "says": "24.5"}, {"id": "b", "city": "rome", "says": "28.5"}],
        "prompt": f"{TOOLS.described()}\nHow warm is {{city}}?",
        "reward": lambda item, text: float(text == item["says"]),
        "held_out": 0.0,
        "answer": lambda item: ["degrees(rome, false)", item["says"]],
    }
    return Task(tools=tools, **{**given, **fields})


def test_a_conversation_is_told_what_its_calls_bring_and_a_fault_fails_it() -> None:
    talk = converse(task(), {"id": "a", "city": "rome", "says": "24.5"})
    assert talk.say("degrees(rome, true)") == "24.5"
    assert talk.say("24.5") is None
    assert talk.failed is None
    fails = converse(task(), {"id": "a", "city": "rome"})
    assert fails.say("broken(1)") is None
    assert "OSError" in fails.failed.what
    with pytest.raises(ConfigError, match="twice"):
        task(reply=lambda _, __: None)


def test_a_record_replays_equal_results_runs_nothing_and_flags_a_miss() -> None:
    made = ("degrees(rome, true)", "degrees(rome, false)", "warmer(2, 1)", "degrees(oslo, true)")
    record = {str(TOOLS.read(text)): str(TOOLS.answer(text)) for text in made}
    replayed = tools_of(degrees, warmer, broken).replayed({**record, "broken(3)": "alive"})
    assert [replayed.answer(text) for text in made] == [TOOLS.answer(text) for text in made]
    assert replayed.answer("degrees( rome, TRUE)") == "24.5", "it is the same call"
    assert replayed.answer("broken(3)") == "alive", "the function is not run"
    assert replayed.answer("rain(rome)") == TOOLS.answer("rain(rome)")
    with pytest.raises(TaskError, match=r"not in the record: broken\(1\)"):
        replayed.answer("broken(1)")
    talk = converse(task(replayed), {"id": "a", "city": "rome"})
    assert talk.say("broken(1)") is None
    assert "broken(1)" in talk.failed.what


def test_a_record_is_read_of_rollouts_and_a_call_with_two_results_is_refused(tmp_path: Path) -> None:
    def turns(*texts: str) -> dict[str, object]:
        return {"turns": [{"role": ("assistant", "user")[n % 2], "text": text} for n, text in enumerate(texts)]}

    words = [
        turns("degrees(rome, true)", "24.5", "degrees( rome ,false)", "28.5", "24.5"),
        {"text": "of one\u2028turn"},
    ]
    (tmp_path / "rollouts.jsonl").write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in words))
    assert TOOLS.recorded(tmp_path) == {"degrees(rome, True)": "24.5", "degrees(rome, False)": "28.5"}
    assert TOOLS.replayed(tmp_path / "rollouts.jsonl").record == TOOLS.recorded(tmp_path)
    words.append(turns("degrees(rome, true)", "25.0", "25.0"))
    (tmp_path / "rollouts.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in words))
    with pytest.raises(DataError, match="two results"):
        TOOLS.recorded(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        TOOLS.replayed(tmp_path / "nothing")


def test_a_filter_of_examples_counts_the_calls_of_tools() -> None:
    examples = Examples()
    one = task(examples=examples, answer=lambda _: ["degrees(rome, true)", "rain(rome)", "24.5"])
    found = filter_examples(one, examples, split_items(one, Path(), 0).train)
    assert [(record.steps, record.calls) for record in found] == [(3, 1), (3, 1)]


TASK = """\
from pathlib import Path

from tinsmith import Task, tools_of


def double(number: int) -> int:
    return 2 * number


tools = tools_of(double)
record = Path(__file__).parent / "record"

task = Task(
    items=[{"id": f"item-{n}", "n": n} for n in range(12)],
    prompt="Item {n}:",
    held_out=0.5,
    parse=lambda text: "double(2)" if len(text) % 2 else text,
    tools=tools.replayed({"double(2)": "4"}) if record.exists() else tools,
    max_turns=3,
    reward=lambda item, text: float(len(text)),
)
"""


@pytest.mark.usefixtures("place")
def test_a_run_with_a_record_of_its_calls_has_the_same_bytes_and_another_identity(run: Run, tmp_path: Path) -> None:
    assert run(log_path="live", max_tokens="5", steps="2").code == 0
    received = [turn["text"] for one in lines(tmp_path / "live", "rollouts.jsonl") for turn in one["turns"][1::2]]
    assert set(received) == {"4"}
    (tmp_path / "record").touch()
    assert run(log_path="replayed", max_tokens="5", steps="2").code == 0
    live, replayed = (whole(tmp_path / name, "manifest.json") for name in ("live", "replayed"))
    assert replayed["hashes"]["rollouts_sha256"] == live["hashes"]["rollouts_sha256"]
    assert "record" not in live["identity"]["data"]
    assert len(replayed["identity"]["data"]["record"]) == 64
