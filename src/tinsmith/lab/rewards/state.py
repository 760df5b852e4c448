"""All that a reward remembers, as a value that JSON keeps to the last bit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from tinsmith.types.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardState:
    """All that a reward remembers; a value that JSON keeps to the last bit."""

    reward: str
    labels: tuple[str, ...]
    batches: int = 0
    """Updates so far."""
    confusion: tuple[tuple[float, ...], ...] = ()
    """See ShareTable.cells; empty for a reward that does not react."""
    duals: tuple[float, ...] = ()
    """One per label, for a reward that has them."""

    def to_json(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        return {
            "reward": self.reward,
            "labels": list(self.labels),
            "batches": self.batches,
            "confusion": [list(row) for row in self.confusion],
            "duals": list(self.duals),
        }

    @classmethod
    def from_json(cls, value: object) -> RewardState:
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: it is something else.
        """
        try:
            state = _read_state(value)
        except (TypeError, ValueError, KeyError) as error:
            raise CheckpointError(f"this is not the state of a reward: {error}") from None
        return state


def _read_state(value: object) -> RewardState:
    if not isinstance(value, dict) or set(value) != {f.name for f in fields(RewardState)}:
        raise ValueError("other keys")
    state = RewardState(
        reward=str(value["reward"]),
        labels=tuple(map(str, value["labels"])),
        batches=int(value["batches"]),
        confusion=tuple(tuple(map(float, row)) for row in value["confusion"]),
        duals=tuple(map(float, value["duals"])),
    )
    numbers = [*(share for row in state.confusion for share in row), *state.duals]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number that is not finite")
    return state


def wrong_state(name: str, labels: tuple[str, ...], state: RewardState) -> CheckpointError:
    """Say that a state is another reward's."""
    return CheckpointError(
        "this state belongs to another reward",
        field="reward",
        value=f"{state.reward} over {', '.join(state.labels)}",
        allowed=f"{name} over {', '.join(labels)}",
    )
