"""Client of `RayStage` in the last process of a worker; Ray transfers its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from tinsmith.engine.cluster.shard import ShardFacts
from tinsmith.engine.cluster.stage_calls import (
    CachedRows,
    OpenedPart,
    StageCalls,
    StageGradients,
    StageLostError,
    TreeRows,
)
from tinsmith.engine.cluster.stages import Stage
from tinsmith.models.routes import Recorded
from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import TinsmithError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteShard:
    """Share of another process, behind Ray's handle of a `RayStage`."""

    handle: Any

    def facts(self) -> ShardFacts:
        """Return the facts of the share; waits until it is loaded.

        Raises:
            TinsmithError: it cannot serve.
            StageLostError: it is gone.
        """
        return cast("ShardFacts", answer_of(self.handle.facts.remote()))

    def stage(self, name: str, *, quantised: bool) -> StageCalls:
        """Return its stage of one form of a base."""
        return RemoteStage(self.handle, name, quantised)


@dataclass(frozen=True, slots=True)
class RemoteStage:
    """`StageCalls` on a remote process: each call waits for its answer."""

    handle: Any
    name: str
    quantised: bool

    def clear(self) -> None:
        """Drop everything that an earlier driver left."""
        self._ask(Stage.clear)

    def open(self, adapter: int, parts: Sequence[OpenedPart]) -> list[FloatArray | None]:
        """Hold an adapter's parts under a number; see `StageCalls`."""
        return self._ask(Stage.open, adapter, parts)

    def close(self, adapters: Sequence[int], steps: Sequence[int]) -> None:
        """Drop adapters; see `StageCalls`."""
        self._ask(Stage.close, adapters, steps)

    def forward(self, request: TreeRows, x: FloatArray | None) -> FloatArray:
        """Compute rows; see `StageCalls`."""
        return self._ask(Stage.forward, request, x)

    def backward(self, step: int, grad: FloatArray) -> StageGradients:
        """Return gradients; see `StageCalls`."""
        return self._ask(Stage.backward, step, grad)

    def open_pool(self, pool: int, capacity: int) -> None:
        """Allocate pages; see `StageCalls`."""
        self._ask(Stage.open_pool, pool, capacity)

    def sample(self, request: CachedRows, x: FloatArray | None) -> FloatArray:
        """Compute new rows over pages; see `StageCalls`."""
        return self._ask(Stage.sample, request, x)

    def routed(self) -> Recorded | None:
        """Return the mixture's routes of the rows computed last; see `StageCalls`."""
        return self._ask(Stage.routed)

    def duplicate(self, pool: int, page: int, copies: Sequence[int]) -> None:
        """Copy one page into others; see `StageCalls`."""
        self._ask(Stage.duplicate, pool, page, copies)

    def scrub(self, pool: int, pages: Sequence[int]) -> None:
        """Zero pages; see `StageCalls`."""
        self._ask(Stage.scrub, pool, pages)

    def _ask(self, method: Callable[Concatenate[Stage, P], T], *given: P.args, **named: P.kwargs) -> T:
        assert not named, "all are given by their place"
        reference = self.handle.call.remote(self.name, self.quantised, method, given)
        return cast("T", answer_of(reference))


def answer_of(reference: object) -> object:
    """Wait for a process's answer.

    Raises:
        StageLostError: it is gone.
        Exception: the process's own error.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reference)  # pyright: ignore[reportUnknownMemberType, reportArgumentType, reportCallIssue]
    except RayTaskError as error:
        if isinstance(error.cause, TinsmithError):
            raise error.cause from None
        raise
    except RayError as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise StageLostError(f"a stage of its base is gone: {reason}") from None
