"""Tinker service in this process: the SDK's clients, as far as the loop uses them, on a local engine.

For whoever computes a few steps once: no server is started, and nothing goes over HTTP. Bits are those of a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec
import numpy as np
import tinker
from tinker import types
from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results

from tinsmith.engine.checkpoint_files import is_checkpoint
from tinsmith.engine.checkpoints import load_session, read, save
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.sequences import Policy
from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.engine.trace import StepTrace, Trace
from tinsmith.engine.training import TrainingSession
from tinsmith.models.base import tokenizer_of
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, ForwardBackwardResult, LossName
from tinsmith.types.model_names import ModelName
from tinsmith.types.sampling import SampleRequest, SamplingParams, StopReason

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T")
_CONFIG: Final = types.ClientConfigResponse()
_Output = types.ForwardBackwardOutput


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A future that is there."""

    value: T

    def result(self, timeout: float | None = None) -> T:
        """Return the value at once."""
        del timeout
        return self.value


@dataclass(slots=True, eq=False)
class Sampled:
    """Future of a request, computed together with all other waiting ones."""

    service: LocalService
    request: SampleRequest
    policy: Policy
    response: types.SampleResponse | None = None

    def result(self, timeout: float | None = None) -> types.SampleResponse:
        """Return the result, after computing all waiting requests."""
        del timeout
        if self.response is None:
            self.service.compute_waiting()
        assert self.response is not None
        return self.response


@dataclass(frozen=True, slots=True)
class LocalSampler:
    """Local sampling client."""

    service: LocalService
    policy: Policy

    def sample(
        self,
        prompt: types.ModelInput,
        num_samples: int,
        sampling_params: types.SamplingParams,
        include_prompt_logprobs: bool = False,
    ) -> Sampled:
        """Ask for samples."""
        stop = sampling_params.stop
        params = SamplingParams(
            seed=sampling_params.seed or 0,
            max_tokens=sampling_params.max_tokens,
            temperature=sampling_params.temperature,
            top_k=sampling_params.top_k,
            top_p=sampling_params.top_p,
            stop=None if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        )
        return self._sampled(prompt, params, num_samples, logprobs=include_prompt_logprobs)

    def compute_logprobs(self, prompt: types.ModelInput) -> Known[list[float | None]]:
        """Return the log-probability of each token after the previous ones."""
        sampled = self._sampled(prompt, SamplingParams(seed=0, max_tokens=0), 1, logprobs=True)
        return Known(sampled.result().prompt_logprobs or [])

    def _sampled(self, prompt: types.ModelInput, params: SamplingParams, count: int, *, logprobs: bool) -> Sampled:
        request = SampleRequest(
            prompt=np.array(prompt.to_ints(), np.int32), params=params, num_samples=count, prompt_logprobs=logprobs
        )
        sampled = Sampled(self.service, request, self.policy)
        self.service.waiting.append(sampled)
        return sampled


@dataclass(slots=True, kw_only=True)
class LocalTrainer:
    """Local training client; each request is computed when it is made."""

    service: LocalService
    session: TrainingSession
    model_id: str
    holder: Any = field(default_factory=lambda: SimpleNamespace(_client_config=_CONFIG))
    """Configuration by which the SDK splits a large batch into requests, each with its own units."""

    _sent: int = 0

    def new_trace(self, step: int) -> list[dict[str, object]]:
        """Return a run's lines of the trace for its optimizer steps since the last call."""
        assert self.session.trace is not None
        done = [one for one in self.session.trace.steps if one.step > self._sent]
        self._sent = self.session.optimizer.step_count
        return [trace_line(step, substep, one) for substep, one in enumerate(done)]

    def forward_backward(
        self, data: list[tinker.Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Known[_Output]:
        """Compute log-probabilities, and add the gradient."""
        return self._run(self.session.forward_backward, data, loss_fn, loss_fn_config)

    def forward(
        self, data: list[tinker.Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Known[_Output]:
        """Compute log-probabilities."""
        return self._run(self.session.forward, data, loss_fn, loss_fn_config)

    def optim_step(self, params: types.AdamParams) -> Known[types.OptimStepResponse]:
        """Take a step."""
        settings = AdamParams(**{each.name: getattr(params, each.name) for each in fields(AdamParams)})
        return Known(types.OptimStepResponse(metrics=self.session.optim_step(settings)))

    def save_weights_and_get_sampling_client(self) -> LocalSampler:
        """Return the policy of now."""
        return self.service.sampler(self.policy())

    def save_weights_for_sampler(self, name: str) -> Known[Any]:
        """Save weights; return where."""
        return self._saved(CheckpointKind.SAMPLER_WEIGHTS, name)

    def save_state(self, name: str, *, overwrite: bool = False) -> Known[Any]:
        """Save weights and the optimizer; return where."""
        return self._saved(CheckpointKind.WEIGHTS, name, overwrite=overwrite)

    def get_info(self) -> None:
        """Return nothing: nobody can be lost."""

    def get_tokenizer(self) -> PreTrainedTokenizerBase:
        """Return the base's."""
        return tokenizer_of(self.service.source)

    def policy(self) -> Policy:
        """Return the current policy; later training does not change it."""
        return freeze(self.session, self.service.engine.parts.policy_of)

    def _saved(self, kind: CheckpointKind, name: str, *, overwrite: bool = False) -> Known[Any]:
        path = TinkerPath(session=self.model_id, kind=kind, name=name)
        base, whole = self.service.engine.base(self.service.name), kind is CheckpointKind.WEIGHTS
        save(self.session, path.folder(self.service.saved), base=base, with_optimizer=whole, overwrite=overwrite)
        return Known(SimpleNamespace(path=str(path)))

    def _run(
        self,
        compute: Callable[..., ForwardBackwardResult],
        data: list[tinker.Datum],
        loss_fn: str,
        config: Mapping[str, float | str] | None,
    ) -> Known[_Output]:
        cut = tinker.TrainingClient._chunked_requests_generator  # pyright: ignore[reportPrivateUsage]
        found: list[_Output] = []
        for chunk in cut(cast(tinker.TrainingClient, self), data):
            done = compute([_datum(one) for one in chunk.data], LossName(loss_fn), config or {})
            outputs = [{"logprobs": types.TensorData.from_numpy(one.logprobs)} for one in done.outputs]
            found.append(_Output(loss_fn_output_type="", loss_fn_outputs=outputs, metrics=dict(done.metrics)))
        return Known(combine_fwd_bwd_output_results(found))


def trace_line(step: int, substep: int, made: StepTrace) -> dict[str, object]:
    """Return a run's line of one optimizer step."""
    units = {"units": made.units} if made.units else {}
    marks = msgspec.to_builtins({"gradient": made.gradient, "weights": made.weights, **units})
    return {"step": step, "substep": substep, **marks}


def _datum(one: tinker.Datum) -> Datum:
    inputs = {name: one.loss_fn_inputs[name].to_numpy() for name in sorted(one.loss_fn_inputs)}
    return Datum(
        tokens=np.array(one.model_input.to_ints(), np.int32),
        inputs={name: each.astype(np.float32 if each.dtype.kind == "f" else np.int64) for name, each in inputs.items()},
    )


@dataclass(slots=True, kw_only=True)
class LocalService:
    """Local service client for one base model."""

    engine: Engine
    name: str  # Of the base, as the engine knows it.
    source: str  # Folder, file or name that the base is from.
    loaded_from: Path  # State folder of the checkpoints that are loaded.
    saved: Path  # State folder of those that are saved.
    unit_hashes: bool = False
    waiting: list[Sampled] = field(default_factory=list[Sampled])
    _made: int = 0

    def create_lora_training_client(
        self, base_model: str, rank: int, seed: int, *, train_unembed: bool
    ) -> LocalTrainer:
        """Return a client of fresh weights."""
        model_name = ModelName.parse(base_model)
        spec = AdapterSpec(
            kind=model_name.kind,
            rank=AdapterSpec().rank if model_name.kind is AdapterKind.FULL else rank,
            alpha=model_name.alpha,
            seed=seed,
            train_unembed=train_unembed,
            train_router=model_name.router,
        )
        return self._trainer(self.engine.create_session(self.name, spec))

    def create_training_client_from_state_with_optimizer(self, path: str) -> LocalTrainer:
        """Return a client of the weights and the optimizer of a checkpoint."""
        return self._trainer(self._loaded(path, self.loaded_from, with_optimizer=True))

    def create_sampling_client(self, base_model: str = "", model_path: str | None = None) -> LocalSampler:
        """Return the base, or saved weights."""
        if model_path is None:
            return self.sampler(self.engine.base_policy(base_model))
        saved = is_checkpoint(TinkerPath.parse(model_path).folder(self.saved))
        session = self._loaded(model_path, self.saved if saved else self.loaded_from, with_optimizer=False)
        return self.sampler(freeze(session, self.engine.parts.policy_of))

    def sampler(self, policy: Policy) -> LocalSampler:
        """Return the client of a policy."""
        return LocalSampler(self, policy)

    def trainer(self, session: TrainingSession, model_id: str) -> LocalTrainer:
        """Return the client of a session."""
        return LocalTrainer(service=self, session=session, model_id=model_id)

    def compute_waiting(self) -> None:
        """Compute all waiting requests; their grouping changes no bit."""
        waiting, self.waiting = self.waiting, []
        results = self.engine.sample(self.name, [one.request for one in waiting], [one.policy for one in waiting])
        for one, result in zip(waiting, results, strict=True):
            one.response = types.SampleResponse(
                sequences=[
                    types.SampledSequence(
                        stop_reason="stop" if each.stop_reason is StopReason.STOP else "length",
                        sequence_id="",
                        tokens_np=each.tokens,
                        logprobs_np=each.logprobs,
                    )
                    for each in result.sequences
                ],
                prompt_logprobs_np=result.prompt_logprobs,
            )

    def _loaded(self, path: str, state: Path, *, with_optimizer: bool) -> TrainingSession:
        checkpoint = read(TinkerPath.parse(path).folder(state))
        decoder = self.engine.decoder(self.name, quantised=checkpoint.spec.kind.quantised)
        base = self.engine.base(self.name)
        return self.engine.prepare(load_session(decoder, checkpoint, base=base, with_optimizer=with_optimizer))

    def _trainer(self, session: TrainingSession) -> LocalTrainer:
        session.trace = Trace(self.engine.kernels, marks_units=self.unit_hashes)
        self._made += 1
        return self.trainer(session, f"local-{self._made}")
