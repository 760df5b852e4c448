"""Calls of tools read out of replies, however these come in."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.renderers.tool_calls import CallReader, CallStyle, ReadCall, call_style, read_call

TAGGED, BARE = CallStyle.TAGGED, CallStyle.BARE
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
OTHER = '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
F, G = ReadCall("f", {"a": 1}), ReadCall("g", {})
CLOSING = '<tool_call>\n{"name": "h", "arguments": {"text": "a </tool_call> b\\"</tool_call>"}}\n</tool_call>'
H = ReadCall("h", {"text": 'a </tool_call> b"</tool_call>'})
JSON = '{"name": "f", "parameters": {"a": 1}}'


def read(style: CallStyle | None, text: str, *, size: int = 1000, cut: bool = False) -> list[str | ReadCall]:
    """The pieces of a reply that comes in pieces, texts that follow each other joined."""
    reader = CallReader(style)
    batches = [reader.add(text[i : i + size]) for i in range(0, len(text), size)]
    joined: list[str | ReadCall] = []
    for piece in [piece for batch in [*batches, reader.end(cut=cut)] for piece in batch]:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("style", "text", "pieces"),
    [
        (TAGGED, "", []),
        (TAGGED, "Just words.\n", ["Just words.\n"]),
        (TAGGED, CALL, [F]),
        (TAGGED, f"Let me see.\n{CALL}\n{OTHER}\n", ["Let me see.", F, G]),
        (TAGGED, f"{CALL}\n and then", [F, "and then"]),
        (TAGGED, f"  {CALL}  ", [F]),
        (TAGGED, "a <tool_call> b", ["a <tool_call> b"]),
        (TAGGED, "a <tool_call>{} </tool_call> b", ["a <tool_call>{} </tool_call> b"]),
        (TAGGED, f"a <tool_call>[</tool_call>\n{CALL}", ["a <tool_call>[</tool_call>", F]),
        (TAGGED, f"{CLOSING}\n{CALL}", [H, F]),
        (TAGGED, CLOSING.removesuffix("</tool_call>"), [H]),
        (TAGGED, CLOSING.removesuffix('"}}\n</tool_call>'), [CLOSING.removesuffix('"}}\n</tool_call>')]),
        (TAGGED, f'a <tool_call>["</tool_call>\n{CALL}', ['a <tool_call>["</tool_call>', F]),
        (TAGGED, f'<tool_call>["</tool_call>\n{CALL[:-12]}', ['<tool_call>["</tool_call>', F]),
        (TAGGED, f'<tool_call>["</tool_call>"]</tool_call> {CALL}', ['<tool_call>["</tool_call>"]</tool_call>', F]),
        (TAGGED, CALL.removesuffix("</tool_call>"), [F]),
        (TAGGED, f"a\n{CALL[:-3]}", [f"a\n{CALL[:-3]}"]),
        (TAGGED, "a < b <tool", ["a < b <tool"]),
        (TAGGED, JSON, [JSON]),
        (BARE, "", []),
        (BARE, "Just {words}.", ["Just {words}."]),
        (BARE, JSON, [F]),
        (BARE, f" \n{JSON}\n", [F]),
        (BARE, f"<|python_tag|>{JSON}", [F]),
        (BARE, f'{JSON}; {{"name": "g", "parameters": {{}}}}', [F, G]),
        (BARE, '{"answer": 4}', ['{"answer": 4}']),
        (BARE, f"{JSON} and", [f"{JSON} and"]),
        (BARE, "<|pyth", ["<|pyth"]),
        (BARE, CALL, [CALL]),
        (None, CALL, [CALL]),
    ],
)
def test_replies_are_read(style: CallStyle | None, text: str, pieces: Sequence[str | ReadCall], size: int) -> None:
    assert read(style, text, size=size) == list(pieces)


def test_a_reply_that_was_cut_off_ends_in_no_call() -> None:
    opened = CALL.removesuffix("</tool_call>")
    assert read(TAGGED, f"a\n{opened}", cut=True) == [f"a\n{opened}"]
    assert read(TAGGED, f"a\n{CALL}", cut=True) == ["a", F]
    assert read(BARE, JSON, cut=True) == [JSON]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f"}',
        '{"name": "f", "arguments": "a"}',
        '{"name": 1, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"arguments": {}}',
        "[]",
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": "\\ud800"}}',
        '{"name": "f", "arguments": {"a": ' + "[" * 100_000,
        '{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}",
        '{"name": "f", "arguments": {}} {}',
    ],
)
def test_what_cannot_be_handed_on_as_json_is_no_call(text: str) -> None:
    assert read_call(text, TAGGED) is None
    assert read(TAGGED, f"<tool_call>{text}</tool_call>") == [f"<tool_call>{text}</tool_call>"]


def test_a_call_s_arguments_are_json_with_letters_as_they_are() -> None:
    call = read_call('{"name": "f", "arguments": {"b":"é","a":[1.50,true,null]}}', TAGGED)
    assert call.text == '{"b": "é", "a": [1.5, true, null]}'


@given(
    st.lists(st.sampled_from([CALL, OTHER, "a", " ", "\n", "<tool_call>", "</tool_call>", "<", "{"])),
    st.integers(1, 9),
    st.booleans(),
)
def test_pieces_are_the_same_however_a_reply_comes(parts: list[str], size: int, cut: bool) -> None:
    text = "".join(parts)
    pieces = read(TAGGED, text, cut=cut)
    assert read(TAGGED, text, size=size, cut=cut) == pieces
    assert read(BARE, text, size=size, cut=cut) == read(BARE, text, cut=cut)
    if F not in pieces and G not in pieces:
        assert "".join(str(piece) for piece in pieces) == text


@pytest.mark.parametrize(
    ("printed", "style"),
    [
        (f"<|a|>\n{CALL}<|e|>", TAGGED),
        (f"<|a|>{JSON}<|e|>", BARE),
        ("<|a|>{'f'}" + JSON, BARE),
        ("<tool_call><function=f></tool_call>", None),
        ("", None),
    ],
)
def test_a_printed_call_shows_its_style(printed: str, style: CallStyle | None) -> None:
    assert call_style(printed, "f") is style
    assert call_style(printed, "another") is None
