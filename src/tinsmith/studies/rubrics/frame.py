"""The keys of an experiment on rubrics, other than the loop's settings, and how a judge is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.runs.kinds import Kind
from tinsmith.studies.rubrics.records import RULES
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricFrame(RunFrame):
    """The keys of an experiment on rubrics, other than the loop's settings, named as in the source notes."""

    kind: Kind = Kind.RLVR
    train_ratio: float = 0.9
    """Share of the tasks that are trained on; the others are held out."""
    data_seed: int = 42
    """The random seed of that split."""
    eval_samples: int = 1
    """Responses to each held-out prompt in an evaluation."""
    judge_model: str = RULES
    """`rules`, a model of an OpenAI-compatible endpoint, a name or tinker:// path that base_url serves, or a folder."""
    judge_temperature: float = 0.0
    """Temperature at which the judge answers."""
    judge_max_tokens: int = 0
    """Most tokens in one answer of the judge; 0: as the endpoint decides."""

    def __post_init__(self) -> None:
        if self.eval_samples < 1:
            raise ConfigError(
                "an evaluation needs at least one response",
                field="eval_samples",
                value=self.eval_samples,
                allowed="1 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a judge is asked, and which file is read: circumstances of an experiment on rubrics."""

    data_path: Path | None = None
    """A file of tasks with rubrics; None: the built-in ones. What is in it is part of the identity."""
    judge_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; None: OPENAI_BASE_URL, else OpenAI's own."""
    judge_max_retries: int = 3
    """Most attempts of a call after the first."""
    judge_timeout_s: float = 60.0
    """Most seconds for one attempt."""
    judge_concurrency: int = 64
    """Most calls at once."""
    judge_rpm: int = 0
    """Most calls a minute; 0: no limit."""
    judge_tpm: int = 0
    """Most tokens a minute; 0: no limit."""
    prices: Path | None = None
    """A table of prices, laid over the one that comes with the package."""
