"""Interface of every engine, wherever it computes: the bases that it serves, and what is made on them."""

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
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.gradient import GradientUnit
from tinsmith.types.model_names import ENDINGS, SUFFIXES
from tinsmith.types.sampling import SampleRequest


class ServesRequests(Protocol):
    """A sampler of one base model, as a server drives it."""

    def submit(self, request: SampleRequest, policy: Policy, *, owner: str = "") -> Group:
        """Queue a request behind others of its `owner`; its `result` is set by a later `step`.

        Raises:
            InputError: for one that cannot be served.
        """
        ...

    def cancel(self, group: Group) -> None:
        """Drop a request, and free what it holds; its result stays None."""
        ...

    def step(self) -> list[Group]:
        """Go on with what is under way; return the requests that ended."""
        ...

    @property
    def busy(self) -> bool:
        """True if a step has anything to do."""
        ...

    @property
    def num_running(self) -> int:
        """Number of samples being decoded."""
        ...

    @property
    def cache(self) -> PagePool | None:
        """Its KV cache; None where it has none of its own."""
        ...


class Bases(ABC):
    """The base models that are served. Its methods may be called by any thread, but for those that make something."""

    kernels: Kernels
    parts: Parts
    gradient_unit: GradientUnit
    _opened: dict[str, OpenedBase]

    @cached_property
    def _texts(self) -> Mapping[str, Callable[[], ModelText] | None]:
        """Of every base, what loads its tokenizer when first called; None where it has none."""
        return {name: _text_loader(base) for name, base in self._opened.items()}

    @cached_property
    def _grammars(self) -> Mapping[str, Grammars | None]:
        """Grammar compiler of every base; None where it has no tokenizer."""
        loaders = self._texts
        return {name: None if load is None else Grammars(self.config(name), load) for name, load in loaders.items()}

    @cached_property
    def sampled_routes(self) -> SampledRoutes:
        """Experts that sampled sequences took, where a base is a mixture."""
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
        """Return the text of a served base model; its tokenizer is loaded the first time.

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
        """Give memory that is free back to the system, here and wherever it computes."""
        give_back_freed_memory()

    def _token_bytes(self, name: str) -> TokenBytes | None:
        """Return the reader of tokens' bytes for a base's stop strings; None where it has no tokenizer."""
        load = self._texts[name]
        return None if load is None else lambda token: load().bytes_of(token)

    @abstractmethod
    def certificate_sha256(self, name: str) -> str | None:
        """Identity of what was checked of a base's arithmetic; None where it promises nothing."""

    @abstractmethod
    def decoder(self, name: str, *, quantised: bool = False) -> Decoder:
        """The base that sessions and policies are made on."""

    @abstractmethod
    def create_session(self, name: str, spec: AdapterSpec) -> TrainingSession:
        """Start training fresh weights on a base model.

        Raises:
            ConfigError: for a model that is not served.
        """

    @abstractmethod
    def prepare(self, session: TrainingSession) -> TrainingSession:
        """Let a session compute as this engine does."""

    @abstractmethod
    def attend(self, wake: Callable[[], None], tend: Callable[[], None]) -> None:
        """Be driven: `wake` when a sampler has something to hand over, `tend` while a job waits for something long."""

    def check_kind(self, kind: AdapterKind) -> None:
        """Refuse a kind of training that is not computed here. Any thread may call this.

        Raises:
            ConfigError: naming those that are.
        """
        del kind

    @abstractmethod
    def base_policy(self, name: str, *, quantised: bool = False) -> Policy:
        """Sampling from the base alone."""

    @abstractmethod
    def sampler(self, name: str) -> ServesRequests:
        """The sampler that serves this base model, whatever is trained on it."""

    @property
    @abstractmethod
    def samplers_by_name(self) -> dict[str, ServesRequests]:
        """Every sampler made so far, by the base model's name."""

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
        """The grammar that a request asks for: as long as this is held, it is not compiled again. On any thread.

        Raises:
            InputError: it does not compile.
        """
        return compile_grammar(request, self._grammars[name])

    def grammar_marks(self, name: str, spellings: Collection[str]) -> frozenset[str]:
        """Those of these texts that a grammar on this base model has to name as one token. Any thread may call this.

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
    """The base's text, loaded when first called; None where it has no tokenizer."""
    folder, name, config = base.folder, base.identity.name, base.config
    if folder is not None and not has_tokenizer(folder):
        return None

    @cache
    def load() -> ModelText:
        preset = name.removeprefix(PREFIX)
        tokenizer = preset_tokenizer(preset) if folder is None else load_tokenizer(folder)
        return ModelText(tokenizer, num_rows=config.vocab_size, end_tokens=config.end_tokens)

    return load
