"""Adapters in PEFT's format: a folder with adapter_config.json and adapter_model.safetensors.

Plain `PeftModel.from_pretrained` loads the written files (its warning about an adapted tied head can be ignored). Files
may come from PEFT itself, on any of the linear layers, with separate or fused experts. An unsupported setting that
would change the function is rejected by name. Dropout only matters while PEFT trains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from tinsmith.models.adapter import Adapter, create_adapter, is_quantised, target_names
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.stored import opened, read_object
from tinsmith.models.merge import base_head
from tinsmith.models.mixtures.peft_layout import check_fused_targets, experts_apart, refuse_mixed_layers
from tinsmith.models.names import ATTENTION_TARGETS, LINEAR_TARGETS, MLP_TARGETS, ROUTER_TARGET
from tinsmith.models.peft_targets import require_named
from tinsmith.models.slots import load, values
from tinsmith.models.staging import staged
from tinsmith.models.tensor_file import write_tensors
from tinsmith.types.adapters import MAX_RANK, AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, ConfigError

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

_PREFIX = "base_model.model."
_SAVED_HEAD = "lm_head.base_layer.weight"
"""Base's head, which PEFT stores beside an adapter of the head."""

_KINDS = {
    (False, False): AdapterKind.LORA,
    (False, True): AdapterKind.DORA,
    (True, False): AdapterKind.QLORA,
    (True, True): AdapterKind.QDORA,
}
"""Kinds by (quantised base, DoRA)."""

_READ = frozenset({"peft_type", "task_type", "r", "lora_alpha", "use_rslora", "use_dora"})
_WITHOUT_EFFECT = frozenset(
    # The adapted layers are read from the tensors, all of which these keys have to name.
    {"target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"}
    # These only matter while PEFT trains or starts, or name locations.
    | {"lora_dropout", "inference_mode", "auto_mapping", "base_model_name_or_path", "revision"}
    | {"peft_version", "eva_config", "megatron_core", "qalora_group_size", "runtime_config"}
)
_MAX_ALPHA = 1e30
_KEEPS_THE_BASE = (True, False, None, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights that leave the base's weights unchanged."""


def export_peft(adapter: Adapter, folder: Path, *, base_name: str) -> None:
    """Write an adapter in PEFT's format; the folder appears whole or not at all.

    Raises:
        ConfigError: something is at `folder` already, all weights were trained (`full`), or PEFT would load only a
            part.
    """
    if adapter.spec.kind is AdapterKind.FULL:
        raise ConfigError(
            "all weights were trained, so there is no adapter to write",
            field="kind",
            value=adapter.spec.kind.value,
            allowed="lora, dora, qlora, qdora",
            fix="export it as a whole model: --to merged",
        )
    refuse_mixed_layers(adapter.targets, dora=adapter.spec.kind.decomposed)
    with staged(folder) as whole:
        text = json.dumps(_config_values(adapter, base_name), indent=2, sort_keys=True) + "\n"
        (whole / CONFIG).write_text(text, encoding="utf-8")
        tensors = {f"{_PREFIX}{name}": t.cpu() for name, t in values(adapter.slots).items()}
        write_tensors(whole / WEIGHTS, tensors)


def import_peft(folder: Path, decoder: Decoder) -> Adapter:
    """Read an adapter written by PEFT or by `export_peft`, ready for further training.

    Its kind is lora or dora, or qlora or qdora on a quantised `decoder`. The spec's alpha is PEFT's
    scaling (with use_rslora: alpha / sqrt(r)) times the rank.

    Raises:
        ConfigError: there is no such adapter, or a setting is not supported.
        CheckpointError: the file is damaged, or its tensors do not fit this model or the config.
    """
    settings = _settings(folder)
    rank, dora = _rank(settings, folder), settings.get("use_dora") is True
    tensors = _tensors(folder, decoder)
    suffix = ".lora_A.weight"
    targets = sorted(name.removesuffix(suffix) for name in tensors if name.endswith(suffix))
    every = [name for place in decoder.linears() for name in target_names(place)]
    _check_targets(targets, every, decoder, folder)
    require_named(set(targets), every, settings, folder / CONFIG)
    layers = {target.rpartition(".")[2] for target in targets}
    spec = AdapterSpec(
        kind=_KINDS[is_quantised(decoder), dora],
        rank=rank,
        alpha=_scaling(settings, rank, folder) * rank,
        train_attn=not layers.isdisjoint(ATTENTION_TARGETS),
        train_mlp=not layers.isdisjoint(MLP_TARGETS),
        train_unembed="lm_head" in layers,
        train_router=ROUTER_TARGET in layers,
    )
    adapter = create_adapter(decoder, spec, targets=targets)
    load(adapter.slots, tensors, source=str(folder / WEIGHTS))
    adapter.changed()
    return adapter


def _config_values(adapter: Adapter, base_name: str) -> dict[str, object]:
    alpha = adapter.spec.alpha
    return {
        "alpha_pattern": {},
        "auto_mapping": None,
        "base_model_name_or_path": base_name,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "layers_pattern": None,
        "layers_to_transform": None,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": adapter.spec.rank,
        "rank_pattern": {},
        "revision": None,
        "target_modules": _target_modules(adapter),
        "task_type": "CAUSAL_LM",
        "use_dora": adapter.spec.kind.decomposed,
        "use_rslora": False,
    }


def _target_modules(adapter: Adapter) -> list[str]:
    """Return last names if every layer has the same targets; otherwise full names, which PEFT accepts too."""
    chosen = set(adapter.targets)
    last = {target.rpartition(".")[2] for target in chosen}
    every = {name for place in adapter.decoder.linears() for name in target_names(place)}
    meant = {name for name in every if name.rpartition(".")[2] in last}
    return sorted(last, key=LINEAR_TARGETS.index) if meant == chosen else sorted(chosen)


def _settings(folder: Path) -> dict[str, object]:
    """Read the config, and reject every setting that is neither supported nor without effect."""
    file = folder / CONFIG
    if not file.is_file():
        raise ConfigError(
            "this is no PEFT adapter", field="path", value=str(folder), allowed=f"a folder with {CONFIG} and {WEIGHTS}"
        )
    settings = read_object(file, ConfigError)
    for name, allowed in (("peft_type", ("LORA",)), ("task_type", ("CAUSAL_LM", None))):
        if settings.get(name) not in allowed:
            raise _refused(file, name, settings.get(name), str(allowed[0]))
    for name in ("use_rslora", "use_dora"):
        if not isinstance(settings.get(name, False), bool):
            raise _refused(file, name, settings.get(name), "true or false")
    for name, value in sorted(settings.items()):
        if name == "init_lora_weights":
            if value not in _KEEPS_THE_BASE:
                raise _refused(file, name, value, "an initialisation that leaves the base as it is")
        elif name == "target_parameters" and value:
            check_fused_targets(value, file)
        elif name == "bias":
            if value != "none":
                raise _refused(file, name, value, "none")
        elif name not in _READ | _WITHOUT_EFFECT and value not in (None, False, {}, []):
            raise _refused(file, name, value, "absent, null, false or empty")
    return settings


def _refused(file: Path, field: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{file}: this setting of PEFT is not supported", field=field, value=value, allowed=allowed)


def _rank(settings: Mapping[str, object], folder: Path) -> int:
    rank = settings.get("r")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
        raise _refused(folder / CONFIG, "r", rank, f"an integer from 1 to {MAX_RANK}")
    return rank


def _scaling(settings: Mapping[str, object], rank: int, folder: Path) -> float:
    alpha = settings.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 < alpha <= _MAX_ALPHA:
        raise _refused(folder / CONFIG, "lora_alpha", alpha, f"a number > 0, at most {_MAX_ALPHA:.0e}")
    return alpha / math.sqrt(rank) if settings.get("use_rslora") is True else alpha / rank


def _tensors(folder: Path, decoder: Decoder) -> dict[str, Tensor]:
    """Read the tensors as fp32 under our names."""
    file = folder / WEIGHTS
    if not file.is_file() and (folder / "adapter_model.bin").is_file():
        raise ConfigError(
            "only safetensors are read, because loading a pickle can run any code",
            field="path",
            value=str(folder / "adapter_model.bin"),
            allowed=WEIGHTS,
            fix="load it with PEFT where you trust it, and save_pretrained to a new folder",
        )
    tensors: dict[str, Tensor] = {}
    with opened(file) as handle:
        for stored in sorted(handle.keys()):
            tensor = handle.get_tensor(stored)
            if not stored.startswith(_PREFIX) or not tensor.is_floating_point():
                raise CheckpointError(
                    f"{file}: this is no tensor of a PEFT adapter",
                    field=stored,
                    value=f"{tensor.dtype} {tuple(tensor.shape)}",
                    allowed=f"floating-point tensors whose names start with {_PREFIX}",
                )
            # A copy, because safetensors returns views of the file's pages.
            tensors[stored.removeprefix(_PREFIX)] = tensor.to(torch.float32, copy=True)
    saved_head = tensors.pop(_SAVED_HEAD, None)
    if saved_head is not None and not torch.equal(saved_head, base_head(decoder).cpu()):
        raise CheckpointError(
            f"{file}: the adapter brings a head of its own, and it is not the base model's",
            field=_SAVED_HEAD,
            value=tuple(saved_head.shape),
            allowed="absent, or equal to the base model's head",
            fix="use the base model that the adapter was trained on",
        )
    return experts_apart(tensors, decoder.config)


def _check_targets(targets: list[str], every: list[str], decoder: Decoder, folder: Path) -> None:
    known = set(every)
    unknown = [target for target in targets if target not in known]
    if unknown or not targets:
        raise CheckpointError(
            f"{folder / WEIGHTS}: an adapter sits on linear layers of its model",
            field="target",
            value=unknown[0] if unknown else "none",
            allowed=f"{', '.join(LINEAR_TARGETS)} of {len(decoder.layers)} layers",
        )
