"""Tree of all errors, each reported to a user in at most five lines.

::

    TinsmithError
    +-- ConfigError (ValueError)        a setting: key, flag, environment variable
    |   +-- ArgumentError (TypeError)   an argument that a class of ours does not take
    +-- InputError (ValueError)         the content of a request: datum, prompt, sampling parameters
    +-- ContractError (ValueError)      a model's answer breaks its JSON contract
    +-- DataError (ValueError)          a corpus, slice or table
    +-- CheckpointError (ValueError)    a checkpoint is damaged, missing, or of another model
    +-- BackendError (RuntimeError)     the engine cannot compute here (missing extension, device)
    |   +-- UnavailableError            no worker is left: the server is about to end
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
    """Mark of a value that was not given, since None may be a value."""


_UNSET = _Unset()


class TinsmithError(Exception):
    """Base of every error that tinsmith raises on purpose.

    The message names the field, the value, what is allowed and what to do; each part is optional
    and stands on a line of its own, so that a user's mistake takes at most five lines.

    If `allowed` lists several names and one resembles the typed text (the value, or the field if the value is not
    text), the message suggests it.
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
            fix = (None if typed in names else perhaps(typed, names)) or fix  # a known name, not allowed here
            allowed = ", ".join(names) or "none"
        self.what = what
        self.field = field
        self.value = value
        self.allowed = allowed
        self.fix = fix
        super().__init__(self._message())

    def located_at(self, where: str) -> Self:
        """Return a copy of this error that begins with the location of the user's mistake."""
        return self._copied(f"{where}: {self.what}", self.field, self.fix)

    def reworded(self, words: Callable[[str], str]) -> Self:
        """Return a copy of this error with another message and field."""
        return self._copied(words(self.what), None if self.field is None else words(self.field), self.fix)

    def with_fix(self, fix: str | None) -> Self:
        """Return a copy of this error that says otherwise what to do."""
        return self._copied(self.what, self.field, fix)

    def _copied(self, what: str, field: str | None, fix: str | None) -> Self:
        other = type(self)(what, allowed=self.allowed, fix=fix)
        other.field, other.value = field, self.value
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
        return visible("\n".join(lines))  # it may quote a server, a model or a file, and is printed on terminals


class ConfigError(TinsmithError, ValueError):
    """Error of a setting with an invalid value."""


class ArgumentError(ConfigError, TypeError):
    """A class or function does not take this argument; also the TypeError that Python raises for one."""


class InputError(TinsmithError, ValueError):
    """Error of a request's content; nothing was computed or changed."""


class ContractError(TinsmithError, ValueError):
    """Error of a model's answer that does not satisfy its contract."""


class DataError(TinsmithError, ValueError):
    """Error of an invalid corpus, slice or table."""


class CheckpointError(TinsmithError, ValueError):
    """Error of a checkpoint or weights file that is damaged, missing, or belongs to another model."""


class BackendError(TinsmithError, RuntimeError):
    """Error of an engine that cannot compute here: no extension, no such device, no such arithmetic."""


class UnavailableError(BackendError):
    """Error of a server that has no worker left and is about to end."""


class DeterminismError(TinsmithError, RuntimeError):
    """Error of a broken promise about bits on this machine."""


class JudgeError(TinsmithError, RuntimeError):
    """Error of a judge without a usable verdict; recorded, never turned into a low reward."""


class TaskError(TinsmithError, RuntimeError):
    """Error of a user's task function that failed on every rollout of a step; each is recorded with its cause."""


class LostError(TinsmithError, RuntimeError):
    """Error of a run that lost its server or its judge; its results are on the disk, and it can be resumed."""


class DiskFullError(LostError):
    """Error of a file that could not be written for lack of room; everything saved before is complete."""


_LISTED: Final = 12
"""Most names that a message lists."""


_NEAR: Final = 0.65
"""Least similarity, from 0 to 1, of names that count as a typing mistake."""
_SLIP: Final = 2  # Most letters that a typing mistake adds or omits: `size` does not suggest `group_size`.
_BEGINNING: Final = 3  # Fewest letters of a suggested name.


def near(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names most similar to a typed one, most similar first.

    >>> near("stpes", ["seed", "steps", "stop_after"])
    ['steps']
    >>> near("temp", ["seed", "temperature"])
    ['temperature']
    """
    names = sorted(known)
    plain = {one: one.lower().replace("-", "_") for one in names}
    typed = name.lower().replace("-", "_")
    last = [one for one in names if plain[one].rpartition("/")[2] == typed]  # exp6 for remedy/exp6
    same = [one for one in names if plain[one] == typed]
    as_long = dict.fromkeys(one for one in plain.values() if abs(len(one) - len(typed)) <= _SLIP)
    close = difflib.get_close_matches(typed, list(as_long), n=count, cutoff=_NEAR)
    like = [one for each in close for one in names if plain[one] == each]
    begun = [one for one in names if len(typed) >= _BEGINNING and plain[one].startswith(typed)]
    return list(dict.fromkeys([*last, *same, *(begun or like)]))[:count]


def perhaps(name: str, known: Iterable[str]) -> str | None:
    """Return a suggestion for a mistyped name; None if no name is similar."""
    return f"perhaps {' or '.join(found)}" if (found := near(name, known)) else None


def no_such(
    what: str, *, field: str, value: object, name: str, known: Iterable[str], listed_by: str, meant: str | None = None
) -> ConfigError:
    """Return the error for an unknown name; `listed_by` is the command that lists all of them.

    `meant` is suggested instead of the most similar names.
    """
    names = sorted(known)
    meant = f"perhaps {meant}" if meant else perhaps(name, names)
    allowed = ", ".join(names) if len(names) <= _LISTED else None
    todo = [*([meant] if meant else []), *([] if allowed else [f"{listed_by} lists all {len(names)}"])]
    return ConfigError(
        f"there is no such {what}", field=field, value=value, allowed=allowed, fix="; ".join(todo) or None
    )


def require_known(what: str, named: Iterable[tuple[str, str]], known: Iterable[str]) -> None:
    """Check that names, each with its field, are known ones; an empty one names nothing.

    Raises:
        ConfigError: one is not.
    """
    known = dict.fromkeys(known)
    for name, where in named:
        if name and name not in known:
            raise ConfigError(f"there is no such {what}", field=where, value=name, allowed=known)


def require_apart(what: str, called: Iterable[tuple[str, str]], *, field: str) -> None:
    """Check that there are things, each with a name and a label of its own.

    Raises:
        ConfigError: there is none, or two have the same name or label.
    """
    known = set[tuple[str, str]]()
    for one in (pair for each in called for pair in zip(("name", "label"), each, strict=True)):
        if one in known:
            kind, value = one
            allowed, fix = f"one {what}", f"give one of the two another {kind}"
            problem = f"two {what}s have the same {kind}"
            raise ConfigError(problem, field=f"{field}.{kind}", value=value, allowed=allowed, fix=fix)
        known.add(one)
    if not known:
        raise ConfigError(f"there is no {what}", field=field, value=(), allowed="one or more")
