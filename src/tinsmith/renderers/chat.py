"""The renderer that follows the tokenizer's own chat template, and proves that it may.

A template is a program: it may trim, reorder or rewrite what it is given. White space around a
content is left to it; anything else has to appear word for word and in order, and text that was
rendered once has to stay. Where a template breaks this, an `InputError` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from tinsmith.renderers.codec import Codec
from tinsmith.renderers.renderer import Message, ParsedResponse, Role, require_prompt, split_supervised
from tinsmith.types.errors import ConfigError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DATE = "26 Jul 2024"
"""Today, for templates that print it: Llama 3.1's own default. No result depends on the clock."""

_PROBE = Message(role=Role.USER, content="probe")
_FIX = "use renderer=plain, or a chat_template.jinja that keeps every turn as it was written"


class ChatRenderer:
    """See `Renderer`. `extend` is given no history: it checks every reply as it comes by."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._codec = Codec(tokenizer)
        self._require_repeatable_template()
        self._probe_prompt = self._apply((_PROBE,), open_reply=True)
        self._stop = self._find_stop()
        self._stop_text = self._codec.decode((self._stop,))
        end = tokenizer.eos_token_id
        self._ends = (self._stop, end) if isinstance(end, int) else (self._stop,)

    def build_generation_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the template's tokens, up to where the reply begins.

        Raises:
            InputError: if there is nothing to reply to, a control token in a content, or the
                template refuses or rewrites the messages.
        """
        require_prompt(messages)
        return self._codec.encode(self._render(messages, open_reply=True))

    def build_supervised_example(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return prompt, reply and its stop token; the weight is 1.0 on the last two.

        The reply's tokens are those of the whole text after the prompt's. Where the tokenizer would
        merge across that border (a reply that begins with a line break), which sampling never
        does, the reply is encoded by itself.

        Raises:
            InputError: as `build_generation_prompt`; also if the last message is not a reply, or
                if the template changes the prompt once the reply stands after it.
        """
        before, reply = split_supervised(messages)
        prompt_text = self._render(before, open_reply=True)
        text = self._render(messages, open_reply=False)
        if not text.startswith(prompt_text):
            raise _rewritten("the text before a reply once the reply is there", prompt_text)
        _require_verbatim((reply,), text[len(prompt_text) :])
        prompt, whole = self._codec.encode(prompt_text), self._codec.encode(text)
        if whole[: len(prompt)] != prompt:
            border = prompt + self._codec.encode(text[len(prompt_text) :])
            if self._codec.decode(border) != self._codec.decode(whole):
                raise _rewritten("the reply when it is tokenised after its prompt", prompt_text)
            whole = border
        end = whole.index(self._stop, len(prompt)) + 1
        return whole[:end], (0.0,) * len(prompt) + (1.0,) * (end - len(prompt))

    def stop_sequences(self) -> tuple[int, ...]:
        """Return the token with which the template ends a reply."""
        return (self._stop,)

    def parse_response(self, tokens: Sequence[int]) -> ParsedResponse:
        """Return everything before the stop token, or the tokenizer's end token, as the reply."""
        return self._codec.parse(tokens, stops=self._ends)

    def extend(
        self, prompt_tokens: Sequence[int], response_tokens: Sequence[int], next_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        """Return prompt, response, the stop token if it is missing, and the next turns' tokens.

        Raises:
            InputError: as `build_generation_prompt`; also if the template would show the reply in
                another form now that turns follow it, as those do that drop earlier reasoning.
        """
        require_prompt(next_messages)
        self._codec.refuse_control_tokens(next_messages)
        stopped = bool(response_tokens) and response_tokens[-1] == self._stop
        reply = self._codec.decode(response_tokens[:-1] if stopped else response_tokens)
        history = (_PROBE, Message(role=Role.ASSISTANT, content=reply), *next_messages)
        text = self._apply(history, open_reply=True)
        for part in (self._probe_prompt.lstrip(), reply.strip(), self._stop_text):
            text = text.lstrip()
            if not text.startswith(part):
                raise _rewritten("an earlier reply once turns follow it", reply)
            text = text[len(part) :]
        _require_verbatim(next_messages, text)
        closing = () if stopped else (self._stop,)
        return (*prompt_tokens, *response_tokens, *closing, *self._codec.encode(text))

    def _render(self, messages: Sequence[Message], *, open_reply: bool) -> str:
        self._codec.refuse_control_tokens(messages)
        text = self._apply(messages, open_reply=open_reply)
        _require_verbatim(messages, text)
        return text

    def _apply(self, messages: Sequence[Message], *, open_reply: bool) -> str:
        shown = [{"role": message.role.value, "content": message.content} for message in messages]
        return apply_template(self._tokenizer, shown, add_generation_prompt=open_reply)

    def _require_repeatable_template(self) -> None:
        try:
            template = self._tokenizer.get_chat_template()
        except ValueError:
            raise ConfigError(
                "this tokenizer has no chat template",
                field="renderer",
                value="chat",
                fix="use renderer=plain, or put a chat_template.jinja into the model folder",
            ) from None
        if "strftime_now" in template and "date_string" not in template:
            raise ConfigError(
                "this chat template prints today's date, so no run would repeat",
                field="chat_template",
                value="strftime_now",
                fix="write a fixed date into the model folder's chat_template.jinja",
            )

    def _find_stop(self) -> int:
        reply = Message(role=Role.ASSISTANT, content="reply")
        text = self._apply((_PROBE, reply), open_reply=False)
        tail = self._codec.encode(text.rpartition(reply.content)[2])
        stop = next((token for token in tail if token in self._codec.control), None)
        if stop is None:
            raise ConfigError(
                "this chat template ends a reply without a control token",
                field="renderer",
                value="chat",
                fix="use renderer=plain, or a chat template that ends a turn with one",
            )
        return stop


def apply_template(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, object]], **options: object
) -> str:
    """Return what the tokenizer's chat template makes of `messages`; the date is fixed unless `options` hold one.

    Raises:
        InputError: with the template's own words, where it refuses them.
    """
    from jinja2 import TemplateError

    apply = cast("Callable[..., object]", tokenizer.apply_chat_template)
    try:
        text = apply([dict(message) for message in messages], tokenize=False, **{"date_string": DATE, **options})
    except TemplateError as error:
        raise InputError(
            f"the chat template refuses these messages: {error}",
            field="messages",
            value=[message["role"] for message in messages],
            fix="give the roles in the order it wants, or use renderer=plain",
        ) from error
    assert isinstance(text, str)
    return text


def _require_verbatim(messages: Sequence[Message], text: str) -> None:
    position = 0
    for message in messages:
        content = message.content.strip()
        found = text.find(content, position)
        if found < 0:
            raise _rewritten(f"or moves the {message.role.value}'s words", content)
        position = found + len(content)


def _rewritten(what: str, value: str) -> InputError:
    return InputError(f"this chat template rewrites {what}", field="messages", value=value, fix=_FIX)
