"""Keys of a run: names, types and defaults, their spelling on a command line, and errors for unknown ones."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar, cast, get_type_hints

from tinsmith.lab.runs.files import IfExists, Kind
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.types.arithmetic import Arithmetic, GradientUnit, Hold
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError, no_such
from tinsmith.types.shards import check_shards

Choice = TypeVar("Choice", bound=enum.Enum)


class At(enum.StrEnum):
    """For which size of model the numbers are."""

    NANO = "nano"
    """The base that is built here, from scratch."""
    SMALL = "small"
    """A small pretrained chat model: SmolLM2-135M-Instruct, on two cores."""
    SEED = "seed"
    """As in the source notes: Llama-3.1-8B-Instruct on a hosted service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrame:
    """The keys of a run that are no loop's settings; a subject adds its own."""

    kind: Kind
    at: At = At.NANO
    """Settings by size of model: nano (the nano base), small (SmolLM2-135M), seed (the source notes' 8B model)."""


SMALL_MODEL: Final = "smollm2"  # The model of `at=small` where none is named: `tinsmith base fetch smollm2` gets it.

BY_EXAMPLE: Final = frozenset({"sft_steps", "sft_learning_rate", "sft_batch_size"})
"""Keys of the supervised steps before RL, without a meaning where no answer is known to be right."""

WITHOUT_LABELS: Final = frozenset({"select_by", "gradient", "data", "test_items", "logit_offset"})
"""Keys without a meaning where there is no slice: no third split to choose by or to test on, and no label whose
gradient would be exact or whose log-probability could be offset."""

WITHOUT_SLICE: Final = BY_EXAMPLE | WITHOUT_LABELS  # The same where no answer is known to be right either.

OPTIONS: Final = frozenset({"force_options", "confidence_penalty", "confidence_prefixes", "interleave"})
"""Keys without a meaning where no item names the answers that there are, and none is set aside."""


Value = str | int | float | bool


def folder_name(name: str, changes: Sequence[str]) -> str:
    """Return a run's default folder name from its name and overrides; characters that folders cannot have become _."""
    full_name = "-".join([name, *changes])
    return "".join(c if c.isalnum() or c in "-_=.," else "_" for c in full_name)


def truth(key: str, text: str) -> bool:
    """Read a key that is true or false."""
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise unreadable(key, text, "true or false")


def unreadable(key: str, value: str, allowed: str | Iterable[str]) -> ConfigError:
    """Return the error message for a value of another type than its key's."""
    return ConfigError("this value cannot be read", field=key, value=value, allowed=allowed)


def one_of(key: str, kind: type[Choice], value: str) -> Choice:
    """Return the choice that a key's value names."""
    try:
        return kind(value)
    except ValueError:
        raise unreadable(key, value, [str(member.value) for member in kind]) from None


def converted(key: str, value: object, kind: object) -> object:
    """Convert a command line's text to a key's type; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    if kind is bool:
        return truth(key, value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return one_of(key, kind, value)
    if kind is int or kind is float:
        try:
            return kind(value)
        except ValueError:
            raise unreadable(key, value, "a whole number" if kind is int else "a number") from None
    return Path(value) if kind in (Path, Path | None) else value


_ELSEWHERE: Final = MappingProxyType(
    {
        **dict.fromkeys(("out", "o", "output", "output_dir", "dir", "folder"), "log_path"),
        **dict.fromkeys(("run_dir", "log_dir", "logdir", "save_dir"), "log_path"),
        **dict.fromkeys(("model", "base_model", "model_path", "model_name_or_path"), "model_name"),
        **dict.fromkeys(("max_steps", "n_steps", "num_steps", "iterations", "train_steps"), "steps"),
        **dict.fromkeys(("epochs", "n_epochs", "num_epochs", "num_train_epochs"), "steps"),
        **dict.fromkeys(("num_generations", "rollouts", "n"), "group_size"),
        **dict.fromkeys(("max_new_tokens", "max_completion_length", "max_length"), "max_tokens"),
        **dict.fromkeys(("rank", "r", "lora_r"), "lora_rank"),
        **dict.fromkeys(("beta", "kl", "kl_coef"), "kl_penalty_coef"),
        **dict.fromkeys(("loss", "loss_type"), "loss_fn"),
        **dict.fromkeys(("resume", "overwrite"), "behavior_if_log_dir_exists"),
        **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size"), "groups_per_batch"),
        "alpha": "lora_alpha",
        "eval_steps": "eval_every",
        "gpu": "device",
        "groups_per_batch": "batch_size",
        "lr": "learning_rate",
        "max_grad_norm": "grad_clip_norm",
        "save_steps": "save_every",
        "url": "base_url",
        "warmup": "lr_warmup",
    }
)
"""Keys of other tools, and their equivalents here."""


_OF_STUDIES: Final = MappingProxyType(
    {
        "size": "steps=N for a short run, at=small for a pretrained model",
        "seeds": "seed=N, one run for each seed",
        "tuning_seed": "seed=N: a single run has one seed, and chooses no rate",
        "rates": "learning_rate=X: a single run has one, and a study chooses among several",
        "ray": "workers=N: processes of the run's own server",
        "cells_at_once": "leave it out: this is a single run",
    }
)
"""Keys of studies alone, and their equivalents for a single run."""
_OF_RUNS: Final = "stop_after"  # A key that every run has, and no study or measurement.


def meant_key(key: str, known: Iterable[str]) -> str:
    """Return the key that another tool's name means; a run's folder is `log_path`, a study's is `out`."""
    names = set(known)
    meant = _ELSEWHERE.get(key, key)
    return "out" if meant == "log_path" and meant not in names and "out" in names else meant


def unknown_key(
    key: str, value: str, known: Iterable[str], prefixes: Sequence[str] = (), *, unused_by: str = ""
) -> ConfigError:
    """Return the error for an unknown key, or one that `unused_by` does not use, with the most similar known key."""
    names = [*known, *(f"{prefix}*" for prefix in prefixes)]
    what = f"{unused_by} does not use this key" if unused_by else "there is no such key"
    listed_by, meant = "tinsmith run NAME --help", meant_key(key, names)
    if meant != key and meant in names:
        fix = f"perhaps {meant}; {listed_by} lists all {len(names)}"
        return ConfigError(what, field=key, value=value, fix=fix)
    if key in _OF_STUDIES and _OF_RUNS in names:
        return ConfigError(
            "this is a key of studies, not of a single run", field=key, value=value, fix=_OF_STUDIES[key]
        )
    error = no_such("key", field=key, value=value, name=key, known=names, listed_by=listed_by)
    return ConfigError(what, field=key, value=value, allowed=error.allowed, fix=error.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKey:
    """A key that a task adds to those of every run."""

    name: str
    kind: type[Value]
    default: Value
    words: str  # Its help, in a sentence.
    is_file: bool = False
    """True for a path: a circumstance rather than part of the identity, unlike the file's content."""
    later: bool = False  # It came after names had been frozen: at its default it is no part of an identity.

    def read(self, text: str | None) -> Value:
        """Return the value of a command line's text, or the default for None."""
        if text is None:
            return self.default
        if self.is_file:
            return str(Path(text).absolute()) if text else text
        return cast(Value, converted(self.name, text, self.kind))


def shown_value(value: object) -> str:
    """Return a value as on a command line; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value) if isinstance(value, enum.Enum) else str(value)


@cache
def field_kinds(part: type) -> Mapping[str, object]:
    """Return the types of a dataclass's fields, evaluated once."""
    return MappingProxyType(get_type_hints(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Keys of location and speed: never part of an identity."""

    model_name: str | None = None
    """Folder, FILE.gguf, smollm2, ORG/NAME, or a name that base_url serves; empty: the nano base, built and cached."""
    data: Path | None = None
    """Folder of a slice; empty: the synthetic one, built and cached."""
    log_path: Path | None = None
    """Folder of the run; empty: runs/NAME, with the changed keys in the name."""
    base_url: str | None = None
    """Address of a running Tinker server; empty: the run starts its own and stops it at the end."""
    device: str = "cpu"
    """Device of the run's own server: cpu or cuda."""
    threads: int = 0
    """CPU threads of the run's own server; 0: one per core."""
    micro_batch: int = 0
    """Maximum units of gradient that its own server computes at once; 0: as many as memory allows. Changes no bit."""
    hold: Hold = Hold.PUBLISHED
    """Form of the base in its own server's memory: as in its file (published), or widened to fp32, which takes more.
    Changes no bit."""
    workers: int = 0
    """Worker processes of its own server, started by Ray; 0: the server computes by itself. Changes no bit."""
    shards: int = 1
    """Number of workers that share one copy of the base, layer by layer, if it does not fit one. Changes no bit."""
    unit_hashes: bool = False
    """Store the SHA-256 of each unit of gradient in trace.jsonl, so that an audit can name the unit that differs; about
    5 % slower. Changes no other bit."""
    behavior_if_log_dir_exists: IfExists = IfExists.RESUME_INTERRUPTED
    """If log_path holds a run: resume an interrupted one and refuse any other (resume_interrupted), always refuse
    (raise), always resume, delete it and start again, or ask."""
    stop_after: int = 0
    """Stop after this many steps; the run can be resumed. 0: run to the end."""
    dry_run: bool = False
    """Only print what would be run, and how long it would take."""
    check_reward: bool = False
    """With dry_run=true: also print the reward of empty, random and nearly right answers."""
    wandb_project: str | None = None
    """Project at Weights & Biases that also receives the metrics; empty: none."""
    wandb_name: str | None = None
    """Name of the run at Weights & Biases."""
    trackio_project: str | None = None
    """Project at trackio that also receives the metrics; empty: none."""
    quiet: bool = False
    """Print no progress."""

    def __post_init__(self) -> None:
        for key in ("threads", "micro_batch", "workers", "stop_after"):
            if getattr(self, key) < 0:
                raise ConfigError("this must not be negative", field=key, value=getattr(self, key), allowed="0 or more")
        check_shards(self.shards, self.workers)
        if self.check_reward and not self.dry_run:
            what, fix = "check_reward belongs to a dry run", "dry_run=true check_reward=true"
            raise ConfigError(what, field="check_reward", value=True, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineKeys:
    """Keys of the engine that decide results."""

    arithmetic: Arithmetic = Arithmetic.CANONICAL
    """canonical: same bits for any batch, thread count and device; fast: no such promise."""
    deviation: Deviation = Deviation.NONE
    """Deliberate fault of the server, to test that the checks find it."""
    gradient_unit: GradientUnit = GradientUnit.TREE
    """tree: examples with a common prefix share its computation; datum: each is computed by itself."""


Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class KindEntry:
    """Kind of training on a subject: its keys, and their defaults by size."""

    frame: type[RunFrame]
    loop: type[RlSettings] | type[SftSettings]
    values: Mapping[At, Values]
    """Defaults by size, which experiment and command line override; a missing size is not available."""
    forced: Mapping[At, Values] = field(default_factory=dict[At, Values])
    """Values by size that override an experiment's; the command line overrides both."""
    without: frozenset[str] = frozenset()  # Keys of frame and loop that have no meaning here.
    asking: type | None = None  # Circumstances of its own, beside those of every run.
    own: tuple[OwnKey, ...] = ()  # Keys of the task that experiments with names are on: arguments of its function.
    named_reward: bool = False  # Whether its reward is one of REWARDS, with settings of its own under `reward.`.

    @property
    def places(self) -> tuple[At, ...]:
        """Available sizes."""
        return tuple(at for at in At if at in self.values)

    @property
    def parts(self) -> tuple[type, ...]:
        """Dataclasses whose fields are keys; those after the first three are circumstances."""
        asking = () if self.asking is None else (self.asking,)
        return (self.frame, self.loop, EngineKeys, *asking, Circumstances)

    @property
    def kinds(self) -> dict[str, object]:
        """The type of every key, also of those without a meaning."""
        kinds = {name: kind for part in self.parts for name, kind in field_kinds(part).items()}
        return kinds | {key.name: key.kind for key in self.own}

    @property
    def known(self) -> frozenset[str]:
        """Every key."""
        return frozenset(self.kinds) - self.without

    @property
    def circumstances(self) -> frozenset[str]:
        """The keys that are no part of an identity."""
        return frozenset(name for part in self.parts[3:] for name in field_kinds(part))
