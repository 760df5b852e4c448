"""Seeds, fingerprints, errors, adapter specs, names of models, marks of tensors, and JSON of others."""

import dataclasses
import hashlib
import math
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from tinsmith.types import json_text
from tinsmith.types.adapters import ALPHA, AdapterKind, AdapterSpec
from tinsmith.types.errors import ConfigError, DataError, TinsmithError
from tinsmith.types.fingerprints import LATER, array_sha256, canonical_json, sha256_of, tensors_sha256
from tinsmith.types.json_text import MAX_DEPTH, UNREADABLE, parse_json, read_json
from tinsmith.types.model_names import SUFFIXES, ModelName
from tinsmith.types.seeds import derive, random_bits, uniform
from tinsmith.types.sketches import SKETCH, digest, distance, signs, sketch
from tinsmith.types.source import PACKAGE, tree_sha256


def test_random_bits_are_splitmix64() -> None:
    # The published reference stream of seed 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert random_bits(1234567, 4).tolist() == expected


@pytest.mark.whole
def test_derived_seeds_do_not_depend_on_the_hash_seed() -> None:
    program = "from tinsmith.types.seeds import derive; print(derive(7, 'rollout', 3, 'p'))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("0", "1", "random")
    }  # fmt: skip
    assert found == {str(derive(7, "rollout", 3, "p"))}


def test_sibling_paths_give_unrelated_seeds() -> None:
    seeds = {derive(root, name, i) for root in range(3) for name in ("a", "b") for i in range(100)}
    assert len(seeds) == 600
    assert derive(0, "a", 1) != derive(0, "a", "1")


def test_uniform_has_its_bound_and_a_flat_distribution() -> None:
    draws = uniform(5, (40_000,), 2.0)
    assert draws.dtype == np.float32
    assert np.abs(draws).max() <= 2.0
    counts = np.histogram(draws, bins=16, range=(-2, 2))[0]
    assert ((counts - 2500) ** 2 / 2500).sum() < 37.7  # chi-square, 15 degrees, p = 0.001


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Value:
    b: float
    a: tuple[int, ...]
    colour: Colour


def test_canonical_json_sorts_keys_and_reads_values() -> None:
    assert canonical_json(Value(0.5, (1, 2), Colour.RED)) == '{"a":[1,2],"b":0.5,"colour":"red"}'
    assert sha256_of({"x": 1, "y": 2}) == sha256_of({"y": 2, "x": 1})


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), float("inf"), object(), print, {1: 2}, Value])
def test_what_has_no_identity_is_refused(value: object) -> None:
    with pytest.raises(DataError):
        canonical_json(value)


@dataclasses.dataclass(frozen=True)
class _Grown:
    """A value that got a field after it had been fingerprinted."""

    old: int = 1
    new: int = dataclasses.field(default=2, metadata=LATER)


def test_a_field_that_came_later_changes_a_fingerprint_only_where_it_is_used() -> None:
    assert sha256_of(_Grown()) == sha256_of({"old": 1})
    assert sha256_of(_Grown(new=3)) == sha256_of({"old": 1, "new": 3})


def test_array_fingerprints_cover_shape_dtype_and_bits_but_not_the_sign_of_zero() -> None:
    a = np.array([1.0, -0.0], np.float32)
    assert array_sha256(a) == array_sha256(np.array([1.0, 0.0], np.float32))
    assert array_sha256(a) != array_sha256(a.astype(np.float64))
    assert array_sha256(a) != array_sha256(a.reshape(1, 2))
    assert array_sha256(a) != array_sha256(np.nextafter(a, np.float32(2)))
    assert tensors_sha256({"x": a, "y": a}) == tensors_sha256({"y": a, "x": a})
    assert tensors_sha256({"x": a}) != tensors_sha256({"z": a})


def test_an_error_is_at_most_five_lines_and_shortens_long_values() -> None:
    error = TinsmithError("what", field="f", value="x" * 1000, allowed="short", fix="this")
    assert str(error).splitlines()[0] == "what"
    assert len(str(error).splitlines()) == 4
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        *(("rank", {"rank": rank}) for rank in (0, -1, 1025)),
        *(("alpha", {"alpha": alpha}) for alpha in (0.0, -1.0, math.nan, math.inf)),
        ("train_attn", {"train_attn": False, "train_mlp": False, "train_unembed": False}),
    ],
)
def test_an_impossible_adapter_is_refused_by_name(field: str, settings: dict[str, int | float | bool]) -> None:
    with pytest.raises(ConfigError, match=rf"field: {field}.*\n  allowed: "):
        AdapterSpec(**settings)  # pyright: ignore[reportArgumentType]


def test_an_array_is_hashed_as_a_whole_however_large() -> None:
    large = np.arange(3 * 70_001, dtype=np.float32).reshape(3, 70_001)
    large[1, 5], large[2, 70_000] = -0.0, -1.5
    plain = f"{large.dtype.str}{large.shape}".encode() + (large + np.float32(0)).tobytes()
    assert array_sha256(large) == hashlib.sha256(plain).hexdigest()
    assert array_sha256(large[:, ::3]) == array_sha256(large[:, ::3].copy())


@pytest.mark.parametrize(
    ("name", "base", "kind", "alpha"),
    [
        ("nano", "nano", AdapterKind.LORA, ALPHA),
        ("a/b:dora", "a/b", AdapterKind.DORA, ALPHA),
        ("a/b:qdora", "a/b", AdapterKind.QDORA, ALPHA),
        ("a/b:full", "a/b", AdapterKind.FULL, ALPHA),
        ("C:/models/x", "C:/models/x", AdapterKind.LORA, ALPHA),
        ("a/b:xyz", "a/b:xyz", AdapterKind.LORA, ALPHA),
        ("a/b:alpha=128", "a/b", AdapterKind.LORA, 128.0),
        ("a/b:qdora:alpha=0.5", "a/b", AdapterKind.QDORA, 0.5),
    ],
)
def test_kind_and_alpha_are_read_and_written(name: str, base: str, kind: AdapterKind, alpha: float) -> None:
    read = ModelName.parse(name)
    assert (read.base, read.kind, read.alpha) == (base, kind, alpha)
    assert str(read) == name


@pytest.mark.parametrize(
    ("name", "base", "kind", "alpha"),
    [
        ("a/b:router", "a/b", AdapterKind.LORA, ALPHA),
        ("a/b:qdora:router", "a/b", AdapterKind.QDORA, ALPHA),
        ("a/b:dora:router:alpha=128", "a/b", AdapterKind.DORA, 128.0),
    ],
)
def test_a_router_that_is_to_be_trained_is_read_and_written(
    name: str, base: str, kind: AdapterKind, alpha: float
) -> None:
    read = ModelName.parse(name)
    assert (read.base, read.kind, read.alpha, read.router) == (base, kind, alpha, True)
    assert str(read) == name
    assert not ModelName.parse(name.replace(":router", "")).router


def test_what_is_the_default_needs_no_ending() -> None:
    assert str(ModelName.parse(f"x:lora:alpha={ALPHA}")) == "x"


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "nan", "inf"])
def test_an_alpha_that_is_no_positive_number_is_refused_with_what_a_name_may_say(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelName.parse(f"x:dora:alpha={text}")
    assert caught.value.field == "base_model"
    assert all(kind.value in SUFFIXES for kind in AdapterKind)


def test_it_covers_code_and_prompts_by_path_and_no_compiled_file(tmp_path: Path) -> None:
    assert (PACKAGE / "types" / "source.py").exists()
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "deep" / "prompt.md").write_text("Is it?\n")
    first = tree_sha256(tmp_path)
    (tmp_path / "deep" / "__pycache__").mkdir()
    for compiled in ("deep/__pycache__/a.cpython-311.pyc", "_native.so", ".a.py.swp"):
        (tmp_path / compiled).write_text("x")
    assert tree_sha256(tmp_path) == first
    (tmp_path / "deep" / "prompt.md").write_text("Is it!\n")
    second = tree_sha256(tmp_path)
    (tmp_path / "deep" / "prompt.md").rename(tmp_path / "deep" / "other.md")
    assert len({first, second, tree_sha256(tmp_path)}) == 3


def drawn(seed: int, size: int, scale: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(size) * scale).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7, 16, 17, 4096])
def test_projections_have_a_sign_of_every_element(size: int) -> None:
    places = signs("w", size)
    assert places.shape == (size,)
    assert places.max() < 2 * SKETCH
    for i in {0, size // 2, size - 1}:
        unit = np.zeros(size, np.float32)
        unit[i] = 3.0
        projections = sketch(unit, places)
        assert {abs(value) for value in projections} == {3.0}


def test_the_distance_estimates_the_norm_of_the_difference() -> None:
    ratios: list[float] = []
    for seed in range(60):
        a = drawn(seed, 3000)
        b = a + drawn(1000 + seed, 3000, 1e-3)
        places = signs(f"layer {seed}", 3000)
        first, second = sketch(a, places), sketch(b, places)
        assert first is not None
        assert second is not None
        truth = float(np.linalg.norm(b.astype(np.float64) - a))
        ratios.append(distance(first, second) / truth)
    assert 0.93 < float(np.mean(ratios)) < 1.05
    assert 0.15 < float(np.std(ratios)) < 0.35


def test_one_changed_bit_is_seen_with_its_size() -> None:
    a = drawn(1, 5000)
    b = a.copy()
    b[777] = np.nextafter(b[777], np.float32(9))
    places = signs("w", len(a))
    first, second = sketch(a, places), sketch(b, places)
    assert first is not None
    assert second is not None
    assert distance(first, second) == pytest.approx(abs(float(b[777]) - float(a[777])), rel=1e-3)
    assert digest(a) != digest(b)
    assert distance(first, first) == 0.0


@pytest.mark.parametrize(("scale", "largest"), [(1e-20, 1e10), (1.0, 1.0)])
def test_the_sum_has_no_order(scale: float, largest: float) -> None:
    a = drawn(2, 600_000, scale)  # more than is added at once
    a[5] = largest
    places = signs("w", len(a))
    whole = sketch(a, places)
    order = np.random.default_rng(0).permutation(len(a))
    assert sketch(a[order], places[order]) == whole


def test_a_sketch_is_a_pinned_number() -> None:
    a = (np.arange(-20, 20) / 8).astype(np.float32)
    assert sketch(a, signs("model.layers.0.mlp.up_proj.lora_A.weight", 40)) == PINNED


PINNED = (-8.0, 5.75, -12.0, 10.25, -13.75, -0.5, -13.25, 3.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_sketch(bad: float) -> None:
    a = drawn(3, 50)
    a[20] = bad
    assert sketch(a, signs("w", 50)) is None


def test_zeros_and_nothing_have_a_sketch() -> None:
    assert sketch(np.zeros(9, np.float32), signs("w", 9)) == (0.0,) * 8
    assert sketch(np.zeros(0, np.float32), signs("w", 0)) == (0.0,) * 8


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        "[" * 900 + "]" * 900,
        "1" * 10_000,
        "",
        "{",
        "{]",
        '[{"a": 1, "b": 2, "a": 1}]',
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, whatever it says
        parse_json(text)


def test_nesting_is_read_up_to_its_bound_in_lists_and_objects() -> None:
    for begin, end in (("[", "]"), ('{"a":', "}")):
        within = begin * MAX_DEPTH + "1" + end * MAX_DEPTH
        assert parse_json(within) is not None
        with pytest.raises(ValueError, match="nested"):
            parse_json(f"{begin}{within}{end}")


def test_decimals_can_be_kept_as_they_are_written() -> None:
    assert parse_json('{"a": 0.10}', parse_float=Decimal) == {"a": Decimal("0.10")}


def test_a_file_is_not_read_beyond_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1}', encoding="utf-8")
    assert read_json(file) == {"a": 1}
    monkeypatch.setattr(json_text, "LARGEST", 7)
    with pytest.raises(ValueError, match="8 bytes"):
        read_json(file)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b'{"a": "\xff"}'])
def test_what_msgspec_raises_is_named_in_one_place(content: bytes) -> None:
    with pytest.raises(UNREADABLE):
        msgspec.json.decode(content)
