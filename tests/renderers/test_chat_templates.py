"""Templates that trim, move or drop what they are given: followed where safe, else refused."""

import copy

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from tinsmith.renderers import ChatRenderer, Message, ResponseOutcome, Role
from tinsmith.renderers.tokenizer import preset_tokenizer
from tinsmith.types.errors import ConfigError, InputError, TinsmithError

pytestmark = pytest.mark.whole

END, PAD = 0, 1
TOKENIZER = preset_tokenizer("nano")
LAST_USER = (
    "{%- set last = namespace(user=-1) -%}{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}"
    "{%- endfor -%}"
)
OPEN = "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' }}{%- endif -%}"


def turn(content: str) -> str:
    return "{{- '<|' + message.role + '|>\\n' + " + content + " + '<|end|>\\n' }}"


def loop(body: str) -> str:
    return "{%- for message in messages -%}" + body + "{%- endfor -%}" + OPEN


DROPS_REASONING = LAST_USER + loop(
    "{%- set content = message.content -%}"
    "{%- if message.role == 'assistant' and '</think>' in content and loop.index0 < last.user -%}"
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}{%- endif -%}"
    "{%- if message.role == 'assistant' and '</think>' not in content and loop.last -%}"
    "{%- set content = '<think>\\n\\n</think>\\n\\n' + content -%}{%- endif -%}" + turn("content")
)
"""As Qwen3's: earlier reasoning is dropped, and a last reply without any is given an empty one."""
TRIMS = loop(turn("(message.content | trim)"))
"""As Llama 3's."""
MOVES_SYSTEM = LAST_USER + loop(
    "{%- set moved = loop.index0 == last.user and messages[0].role == 'system' -%}"
    "{%- if message.role != 'system' -%}"
    + turn("(messages[0].content + '\\n' if moved else '') + message.content")
    + "{%- endif -%}"
)
"""As Mistral's: the system's words stand in the last user turn."""
THINK = "<think>\nhm\n</think>\n\nneutral"


def chat(template: str | None) -> ChatRenderer:
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.chat_template = template
    return ChatRenderer(tokenizer)


def encode(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text))


def text_of(tokens: tuple[int, ...]) -> str:
    return TOKENIZER.decode(list(tokens))


def system(content: str) -> Message:
    return Message(role=Role.SYSTEM, content=content)


def user(content: str) -> Message:
    return Message(role=Role.USER, content=content)


def reply(content: str) -> Message:
    return Message(role=Role.ASSISTANT, content=content)


def test_dropping_an_earlier_reply_s_reasoning_is_caught_when_extending() -> None:
    renderer = chat(DROPS_REASONING)
    prompt = renderer.build_generation_prompt([user("q")])
    with pytest.raises(InputError, match="earlier reply") as caught:
        renderer.extend(prompt, (*encode(THINK), END), [user("sure?")])
    assert "renderer=plain" in str(caught.value)
    assert str(caught.value).count("\n") <= 4


def test_dropping_an_earlier_reply_s_reasoning_is_caught_when_rendering_the_history() -> None:
    history = [user("q"), reply(THINK), user("sure?")]
    with pytest.raises(InputError, match="assistant's"):
        chat(DROPS_REASONING).build_generation_prompt(history)
    with pytest.raises(InputError, match="assistant's"):
        chat(DROPS_REASONING).build_supervised_example([*history, reply("yes")])


def test_a_reply_without_reasoning_extends_under_the_same_template() -> None:
    renderer = chat(DROPS_REASONING)
    prompt = renderer.build_generation_prompt([user("q")])
    longer = renderer.extend(prompt, (*encode("neutral"), END), [user("sure?")])
    assert text_of(longer) == (
        "<|user|>\nq<|end|>\n<|assistant|>\nneutral<|end|>\n<|user|>\nsure?<|end|>\n<|assistant|>\n"
    )


def test_what_a_template_puts_before_the_last_reply_is_part_of_the_reply() -> None:
    tokens, weights = chat(DROPS_REASONING).build_supervised_example([user("q"), reply("neutral")])
    start = weights.index(1.0)
    assert text_of(tokens[:start]) == "<|user|>\nq<|end|>\n<|assistant|>\n"
    assert text_of(tokens[start:]) == "<think>\n\n</think>\n\nneutral<|end|>"


def test_white_space_around_a_content_is_the_template_s_to_trim() -> None:
    renderer = chat(TRIMS)
    tokens, weights = renderer.build_supervised_example([user(" q\n"), reply("\n a b \n")])
    start = weights.index(1.0)
    assert text_of(tokens) == "<|user|>\nq<|end|>\n<|assistant|>\na b<|end|>"
    longer = renderer.extend(tokens[:start], (*encode(" a b\n"), END), [user("so? ")])
    assert text_of(longer) == (
        "<|user|>\nq<|end|>\n<|assistant|>\n a b\n<|end|>\n<|user|>\nso?<|end|>\n<|assistant|>\n"
    )


def test_a_reply_that_begins_with_a_line_break_keeps_the_prompt_s_tokens() -> None:
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.add_tokens(["\n\n"])
    tokenizer.chat_template = loop(turn("message.content"))
    renderer = ChatRenderer(tokenizer)
    prompt = renderer.build_generation_prompt([user("q")])
    tokens, weights = renderer.build_supervised_example([user("q"), reply("\nyes")])
    merged = tokenizer.encode("<|user|>\nq<|end|>\n<|assistant|>\n\nyes<|end|>\n")
    assert tuple(merged[: len(prompt)]) != prompt
    assert tokens == (*prompt, *encode("\nyes"), END)
    assert sum(weights) == len(tokens) - len(prompt)


def test_a_tokenizer_that_adds_spaces_to_a_lone_reply_is_caught() -> None:
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.add_tokens(["\n\n"])
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    tokenizer.chat_template = loop(turn("message.content"))
    with pytest.raises(InputError, match="tokenised"):
        ChatRenderer(tokenizer).build_supervised_example([user("q"), reply("\nyes")])


def test_moving_the_system_s_words_is_caught() -> None:
    renderer = chat(MOVES_SYSTEM)
    renderer.build_supervised_example([system("rules"), user("q"), reply("a")])
    with pytest.raises(InputError, match="field: messages = 'q'"):
        renderer.build_generation_prompt([system("rules"), user("q"), reply("a"), user("r")])


def test_a_prompt_that_changes_once_the_reply_is_there_is_caught() -> None:
    renderer = chat(loop(turn("message.content")).replace("<|assistant|>", "<|assistant|><think>"))
    renderer.build_generation_prompt([user("q")])
    with pytest.raises(InputError, match="before a reply"):
        renderer.build_supervised_example([user("q"), reply("a")])
    with pytest.raises(InputError, match="earlier reply"):
        renderer.extend(encode("q"), (*encode("a"), END), [user("r")])


def test_replacing_words_inside_a_content_is_caught() -> None:
    renderer = chat(loop(turn("(message.content | replace('b', 'c'))")))
    with pytest.raises(InputError, match="user's"):
        renderer.build_generation_prompt([user("abba")])


def test_a_reply_that_the_template_leaves_out_is_caught_even_if_its_words_stand_elsewhere() -> None:
    template = loop(turn("('' if message.content == 'assistant' else message.content)"))
    with pytest.raises(InputError, match="assistant's"):
        chat(template).build_supervised_example([user("q"), reply("assistant")])


def test_a_template_s_own_refusal_names_the_roles() -> None:
    renderer = ChatRenderer(TOKENIZER)
    strict = chat(
        "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system') }}{%- endif -%}"
        + loop(turn("message.content"))
    )
    assert renderer.build_generation_prompt([system("s"), user("q")])
    with pytest.raises(InputError, match="no system") as caught:
        strict.build_generation_prompt([system("s"), user("q")])
    assert "['system', 'user']" in str(caught.value)


def test_the_tokenizer_s_end_token_ends_a_reply_too_and_the_turn_is_closed_after_it() -> None:
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.eos_token = "<|pad|>"
    renderer = ChatRenderer(tokenizer)
    assert renderer.stop_sequences() == (END,)
    parsed = renderer.parse_response((*encode("a"), PAD))
    assert (parsed.message, parsed.outcome) == (reply("a"), ResponseOutcome.OK)
    prompt = renderer.build_generation_prompt([user("q")])
    longer = renderer.extend(prompt, (*encode("a"), PAD), [user("r")])
    assert text_of(longer) == "<|user|>q<|end|><|assistant|>a<|pad|><|end|><|user|>r<|end|><|assistant|>"


def test_a_printed_date_does_not_follow_the_clock() -> None:
    dated = (
        "{%- if date_string is not defined -%}{%- set date_string = strftime_now('%Y') -%}"
        "{%- endif -%}{{- date_string }}"
    )
    prompt = chat(dated + loop(turn("message.content"))).build_generation_prompt([user("q")])
    assert text_of(prompt).startswith("26 Jul 2024<|user|>")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template"),
        ("{{- strftime_now('%Y') }}" + loop(turn("message.content")), "prints today's date"),
        (loop("{{- message.role + ': ' + message.content + '\\n' }}"), "ends a reply with no token"),
        ("{{- raise_exception('never') }}", "refuses these messages: never"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_once(template: str | None, message: str) -> None:
    with pytest.raises(TinsmithError, match=message) as caught:
        chat(template)
    assert isinstance(caught.value, ConfigError | InputError)
    assert "  do: " in str(caught.value)
