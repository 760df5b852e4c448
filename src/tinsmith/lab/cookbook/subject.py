"""Training on the Tinker cookbook's environments, whose coroutines run on a thread of their own.

What our loop cannot train on is the recorded failure of one rollout: an observation that is not what was seen and
sampled before, with something after it; one that holds more than tokens; another stop than the subject's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import tinker

from tinsmith.data.slices.splits import Split
from tinsmith.lab.cookbook.types import (
    Env,
    EnvGroupBuilder,
    RLDataset,
    StepLike,
    Stop,
    TokensWithLogprobs,
    Trajectory,
    Transition,
)
from tinsmith.lab.course import Course, Decoding
from tinsmith.lab.environment import Environment, Failed, Move
from tinsmith.lab.grouping import Line, ScoredGroup, metric_means
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.live.watch import Examinee, Judged, Watch
from tinsmith.lab.policy import new_adapter
from tinsmith.lab.rl import train as train_run
from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS, Group, Rollout, Turn
from tinsmith.lab.rollouts import Trajectory as Ran
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Score, Selected
from tinsmith.lab.schedule import NONE
from tinsmith.lab.settings import Gradient, RlSettings
from tinsmith.lab.subject import Subject
from tinsmith.lab.user_task.step_reward import NamedTerms, rounded_sum
from tinsmith.types.errors import ConfigError, InputError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.loops import BackgroundLoop
from tinsmith.types.seeds import derive

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class CookbookItem:
    """Group builder with its name in the files of a run."""

    prompt_id: str
    builder: EnvGroupBuilder

    @property
    def tags(self) -> list[str]:
        """Tags by which the cookbook groups metrics."""
        logging_tags: Callable[[], list[str]] | None = getattr(self.builder, "logging_tags", None)
        return [] if logging_tags is None else list(logging_tags())


def items_of_dataset(dataset: RLDataset, name: str = "batch") -> list[CookbookItem]:
    """Return every group builder of a dataset, named `NAME-BATCH-PLACE`. Our loop shuffles them each epoch."""
    return [
        CookbookItem(f"{name}-{index}-{place}", builder)
        for index in range(len(dataset))
        for place, builder in enumerate(dataset.get_batch(index))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """Rewards of a conversation."""

    steps: tuple[float, ...]  # By its environment, step by step.
    group: float  # By its group.
    metrics: Mapping[str, float]

    @property
    def terms(self) -> NamedTerms:
        """Reward by the environment in all its steps, and by the group on top."""
        steps = math.fsum(self.steps)
        return NamedTerms(values={"steps": steps, "group": self.group}, total=rounded_sum(steps, self.group))


CookbookRollout = Rollout[CookbookItem, Earned]


@dataclass(slots=True, eq=False, kw_only=True)
class CookbookEnvironment:
    """Conversation in one of the cookbook's environments."""

    group: CookbookItem  # The same for all that were made together, and are rewarded together.
    env: Env
    loop: BackgroundLoop
    stop: Stop
    beginning: Future[Any]
    tokens: list[int] = field(default_factory=list[int])  # Everything so far, replies included.
    steps: list[StepLike] = field(default_factory=list[StepLike])
    reasons: list[str] = field(default_factory=list[str])

    def first(self) -> tuple[int, ...]:
        """Wait for the prompt."""
        begun = self.beginning.result(WAIT_SECONDS)
        if not isinstance(begun, tuple):
            raise InputError("the environment has no room for its first prompt")
        observation, stop = cast("tuple[tinker.ModelInput, Stop]", begun)
        self._same_stop(stop)
        self.tokens = _tokens_of(observation)
        return tuple(self.tokens)

    def step(self, tokens: Sequence[int]) -> CookbookMove:
        """Start the environment's step on a reply; the result is awaited later."""
        action = list(tokens)
        self.tokens = [*self.tokens, *action]
        # Where texts end a reply, tokens do not tell whether one did.
        by_text = isinstance(self.stop[0], str) if self.stop else False
        ended = by_text or not action or action[-1] in self.stop
        self.reasons.append("stop" if ended else "length")
        return CookbookMove(self, self.loop.start(_stepped(self.env, action, self.reasons[-1])))

    def observed(self, result: StepLike) -> tuple[int, ...] | None:
        """Record the result of a step; return the tokens after the reply, None at the end."""
        self.steps.append(result)
        if result.episode_done:
            return None
        self._same_stop(result.next_stop_condition)
        after = _tokens_of(result.next_observation)
        if after[: len(self.tokens)] != self.tokens or len(after) == len(self.tokens):
            what = "the environment does not go on from what was seen and sampled: it rewrites or adds nothing"
            raise InputError(what, field="next_observation", value=f"{len(after)} tokens after {len(self.tokens)}")
        new = tuple(after[len(self.tokens) :])
        self.tokens = after
        return new

    def trajectory(self, turns: Sequence[Turn]) -> Trajectory:
        """Return the conversation in the form that the cookbook's group rewards take."""
        context: list[int] = []
        transitions: list[Transition] = []
        for turn, step, reason in zip(turns, self.steps, self.reasons, strict=True):
            context += turn.observation
            transitions.append(
                Transition(
                    ob=tinker.ModelInput.from_ints(list(context)),
                    ac=TokensWithLogprobs(
                        tokens=list(turn.tokens), maybe_logprobs=list(turn.logprobs), stop_reason=reason
                    ),
                    reward=step.reward,
                    episode_done=step.episode_done,
                    metrics=step.metrics,
                    logs=getattr(step, "logs", {}),
                )
            )
            context += turn.tokens
        return Trajectory(transitions=transitions, final_ob=self.steps[-1].next_observation)

    def _same_stop(self, stop: Stop) -> None:
        if list(stop) != list(self.stop):
            what = "a reply of this environment ends otherwise than the dataset's"
            raise InputError(what, field="stop", value=list(stop), allowed=str(list(self.stop)))


@dataclass(frozen=True, slots=True)
class CookbookMove(Move):
    """Outcome of a reply in a cookbook environment."""

    environment: CookbookEnvironment
    step: Future[StepLike]

    def observation(self) -> tuple[int, ...] | None:
        """Wait for the environment."""
        return self.environment.observed(self.step.result(WAIT_SECONDS))


async def _stepped(env: Env, action: list[int], reason: str) -> StepLike:
    parameters = inspect.signature(env.step).parameters
    takes_extra = "extra" in parameters or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    if not takes_extra:
        return await env.step(action)
    step = cast(Callable[..., Coroutine[Any, Any, StepLike]], env.step)
    return await step(action, extra={"stop_reason": reason})


def _tokens_of(observation: tinker.ModelInput) -> list[int]:
    if any(not isinstance(chunk, tinker.EncodedTextChunk) for chunk in observation.chunks):
        raise InputError("an observation holds more than tokens", field="next_observation")
    return list(observation.to_ints())


@dataclass(slots=True, kw_only=True)
class CookbookSubject(Subject[CookbookItem, Earned]):
    """A cookbook dataset as a `Subject`, which describes its methods; groups have the dataset's size."""

    decode: Callable[[Sequence[int]], str]  # A reply as text, for the files of a run: `tokenizer.decode`, say.
    stop_condition: Stop  # What ends a reply in every environment, as they state it.
    train: Sequence[CookbookItem] = ()
    held_out: Sequence[CookbookItem] = ()  # What a policy is evaluated on; none: it is not.
    test: Sequence[CookbookItem] = ()
    loop: BackgroundLoop = field(default_factory=BackgroundLoop)
    _open: list[CookbookItem] = field(default_factory=list[CookbookItem])

    def items(self, split: Split) -> Sequence[CookbookItem]:
        return {Split.TRAIN: self.train, Split.VALIDATION: self.held_out, Split.TEST: self.test}[split]

    def stop(self) -> Stop:
        return self.stop_condition

    def environments(self, item: CookbookItem, count: int, seed: int) -> Sequence[Environment]:
        """Create environments; a cookbook environment takes no seed."""
        del seed
        envs: list[Env] = list(self.loop.start(_awaited(item.builder.make_envs())).result(WAIT_SECONDS))
        group = replace(item)  # which no other group is
        self._open.append(group)
        if len(envs) != count:
            what = f"this dataset's groups have {len(envs)} environments"
            raise ConfigError(what, field="group_size", value=count, allowed=str(len(envs)))
        return [
            CookbookEnvironment(
                group=group,
                env=env,
                loop=self.loop,
                stop=self.stop_condition,
                beginning=self.loop.start(_awaited(env.initial_observation())),
            )
            for env in envs
        ]

    def text(self, tokens: Sequence[int]) -> str:
        return self.decode(tokens)

    def read(self, trajectories: Sequence[Ran[CookbookItem]]) -> list[Earned | Failed]:
        """Score groups concurrently, each over those of its conversations that ended."""
        environments = [cast(CookbookEnvironment, ran.environment) for ran in trajectories]
        members: dict[int, list[int]] = {}
        for place, environment in enumerate(environments):
            members.setdefault(id(environment.group), []).append(place)
        pending = [
            (places, self._rewards([(environments[at], trajectories[at].turns) for at in places]))
            for places in members.values()
        ]
        found: dict[int, Earned | Failed] = {}
        for places, rewards in pending:
            found |= zip(places, _earned(rewards, [environments[at] for at in places]), strict=True)
        self._clean()
        return [found[place] for place in range(len(trajectories))]

    def score(self, rollouts: Sequence[CookbookRollout]) -> list[NamedTerms]:
        return [one.answer.terms for one in rollouts]

    def figures(self, groups: Sequence[Group[CookbookItem, Earned]], split: str) -> dict[str, float]:
        """Return the means of the environments' metrics, as `SPLIT/env/NAME`, and of the rewards."""
        played = [one.answer for group in groups for one in group if isinstance(one, Rollout)]
        found = _figures(played, split)
        if played:
            found[f"{split}/reward/total"] = math.fsum(one.terms.total for one in played) / len(played)
        return found

    def train_figures(self, groups: Sequence[ScoredGroup[CookbookItem, Earned]]) -> dict[str, float]:
        return _figures([one.rollout.answer for group in groups for one in group.scored], "train")

    def facts(self, rollout: CookbookRollout) -> Line:
        return {
            "turns": [{"role": "assistant", "tokens": list(turn.tokens), "text": turn.text} for turn in rollout.turns],
            "rewards": list(rollout.answer.steps),
            "group_reward": rollout.answer.group,
            "env": dict(sorted(rollout.answer.metrics.items())),
        }

    def item_facts(self, item: CookbookItem) -> Line:
        return {"tags": item.tags}

    def close(self) -> None:
        """Release unread environments, and end the thread."""
        self._clean()
        self.loop.close(WAIT_SECONDS)

    def _rewards(
        self, ended: Sequence[tuple[CookbookEnvironment, Sequence[Turn]]]
    ) -> Future[Sequence[tuple[float, Mapping[str, float | int]]]]:
        builder = ended[0][0].group.builder
        trajectories: list[Any] = [one.trajectory(turns) for one, turns in ended]
        envs = [one.env for one, _ in ended]
        return self.loop.start(_awaited(builder.compute_group_rewards(trajectories, envs)))

    def _clean(self) -> None:
        """Release the resources of every group, as the cookbook does after each group."""
        groups, self._open = self._open, []
        cleaning = [
            self.loop.start(_awaited(clean()))
            for group in groups
            if (clean := getattr(group.builder, "cleanup", None)) is not None
        ]
        for one in cleaning:
            one.result(WAIT_SECONDS)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _earned(
    rewards: Future[Sequence[tuple[float, Mapping[str, float | int]]]], environments: Sequence[CookbookEnvironment]
) -> list[Earned | Failed]:
    try:
        results = list(rewards.result(WAIT_SECONDS))
        if len(results) != len(environments):
            raise InputError(f"{len(results)} rewards for a group of {len(environments)}")
    except Exception as error:  # the boundary of a rollout: what failed is recorded, and is no reward
        return [Failed("group_reward", f"{type(error).__name__}: {error}") for _ in environments]
    found: list[Earned | Failed] = []
    for one, (group, metrics) in zip(environments, results, strict=True):
        numbers = {k: float(v) for step in one.steps for k, v in step.metrics.items()}
        numbers |= {key: float(value) for key, value in metrics.items()}
        steps = tuple(float(step.reward) for step in one.steps)
        found.append(Earned(steps=steps, group=float(group), metrics=numbers))
    return found


def _figures(played: Sequence[Earned], split: str) -> dict[str, float]:
    return {f"{split}/env/{name}": mean for name, mean in metric_means([one.metrics for one in played]).items()}


class _MeanReward(Watch[CookbookItem, Earned]):
    """Select the policy with the largest mean reward; of equal ones the later."""

    selects_by = "reward"

    def judge(
        self, policy: Examinee, groups: Sequence[Group[CookbookItem, Earned]], metrics: Mapping[str, float]
    ) -> Judged:
        del groups
        return Judged(score=Score(metrics.get("eval/reward/total", -math.inf), float(policy.step)))


def train(
    service: tinker.ServiceClient,
    model_name: str,
    subject: CookbookSubject,
    settings: RlSettings,
    folder: Path,
    *,
    quiet: bool = False,
) -> Selected:
    """Train a LoRA adapter on a cookbook dataset by our loop, from its beginning; end the environments' thread.

    Args:
        service: where the model is served.
        model_name: as that server knows it.
        subject: the dataset, with or without held-out groups.
        settings: of the loop; `group_size` is that of the dataset's groups.
        folder: gets the files of a run; there must be none yet.
        quiet: whether nothing is printed.

    Raises:
        ConfigError: for settings that these datasets do not have.
    """
    for setting, only in (("gradient", Gradient.SAMPLED), ("interleave", NONE)):
        if (value := getattr(settings, setting)) != only:
            what = "a cookbook dataset has neither a list of all answers nor items set aside"
            raise ConfigError(what, field=setting, value=value, allowed=only)
    settings_dict = asdict(settings)
    config = {
        "name": "cookbook",
        "settings": settings_dict,
        "identity_sha256": sha256_of({"settings": settings_dict, "items": [one.prompt_id for one in subject.train]}),
    }
    opened, _ = RunFolder.begin(folder, config, if_exists=IfExists.RAISE)
    try:
        run = Run(
            service=service,
            trainer=new_adapter(service, model_name, settings, derive(settings.seed, "adapter") % 2**SEED_BITS),
            model_name=model_name,
            course=Course(
                subject=subject,
                settings=settings,
                watch=_MeanReward(),
                decodings=(Decoding.SAMPLED,),
                samples=settings.group_size,
            ),
            settings=settings,
            folder=opened,
            teller=Teller(name="cookbook", steps=settings.steps, quiet=quiet),
        )
        try:
            finished = train_run(run)
            assert finished is not None, "nothing stops it before its end"
            return finished
        finally:
            run.teller.close()
    finally:
        opened.close()
        subject.close()
