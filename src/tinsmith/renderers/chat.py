"""Renderer that follows the tokenizer's own chat template, and verifies that this is safe.

A template is a program: it may trim, reorder or rewrite its input. It may change white space around a content; anything
else must appear word for word and in order, and rendered text must not change later. A template that breaks this causes
an `InputError`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tinsmith.renderers.chat_template import ChatTemplate, template_of
from tinsmith.renderers.codec import Codec
from tinsmith.renderers.renderer import Message, ParsedResponse, Role, require_prompt, split_supervised
from tinsmith.renderers.turns import Opening, Tool
from tinsmith.types.errors import ConfigError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PROBE = Message(role=Role.USER, content="probe")
_PROBE_REPLY = Message(role=Role.ASSISTANT, content="reply")
_PROBE_SYSTEM = Message(role=Role.SYSTEM, content="rules")
_FIX = "use renderer=plain, or a chat_template.jinja that keeps every turn as it was written"


class ChatRenderer:
    """`Renderer` of a chat template. `extend` needs no history: it checks every reply as it comes."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        template: ChatTemplate | None = None,
        end_tokens: Collection[int] = (),
        tools: Sequence[Tool] = (),
    ) -> None:
        """Follow `template`, by default the tokenizer's for messages without tools.

        `end_tokens` are the model's own, besides the tokenizer's; `tools` are passed to a template that supports them.

        Raises:
            ConfigError, InputError: it is not usable.
        """
        self._tokenizer = tokenizer
        self.codec = Codec(tokenizer)
        """Tokenizer with the template's marks as control tokens."""
        self._template = template_of(tokenizer) if template is None else template
        self._tools = [tool.shown() for tool in tools]
        self._require_repeatable_template()
        self._probe_prompt = self._apply((_PROBE,), Opening.REPLY)
        end = tokenizer.eos_token_id
        own = (end,) if isinstance(end, int) else ()
        self._stop = self._find_stop({*own, *end_tokens})
        self._stop_text = self.codec.decode((self._stop,))
        self._ends = (self._stop, *own)
        self._follows = self._reads_on()

    def build_generation_prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the template's tokens up to the start of the reply.

        Raises:
            InputError: if there is nothing to reply to, a control token in a content, or the template rejects or
                rewrites the messages.
        """
        require_prompt(messages)
        return self.codec.encode(self._render(messages, Opening.REPLY))

    def build_supervised_example(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return prompt, reply and its stop token; the weight is 1.0 on the last two.

        The reply's tokens are those of the whole text after the prompt's. If the tokenizer would merge across that
        border (a reply that begins with a line break), which sampling never does, the reply is encoded separately.

        Raises:
            InputError: see `build_generation_prompt`; also if the last message is not a reply, or if the template
                changes the prompt once a reply follows it.
        """
        before, reply = split_supervised(messages)
        prompt_text = self._render(before, Opening.REPLY)
        text = self._render(messages, Opening.NOTHING)
        if not text.startswith(prompt_text):
            raise _rewritten("the text before a reply once the reply is there", prompt_text)
        _require_verbatim((reply,), text[len(prompt_text) :])
        prompt, whole = self.codec.encode(prompt_text), self.codec.encode(text)
        if whole[: len(prompt)] != prompt:
            border = prompt + self.codec.encode(text[len(prompt_text) :])
            if self.codec.decode(border) != self.codec.decode(whole):
                raise _rewritten("the reply when it is tokenised after its prompt", prompt_text)
            whole = border
        if self._stop not in whole[len(prompt) :]:
            raise self._unread_stop(reply.content)
        end = whole.index(self._stop, len(prompt)) + 1
        return whole[:end], (0.0,) * len(prompt) + (1.0,) * (end - len(prompt))

    def stop_sequences(self) -> tuple[int, ...]:
        """Return the token that ends a reply in the template."""
        return (self._stop,)

    def parse_response(self, tokens: Sequence[int]) -> ParsedResponse:
        """Return everything before the stop token, or the tokenizer's end token, as the reply.

        A space that the tokenizer's decoder strips from the start of a text is part of the reply where the prompt ends
        in text.
        """
        return self.codec.parse(tokens, stops=self._ends, follows=self._follows)

    def extend(
        self, prompt_tokens: Sequence[int], response_tokens: Sequence[int], next_messages: Sequence[Message]
    ) -> tuple[int, ...]:
        """Return prompt, response, the stop token if it is missing, and the next turns' tokens.

        Raises:
            InputError: see `build_generation_prompt`; also if the template changes the reply once turns follow it, as
                templates do that drop earlier reasoning.
        """
        require_prompt(next_messages)
        self._require_usable(next_messages)
        stopped = bool(response_tokens) and response_tokens[-1] == self._stop
        reply = self.codec.decode(response_tokens[:-1] if stopped else response_tokens)
        history = (_PROBE, Message(role=Role.ASSISTANT, content=reply), *next_messages)
        text = self._apply(history, Opening.REPLY)
        for part in (self._probe_prompt.lstrip(), reply.strip(), self._stop_text):
            text = text.lstrip()
            if not text.startswith(part):
                raise _rewritten("an earlier reply once turns follow it", reply)
            text = text[len(part) :]
        _require_verbatim(next_messages, text)
        # With the stop token before it: tokenizers read a beginning otherwise, and marks may take in white space.
        following = self.codec.encode(self._stop_text + text)
        if following[:1] != (self._stop,):
            raise self._unread_stop(reply)
        return (*prompt_tokens, *(response_tokens[:-1] if stopped else response_tokens), *following)

    def _render(self, messages: Sequence[Message], opening: Opening) -> str:
        self._require_usable(messages)
        text = self._apply(messages, opening)
        _require_verbatim(messages, text)
        return text

    def _apply(self, messages: Sequence[Message], opening: Opening) -> str:
        shown = [{"role": message.role.value, "content": message.content} for message in messages]
        return self._template.apply(shown, tools=self._tools, opening=opening)

    def _require_usable(self, messages: Sequence[Message]) -> None:
        self.codec.refuse_control_tokens(messages)
        if not self._keeps_system and any(message.role is Role.SYSTEM for message in messages):
            raise InputError(
                "this chat template moves a system message once turns follow it",
                field="messages",
                value=[message.role.value for message in messages],
                allowed="user, assistant",
                fix="put the system's words into the first user message, or use renderer=plain",
            )

    @cached_property
    def _keeps_system(self) -> bool:
        """True if a system message stays where it is, so that earlier tokens remain as they are."""
        first, later = (_PROBE_SYSTEM, _PROBE), (_PROBE, _PROBE_REPLY, _PROBE)
        try:
            text, other = (self._apply(each, Opening.REPLY) for each in ((_PROBE_SYSTEM, *later), later))
            begins = any(text.startswith(self._apply(first, each)) for each in (Opening.REPLY, Opening.NOTHING))
        except InputError:
            return True  # the template's own refusal is raised where such messages are rendered
        return begins and text.rpartition(_PROBE_REPLY.content)[2] == other.rpartition(_PROBE_REPLY.content)[2]

    def _reads_on(self) -> bool:
        """Return True if a reply's first token is text after the prompt's text, and not the beginning of a text.

        A space that the template itself prints before a reply is none of the reply's.
        """
        replied = self._apply((_PROBE, _PROBE_REPLY), Opening.NOTHING)
        if not replied.startswith(self._probe_prompt + _PROBE_REPLY.content):
            return False
        prompt, whole = self.codec.encode(self._probe_prompt), self.codec.encode(self._probe_prompt + "a")
        if whole[: len(prompt)] != prompt:
            return prompt[-1] not in self.codec.control
        return self.codec.decode(whole[len(prompt) :], follows=True) == "a"

    def _unread_stop(self, reply: str) -> InputError:
        return InputError(
            f"this tokenizer does not read {self._stop_text}, which ends a reply, as a token beside this text",
            field="messages",
            value=reply,
            fix="use renderer=plain, or correct the mark in tokenizer.json (single_word)",
        )

    def _require_repeatable_template(self) -> None:
        if self._template.mentions("strftime_now") and not self._template.mentions("date_string"):
            raise ConfigError(
                "this chat template prints today's date, so no run would repeat",
                field="chat_template",
                value="strftime_now",
                fix="write a fixed date into the model folder's chat_template.jinja",
            )

    def _find_stop(self, ends: Collection[int]) -> int:
        """Return the token that ends a reply in the template; an ordinary one if the model ends replies with it.

        The marks of such a template are ordinary tokens too; they become control tokens.
        """
        text = self._apply((_PROBE, _PROBE_REPLY), Opening.NOTHING)
        tail = self.codec.encode(text.rpartition(_PROBE_REPLY.content)[2])
        stop = next((token for token in tail if token in self.codec.control or token in ends), None)
        if stop is None:
            raise ConfigError(
                "this chat template ends a reply with no token that ends a text",
                field="chat_template",
                value=text[-40:],
                allowed="a special token, or one of the config's eos_token_id",
                fix="name it in eos_token_id of generation_config.json, or use renderer=plain",
            )
        if stop not in self.codec.control:
            printed = self.codec.encode(self._probe_prompt + text)
            self.codec = Codec(self._tokenizer, marks={token for token in printed if token in self.codec.added})
        return stop


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
