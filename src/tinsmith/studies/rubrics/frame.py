"""The keys of an experiment on rubrics, other than the loop's settings, and how a judge is asked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.judge.settings import JudgeCalls
from tinsmith.lab.runs.kinds import Kind
from tinsmith.studies.rubrics.records import RULES
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.experiment.experiment import Plan


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
class Asking(JudgeCalls):
    """How a judge is asked, and which file is read: circumstances of an experiment on rubrics."""

    data_path: Path | None = None
    """A file of tasks with rubrics; None: the built-in ones. What is in it is part of the identity."""
    prices: Path | None = None
    """A table of prices, laid over the one that comes with the package."""


def parts_of(plan: Plan) -> tuple[RubricFrame, Asking]:
    """Return a plan's frame and how its judge is asked."""
    assert isinstance(plan.frame, RubricFrame)
    assert isinstance(plan.asking, Asking)
    return plan.frame, plan.asking


def asking_circumstances(asking: Asking) -> dict[str, object]:
    """Return every key of the asking, paths whole: with them a replay asks as the run did.

    An address is told without what may be a secret in it; an endpoint refuses such an address later.
    """
    told: dict[str, object] = {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in dataclasses.asdict(asking).items()
    }
    url = asking.judge_base_url
    return told | {"judge_base_url": None if url is None else _without_secrets(url)}


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
