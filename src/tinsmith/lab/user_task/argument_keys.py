"""The arguments of a function that returns a task, as keys of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_type_hints

from tinsmith.lab.experiment.key_text import OwnKey
from tinsmith.lab.user_task.calls import Raised, attempt, mistake_in_file
from tinsmith.lab.user_task.task import Value
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import LATER

F = TypeVar("F", bound=Callable[..., Any])
MoreKeys = Callable[[Mapping[str, str]], Sequence[OwnKey]]

_KINDS: Final = (str, int, float, bool)
_DESCRIBED: Final = re.compile(r"^\s*(\w+)(?:\s*\([^)]*\))?:\s+(\S.*)$")
_MORE: Final = "tinsmith_more_keys"
"""The attribute of a function with further keys."""


def argument_keys(entry: Callable[..., Any], path: Path, given: Mapping[str, str] | None = None) -> tuple[OwnKey, ...]:
    """Return a function's arguments as keys; `given` has those that stand on a command line."""
    hints = attempt(get_type_hints, entry)
    if isinstance(hints, Raised):
        raise mistake_in_file(hints, path)
    marked = get_type_hints(entry, include_extras=True)
    words = _described(entry)
    more: MoreKeys | None = vars(entry).get(_MORE)
    found: dict[str, OwnKey] = {}
    for each in inspect.signature(entry).parameters.values():
        if each.kind is each.VAR_KEYWORD and entry.__module__.startswith("tinsmith."):
            continue  # its keys depend on others: see `with_keys`
        if each.kind is each.VAR_KEYWORD and more is not None:
            continue
        kind = hints.get(each.name, type(each.default))
        if kind is Path and each.default == Path():
            words_of = words.get(each.name, "")
            found[each.name] = OwnKey(name=each.name, kind=str, default="", words=words_of, is_file=True)
            continue
        plain = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        if not plain or each.default is each.empty or kind not in _KINDS:
            what = f"{path.name}, line {entry.__code__.co_firstlineno}: this argument of task() cannot be a key"
            allowed = "an argument with a default that is a text, a number, True or False; or Path()"
            raise ConfigError(what, field=str(each), allowed=allowed)
        found[each.name] = OwnKey(
            name=each.name,
            kind=kind,
            default=cast(Value, each.default),
            words=words.get(each.name, ""),
            later=LATER in getattr(marked[each.name], "__metadata__", ()) if each.name in marked else False,
        )
    if more is not None:
        found |= {key.name: key for key in more(given or {})}
    return tuple(found.values())


def with_keys(more: MoreKeys) -> Callable[[F], F]:
    """Mark a function whose `**` argument takes further keys, which depend on what is given of the others.

    `more` is called with the keys as they stand on a command line; a key of an argument's name stands in its place.
    """

    def marked(function: F) -> F:
        vars(function)[_MORE] = more
        return function

    return marked


def _described(entry: Callable[..., Any]) -> dict[str, str]:
    """Return what a docstring says of arguments, in lines `name: words`."""
    lines = (inspect.getdoc(entry) or "").splitlines()
    return {match[1]: match[2] for line in lines if (match := _DESCRIBED.match(line))}
