"""Seeds, fingerprints, errors and adapter specs."""

import dataclasses
import hashlib
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pytest

from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.errors import ConfigError, DataError, TinsmithError
from tinsmith.types.fingerprints import LATER, array_sha256, canonical_json, sha256_of, tensors_sha256
from tinsmith.types.seeds import derive, random_bits, uniform


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
    "settings",
    [{"rank": 0}, {"rank": 5000}, {"alpha": 0.0}, {"train_attn": False, "train_mlp": False, "train_unembed": False}],
)
def test_impossible_adapters_are_refused(settings: dict[str, int | float | bool]) -> None:
    with pytest.raises(ConfigError, match="field:"):
        AdapterSpec(**settings)  # pyright: ignore[reportArgumentType]


def test_an_array_is_hashed_as_a_whole_however_large() -> None:
    large = np.arange(3 * 70_001, dtype=np.float32).reshape(3, 70_001)
    large[1, 5], large[2, 70_000] = -0.0, -1.5
    plain = f"{large.dtype.str}{large.shape}".encode() + (large + np.float32(0)).tobytes()
    assert array_sha256(large) == hashlib.sha256(plain).hexdigest()
    assert array_sha256(large[:, ::3]) == array_sha256(large[:, ::3].copy())
