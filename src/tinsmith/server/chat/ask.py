"""Chat request in a form common to all protocols."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

from tinsmith.renderers.turns import Opening, Speaker, Tool, Turn
from tinsmith.server.openai.text import Shown
from tinsmith.server.wire.requests import Sample
from tinsmith.server.wire.settings import Prompt, PromptChunk, SamplingSettings
from tinsmith.types.errors import InputError


class Choice(StrEnum):
    """Choice of tools."""

    AUTO = auto()
    """The model decides."""
    NONE = auto()
    """No calls: the template gets no tools, and nothing is parsed as a call."""
    REQUIRED = auto()
    """The reply must be calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Functions that a reply may call, and the choice among them."""

    offered: tuple[Tool, ...] = ()
    choice: Choice = Choice.AUTO
    named: str | None = None
    """The one function that must be called."""
    parallel: bool = True
    """True if a reply may contain several calls."""

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.offered]
        if len(set(names)) < len(names):
            raise InputError("two tools have one name", field="tools", value=names, allowed="a name for each")
        for i, tool in enumerate(self.offered):
            kind = (tool.parameters or {}).get("type", "object")
            if kind != "object":
                raise InputError(
                    "the arguments of a function are a JSON object",
                    field=f"tools[{i}]",
                    value=kind,
                    allowed="a schema of type object",
                )
        if self.named is not None and self.named not in names:
            raise InputError(
                "the tool to be called is not among the tools",
                field="tool_choice",
                value=self.named,
                allowed=", ".join(names) or "none, as there are no tools",
            )
        if self.choice is Choice.REQUIRED and not names:
            raise InputError(
                "a call is required, and there are no tools",
                field="tool_choice",
                value="required",
                allowed="auto or none, or with tools",
            )

    @property
    def shown(self) -> tuple[Tool, ...]:
        """Tools passed to the template."""
        return () if self.choice is Choice.NONE else self.offered

    @property
    def callable(self) -> tuple[Tool, ...]:
        """Tools that the reply may call."""
        return tuple(tool for tool in self.shown if self.named in (None, tool.name))

    @property
    def constrained(self) -> bool:
        """True if an unconstrained reply could violate the request."""
        strict = any(tool.strict for tool in self.shown)
        return bool(self.shown) and (self.choice is Choice.REQUIRED or strict or not self.parallel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Chat request."""

    model: str
    turns: tuple[Turn, ...]
    sample: Callable[[tuple[int, ...]], Sample]
    """Function from a prompt's tokens to the engine's request."""
    tools: Tools = field(default_factory=Tools)
    opening: Opening = Opening.REPLY
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Variables for the model's own chat template."""
    thinks: bool | None = None
    """False turns thinking off, if the template supports it (`enable_thinking`)."""
    stops: tuple[str, ...] = ()
    """Stop texts."""
    stop_tokens: tuple[int, ...] = ()
    """Stop tokens, besides the template's."""
    ends: bool = True
    """True if the reply ends where the model ends it."""
    shown: Shown = field(default_factory=Shown)
    format_name: str | None = None
    """Name of the parameter with the reply's format; None if there is none."""
    turns_name: str = "messages"
    """Name of the parameter with the conversation."""
    only_prompt: bool = False
    """True if nothing is drawn, and only the prompt is returned."""

    @property
    def num_letters(self) -> int:
        """Least number of characters that the model is to read."""
        calls = (call.arguments for turn in self.turns for call in turn.calls)
        tools = (tool.parameters for tool in self.tools.shown)
        texts = (turn.content for turn in self.turns)
        return sum(map(len, texts)) + sum(len(json.dumps(each, default=dict)) for each in (*calls, *tools))


def sample_with(settings: SamplingSettings, *, only_prompt: bool = False) -> Callable[[tuple[int, ...]], Sample]:
    """Return a function that requests one sample with these settings; with `only_prompt`, without room for a token."""

    def sample(prompt: tuple[int, ...]) -> Sample:
        silent = only_prompt and len(prompt) > 1
        return Sample(
            sampling_session_id="",
            seq_id=0,
            prompt=Prompt(chunks=(PromptChunk(tokens=prompt),)),
            sampling_params=settings.model_copy(update={"max_tokens": 0}) if silent else settings,
            prompt_logprobs=silent or None,
        )

    return sample


def opening_after(turns: tuple[Turn, ...]) -> Opening:
    """Continue a final reply; after any other turn, open a new one."""
    ended = bool(turns) and turns[-1].speaker is Speaker.ASSISTANT and not turns[-1].calls
    return Opening.CONTINUED if ended else Opening.REPLY
