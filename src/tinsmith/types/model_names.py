"""Adapter options in a base model's name: NAME, NAME:dora, NAME:alpha=128, NAME:dora:router:alpha=128.

The Tinker API has no field for an adapter's kind or its alpha; so the name carries them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tinsmith.types.adapters import ALPHA, AdapterKind
from tinsmith.types.errors import ConfigError

_ALPHA: Final = "alpha="
_ROUTER: Final = "router"

ENDINGS: Final = ", ".join(f":{kind}" for kind in AdapterKind if kind is not AdapterKind.LORA)
"""Endings of a served name that name an adapter, as a server lists them."""
SUFFIXES: Final = (
    f"NAME ({AdapterKind.LORA}), "
    + ", ".join(f"NAME:{kind}" for kind in AdapterKind if kind is not AdapterKind.LORA)
    + f"; NAME:{_ROUTER} or NAME:{AdapterKind.DORA}:{_ROUTER} to train a mixture's routers too"
    + f"; NAME:{_ALPHA}128 or NAME:{AdapterKind.DORA}:{_ALPHA}128 for another alpha than {ALPHA:g}"
)
"""Allowed suffixes of a name, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelName:
    """Base model, and the requested adapter on it."""

    base: str
    kind: AdapterKind = AdapterKind.LORA
    alpha: float = ALPHA
    router: bool = False
    """True if a mixture's routers are trained too."""

    @classmethod
    def parse(cls, name: str) -> ModelName:
        """Parse a name; an ending that is not an adapter's is part of the base's name.

        Raises:
            ConfigError: its alpha is not a positive number.

        >>> ModelName.parse("tinsmith/nano:qdora").kind
        <AdapterKind.QDORA: 'qdora'>
        >>> ModelName.parse("org/model:dora:alpha=128").alpha
        128.0
        """
        rest, colon, ending = name.rpartition(":")
        alpha = ALPHA
        if colon and ending.startswith(_ALPHA):
            alpha = _number(name, ending.removeprefix(_ALPHA))
            name = rest
        router = name.endswith(f":{_ROUTER}")
        name = name.removesuffix(f":{_ROUTER}")
        base, colon, kind = name.rpartition(":")
        if colon and kind in {each.value for each in AdapterKind}:
            return cls(base=base, kind=AdapterKind(kind), alpha=alpha, router=router)
        return cls(base=name, alpha=alpha, router=router)

    def __str__(self) -> str:
        """Return the shortest equivalent name."""
        kind = "" if self.kind is AdapterKind.LORA else f":{self.kind}"
        alpha = "" if self.alpha == ALPHA else f":{_ALPHA}{repr(self.alpha).removesuffix('.0')}"
        return f"{self.base}{kind}{f':{_ROUTER}' if self.router else ''}{alpha}"


def _number(name: str, text: str) -> float:
    try:
        alpha = float(text)
    except ValueError:
        alpha = math.nan
    if not 0 < alpha < math.inf:
        raise ConfigError("an adapter's alpha is a number above 0", field="base_model", value=name, allowed=SUFFIXES)
    return alpha
