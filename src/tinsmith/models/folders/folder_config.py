"""Decoder described by a folder in Hugging Face's layout, read from its JSON files alone."""

from __future__ import annotations

from pathlib import Path

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.hf_config import parse_config
from tinsmith.models.folders.stored import read_object
from tinsmith.types.errors import ConfigError

_ADAPTER = "adapter_config.json"


def read_config(path: Path) -> DecoderConfig:
    """Return the decoder described by a folder's config.json and generation_config.json.

    Raises:
        ConfigError: when there is no such folder or file, an adapter lies beside the weights, or the decoder is not
            supported.
    """
    file = model_folder(path) / "config.json"
    if not file.is_file():
        allowed = "a folder with config.json and safetensors, as transformers saves a model"
        raise ConfigError("this folder holds no model", field="path", value=str(path), allowed=allowed)
    if file.with_name(_ADAPTER).is_file():
        raise ConfigError(
            "this folder holds an adapter beside the weights, which transformers would add to them",
            field="path",
            value=str(file.with_name(_ADAPTER)),
            allowed="a model's weights alone",
            fix="merge it first (PEFT: merge_and_unload, then save_pretrained), or move it out of the model's folder",
        )
    generation = file.with_name("generation_config.json")
    return parse_config(
        read_object(file, ConfigError),
        source=str(file),
        generation=read_object(generation, ConfigError) if generation.is_file() else None,
    )


def model_folder(path: Path) -> Path:
    """Return the path of an existing folder.

    Raises:
        ConfigError: it is not a folder.
    """
    if not path.is_dir():
        raise ConfigError(
            "there is no such folder",
            field="path",
            value=str(path),
            allowed="a local folder with config.json and safetensors; no hub is asked",
            fix="download the model first, and give the folder's path",
        )
    return path
