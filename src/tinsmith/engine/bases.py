"""Interface of every engine, whether local or distributed: the base models it serves, their sessions and samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from tinsmith.engine.cache import PagePool
from tinsmith.engine.cluster.freed_memory import give_back_freed_memory
from tinsmith.engine.grammars import CompiledGrammar, Grammars, compile_grammar
from tinsmith.engine.parts import Parts
from tinsmith.engine.sampled_routes import SampledRoutes
from tinsmith.engine.sequences import Group, Policy, TokenBytes
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.validation import check_request
from tinsmith.models.base import BaseModel, OpenedBase
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.published.packaged import PREFIX
from tinsmith.ops.kernels import Kernels
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tokenizer import has_tokenizer, load_tokenizer, preset_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.model_names import ENDINGS, SUFFIXES
from tinsmith.types.sampling import SampleRequest


class ServesRequests(Protocol):
    """Sampler of one base model, as driven by a server."""

    def submit(self, request: SampleRequest, policy: Policy, *, owner: str = "") -> Group:
        """Queue a request behind others of its `owner`; its `result` is set by a later `step`.

        Raises:
            InputError: for one that cannot be served.
        """
        ...

    def cancel(self, group: Group) -> None:
        """Drop a request and free its resources; its result stays None."""
        ...

    def step(self) -> list[Group]:
        """Advance all active requests by one step; return those that ended."""
        ...

    @property
    def busy(self) -> bool:
        """True if there are unfinished requests."""
        ...

    @property
    def num_running(self) -> int:
        """Number of samples being decoded."""
        ...

    @property
    def cache(self) -> PagePool | None:
        """KV cache of the sampler; None if it has no single one."""
        ...


class Bases(ABC):
    """Served base models. Any thread may call its methods, except those that create something."""

    kernels: Kernels
    parts: Parts
    gradient_unit: GradientUnit
    _opened: dict[str, OpenedBase]

    @cached_property
    def _texts(self) -> Mapping[str, Callable[[], ModelText] | None]:
        """Loader of each base's tokenizer, run on first use; None if the base has none."""
        return {name: _text_loader(base) for name, base in self._opened.items()}

    @cached_property
    def _grammars(self) -> Mapping[str, Grammars | None]:
        """Grammar compiler of every base; None where it has no tokenizer."""
        loaders = self._texts
        return {name: None if load is None else Grammars(self.config(name), load) for name, load in loaders.items()}

    @cached_property
    def sampled_routes(self) -> SampledRoutes:
        """Experts chosen for sampled sequences, for bases that are mixtures."""
        return SampledRoutes()

    @property
    def names(self) -> tuple[str, ...]:
        """The served base models."""
        return tuple(self._opened)

    def base(self, name: str) -> BaseModel:
        """Identity of a served base model.

        Raises:
            ConfigError: naming the served ones.
        """
        return self._base(name).identity

    def config(self, name: str) -> DecoderConfig:
        """Shape of a served base model.

        Raises:
            ConfigError: naming the served ones.
        """
        return self._base(name).config

    def folder(self, name: str) -> Path | None:
        """Return the folder of a served base's tokenizer; None for a built-in model or a folder without one."""
        folder = self._base(name).folder
        return folder if folder is not None and has_tokenizer(folder) else None

    def text(self, name: str) -> ModelText:
        """Return the text side of a served base model; its tokenizer is loaded on first use.

        Raises:
            InputError: it has no tokenizer.
            ConfigError: for a model that is not served.
        """
        self._base(name)
        load = self._texts[name]
        if load is None:
            raise InputError(
                "this model has no tokenizer, so text cannot be read or written",
                field="model",
                value=name,
                fix="put a tokenizer into the model's folder, or use the Tinker API",
            )
        return load()

    def give_back(self) -> None:
        """Return free memory to the operating system, here and on workers."""
        give_back_freed_memory()

    def _token_bytes(self, name: str) -> TokenBytes | None:
        """Return the reader of tokens' bytes for a base's stop strings; None where it has no tokenizer."""
        load = self._texts[name]
        return None if load is None else lambda token: load().bytes_of(token)

    @abstractmethod
    def certificate_sha256(self, name: str) -> str | None:
        """Identity of the certificate of a base's arithmetic; None if the arithmetic promises nothing."""

    @abstractmethod
    def decoder(self, name: str, *, quantised: bool = False) -> Decoder:
        """Decoder on which sessions and policies are created."""

    @abstractmethod
    def create_session(self, name: str, spec: AdapterSpec) -> TrainingSession:
        """Start training fresh weights on a base model.

        Raises:
            ConfigError: for a model that is not served.
        """

    @abstractmethod
    def prepare(self, session: TrainingSession) -> TrainingSession:
        """Configure a session to compute as this engine does."""

    @abstractmethod
    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Register callbacks: `wake` when a sampler has results to deliver, `tend` while a job waits for long."""

    def check_kind(self, kind: AdapterKind) -> None:
        """Reject a kind of training that this engine cannot compute. Any thread may call this.

        Raises:
            ConfigError: naming those that are.
        """
        del kind

    @abstractmethod
    def base_policy(self, name: str, *, quantised: bool = False) -> Policy:
        """Policy that samples from the base alone."""

    @abstractmethod
    def sampler(self, name: str) -> ServesRequests:
        """Sampler that serves this base model and everything trained on it."""

    @property
    @abstractmethod
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """Samplers created so far, by the base model's name."""

    def check(self, name: str, request: SampleRequest) -> int:
        """Refuse a request that cannot be served on this base model; return the most tokens one sample may have.

        Any thread may call this.

        Raises:
            InputError: naming the field.
            ConfigError: for a model that is not served.
        """
        max_tokens = check_request(request, self.config(name))
        compile_grammar(request, self._grammars[name])
        return max_tokens

    def compiled(self, name: str, request: SampleRequest) -> CompiledGrammar | None:
        """Return a request's compiled grammar; it is not recompiled while a reference exists. Any thread may call this.

        Raises:
            InputError: it does not compile.
        """
        return compile_grammar(request, self._grammars[name])

    def grammar_marks(self, name: str, spellings: Collection[str]) -> frozenset[str]:
        """Return the texts that a grammar on this base model must name as one token. Any thread may call this.

        Raises:
            InputError: its tokenizer cannot follow a grammar.
            ConfigError: for a model that is not served.
        """
        self._base(name)
        grammars = self._grammars[name]
        return frozenset() if grammars is None else grammars.marks(spellings)

    def _base(self, name: str) -> OpenedBase:
        if name not in self._opened:
            raise ConfigError(
                "this base model is not served here",
                field="base_model",
                value=name,
                allowed=f"{', '.join(self._opened)}, each also with {ENDINGS}",
                fix=f"an adapter is named so: {SUFFIXES}" if ":" in name else None,
            )
        return self._opened[name]


def _text_loader(base: OpenedBase) -> Callable[[], ModelText] | None:
    """Loader of the base's text, run on first use; None if it has no tokenizer."""
    folder, name, config = base.folder, base.identity.name, base.config
    if folder is not None and not has_tokenizer(folder):
        return None

    @cache
    def load() -> ModelText:
        preset = name.removeprefix(PREFIX)
        tokenizer = preset_tokenizer(preset) if folder is None else load_tokenizer(folder)
        return ModelText(tokenizer, num_rows=config.vocab_size, end_tokens=config.end_tokens)

    return load
