"""Checked constructors of public dataclasses: an unknown argument raises an error with the most similar name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Self

from tinsmith.types.errors import ArgumentError, no_such


class KnownArguments:
    """Base of dataclasses whose constructor suggests the most similar argument for an unknown one."""

    __slots__ = ()

    def __new__(cls, *arguments: object, **named: object) -> Self:
        """Refuse an argument that is no field."""
        del arguments
        require_known(cls, named)
        return super().__new__(cls)


def require_known(made: type, named: Mapping[str, object]) -> None:
    """Raise an error for an unknown field of a dataclass, with the most similar field."""
    assert is_dataclass(made), "its fields are its arguments"
    known = [each.name for each in fields(made) if each.init]
    for name, value in named.items():
        if name not in known:
            listed_by = f"help(tinsmith.{made.__name__})"
            error = no_such("argument", field=name, value=value, name=name, known=known, listed_by=listed_by)
            what = f"{made.__name__} has no such argument"
            raise ArgumentError(what, field=name, value=value, allowed=error.allowed, fix=error.fix)
