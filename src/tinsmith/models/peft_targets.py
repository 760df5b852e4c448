"""Layers that an adapter's config names, by PEFT's rules: it drops the tensors of all others without a word."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from tinsmith.models.names import ROUTER
from tinsmith.types.errors import CheckpointError, ConfigError

_ALL: Final = "all-linear"
"""Every linear layer but the head."""
_HEAD: Final = "lm_head"
_LAYER: Final = r".*?\.[^.]*\.(\d+)\."
"""First number in a module's name, that of its layer."""


def require_named(targets: Collection[str], every: Iterable[str], settings: Mapping[str, object], file: Path) -> None:
    """Check that the config in `file` names the targets that have tensors, and no other of `every` linear layer.

    Raises:
        ConfigError: PEFT would drop a target's tensors, or a setting has another form than PEFT's.
        CheckpointError: PEFT would begin a named layer anew, as it has no tensors.
    """
    for field in ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "target_parameters"):
        _require_form(settings, field, file)
    for target in targets:
        field = _dropping(target, settings)
        if field is not None and not _is_parameter(target, _texts(settings.get("target_parameters"))):
            raise ConfigError(
                f"{file}: the adapter has tensors of {target}, which PEFT would drop",
                field=field,
                value=settings.get(field),
                allowed="a value that names every layer with tensors",
                fix="correct it, or take the tensors out of the file",
            )
    # Experts and routers are no layers of transformers 5: names of layers pass over them.
    missing = (name for name in every if name not in targets and ".mlp.experts." not in name)
    for name in missing:
        if not name.endswith(f".{ROUTER}") and _dropping(name, settings) is None:
            raise CheckpointError(
                f"{file}: names a layer that has no tensors, which PEFT would begin anew",
                field="target_modules",
                value=name,
                allowed="layers with tensors",
                fix="fetch the adapter's files again, or correct target_modules",
            )


def _dropping(target: str, settings: Mapping[str, object]) -> str | None:
    """Return the setting by which PEFT drops a module's tensors; None if it loads them."""
    excluded, modules = settings.get("exclude_modules"), settings.get("target_modules")
    if excluded and _matches(target, excluded):
        return "exclude_modules"
    if isinstance(modules, str) and modules.lower() == _ALL:
        return "target_modules" if target == _HEAD else None
    if not _matches(target, modules):
        return "target_modules"
    layers = settings.get("layers_to_transform")
    if isinstance(modules, str) or target in _texts(modules) or layers is None or layers == []:
        return None
    patterns = [rf"(?:^|.*?\.){each}\.(\d+)\." for each in _texts(settings.get("layers_pattern"))] or [_LAYER]
    found = next((match for match in (re.match(each, target) for each in patterns) if match), None)
    chosen = cast("list[object]", layers) if isinstance(layers, list) else [layers]
    return None if found is not None and int(found[1]) in chosen else "layers_to_transform"


def _matches(target: str, modules: object) -> bool:
    if isinstance(modules, str):
        return re.fullmatch(modules, target) is not None
    return any(f".{target}".endswith(f".{each}") for each in _texts(modules))


def _is_parameter(target: str, parameters: Iterable[str]) -> bool:
    """True if a part of a mixture is adapted as a parameter; all experts of a layer are one or two of them."""
    layer, _, leaf = target.rpartition(".")
    if target.endswith(f".{ROUTER}"):
        name = f"{target}.weight"
    elif ".mlp.experts." in target:
        name = f"{layer.rpartition('.')[0]}.{'down_proj' if leaf == 'down_proj' else 'gate_up_proj'}"
    else:
        return False
    return any(f".{name}".endswith(f".{each}") for each in parameters)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [each for each in cast("list[object]", value) if isinstance(each, str)] if isinstance(value, list) else []


def _require_form(settings: Mapping[str, object], field: str, file: Path) -> None:
    value, numbers = settings.get(field), field == "layers_to_transform"
    each = cast("list[object]", value) if isinstance(value, list) else [value]
    kind = int if numbers else str
    usable = value is None or all(isinstance(one, kind) and not isinstance(one, bool) for one in each)
    if isinstance(value, str) and field in ("target_modules", "exclude_modules"):
        try:
            re.compile(value)
        except re.error:
            usable = False
    if not usable:
        raise ConfigError(
            f"{file}: this setting of PEFT has another form",
            field=field,
            value=value,
            allowed="a number, or a list of them" if numbers else "a text, or a list of them",
        )
