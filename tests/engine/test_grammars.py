"""Completions under a grammar: valid as others read it, ended where it ends, and scored as the model has it."""

import copy
import json
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from made_tokenizers import byte_level
from tokenizers import AddedToken, normalizers, pre_tokenizers

import loopback
from running import HANG_S
from tinsmith.engine.engine import Engine
from tinsmith.engine.grammars import MAX_CACHED, MAX_GRAMMAR_CHARS, CompiledGrammar, Grammars
from tinsmith.models.base import open_base
from tinsmith.models.presets import PRESETS
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import (
    Adjustments,
    Grammar,
    GrammarKind,
    SampledSequence,
    SampleRequest,
    SamplingParams,
    StopReason,
)

NANO = "tinsmith/nano"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "stars": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["red", "green"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "stars", "kind", "tags"],
    "additionalProperties": False,
}
JSON_SCHEMA = Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(SCHEMA))

PATTERNS = {f"^a{i}$": {"type": "integer"} for i in range(400)}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine({NANO: NANO}, certificate_store=loopback.KEPT)


def sample(
    engine: Engine, grammar: Grammar, *, num_samples: int = 8, **params: object
) -> tuple[tuple[SampledSequence, ...], list[str]]:
    tokenizer = preset_tokenizer("nano")
    settings = {"seed": 1, "max_tokens": 160, **params}
    request = SampleRequest(
        prompt=np.array(tokenizer.encode("Say it: ", add_special_tokens=False), np.int32),
        params=SamplingParams(adjustments=Adjustments(grammar=grammar), **settings),  # pyright: ignore[reportArgumentType]
        num_samples=num_samples,
    )
    sequences = engine.sample(NANO, [request], [engine.base_policy(NANO)])[0].sequences
    texts = [tokenizer.decode(one.tokens.tolist(), skip_special_tokens=True) for one in sequences]
    return sequences, [str(text) for text in texts]


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_every_answer_under_a_schema_is_valid(engine: Engine, temperature: float) -> None:
    sequences, texts = sample(engine, JSON_SCHEMA, num_samples=24, temperature=temperature)
    for sequence, text in zip(sequences, texts, strict=True):
        assert sequence.stop_reason is StopReason.STOP
        jsonschema.validate(json.loads(text), SCHEMA)
    assert len(set(texts)) > 12


def test_logprobs_are_those_of_the_model_without_the_grammar(engine: Engine) -> None:
    tokenizer = preset_tokenizer("nano")
    prompt = np.array(tokenizer.encode("Say it: ", add_special_tokens=False), np.int32)
    sequences, _ = sample(engine, JSON_SCHEMA)
    requests = [
        SampleRequest(
            prompt=np.concatenate([prompt, one.tokens]),
            params=SamplingParams(seed=0, max_tokens=0),
            prompt_logprobs=True,
        )
        for one in sequences
    ]
    results = engine.sample(NANO, requests, [engine.base_policy(NANO)] * len(requests))
    for one, result in zip(sequences, results, strict=True):
        assert result.prompt_logprobs[len(prompt) :].tobytes() == one.logprobs.tobytes()


def test_a_text_cut_off_by_its_length_says_so(engine: Engine) -> None:
    sequences, _ = sample(engine, JSON_SCHEMA, max_tokens=3)
    assert {one.stop_reason for one in sequences} == {StopReason.LENGTH}


@pytest.mark.parametrize("pattern", [r"[ab]{1,4}", r"\d{3}-\w{4}", r"(yes|no), (sir|madam)\.?"])
def test_a_pattern_is_matched_as_a_whole(engine: Engine, pattern: str) -> None:
    sequences, texts = sample(engine, Grammar(kind=GrammarKind.REGEX, text=pattern))
    assert all(re.fullmatch(pattern, text, re.ASCII) for text in texts)
    assert {one.stop_reason for one in sequences} == {StopReason.STOP}


def test_any_object_is_one(engine: Engine) -> None:
    """Objects where they ended; unbounded ones may be cut off."""
    grammar = Grammar(kind=GrammarKind.JSON_OBJECT, text="")
    sequences, texts = sample(engine, grammar, num_samples=16)
    ended = [text for one, text in zip(sequences, texts, strict=True) if one.stop_reason is StopReason.STOP]
    assert all(isinstance(json.loads(text), dict) for text in ended)
    assert all(text.startswith("{") for text in texts)


def test_a_lark_grammar_is_followed(engine: Engine) -> None:
    lark = 'start: animal " " animal\nanimal: "cat" | "dog"\n'
    _, texts = sample(engine, Grammar(kind=GrammarKind.LARK, text=lark))
    assert set(texts) <= {f"{one} {other}" for one in ("cat", "dog") for other in ("cat", "dog")}


def test_an_end_token_is_allowed_exactly_where_the_grammar_accepts() -> None:
    tokenizer = preset_tokenizer("nano")
    (a,) = tokenizer.encode("a", add_special_tokens=False)
    config = open_base(NANO).config
    grammars = Grammars(config, lambda: ModelText(tokenizer, num_rows=config.vocab_size))
    compiled = grammars.compile(Grammar(kind=GrammarKind.REGEX, text="aa{1,2}"))
    matcher, untouched = compiled.matcher(()), compiled.matcher(())
    end = config.end_tokens[0]
    assert not matcher.allowed()[end]
    assert not matcher.take(a)
    assert not matcher.allowed()[end]
    assert not matcher.take(a)
    assert matcher.allowed()[end]
    assert matcher.take(a)
    assert not untouched.allowed()[end]


def test_a_mark_asked_for_as_a_stop_ends_what_the_grammar_accepts() -> None:
    tokenizer = preset_tokenizer("nano")
    config = open_base(NANO).config
    compiled = Grammars(config, lambda: ModelText(tokenizer, num_rows=config.vocab_size)).compile(
        Grammar(kind=GrammarKind.REGEX, text="a*")
    )
    (a,) = tokenizer.encode("a", add_special_tokens=False)
    (mark,) = tokenizer.encode("<|user|>", add_special_tokens=False)
    matcher = compiled.matcher((mark, a, 1 << 30))
    assert matcher.allowed()[mark]
    assert not matcher.take(a)
    assert matcher.take(mark)


@pytest.mark.parametrize(
    ("grammar", "field"),
    [
        (Grammar(kind=GrammarKind.REGEX, text="(a"), "grammar"),
        (Grammar(kind=GrammarKind.LARK, text="start: missing"), "grammar"),
        (Grammar(kind=GrammarKind.LARK, text="start: a\na[temperature=0.5]: /x/"), "grammar"),
        (Grammar(kind=GrammarKind.LARK, text="[" * MAX_GRAMMAR_CHARS), "grammar"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text="{"), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text="[1]"), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"type": "nope"}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"not": {}}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"x-guidance": {"lenient": true}, "not": {}}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"minProperties": 2}'), "response_format"),
        (Grammar(kind=GrammarKind.LARK, text='start: %json {"minProperties": 3, "required": ["a"]}'), "grammar"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"multipleOf": 1000003}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"multipleOf": 1e999}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps({"patternProperties": PATTERNS})), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"$ref": "http://a.b/c"}'), "response_format"),
        (Grammar(kind=GrammarKind.JSON_SCHEMA, text="[" * 5000), "response_format"),
        (Grammar(kind=GrammarKind.REGEX, text="a" * (MAX_GRAMMAR_CHARS + 1)), "grammar"),
    ],
    ids=lambda value: value.text[:20] if isinstance(value, Grammar) else value,
)
def test_what_does_not_compile_is_refused_by_name_before_anything_is_queued(
    engine: Engine, grammar: Grammar, field: str
) -> None:
    request = SampleRequest(
        prompt=np.array([5, 6], np.int32),
        params=SamplingParams(seed=0, max_tokens=4, adjustments=Adjustments(grammar=grammar)),
    )
    with pytest.raises(InputError) as caught:
        engine.check(NANO, request)
    assert caught.value.field == field
    with pytest.raises(InputError):
        engine.sampler(NANO).submit(request, engine.base_policy(NANO))
    assert not engine.sampler(NANO).busy


ROUNDED = [
    {"enum": ["a", 2**53 + 1]},
    {"const": {"ids": [-(2**53) - 1]}},
    {"const": 2**63},
    {"type": "integer", "enum": [1e30, 3]},
    {"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 9},
    {"type": "integer", "minimum": 10**17, "maximum": 10**17 + 10},
    {"type": "integer", "exclusiveMinimum": 2**53},
    {"type": "integer", "exclusiveMaximum": 2**60},
    {"type": "integer", "minimum": 1e20, "maximum": 1e21},
    {"const": 10**400},
]


@pytest.mark.parametrize("schema", ROUNDED, ids=json.dumps)
def test_a_number_that_llguidance_would_round_is_refused(engine: Engine, schema: dict[str, object]) -> None:
    text = json.dumps({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/id"}], "$defs": {"id": schema}})
    for grammar in (
        Grammar(kind=GrammarKind.JSON_SCHEMA, text=text),
        Grammar(kind=GrammarKind.LARK, text=f"start: %json {text}"),
    ):
        with pytest.raises(InputError, match=r"compiled: the number of .* would be rounded"):
            sample(engine, grammar)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": -(2**63)},
        {"type": "integer", "enum": [-1e30]},
        {"type": "integer", "minimum": -1e300, "maximum": -1e299},
        {"type": "integer", "exclusiveMinimum": -(2**63) - 5000, "exclusiveMaximum": -(2**63)},
    ],
    ids=json.dumps,
)
def test_a_schema_that_overflows_the_stack_of_llguidance_is_refused(engine: Engine, schema: dict[str, object]) -> None:
    for grammar in (
        Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(schema)),
        Grammar(kind=GrammarKind.LARK, text=f"start: %json {json.dumps({'$ref': '#/default', 'default': schema})}"),
    ):
        with pytest.raises(InputError, match=r"compiled: the number of .* would be rounded"):
            sample(engine, grammar)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [2**53, -(2**60)]},
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        {"type": "integer", "minimum": 0, "maximum": 2**64 - 1, "default": 2**60 + 1},
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**63},
    ],
    ids=json.dumps,
)
def test_large_numbers_that_are_exact_and_bounds_rounded_inward_are_followed(
    engine: Engine, schema: dict[str, object]
) -> None:
    _, texts = sample(engine, Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(schema)))
    for text in texts:
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "integer"}}},
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
    ],
    ids=json.dumps,
)
def test_a_key_cannot_come_by_another_spelling(schema: dict[str, object]) -> None:
    text = json.dumps({"type": "object", **schema})
    tokenizer = preset_tokenizer("nano")
    compiled = Grammars(PRESETS["nano"], lambda: ModelText(tokenizer, num_rows=512)).compile(
        Grammar(kind=GrammarKind.JSON_SCHEMA, text=text)
    )
    for key, comes in (("b", True), (r"\n", True), (r"\u0061", False)):
        matcher = compiled.matcher(())
        tokens = tokenizer.encode(f'{{"a":1,"{key}":"x"}}', add_special_tokens=False)
        assert (matcher.matcher.validate_tokens(tokens) == len(tokens)) is comes


@pytest.mark.parametrize("text", ["<|user|>", "a<|end|>b"])
def test_a_demanded_text_may_spell_a_control_token(engine: Engine, text: str) -> None:
    sequences, texts = sample(engine, Grammar(kind=GrammarKind.REGEX, text=re.escape(text)))
    assert set(texts) == {text}
    assert {one.stop_reason for one in sequences} == {StopReason.STOP}


@pytest.mark.parametrize("prepends", [False, True])
def test_a_demanded_text_may_be_one_that_the_tokenizer_changes(prepends: bool) -> None:
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prepends)
    text = ModelText(tokenizer, num_rows=len(tokenizer))
    config = replace(PRESETS["nano"], vocab_size=len(tokenizer), end_tokens=(0,))
    demanded = json.dumps({"e\u0301": "\u212b"}, ensure_ascii=False)
    grammar = Grammar(kind=GrammarKind.REGEX, text=re.escape(demanded))
    matcher = Grammars(config, lambda: text).compile(grammar).matcher(())
    drawn: list[int] = []
    while not matcher.allowed()[0]:
        drawn.append(int(np.flatnonzero(matcher.allowed())[0]))
        if matcher.take(drawn[-1]):
            break
    assert text.codec.decode(drawn) == demanded


@pytest.mark.parametrize("least", [1, 2])
def test_the_fewest_properties_are_counted_where_no_key_can_come_twice(engine: Engine, least: int) -> None:
    schema = {
        "type": "object",
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9},
        "required": ["a"][: least - 1],
        "minProperties": least,
        "maxProperties": 2,
    }
    sequences, texts = sample(engine, Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(schema)), num_samples=24)
    for sequence, text in zip(sequences, texts, strict=True):
        if sequence.stop_reason is StopReason.STOP:
            jsonschema.validate(json.loads(text), schema)


def test_a_pattern_beyond_the_limits_is_found_out_while_it_is_followed(engine: Engine) -> None:
    with pytest.raises(InputError, match="grammar"):
        sample(engine, Grammar(kind=GrammarKind.REGEX, text=".*" * 200 + "x"))
    assert not engine.sampler(NANO).busy


DOUBLED = "".join(f"A{k}: A{k + 1} A{k + 1}\n" for k in range(30)) + 'A30: "x"\n'
ENDLESS = ["(a{1000}){1000}", "(a{1,300}){1000}", "[ab](?x:(a{ 300 }){1000})", "a?" * 2000 + "a" * 2000]


@pytest.mark.parametrize(
    "grammar",
    [
        *(Grammar(kind=GrammarKind.REGEX, text=pattern) for pattern in ENDLESS),
        *(Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps({"pattern": f"^{pattern}$"})) for pattern in ENDLESS),
        *(Grammar(kind=GrammarKind.LARK, text=f"start: /{pattern}/") for pattern in ENDLESS),
        Grammar(kind=GrammarKind.JSON_SCHEMA, text='{"type": "string", "pattern": "^a*$", "minLength": 100000}'),
        Grammar(kind=GrammarKind.LARK, text=f"start: A0\n{DOUBLED}"),
        Grammar(kind=GrammarKind.LARK, text='start: %json {"\\u0070attern": "(a\\u007b1000}){1000}"}'),
    ],
    ids=lambda grammar: f"{grammar.kind}-{grammar.text[:20]}",
)
def test_a_step_does_not_look_for_everything_that_a_long_pattern_demands(engine: Engine, grammar: Grammar) -> None:
    """Each would take from seconds to hours if it did."""
    try:
        sequences, _ = sample(engine, grammar, max_tokens=3)
    except InputError:
        assert not engine.sampler(NANO).busy
    else:
        assert {one.stop_reason for one in sequences} <= {StopReason.LENGTH, StopReason.STOP}


def test_a_grammar_that_turns_out_too_complex_fails_its_request_alone(engine: Engine) -> None:
    """A matcher that gives up is told as a user's mistake, and its neighbour goes on."""
    good = SampleRequest(prompt=np.array([5, 6], np.int32), params=SamplingParams(seed=0, max_tokens=6, stop=()))
    bad = SampleRequest(
        prompt=np.array([5, 6], np.int32),
        params=SamplingParams(seed=0, max_tokens=6, adjustments=Adjustments(grammar=JSON_SCHEMA)),
    )
    sampler, policy = engine.sampler(NANO), engine.base_policy(NANO)
    free = sampler.pool.available
    one, other = sampler.submit(bad, policy), sampler.submit(good, policy)
    sampler.step()
    matcher = one.samples[0].matcher
    matcher.matcher.consume_token(0)  # an end where none may be: the matcher is in error from here
    while sampler.busy:
        sampler.step()
    assert isinstance(one.failure, InputError)
    assert other.result is not None
    assert sampler.pool.available == free


def test_marks_of_one_token_are_named_whether_they_are_control_tokens_or_not() -> None:
    tokenizer = copy.deepcopy(preset_tokenizer("nano"))
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    tokenizer.add_tokens([AddedToken("<|note|>", special=True)], special_tokens=True)
    size = len(tokenizer) + 3
    grammars = Grammars(replace(PRESETS["nano"], vocab_size=size), lambda: ModelText(tokenizer, num_rows=size))
    question = ("<tool_call>", "</tool_call>", "<|note|>", "name")
    assert grammars.marks(question) == {"<tool_call>", "<|note|>"}
    calls = Grammar(kind=GrammarKind.LARK, text='start: <tool_call> "{}"')
    allowed = grammars.compile(calls).matcher(()).allowed()
    assert np.flatnonzero(allowed).tolist() == [tokenizer.get_vocab()["<tool_call>"]]


class Held(Grammars):
    """Grammars of which `a` is compiled only when it may be; counts what is compiled."""

    def _compile(self, grammar: Grammar) -> CompiledGrammar:
        counts[grammar.text] += 1
        if grammar.text == "a":
            assert may.wait(HANG_S)
        return super()._compile(grammar)


counts: Counter[str] = Counter()
may = threading.Event()


def test_nobody_waits_for_a_grammar_that_is_not_theirs_and_each_is_compiled_once() -> None:
    grammars = Held(PRESETS["nano"], lambda: ModelText(preset_tokenizer("nano"), num_rows=512))
    slow, other = (Grammar(kind=GrammarKind.REGEX, text=text) for text in "ab")
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(grammars.compile, slow) for _ in range(2)]
        assert threads.submit(grammars.compile, other).result(HANG_S) is grammars.compile(other)
        assert not any(each.done() for each in waiting)
        may.set()
        assert waiting[0].result(HANG_S) is waiting[1].result(HANG_S)
    assert counts == {"a": 1, "b": 1}


def test_a_grammar_that_is_held_is_not_compiled_again_whatever_others_compile() -> None:
    grammars = Grammars(PRESETS["nano"], lambda: ModelText(preset_tokenizer("nano"), num_rows=512))
    held = grammars.compile(Grammar(kind=GrammarKind.REGEX, text="a"))
    for i in range(MAX_CACHED + 1):
        grammars.compile(Grammar(kind=GrammarKind.REGEX, text=f"b{i}"))
    assert grammars.compile(Grammar(kind=GrammarKind.REGEX, text="a")) is held
