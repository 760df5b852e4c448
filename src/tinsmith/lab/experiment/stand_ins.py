"""Stand-ins of the Tinker clients for an audit: the record replies, and single units of gradient are computed here.

The loop runs on them as on a server. A step before the last unit that is wanted is computed whole, so that the weights
go on; of the last step only the wanted units are, and nothing of it is applied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import numpy as np
import tinker
from tinker import types

from tinsmith.engine.checkpoints import load_session, read
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.sequences import Policy
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import Block, ComputeHere, ComputeUnits, MicroBatches, UnitRequest
from tinsmith.engine.unit_sums import UnitSums
from tinsmith.lab.difference.rollouts import Line
from tinsmith.lab.rollouts import RecordedSampler, Trajectory
from tinsmith.models.adapter import Adapter
from tinsmith.models.base import tokenizer_of
from tinsmith.ops.objectives.losses import LossValue
from tinsmith.ops.objectives.objective import Objective, objective_of
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, DatumOutput, ForwardBackwardResult, LossName
from tinsmith.types.errors import ConfigError
from tinsmith.types.model_names import ModelName
from tinsmith.types.sampling import SampleRequest, SamplingParams

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")
Substep = tuple[int, int]
"""Step of a run, and number of an optimizer step in it."""
_CONFIG: Final = types.ClientConfigResponse()


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A future that is there."""

    value: T

    def result(self, timeout: float | None = None) -> T:
        """Return it at once."""
        del timeout
        return self.value


@dataclass(slots=True)
class Replies:
    """Recorded replies of one step, each given to the conversation that it was written in."""

    _left: dict[tuple[str, int], deque[Line]] = field(default_factory=dict[tuple[str, int], "deque[Line]"])
    _of: dict[int, Line | None] = field(default_factory=dict[int, "Line | None"])
    """By the conversation's environment."""

    def begin(self, lines: Iterable[Line]) -> None:
        """Take the lines of a step, in the order of the file."""
        self._left, self._of = {}, {}
        for line in lines:
            key = (str(line.get("prompt_id")), cast(int, line.get("sample")))
            self._left.setdefault(key, deque()).append(line)

    def next(self, one: Trajectory[Any]) -> tuple[Sequence[int], Sequence[float] | None]:
        """Return the tokens of a conversation's next reply and their log-probabilities; None: it is not recorded."""
        if one.fork or one.depth:
            raise ConfigError(
                "replies that fork or spawn others cannot be taken from the record",
                field="--units",
                fix="audit whole steps: --steps 3",
            )
        if not one.turns:
            lines = self._left.get((one.item.prompt_id, one.sample))
            self._of[id(one.environment)] = lines.popleft() if lines else None
        line = self._of.get(id(one.environment))
        if line is None or "tokens" not in line:
            return (), None
        turns = cast(Sequence[Line], line.get("turns") or (line,))
        tokens = [cast(Sequence[int], turn["tokens"]) for turn in turns if "tokens" in turn]
        if len(one.turns) >= len(tokens):
            return (), None
        ends = [0, *accumulate(map(len, tokens))]
        place = len(one.turns)
        return tokens[place], cast(Sequence[float], line["logprobs"])[ends[place] : ends[place + 1]]


@dataclass(frozen=True, slots=True)
class PolicyClient(RecordedSampler):
    """In place of a sampling client: replies are recorded, log-probabilities computed."""

    engine: Engine
    name: str
    policy: Policy
    replies: Replies

    def recorded(
        self, ones: Sequence[Trajectory[Any]], prompt: types.ModelInput, *, observed: bool
    ) -> tinker.APIFuture[types.SampleResponse]:
        """Return the replies that the record has of these conversations."""
        sequences = [
            types.SampledSequence(
                stop_reason="stop",
                sequence_id="",
                tokens_np=np.array(tokens, np.int32),
                logprobs_np=None if logprobs is None else np.array(logprobs, np.float32),
            )
            for tokens, logprobs in map(self.replies.next, ones)
        ]
        read = self._logprobs(prompt) if observed else None
        return cast(Any, Known(types.SampleResponse(sequences=sequences, prompt_logprobs_np=read)))

    def compute_logprobs(self, prompt: types.ModelInput) -> Known[list[float | None]]:
        """Return how probable each token is after those before it."""
        told: list[float] = self._logprobs(prompt).tolist()
        return Known([None, *told[1:]])

    def _logprobs(self, prompt: types.ModelInput) -> np.ndarray[Any, np.dtype[np.float32]]:
        request = SampleRequest(
            prompt=np.array(prompt.to_ints(), np.int32),
            params=SamplingParams(seed=0, max_tokens=0),
            prompt_logprobs=True,
        )
        (found,) = self.engine.sample(self.name, [request], [self.policy])
        assert found.prompt_logprobs is not None
        return found.prompt_logprobs


@dataclass(slots=True)
class Alone(ComputeUnits):
    """Computes wanted units by themselves; of the others nothing."""

    wanted: Sequence[int]
    marks: dict[int, str] = field(default_factory=dict[int, str])
    """SHA-256 of each unit's gradient, by its number."""
    count: int = 0
    """Units that there are."""

    def __call__(
        self, adapter: Adapter, sums: UnitSums, micro_batches: MicroBatches, asked: UnitRequest
    ) -> Iterator[Block]:
        """Yield a block for each unit; none has a gradient that would be applied."""
        objective = objective_of(asked.loss, asked.settings)
        for number, unit in enumerate(asked.units, asked.first):
            if asked.backward and number not in self.wanted:
                yield Block({at: _as_recorded(asked.datums[at], objective) for at in unit.datums}, None)
                continue
            alone = replace(asked, units=[unit], first=number, marked=True)
            for block in ComputeHere()(adapter, sums, micro_batches, alone):
                self.marks.update((number, mark) for mark in block.marks)
                yield Block(block.found, None, block.routes)
        if asked.backward:
            self.count = asked.first + len(asked.units)


def _as_recorded(datum: Datum, objective: Objective) -> tuple[DatumOutput, LossValue]:
    """Return what stands for a datum that is not computed: nothing depends on it."""
    zeros = np.zeros(datum.inputs["target_tokens"].shape, np.float32)
    logprobs = datum.inputs.get("logprobs", zeros).astype(np.float32)
    return DatumOutput(logprobs=logprobs), objective.value(logprobs, datum.inputs)


@dataclass(slots=True, kw_only=True)
class UnitTrainer:
    """In place of a training client."""

    engine: Engine
    name: str
    session: TrainingSession
    tokenizer: PreTrainedTokenizerBase
    replies: Replies
    wanted: Mapping[Substep, Sequence[int]]
    """Numbers of units, by their substep; after the last of these nothing is computed."""
    steps: dict[Substep, StepTrace] = field(default_factory=dict[Substep, StepTrace])
    """Trace of what was computed whole."""
    units: dict[Substep, Alone] = field(default_factory=dict[Substep, "Alone"])
    """What was computed of other substeps."""
    model_id: str = "audit"
    holder: Any = field(default_factory=lambda: SimpleNamespace(_client_config=_CONFIG))
    """By it the SDK cuts a large batch into requests, each of which has units of its own."""
    _at: Substep = (0, 0)

    def begin(self, step: int) -> None:
        """Go on to a step of the run."""
        self._at = (step, 0)
        self._prepare()

    def forward_backward(
        self, data: list[tinker.Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Known[types.ForwardBackwardOutput]:
        """Compute gradients: all, those of single units, or none."""
        return self._run(self.session.forward_backward, data, loss_fn, loss_fn_config)

    def forward(
        self, data: list[tinker.Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Known[types.ForwardBackwardOutput]:
        """Compute log-probabilities."""
        return self._run(self.session.forward, data, loss_fn, loss_fn_config)

    def optim_step(self, params: types.AdamParams) -> Known[types.OptimStepResponse]:
        """Take a step, where its gradient is whole."""
        metrics: dict[str, float] = {}
        if self._is_whole:
            assert self.session.trace is not None
            metrics = self.session.optim_step(
                AdamParams(
                    learning_rate=params.learning_rate,
                    beta1=params.beta1,
                    beta2=params.beta2,
                    eps=params.eps,
                    weight_decay=params.weight_decay,
                    grad_clip_norm=params.grad_clip_norm,
                )
            )
            self.steps[self._at] = self.session.trace.steps[-1]
        self._at = (self._at[0], self._at[1] + 1)
        self._prepare()
        return Known(types.OptimStepResponse(metrics=metrics))

    def save_weights_and_get_sampling_client(self) -> PolicyClient:
        """Return who replies from the record, with the weights of now."""
        return PolicyClient(self.engine, self.name, freeze(self.session, self.engine.parts.policy_of), self.replies)

    def get_tokenizer(self) -> PreTrainedTokenizerBase:
        """Return the base's."""
        return self.tokenizer

    @property
    def _is_whole(self) -> bool:
        return self._at < max(self.wanted)

    def _prepare(self) -> None:
        self.session.optimizer.clear()
        if self._is_whole:
            self.session.compute = ComputeHere()
        else:
            self.session.compute = self.units[self._at] = Alone(self.wanted.get(self._at, ()))

    def _run(
        self,
        compute: Callable[..., ForwardBackwardResult],
        data: list[tinker.Datum],
        loss_fn: str,
        config: Mapping[str, float | str] | None,
    ) -> Known[types.ForwardBackwardOutput]:
        cut = tinker.TrainingClient._chunked_requests_generator  # pyright: ignore[reportPrivateUsage]
        outputs: list[DatumOutput] = []
        metrics: dict[str, float] = {}
        for chunk in cut(cast(tinker.TrainingClient, self), data):
            done = compute([_datum(one) for one in chunk.data], LossName(loss_fn), config or {})
            outputs += done.outputs
            metrics |= done.metrics
        told = [{"logprobs": types.TensorData.from_numpy(one.logprobs)} for one in outputs]
        return Known(
            types.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord", loss_fn_outputs=told, metrics=metrics)
        )


def _datum(one: tinker.Datum) -> Datum:
    inputs = {name: one.loss_fn_inputs[name].to_numpy() for name in sorted(one.loss_fn_inputs)}
    return Datum(
        tokens=np.array(one.model_input.to_ints(), np.int32),
        inputs={
            name: value.astype(np.float32 if value.dtype.kind == "f" else np.int64) for name, value in inputs.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitService:
    """In place of a service client: makes the training client of a run from where the run saved it."""

    engine: Engine
    name: str
    """Of the base, as the engine knows it."""
    source: str
    """Where the base is from."""
    state: Path
    """Folder of the run's checkpoints."""
    wanted: Mapping[Substep, Sequence[int]]
    replies: Replies = field(default_factory=Replies)

    def create_lora_training_client(self, base_model: str, rank: int, seed: int, *, train_unembed: bool) -> UnitTrainer:
        """Return one with fresh weights."""
        asked = ModelName.parse(base_model)
        spec = AdapterSpec(
            kind=asked.kind,
            rank=AdapterSpec().rank if asked.kind is AdapterKind.FULL else rank,
            alpha=asked.alpha,
            seed=seed,
            train_unembed=train_unembed,
            train_router=asked.router,
        )
        return self._trainer(self.engine.create_session(self.name, spec))

    def create_training_client_from_state_with_optimizer(self, path: str) -> UnitTrainer:
        """Return one with the weights and the optimizer of a checkpoint."""
        checkpoint = read(TinkerPath.parse(path).folder(self.state))
        decoder = self.engine.decoder(self.name, quantised=checkpoint.spec.kind.quantised)
        base = self.engine.base(self.name)
        session = load_session(decoder, checkpoint, base=base, with_optimizer=True)
        return self._trainer(self.engine.prepare(session))

    def create_sampling_client(self, base_model: str) -> PolicyClient:
        """Return the base."""
        return PolicyClient(self.engine, self.name, self.engine.base_policy(base_model), self.replies)

    def _trainer(self, session: TrainingSession) -> UnitTrainer:
        session.trace = Trace(self.engine.kernels, marks_units=True)
        return UnitTrainer(
            engine=self.engine,
            name=self.name,
            session=session,
            tokenizer=tokenizer_of(self.source),
            replies=self.replies,
            wanted=self.wanted,
        )
