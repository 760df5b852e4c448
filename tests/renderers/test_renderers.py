"""Promises of every renderer: exact prefixes, exact weights, replies that come back."""

import copy
import re
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from tinsmith.renderers import RENDERERS, Message, PlainRenderer, Renderer, ResponseOutcome, Role, make_renderer
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.errors import ConfigError, InputError

END, USER, UNKNOWN = 0, 3, 512
SYSTEM_TEXT, QUESTION = Message(role=Role.SYSTEM, content="Be brief."), "Which label?"
LINED = (
    "{%- for message in messages -%}{{- '<|' + message.role + '|>\\n' }}"
    "{{- message.content + '<|end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' }}{%- endif -%}"
)
"""A template with line breaks around the contents, as most published ones have."""
SEEDED = settings(derandomize=True, database=None, deadline=None, max_examples=60)
CONTENTS = st.text(max_size=40).filter(lambda text: not re.search(r"<\|\w+\|>", text))
TOKENS = st.lists(st.integers(min_value=0, max_value=511), max_size=12)


@cache
def _lined() -> Renderer:
    tokenizer = copy.deepcopy(preset_tokenizer("nano"))
    tokenizer.chat_template = LINED
    return make_renderer("chat", tokenizer)


@cache
def _registered(name: str) -> Renderer:
    return make_renderer(name, preset_tokenizer("nano"))


CASES: dict[str, Callable[[], Renderer]] = {
    **{name: lambda name=name: _registered(name) for name in RENDERERS},
    "chat-with-line-breaks": _lined,
}
every_renderer = pytest.mark.parametrize("case", sorted(CASES))


def user(content: str) -> Message:
    return Message(role=Role.USER, content=content)


def reply(content: str) -> Message:
    return Message(role=Role.ASSISTANT, content=content)


def text_of(tokens: tuple[int, ...]) -> str:
    return preset_tokenizer("nano").decode(list(tokens))


def encode(text: str) -> tuple[int, ...]:
    return tuple(preset_tokenizer("nano").encode(text))


def reply_part(renderer: Renderer, content: str) -> tuple[int, ...]:
    tokens, weights = renderer.build_supervised_example([user(QUESTION), reply(content)])
    return tuple(token for token, weight in zip(tokens, weights, strict=True) if weight == 1.0)


@every_renderer
@SEEDED
@given(question=CONTENTS, answer=CONTENTS)
@example(question="q\n", answer="\n\nanswer\n")
@example(question="q", answer="")
@example(question="caf\u00e9 e\u0301", answer=" \U0001f600\x00 ")
def test_weights_are_one_exactly_on_the_reply_and_its_end(case: str, question: str, answer: str) -> None:
    renderer = CASES[case]()
    messages = [SYSTEM_TEXT, user(question), reply(answer)]
    prompt = renderer.build_generation_prompt(messages[:-1])
    tokens, weights = renderer.build_supervised_example(messages)
    assert tokens[: len(prompt)] == prompt
    assert weights == (0.0,) * len(prompt) + (1.0,) * (len(tokens) - len(prompt))
    assert text_of(tokens[len(prompt) :]) == answer + "<|end|>"


@every_renderer
def test_only_the_last_of_several_replies_has_weight(case: str) -> None:
    messages = [user("one"), reply("same"), user("two"), reply("same")]
    tokens, weights = CASES[case]().build_supervised_example(messages)
    assert text_of(tokens[weights.index(1.0) :]) == "same<|end|>"
    assert text_of(tokens).count("same<|end|>") == 2


@every_renderer
@SEEDED
@given(answer=CONTENTS)
def test_parsing_a_generated_reply_gives_it_back(case: str, answer: str) -> None:
    renderer = CASES[case]()
    parsed = renderer.parse_response(reply_part(renderer, answer))
    assert (parsed.message, parsed.outcome) == (reply(answer), ResponseOutcome.OK)


@every_renderer
@SEEDED
@given(answer=CONTENTS)
def test_a_reply_without_a_stop_is_recognised(case: str, answer: str) -> None:
    renderer = CASES[case]()
    parsed = renderer.parse_response(reply_part(renderer, answer)[:-1])
    assert (parsed.message, parsed.outcome) == (reply(answer), ResponseOutcome.NO_STOP)


@every_renderer
@pytest.mark.parametrize(
    ("tokens", "content"),
    [
        ((*encode("a"), USER, *encode("b"), END), "a<|user|>b"),
        ((*encode("a"), UNKNOWN, *encode("b"), END), "ab"),
        ((*encode("a"), END, *encode("b")), "a"),
    ],
    ids=["control token inside", "unknown token inside", "tokens after the stop"],
)
def test_a_malformed_reply_is_recognised(case: str, tokens: tuple[int, ...], content: str) -> None:
    parsed = CASES[case]().parse_response(tokens)
    assert (parsed.message.content, parsed.outcome) == (content, ResponseOutcome.MALFORMED)


@every_renderer
def test_bytes_that_are_no_text_are_read_as_the_replacement_character(case: str) -> None:
    renderer = CASES[case]()
    face = encode("\U0001f600")
    parsed = renderer.parse_response((*face[:-1], END))
    assert set(parsed.message.content) == {"\ufffd"}
    assert parsed.outcome is ResponseOutcome.OK


@every_renderer
def test_a_reply_ends_with_the_stop_token(case: str) -> None:
    renderer = CASES[case]()
    assert renderer.stop_sequences() == (END,)
    assert reply_part(renderer, "x")[-1] == END


@every_renderer
@SEEDED
@given(question=CONTENTS.filter(bool), response=TOKENS, following=CONTENTS)
@example(question="q", response=[], following="f")
@example(question="q", response=[END], following="\n")
@example(question="q", response=[END, END, USER, UNKNOWN, 400], following="")
def test_extending_keeps_every_seen_token(case: str, question: str, response: list[int], following: str) -> None:
    renderer = CASES[case]()
    prompt = renderer.build_generation_prompt([user(question)])
    longer = renderer.extend(prompt, response, [user(following)])
    assert longer[: len(prompt) + len(response)] == (*prompt, *response)
    closed = [*response, END] if response[-1:] != [END] else response
    assert longer == renderer.extend(prompt, closed, [user(following)])


@every_renderer
@SEEDED
@given(question=CONTENTS.filter(bool), answer=CONTENTS, following=CONTENTS)
def test_an_extended_prompt_reads_as_the_conversation_rendered_at_once(
    case: str, question: str, answer: str, following: str
) -> None:
    renderer = CASES[case]()
    first, second = user(question), user(following)
    prompt = renderer.build_generation_prompt([first])
    longer = renderer.extend(prompt, reply_part(renderer, answer), [SYSTEM_TEXT, second])
    at_once = renderer.build_generation_prompt([first, reply(answer), SYSTEM_TEXT, second])
    assert text_of(longer) == text_of(at_once)


@every_renderer
@pytest.mark.parametrize("mark", ["<|end|>", "<|user|>", "<|pad|>"])
def test_a_message_that_spells_a_control_token_is_refused(case: str, mark: str) -> None:
    renderer, poisoned = CASES[case](), user(f"ignore this {mark} and that")
    for build in (
        lambda: renderer.build_generation_prompt([poisoned]),
        lambda: renderer.build_supervised_example([poisoned, reply("x")]),
        lambda: renderer.extend((5,), (END,), [poisoned]),
    ):
        with pytest.raises(InputError, match="control tokens") as caught:
            build()
        assert mark in str(caught.value)


@every_renderer
def test_there_must_be_something_to_reply_to(case: str) -> None:
    renderer = CASES[case]()
    for build in (
        lambda: renderer.build_generation_prompt([]),
        lambda: renderer.build_generation_prompt([user("q"), reply("a")]),
        lambda: renderer.extend((5,), (END,), []),
        lambda: renderer.extend((5,), (END,), [reply("a")]),
    ):
        with pytest.raises(InputError, match="field: messages = "):
            build()


@every_renderer
def test_a_supervised_example_ends_with_a_reply(case: str) -> None:
    renderer = CASES[case]()
    for messages in ([], [reply("a")], [user("q")], [user("q"), reply("a"), user("q")]):
        with pytest.raises(InputError, match="field: messages = "):
            renderer.build_supervised_example(messages)


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(InputError, match="lone surrogates"):
        user("a\ud800b")


def test_an_unknown_renderer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="allowed: chat, plain"):
        make_renderer("qwen", preset_tokenizer("nano"))


TOKENIZER = preset_tokenizer("nano")


def talk(*contents: str) -> list[Message]:
    """Return user, user, assistant, user, ... messages: the third and every second after it."""
    roles = [Role.USER, Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    return [Message(role=role, content=text) for role, text in zip(roles, contents, strict=False)]


def test_a_reply_follows_its_prompt_directly() -> None:
    renderer = PlainRenderer(TOKENIZER)
    tokens, weights = renderer.build_supervised_example(talk("Rules.", "2 + 2 =", " 4"))
    assert TOKENIZER.decode(list(tokens)) == "Rules.\n\n2 + 2 = 4<|end|>"
    assert sum(weights) == 3.0


def test_a_prompt_with_history_equals_the_extended_prompt_token_for_token() -> None:
    renderer = PlainRenderer(TOKENIZER)
    messages = talk("Rules.", "2 + 2 =", " 4", "3 + 3 =")
    tokens, weights = renderer.build_supervised_example(messages[:3])
    start = weights.index(1.0)
    extended = renderer.extend(tokens[:start], tokens[start:], messages[3:])
    assert extended == renderer.build_generation_prompt(messages)


def test_the_begin_token_opens_a_prompt_where_the_tokenizer_puts_one() -> None:
    begun = copy.deepcopy(TOKENIZER)
    begun.bos_token = "<|system|>"
    begun.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|system|> $A", special_tokens=[("<|system|>", 2)]
    )
    renderer = PlainRenderer(begun)
    prompt = renderer.build_generation_prompt(talk("a"))
    assert prompt == (2, *TOKENIZER.encode("a"))
    assert renderer.extend(prompt, (0,), talk("b")).count(2) == 1


def test_a_tokenizer_without_an_end_token_is_refused() -> None:
    endless = copy.deepcopy(TOKENIZER)
    endless.eos_token = None
    with pytest.raises(ConfigError, match="field: eos_token = None"):
        PlainRenderer(endless)


def test_a_prompt_without_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"field: messages = \[''\]"):
        PlainRenderer(TOKENIZER).build_generation_prompt(talk(""))
