"""A base spread over stages in this process, where all that passes between them goes through pickle."""

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tinsmith.engine.cluster.sharded import ShardedDecoder, sharded
from tinsmith.engine.cluster.stages import Stage
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.stages import cut_layers
from tinsmith.ops.native import NativeKernels


class Passed:
    """A stage behind pickle, which hands out arrays that cannot be written, as shared memory does."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            self.calls.append(name)
            return _passed(getattr(self.stage, name)(*_passed(given)))

        return call


def _passed(value: Any) -> Any:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


def spread(
    config: DecoderConfig, weights: Mapping[str, torch.Tensor], shards: int, *, quantised: bool = False
) -> ShardedDecoder:
    """A base's driver, with the earlier stages behind it."""
    cut = cut_layers(config, shards, quantised=quantised)
    *earlier, last = (
        build_decoder(config, weights, NativeKernels(), quantised=quantised, layers=layers) for layers in cut
    )
    return sharded(last, config, [Passed(Stage(decoder)) for decoder in earlier], cut)


def stages_of(decoder: ShardedDecoder) -> list[Stage]:
    """The earlier stages themselves."""
    return [calls.stage for calls in decoder.stages if isinstance(calls, Passed)]
