"""A chat's messages as OpenAI's clients write them; only text is understood."""

from __future__ import annotations

from pydantic import ConfigDict

from tinsmith.renderers.renderer import Message, Role
from tinsmith.server.body import Request
from tinsmith.types.errors import InputError


class Part(Request):
    """A piece of a message; only text is understood."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str
    text: str | None = None


class ChatMessage(Request):
    """One turn."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    role: str
    content: str | list[Part] | None = None

    def message(self, index: int) -> Message:
        """Return the turn as the renderer takes it.

        Raises:
            InputError: for another role, or for what is not text.
        """
        where = f"messages[{index}]"
        if self.role not in tuple(Role):
            raise unread(f"{where}.role", self.role, ", ".join(Role))
        for name, value in (self.model_extra or {}).items():
            if value not in (None, [], ""):
                raise unread(f"{where}.{name}", value, "role and content")
        if isinstance(self.content, str):
            return Message(role=Role(self.role), content=self.content)
        text = ""
        for i, part in enumerate(self.content or ()):
            if part.type != "text" or part.text is None:
                raise unread(f"{where}.content[{i}].type", part.type, "text")
            text += part.text
        if not self.content:
            raise unread(f"{where}.content", self.content, "a text, or parts of type text")
        return Message(role=Role(self.role), content=text)


def unread(field: str, value: object, allowed: str) -> InputError:
    """The refusal of what is not text."""
    return InputError("only text can be read here", field=field, value=value, allowed=allowed)
