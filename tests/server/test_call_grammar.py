"""Replies allowed where calls are required or must satisfy a schema, by llguidance's own word."""

import json
from collections.abc import Collection
from functools import cache
from typing import Any

import pytest
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from scripted import form

from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.renderers.tool_calls import CallStyle
from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.chat.call_grammar import constrain, is_constrained
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

pytestmark = pytest.mark.whole

TAGGED, BARE = CallStyle.TAGGED, CallStyle.BARE
JSON_SCHEMA = GrammarKind.JSON_SCHEMA
SCHEMA = {"$defs": {"Days": {"type": "integer"}}, **form("city", {"type": "string"}, days={"$ref": "#/$defs/Days"})}
F = Tool(name='odd "f"', parameters=SCHEMA)
G = Tool(name="g")


@cache
def llguidance_tokenizer() -> Any:
    return from_tokenizer(preset_tokenizer("nano"))


def tagged(tool: Tool, **arguments: Any) -> str:
    body = json.dumps({"name": tool.name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


def bare(tool: Tool, **arguments: Any) -> str:
    return json.dumps({"name": tool.name, "parameters": arguments})


def lark(
    tools: Tools, style: CallStyle, *, answer: GrammarSettings | None = None, control: Collection[str] = ()
) -> str | None:
    adjusted = None if answer is None else AdjustmentSettings(min_p=0.5, grammar=answer)
    plain = SamplingSettings(adjustments=adjusted)
    sampling = constrain(plain, tools, style, control) if is_constrained(plain, tools) else plain
    grammar = sampling.adjustments.grammar if sampling.adjustments else None
    if answer is not None:
        assert sampling.adjustments.min_p == 0.5
    if grammar is None:
        return None
    return f"start: %json {grammar.text}" if grammar.kind is JSON_SCHEMA else grammar.text


def takes(grammar: str | None, text: str) -> bool:
    assert grammar is not None
    matcher = LLMatcher(llguidance_tokenizer(), LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = preset_tokenizer("nano").encode(text)
    return matcher.validate_tokens(tokens) == len(tokens) and (
        matcher.consume_tokens(tokens) and matcher.is_accepting()
    )


def test_a_free_reply_has_no_grammar() -> None:
    assert lark(Tools(offered=(F, G)), TAGGED) is None
    assert lark(Tools(offered=(F,), choice=Choice.NONE), TAGGED) is None
    assert lark(Tools(), TAGGED) is None


def test_required_calls_are_all_there_is() -> None:
    grammar = lark(Tools(offered=(F, G), choice=Choice.REQUIRED), TAGGED)
    one, other = tagged(F, city="Oslo", days=3), tagged(G, any=[1.5])
    assert takes(grammar, one)
    assert takes(grammar, f"{one}\n{other}")
    for text in ("", "words", f"well\n{one}", f"{one} and", tagged(F, days=3), tagged(F, city="a", days=1.5)):
        assert not takes(grammar, text)


def test_one_call_where_several_are_not_wanted_and_the_named_one() -> None:
    single = Tools(offered=(F, G), choice=Choice.REQUIRED, parallel=False)
    one, other = tagged(F, city="Oslo"), tagged(G)
    assert takes(lark(single, TAGGED), other)
    assert not takes(lark(single, TAGGED), f"{one}\n{other}")
    named = lark(Tools(offered=(F, G), choice=Choice.REQUIRED, named="g"), TAGGED)
    assert takes(named, other)
    assert not takes(named, one)


def test_a_strict_call_satisfies_its_schema_wherever_it_stands() -> None:
    strict = Tool(name="f", parameters=SCHEMA, strict=True)
    grammar = lark(Tools(offered=(strict, G)), TAGGED)
    good, bad = tagged(strict, city="Oslo"), tagged(strict, town="Oslo")
    for text in ("", "words < and {", good, f"Well.\n{good}\n{tagged(G)}\nso", "<tool_c"):
        assert takes(grammar, text)
    for text in (bad, f"Well. {bad}", "<tool_call>"):
        assert not takes(grammar, text)
    single = lark(Tools(offered=(G,), parallel=False), TAGGED)
    assert takes(single, "words")
    assert takes(single, f"Well.\n{tagged(G)}")
    assert not takes(single, f"{tagged(G)}\n{tagged(G)}")


def test_a_checked_key_cannot_come_by_another_spelling() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    strict = Tools(offered=(Tool(name="f", parameters=schema, strict=True),))
    formed = GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=json.dumps({"type": "object", **schema}))
    for grammar, text in (
        (lark(strict, TAGGED), tagged(*strict.offered, a=1, b="x")),
        (lark(strict, BARE), bare(*strict.offered, a=1, b="x")),
        (lark(strict, TAGGED, answer=formed), '{"a": 1, "b": "x"}'),
    ):
        assert takes(grammar, text)
        assert not takes(grammar, text.replace('"b"', r'"\u0061"'))


def test_bare_calls_are_the_whole_reply() -> None:
    strict = Tool(name="f", parameters=SCHEMA, strict=True)
    grammar = lark(Tools(offered=(strict,)), BARE)
    for text in ("", "words {", bare(strict, city="Oslo")):
        assert takes(grammar, text)
    for text in ('{"answer": 4}', bare(strict, town="a"), bare(strict, city="a") + " so"):
        assert not takes(grammar, text)
    required = lark(Tools(offered=(F, G), choice=Choice.REQUIRED), BARE)
    assert takes(required, bare(F, city="Oslo"))
    assert not takes(required, "words")


def test_a_format_is_that_of_replies_that_call_nothing() -> None:
    schema = {"$defs": {"Name": {"type": "string"}}, **form("name", {"$ref": "#/$defs/Name"})}
    formed = GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(schema))
    for style, call in ((TAGGED, tagged(F, city="Oslo")), (BARE, bare(F, city="Oslo"))):
        grammar = lark(Tools(offered=(F,)), style, answer=formed)
        assert takes(grammar, '{"name": "Ada"}')
        assert takes(grammar, call)
        assert not takes(grammar, "words")
        assert not takes(grammar, '{"name": 4}')
        assert not takes(grammar, call.replace("city", "town"))
    loose = GrammarSettings(kind=GrammarKind.JSON_OBJECT)
    assert takes(lark(Tools(offered=(F,)), TAGGED, answer=loose), '{"a": [1]}')
    pattern = GrammarSettings(kind=GrammarKind.REGEX, text="a+")
    with pytest.raises(InputError, match="cannot both"):
        lark(Tools(offered=(F,)), TAGGED, answer=pattern)
    assert lark(Tools(), TAGGED, answer=pattern) == "a+"


def test_references_of_bare_calls_beside_a_format_are_their_own_schema_s() -> None:
    schema = {
        "$id": "http://a.b/c",
        "$defs": {"enum": {"type": "integer"}, "named": {"$ref": "#/$defs/enum"}},
        **form("const", {"$ref": "#/$defs/named"}, data={"enum": [{"$ref": "#/x"}]}),
    }
    tool = Tool(name="f", parameters=schema)
    grammar = lark(Tools(offered=(tool,)), BARE, answer=GrammarSettings(kind=JSON_SCHEMA, text=json.dumps(schema)))
    good = {"const": 1, "data": {"$ref": "#/x"}}
    for text in (bare(tool, **good), json.dumps(good)):
        assert takes(grammar, text)
        assert not takes(grammar, text.replace("1", '"1"'))


def test_marks_that_are_tokens_of_their_own_are_named_as_tokens() -> None:
    control = ("<tool_call>", "</tool_call>")
    required = lark(Tools(offered=(G,), choice=Choice.REQUIRED), TAGGED, control=control)
    strict = lark(Tools(offered=(G,), parallel=False), TAGGED, control=control)
    for grammar in (required, strict):
        assert grammar is not None
        assert '"<tool_call>"' not in grammar
        assert " <tool_call>" in grammar
