"""The one error tree: what can go wrong, and how a person is told in at most five lines.

::

    TinsmithError
    +-- ConfigError (ValueError)        a setting: key, flag, environment variable
    +-- InputError (ValueError)         the content of a request: datum, prompt, sampling parameters
    +-- ContractError (ValueError)      a model's answer breaks its JSON contract
    +-- DataError (ValueError)          a corpus, slice or table
    +-- CheckpointError (ValueError)    a checkpoint is damaged, missing, or of another model
    +-- BackendError (RuntimeError)     the engine cannot compute here (missing extension, device)
    |   +-- UnavailableError            nobody is left to compute: the server is about to end
    +-- DeterminismError (RuntimeError) a promise about bits does not hold
    +-- JudgeError (RuntimeError)       a judge did not answer
    +-- TaskError (RuntimeError)        a function of a user's own task failed on every rollout of a step
    +-- LostError (RuntimeError)        a run lost its server or its judge, and can be resumed
        +-- DiskFullError               a file could not be written: there is no room for it
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final, Self

from tinsmith.types.visible import visible


class _Unset:
    """Marks a value that was not given; None may be the value."""


_UNSET = _Unset()


class TinsmithError(Exception):
    """Base of every error tinsmith raises on purpose.

    The message names the field, the value, what is allowed and what to do; each part is optional
    and stands on a line of its own, so that a user's mistake takes at most five lines.

    Where `allowed` is several names and one is near what was typed (the value, or the field where the value is no
    text), that one is what to do.
    """

    def __init__(
        self,
        what: str,
        *,
        field: str | None = None,
        value: object = _UNSET,
        allowed: str | Iterable[str] | None = None,
        fix: str | None = None,
    ) -> None:
        if allowed is not None and not isinstance(allowed, str):
            names = [str(one) for one in allowed]
            typed = value if isinstance(value, str) else (field or "").rpartition(".")[2]
            fix = (None if typed in names else perhaps(typed, names)) or fix  # a known one is not allowed just here
            allowed = ", ".join(names) or "none"
        self.what = what
        self.field = field
        self.value = value
        self.allowed = allowed
        self.fix = fix
        super().__init__(self._message())

    def located_at(self, where: str) -> Self:
        """Return the same error, saying first where a user made the mistake."""
        other = type(self)(f"{where}: {self.what}", field=self.field, allowed=self.allowed, fix=self.fix)
        other.value = self.value
        other.args = (other._message(),)
        return other

    def reworded(self, words: Callable[[str], str]) -> Self:
        """Return the same error, with other words for what it says and the field it names."""
        other = type(self)(words(self.what), allowed=self.allowed, fix=self.fix)
        other.field = None if self.field is None else words(self.field)
        other.value = self.value
        other.args = (other._message(),)
        return other

    def _message(self) -> str:
        lines = [self.what]
        if self.field is not None:
            shown = "" if isinstance(self.value, _Unset) else f" = {self.value!r}"
            lines.append(f"  field: {self.field}{shown if len(shown) <= 120 else shown[:117] + '...'}")
        if self.allowed is not None:
            lines.append(f"  allowed: {self.allowed}")
        if self.fix is not None:
            lines.append(f"  do: {self.fix}")
        return visible("\n".join(lines))  # it may quote a server, a model or a file, and is shown on terminals


class ConfigError(TinsmithError, ValueError):
    """A setting has a value that is not allowed."""


class InputError(TinsmithError, ValueError):
    """A request's content is not allowed; nothing was computed or changed."""


class ContractError(TinsmithError, ValueError):
    """A model's answer does not satisfy its contract."""


class DataError(TinsmithError, ValueError):
    """A corpus, slice or table is not as it must be."""


class CheckpointError(TinsmithError, ValueError):
    """A checkpoint or weights file is damaged, missing, or belongs to another model."""


class BackendError(TinsmithError, RuntimeError):
    """The engine cannot compute here: no extension, no such device, no such arithmetic."""


class UnavailableError(BackendError):
    """Nobody is left to compute; the server says so and is about to end."""


class DeterminismError(TinsmithError, RuntimeError):
    """A promise about bits does not hold on this machine."""


class JudgeError(TinsmithError, RuntimeError):
    """A judge did not give a usable verdict; recorded, never turned into a low reward."""


class TaskError(TinsmithError, RuntimeError):
    """A function of a user's own task failed on every rollout of a step; each is recorded with its cause."""


class LostError(TinsmithError, RuntimeError):
    """A run lost its server or its judge; what it has is on the disk, and it can be resumed."""


class DiskFullError(LostError):
    """A file could not be written, because there is no room for it; what was saved before is whole."""


_LISTED: Final = 12
"""Most names that a message lists."""


_NEAR: Final = 0.65
"""Least likeness, from 0 to 1, of names of which one may be a slip of the other."""
_SLIP: Final = 2  # Most letters that a slip adds or leaves out: `size` is none of `group_size`.
_BEGINNING: Final = 3  # Fewest letters by which a name may be told.


def near(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names that are most like one that was typed, the likeliest first.

    >>> near("stpes", ["seed", "steps", "stop_after"])
    ['steps']
    >>> near("temp", ["seed", "temperature"])
    ['temperature']
    """
    names = sorted(known)
    plain = {one: one.lower().replace("-", "_") for one in names}
    typed = name.lower().replace("-", "_")
    last = [one for one in names if one.rpartition("/")[2] == name]  # exp6 for remedy/exp6
    same = [one for one in names if plain[one] == typed]
    as_long = dict.fromkeys(one for one in plain.values() if abs(len(one) - len(typed)) <= _SLIP)
    close = difflib.get_close_matches(typed, list(as_long), n=count, cutoff=_NEAR)
    like = [one for each in close for one in names if plain[one] == each]
    begun = [one for one in names if len(typed) >= _BEGINNING and plain[one].startswith(typed)]
    return list(dict.fromkeys([*last, *same, *(begun or like)]))[:count]


def perhaps(name: str, known: Iterable[str]) -> str | None:
    """Say what was probably meant; None where nothing is like it."""
    return f"perhaps {' or '.join(found)}" if (found := near(name, known)) else None


def no_such(what: str, *, field: str, value: object, name: str, known: Iterable[str], listed_by: str) -> ConfigError:
    """Return the error for a name that nothing has; `listed_by` is the command that lists all of them."""
    names = sorted(known)
    meant = perhaps(name, names)
    allowed = ", ".join(names) if len(names) <= _LISTED else None
    todo = [*([meant] if meant else []), *([] if allowed else [f"{listed_by} lists all {len(names)}"])]
    return ConfigError(
        f"there is no such {what}", field=field, value=value, allowed=allowed, fix="; ".join(todo) or None
    )
