"""JSON requests of the Tinker wire; `conversions` turns them into values.

An unknown field is ignored where it can only be a remark (the SDK gains such fields), and rejected inside the settings
of a computation (sampling_params, adam_params, lora_config, optimizer_config), where it would change the meaning.
Ranges that depend on a model are checked by the engine.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from tinsmith.server.wire.body import Int32, Request, SeqId, TrainingSeqId, TtlSeconds, check_one_given
from tinsmith.server.wire.bounds import FailFast, Metadata, ShortText, TextMetadata, bounded
from tinsmith.server.wire.settings import (
    AdamSettings,
    AdjustmentSettings,
    LoraSettings,
    OptimizerSettings,
    Prompt,
    SamplingSettings,
    TensorSettings,
)
from tinsmith.types.errors import InputError

MAX_SAMPLES = 65536
"""Most samples in one request."""


class CreateSession(Request):
    """POST create_session."""

    tags: Annotated[FailFast[tuple[str, ...]], AfterValidator(bounded)] = ()
    user_metadata: Metadata | None = None
    sdk_version: ShortText = ""
    project_id: ShortText | None = None
    display_name: ShortText | None = None


class OfSession(Request):
    """POST session_heartbeat."""

    session_id: str


class FinishReason(Request):
    """Reason for the end of a session."""

    type: ShortText = "success"


class FinishSession(Request):
    """POST sessions/{id}/finish."""

    reason: FinishReason = FinishReason()
    detail: ShortText | None = None


class CreateModel(Request):
    """POST create_model."""

    session_id: str
    model_seq_id: SeqId
    base_model: str
    lora_config: LoraSettings | None = None
    optimizer_config: OptimizerSettings = OptimizerSettings()
    user_metadata: Metadata | None = None


class OfModel(Request):
    """POST get_info and unload_model."""

    model_id: str


class OptimStep(Request):
    """POST optim_step."""

    model_id: str
    seq_id: TrainingSeqId
    adam_params: AdamSettings | None = None
    optimizer_params: JsonValue = None

    @model_validator(mode="after")
    def _is_adam(self) -> Self:
        if self.optimizer_params is not None or self.adam_params is None:
            raise InputError(
                "an optimizer step needs Adam's settings",
                field="optimizer_params",
                value=self.optimizer_params,
                allowed="adam_params; there is no other optimizer here, Dimuon neither",
                fix="call optim_step(tinker.AdamParams(...))",
            )
        return self


class SaveWeights(Request):
    """POST save_weights."""

    model_id: str
    seq_id: TrainingSeqId
    path: str | None = None
    ttl_seconds: TtlSeconds | None = None
    overwrite: bool = False
    user_metadata: TextMetadata | None = None


class SaveWeightsForSampler(Request):
    """POST save_weights_for_sampler: a checkpoint with a name, or a sampling session without one."""

    model_id: str
    seq_id: TrainingSeqId
    path: str | None = None
    sampling_session_seq_id: SeqId | None = None
    kind: Literal["snapshot", "inflight"] = "snapshot"
    ttl_seconds: TtlSeconds | None = None
    user_metadata: TextMetadata | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        check_one_given(path=self.path, sampling_session_seq_id=self.sampling_session_seq_id)
        if self.kind == "inflight" and self.path is not None:
            raise InputError(
                "weights that are followed cannot have a name",
                field="kind",
                value=self.kind,
                allowed="snapshot with a path",
                fix="call save_weights_and_get_sampling_client(kind='inflight')",
            )
        return self


class LoadWeights(Request):
    """POST load_weights: into a new model (session_id, model_seq_id), or an existing one (model_id, seq_id)."""

    path: str
    optimizer: bool
    session_id: str | None = None
    model_seq_id: SeqId | None = None
    model_id: str | None = None
    seq_id: TrainingSeqId | None = None
    base_model: str | None = None
    optimizer_config: OptimizerSettings | None = None
    user_metadata: Metadata | None = None
    weights_access_token: None = None
    """Rejected: there are no weights of other accounts here."""

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        check_one_given(session_id=self.session_id, model_id=self.model_id)
        check_one_given(model_seq_id=self.model_seq_id, model_id=self.model_id)
        check_one_given(session_id=self.session_id, seq_id=self.seq_id)
        return self


class SaveWeightsExternal(Request):
    """POST save_weights_external."""

    model_id: str
    seq_id: TrainingSeqId
    path: str
    ttl_seconds: TtlSeconds | None = None
    age_encryption_recipients: FailFast[tuple[str, ...]] = ()


class CreateSamplingSession(Request):
    """POST create_sampling_session: from a checkpoint, or from a base model."""

    session_id: str
    sampling_session_seq_id: SeqId
    base_model: str | None = None
    model_path: str | None = None

    @model_validator(mode="after")
    def _has_model(self) -> Self:
        if self.base_model is None and self.model_path is None:
            check_one_given(base_model=None, model_path=None)
        return self


class Sample(Request):
    """POST asample, in a sampling session."""

    sampling_session_id: str
    seq_id: SeqId
    prompt: Prompt
    sampling_params: SamplingSettings
    num_samples: Annotated[int, Field(le=MAX_SAMPLES)] = 1
    prompt_logprobs: bool | None = None
    topk_prompt_logprobs: Int32 = 0
    topk_sample_logprobs: Int32 = 0
    prompt_logprobs_last_n: int | None = None
    target_prompt_logprobs: TensorSettings | None = None
    prompt_alt_tokens_k: Int32 = 0
    record_stability_info: bool | None = None
    """Accepted and ignored: it only prepares the loss stable_reinforce, which is rejected by name."""

    def content(self) -> dict[str, JsonValue]:
        """Return the request without its sender; an unseeded request's seed is derived from it.

        A field added later is left out at its default, so that earlier seeds stay the same.
        """
        fields = self.model_dump(mode="json", exclude={"sampling_session_id", "seq_id"})
        adjustments = self.sampling_params.adjustments
        if adjustments is None or adjustments == AdjustmentSettings():
            del fields["sampling_params"]["adjustments"]
        return fields


class OfFuture(Request):
    """POST retrieve_future and cancel_future."""

    request_id: str
    allow_metadata_only: bool = False


class JoinSamplingSession(Request):
    """POST join_sampling_session: a copy of a sampling client requests a number of its own."""

    sampling_session_id: str


class WeightsInfo(Request):
    """POST weights_info."""

    tinker_path: str


class SetTtl(Request):
    """PUT training_runs/{id}/checkpoints/{checkpoint_id}/ttl; None: never expires."""

    ttl_seconds: TtlSeconds | None = None
