"""Which keys an experiment has: their names, types and defaults. Their values where it runs are in `places.py`.

Keys of a frame and of a loop decide results; those that only say where and how fast to run are circumstances.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Final, get_type_hints

from tinsmith.lab.papers.joint_frame import JointFrame
from tinsmith.lab.experiment.at import At
from tinsmith.lab.user_task.frame import TaskFrame
from tinsmith.lab.runs.existing_run import IfExists
from tinsmith.lab.runs.kinds import Kind
from tinsmith.studies.rubrics.records import RULES
from tinsmith.studies.debate.rewards import (Credit, debate_reward,)
from tinsmith.studies.debate.script import load_script
from tinsmith.studies.debate.stance import (Arms, WrongLabel,)
from tinsmith.lab.labels.task import (Task, make_task,)
from tinsmith.lab.settings import (RlSettings, SftSettings,)
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import ConfigError
from tinsmith.types.gradient import GradientUnit

"""The judge that needs no model: criteria that are rules, checked by a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The keys of an experiment on papers, other than the loop's settings."""

    kind: Kind = Kind.RL
    at: At = At.NANO
    """Whose settings: nano (the nano base on two cores), small (a small pretrained model), seed (the source notes)."""
    task: str = "disruption"
    """Which label: disruption or novelty."""
    prompt: str = "plain"
    """How it is asked for: plain, brief, short, checklist or ontology."""
    contract: str = "four_key"
    """Which JSON keys an answer has: four_key or two_key."""
    with_metadata: bool = True
    """Whether the prompt shows year and citations, which leak the label."""
    reward: str = "soft"
    """What an answer earns; tinsmith analyse incentives knows every name."""
    shuffle_labels: bool = False
    """Shuffle the training labels among the papers: the negative control."""

    def asked(self) -> Task:
        """Return the task.

        Raises:
            ConfigError: one of its names is unknown.
        """
        return make_task(
            self.task,
            prompt=self.prompt,
            contract=self.contract,
            with_metadata=self.with_metadata,
        )


class WhichPapers(enum.StrEnum):
    """Which papers of a slice are discussed."""

    ALL = "all"
    ARGUABLE = "arguable"
    """Those whose abstract has words for their gold label, so that a truthful challenger has evidence."""


class WhichCues(enum.StrEnum):
    """Which words a scripted challenger takes for evidence, and with no `data` which world is discussed."""

    WORDS = "words"
    """Six words of a world made to be argued about, small enough for the nano base."""
    PLANTED = "planted"
    """Those that the synthetic worlds plant."""
    LEARNED = "learned"
    """Those that the training papers of a label use more than the others."""


SCRIPTED: Final = "scripted"
NOBODY: Final = "nobody"
ITSELF: Final = "base"
"""Who challenges: one that follows a script, nobody, or the model under the adapter, frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateFrame(Frame):
    """The keys of an experiment with a challenger, other than the loop's settings."""

    kind: Kind = Kind.DEBATE
    with_metadata: bool = False
    reward: str = "adversarial/gated"
    """What a conversation earns: adversarial/gated, adversarial/seed or adversarial/forked."""
    opponent: str = SCRIPTED
    """B: `scripted`, `nobody` (the first answer is the last), or a model, which needs script=plain: `base` (the run's
    own without its adapter), a folder, or a name that base_url serves."""
    script: str = "plain"
    """The challenger's words: `brief` or `plain`."""
    truthful: float = 0.25
    """Share of challenges that argue for the gold label."""
    misleading: float = 0.5
    """Share that argue for a wrong one. With K - 1 times the truthful share a bare label says nothing."""
    null: float = 0.25
    """Share that only ask whether the model is sure."""
    evidence: float = 1.0
    """Share that quote words of the paper, of those that name a label."""
    wrong: WrongLabel = WrongLabel.ANY
    """Which wrong label a misleading challenge argues for: any, or one that was not answered."""
    cues: WhichCues = WhichCues.WORDS
    """Which words are taken for evidence."""
    papers: WhichPapers = WhichPapers.ARGUABLE
    """Which papers are discussed: all, or those with words for their label."""
    forks: int = 1
    """Second answers for each first one: adversarial/forked needs 2 or more."""
    opponent_max_tokens: int = 96
    """Most tokens in a challenge that a model writes."""
    opponent_temperature: float = 1.0
    """Temperature at which such a challenge is sampled."""

    def arms(self) -> Arms:
        """Return what a challenger argues for, and how often.

        Raises:
            ConfigError: the shares do not sum to 1.
        """
        return Arms(
            truthful=self.truthful,
            misleading=self.misleading,
            null=self.null,
            evidence=self.evidence,
            wrong=self.wrong,
        )

    def __post_init__(self) -> None:
        self.arms()
        script = load_script(self.script)
        if self.opponent not in (SCRIPTED, NOBODY) and not script.asks_models:
            raise ConfigError(
                "this script has no words to ask a model with",
                field="script",
                value=self.script,
                allowed="plain",
                fix="script=plain, or opponent=scripted",
            )
        by_turn = debate_reward(self.reward).credit is Credit.TURN
        if self.forks < 1 or by_turn != (self.forks > 1):
            raise ConfigError(
                "turn-by-turn credit needs forks, and forks are used for nothing else",
                field="forks",
                value=self.forks,
                allowed="2 or more with reward=adversarial/forked, 1 with another",
            )
        if by_turn and self.opponent == NOBODY:
            raise ConfigError(
                "without a challenge there is no second turn", field="opponent", value=self.opponent
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricFrame:
    """The keys of an experiment on rubrics, other than the loop's settings, named as in the source notes."""

    kind: Kind = Kind.RLVR
    at: At = At.NANO
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Where and how fast: never part of an identity."""

    model_name: str | None = None
    """A folder, or a name that the server at base_url serves; None: the nano base, built and cached."""
    data: Path | None = None
    """A slice folder; None: the synthetic one, built and cached."""
    log_path: Path | None = None
    """The run's folder; None: named after what was changed, below `runs`."""
    base_url: str | None = None
    """A server that is already running; None: the run starts its own and stops it at the end."""
    device: str = "cpu"
    """Where the run's own server computes: `cpu` or `cuda`."""
    threads: int = 0
    """Threads of the kernels; 0: one for each core the server finds."""
    micro_batch: int = 0
    """Most units of gradient that an embedded server computes at once; 0: as many as memory allows."""
    behavior_if_log_dir_exists: IfExists = IfExists.RESUME_INTERRUPTED
    """Where the folder holds a run: go on with one that was interrupted and `raise` at others, or `raise` at any,
    `resume`, `delete`, or `ask` at the terminal."""
    stop_after: int = 0
    """Stop after this many steps, as if interrupted there; it can be resumed. 0: run to the end."""
    dry_run: bool = False
    """Only say what the run would take."""
    wandb_project: str | None = None
    """Send its metrics to Weights & Biases too."""
    wandb_name: str | None = None
    """The run's name at Weights & Biases."""
    trackio_project: str | None = None
    """Send its metrics to trackio too."""
    quiet: bool = False
    """Print nothing while it runs."""

    def __post_init__(self) -> None:
        """Refuse numbers below 0.

        Raises:
            ConfigError: one is.
        """
        for key in ("threads", "micro_batch", "stop_after"):
            if getattr(self, key) < 0:
                raise ConfigError(
                    "this cannot be below 0",
                    field=key,
                    value=getattr(self, key),
                    allowed="0 or more",
                )


ENGINE: Final[Mapping[str, enum.Enum]] = MappingProxyType(
    {
        "arithmetic": Arithmetic.CANONICAL,
        "deviation": Deviation.NONE,
        "gradient_unit": GradientUnit.TREE,
    }
)
"""Keys of the engine that decide results, and their defaults."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Which keys a kind of experiment has, and where they go."""

    frame: type[Frame] | type[RubricFrame] | type[JointFrame] | type[TaskFrame]
    loop: type[RlSettings] | type[SftSettings]
    asking: type[Asking] | None = None
    without: frozenset[str] = frozenset()
    """Keys of these that have no meaning here."""

    @property
    def parts(self) -> tuple[type, ...]:
        """Every dataclass whose fields are keys."""
        asking = () if self.asking is None else (self.asking,)
        return (self.frame, self.loop, *asking, Circumstances)

    @property
    def known(self) -> frozenset[str]:
        """Every key."""
        names = {each.name for part in self.parts for each in fields(part)}
        return frozenset({*names, *ENGINE} - self.without)

    @property
    def kinds(self) -> dict[str, object]:
        """The type of every key."""
        kinds = {name: kind for part in self.parts for name, kind in get_type_hints(part).items()}
        return {**kinds, **{key: type(default) for key, default in ENGINE.items()}}

    @property
    def circumstances(self) -> frozenset[str]:
        """The keys that are no part of an identity."""
        asking = () if self.asking is None else fields(self.asking)
        return frozenset(each.name for each in (*fields(Circumstances), *asking))


_BY_EXAMPLE: Final = ("sft_steps", "sft_learning_rate", "sft_batch_size")
"""Of the supervised steps before RL, which only labels of single papers have."""

KEYS: Final[Mapping[Kind, Keys]] = MappingProxyType(
    {
        Kind.RL: Keys(Frame, RlSettings),
        Kind.SFT: Keys(Frame, SftSettings, without=frozenset({"reward"})),
        Kind.DEBATE: Keys(
            DebateFrame,
            RlSettings,
            without=frozenset({"select_by", "gradient", "shuffle_labels", *_BY_EXAMPLE}),
        ),
        # A pair of labels has no gradient that is exact, and no example that supervised steps would follow.
        Kind.JOINT: Keys(JointFrame, RlSettings, without=frozenset({"gradient", *_BY_EXAMPLE})),
        Kind.RLVR: Keys(
            RubricFrame,
            RlSettings,
            Asking,
            # There is no third split to choose by or to test on, no label whose gradient is exact, no slice.
            without=frozenset({"select_by", "gradient", "data", "test_items", *_BY_EXAMPLE}),
        ),
        Kind.TASK: Keys(
            TaskFrame,
            RlSettings,
            without=frozenset({"select_by", "gradient", "data", "test_items", *_BY_EXAMPLE}),
        ),
    }
)
