"""Models by name on `/v1` and its neighbours: weights, and the tokenizer that belongs to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from tinsmith.renderers.model_text import ModelText
from tinsmith.server.access.caller import DEFAULT, caller
from tinsmith.server.chat.delivery import Draws
from tinsmith.server.direct import Direct, Found, Requests
from tinsmith.server.openai.answers import Json, ModelNotFoundError, model_entry
from tinsmith.server.openai.grammars import as_parameter_error
from tinsmith.server.service import Service
from tinsmith.server.wire.client_names import CHAT, as_sent
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import InputError, TinsmithError, perhaps
from tinsmith.types.model_names import ModelName

T = TypeVar("T")

_AT_ONCE = 2
"""Chats per key and model that are rendered concurrently."""


@dataclass(slots=True)
class Served:
    """Served base models and checkpoints, and the loaded tokenizers by base model."""

    service: Service
    direct: Direct
    texts: dict[str, ModelText] = field(default_factory=dict[str, ModelText])
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    renderers: dict[str, ThreadPoolExecutor] = field(default_factory=dict[str, ThreadPoolExecutor])
    """Threads that wait for a base model's chat template, and do nothing else."""
    turns: dict[tuple[str, str], asyncio.Semaphore] = field(default_factory=dict[tuple[str, str], asyncio.Semaphore])
    """Limit on concurrently rendered chats, by key and base model."""

    async def find(self, model: str | None) -> Found:
        """Load a model by name; None stands for the only base model that is served.

        Raises:
            ModelNotFoundError: there is no such model; the message lists the served ones.
        """
        names = self.service.engine.names
        try:
            if model is None and len(names) != 1:
                raise InputError("several models are served", field="model", value=None)
            return await self.direct.find(names[0] if model is None else model)
        except TinsmithError as error:
            raise self.unknown(error) from None

    def unknown(self, error: TinsmithError) -> ModelNotFoundError:
        """Return the error for a model that is not served."""
        names = self.service.engine.names
        meant = perhaps(str(error.value), names)
        lines = [str(as_sent(error, CHAT)), f"  served: {', '.join(names)}; and tinker:// paths of its checkpoints"]
        return ModelNotFoundError("\n".join([*lines, f"  do: {meant}"] if meant else lines))

    def entries(self) -> Mapping[str, Json]:
        """Return the entries of all available models: base models with every suffix, and checkpoints."""
        engine = self.service.engine
        entries: dict[str, Json] = {}
        for name in engine.names:
            length = engine.config(name).max_positions
            for kind in AdapterKind:
                model = name if kind is AdapterKind.LORA else f"{name}:{kind}"
                entries[model] = model_entry(model, 0.0, root=name, parent=None, length=length)
        for checkpoint in self.service.store.checkpoints():
            path, parent = str(checkpoint.path), checkpoint.base_model
            base = ModelName.parse(parent).base
            length = engine.config(base).max_positions if base in engine.names else None
            entries[path] = model_entry(path, checkpoint.created_at, root=path, parent=parent, length=length)
        return entries

    async def text(self, name: str) -> ModelText:
        """Return the text of base model `name`.

        Raises:
            InputError: it has no tokenizer.
        """
        if name in self.texts:
            return self.texts[name]
        async with self.loading:  # once
            if name not in self.texts:
                self.texts[name] = await asyncio.to_thread(self.service.engine.text, name)
            return self.texts[name]

    async def rendered(self, name: str, render: Callable[[], T]) -> T:
        """Render with base model `name`'s template, without delaying other models or other keys on this one."""
        if name not in self.renderers:
            self.renderers[name] = ThreadPoolExecutor(2 * _AT_ONCE, f"chats of {name}")
        turn = self.turns.setdefault((name, caller() or DEFAULT), asyncio.Semaphore(_AT_ONCE))
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(self.renderers[name], render)

    def require_fit(self, found: Found, text: ModelText, num_letters: int, *, field: str) -> None:
        """Reject a text too long for the context under any tokenisation, before it is tokenised.

        Raises:
            InputError: naming `field`.
        """
        length = self.service.engine.config(found.name).max_positions
        most = length * text.longest
        if num_letters > most:
            raise InputError(
                "a text cannot fit the model's context",
                field=field,
                value=f"{num_letters} letters",
                allowed=f"{length} tokens, of at most {text.longest} letters each",
            )

    def extra_stops(self, found: Found, stops: Iterable[int]) -> tuple[int, ...]:
        """Return those of `stops` at which the model does not stop by itself."""
        ends = self.service.engine.config(found.name).end_tokens
        return tuple(dict.fromkeys(token for token in stops if token not in ends))

    async def check(self, found: Found, requests: Requests, *, named: str | None) -> None:
        """Reject requests that cannot be sampled, before anything is drawn; grammar errors name the client's parameter.

        Raises:
            InputError: naming the field.
        """
        try:
            await self.direct.check(found, requests)
        except InputError as error:
            if named is None:
                raise
            raise as_parameter_error(error, named) from error

    def draws(self, found: Found, requests: Requests, stops: tuple[int, ...], *, watch: bool) -> Draws:
        """Sample and yield drawn tokens: on the way with `watch`, otherwise at the end.

        Raises:
            BusyError: the server is busy.
        """
        self.service.require_room()
        return self.direct.draw(found, requests, stop_tokens=stops, watch=watch)
