"""One small whole model folder, the JSON in its files with something changed, and how a folder is read."""

import copy
import json
import random
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from made_tokenizers import byte_level, model_folder

from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.tokenizer import load_tokenizer

WEIGHTS: Final = "model.safetensors"
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, 1, -1, 1.5, 10**9, 2**63, 10**40, 10**400, 1e308, float("nan"), float("inf")),
    *("", "x", "\x00", "\ud800", "<|end|>", "a" * 5000, [], {}, [[]], [{}], [None, -1], {"": {"": []}}),
)


class Twice(dict[str, Any]):
    """An object that is written with one key twice."""

    def __init__(self, values: dict[str, Any], key: str, other: Any) -> None:
        super().__init__(values)
        self._other = (key, other)

    @property
    def is_doubled(self) -> bool:
        """True if the key is still there beside the other."""
        return self._other[0] in self

    def items(self) -> Any:
        """Return the pairs, and one more."""
        return [self._other, *super().items()]


@cache
def files() -> dict[str, bytes]:
    """Return a good folder's files."""
    with tempfile.TemporaryDirectory() as name:
        folder = model_folder(Path(name) / "model", byte_level(added=["stra\u00dfe"]))
        return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def changed(name: str, chosen: random.Random) -> tuple[bytes, bool]:
    """Return a file whose JSON has something changed, and True if it now holds a key twice."""
    good = files()[name]
    size = struct.unpack("<Q", good[:8])[0] if name == WEIGHTS else len(good)
    values = json.loads(good[8 : 8 + size] if name == WEIGHTS else good)
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        values = _one_change(values, chosen)
    inner = [values, *(container[key] for _, _, container, key in _places(values))]
    twice = any(each.is_doubled for each in inner if isinstance(each, Twice))
    written = json.dumps(values).encode()
    if name != WEIGHTS:
        return written, twice
    lines = len(written) if chosen.random() < 0.8 else chosen.choice((0, 2**63, len(written) + 8, len(written) - 1))
    return struct.pack("<Q", lines) + written + good[8 + size :], twice


def read_shape(file: Path) -> None:
    """Read shape and weights of a folder in which one file is as it is, and all others are good."""
    folder = _completed(file)
    read_weights(folder, read_config(folder))


def read_text(file: Path) -> None:
    """Read a folder's tokenizer, and texts with it."""
    text = ModelText(load_tokenizer(_completed(file)), num_rows=300)
    text.codec.decode(text.prompt("Hello w\u00f6rld <|end|> \U0001f642\x00"))


def _completed(file: Path) -> Path:
    for name, content in files().items():
        if name != file.name:
            (file.parent / name).write_bytes(content)
    return file.parent


def _one_change(values: Any, chosen: random.Random) -> Any:
    values = copy.deepcopy(values)
    places = list(_places(values))
    if not places:
        return values
    parent, key, container, inner = places[min(chosen.randrange(len(places)), chosen.randrange(len(places)))]
    value = copy.deepcopy(chosen.choice(_VALUES))
    kind = chosen.random()
    if kind < 0.15:
        del container[inner]
    elif kind < 0.3 and isinstance(container, dict) and not isinstance(container, Twice):
        double = Twice(container, inner, value)
        if parent is None:
            return double
        parent[key] = double
    elif kind < 0.4:
        other = places[chosen.randrange(len(places))]
        container[inner] = copy.deepcopy(other[2][other[3]])
    elif kind < 0.7:
        container[inner] = _similar(container[inner], chosen)
    else:
        container[inner] = value
    return values


def _similar(value: Any, chosen: random.Random) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return chosen.choice((value + 1, value - 1, value * 2, -value, value // 2))
    if isinstance(value, str) and value:
        at = chosen.randrange(len(value))
        return chosen.choice((value[:at] + value[at + 1 :], value[:at] + "a" + value[at:], value.upper(), value * 2))
    return value


def _places(value: Any, parent: Any = None, at: Any = None) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Every container with a key of it, and where it lies itself; those that lie outside first."""
    if not isinstance(value, (dict, list)):
        return
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    yield from ((parent, at, value, key) for key in keys)
    for key in keys:
        yield from _places(value[key], value, key)
