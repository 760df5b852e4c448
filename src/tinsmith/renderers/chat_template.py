"""Chat template of a tokenizer: with or without tools, in this process or in a bounded one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tinsmith.renderers.templates import DATE, Render, compiled, failed
from tinsmith.renderers.turns import Opening
from tinsmith.types.errors import ConfigError, InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Shown = Mapping[str, object]
"""Message or tool in the form for templates."""

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""Mark at the end of a reply to be continued, as in transformers."""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Chat template, and the special tokens that it may print by name."""

    source: str
    special_tokens: Mapping[str, object]
    render: Render

    def apply(
        self,
        messages: Sequence[Shown],
        *,
        tools: Sequence[Shown] = (),
        opening: Opening = Opening.NOTHING,
        options: Mapping[str, object] | None = None,
    ) -> str:
        """Render `messages`; the date is fixed unless `options` contain one.

        Raises:
            InputError: with the template's own message and its line, if it rejects them.
        """
        continued = opening is Opening.CONTINUED
        plain_messages = [dict(message) for message in messages]
        final = f"{plain_messages[-1]['content']}" if continued else ""
        if continued:
            plain_messages[-1]["content"] = final + _TAG
        variables = {
            **self.special_tokens,
            "date_string": DATE,
            **(options or {}),
            "messages": plain_messages,
            "tools": [dict(tool) for tool in tools] or None,
            "documents": None,
            "add_generation_prompt": opening is Opening.REPLY,
        }
        try:
            text = self.render(variables)
            return _cut(text, final) if continued else text
        except InputError as error:
            roles = [message["role"] for message in messages]
            raise InputError(error.what, field="messages", value=roles, allowed=error.allowed, fix=error.fix) from error

    def mentions(self, option: str) -> bool:
        """True if the template reads a variable of this name."""
        return re.search(rf"\b{re.escape(option)}\b", self.source) is not None


def template_of(
    tokenizer: PreTrainedTokenizerBase, *, tools: bool = False, prepare: Callable[[str], Render] = compiled
) -> ChatTemplate:
    """Return the template that transformers would choose for messages with `tools`, or without.

    `prepare` creates its renderer: in this process, or in a separate one.

    Raises:
        ConfigError: the tokenizer has none.
        InputError: it is not a valid template.
    """
    try:
        source = cast("object", tokenizer.get_chat_template(tools=[] if tools else None))
    except ValueError:
        several = sorted(tokenizer.chat_template) if isinstance(tokenizer.chat_template, dict) else []
        raise ConfigError(
            "this tokenizer has no chat template" + (" for messages without tools" if several else ""),
            field="renderer",
            value=several or "chat",
            allowed="a template, or several of which one is named default",
            fix="use renderer=plain, or put a chat_template.jinja into the model folder",
        ) from None
    if not isinstance(source, str):
        raise ConfigError("a chat template is a text", field="chat_template", value=source, allowed="a text of Jinja")
    special = {name: value if isinstance(value, list) else str(value) for name, value in _special(tokenizer).items()}
    return ChatTemplate(source, special, prepare(source))


def _special(tokenizer: PreTrainedTokenizerBase) -> Mapping[str, object]:
    return tokenizer.special_tokens_map


def _cut(text: str, final: str) -> str:
    """Cut a text behind the reply to be continued.

    Raises:
        InputError: the template left it out.
    """
    at = text.rfind(_TAG.strip())
    if at < 0 or final.strip() not in text:
        raise failed("it leaves out the reply that is to be continued", None)
    return text[:at] if text[at : at + len(_TAG)] == _TAG else text[:at].rstrip()
