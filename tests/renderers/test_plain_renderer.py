"""The renderer without a template: the layout, the begin token, the end token."""

import copy

import pytest
from tokenizers.processors import TemplateProcessing

from tinsmith.renderers import Message, PlainRenderer, Role
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.errors import ConfigError, InputError

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
