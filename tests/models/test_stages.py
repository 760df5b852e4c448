"""How a base is cut into stages, and that a stage reads its own tensors only."""

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch

from tinsmith.models.base import open_base, stored_base
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.held import held_base
from tinsmith.models.in_turn import InTurn
from tinsmith.models.initial_weights import drawn_weights, initial_weights
from tinsmith.models.names import EMBEDDING, expected_tensors
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.models.stages import cut_layers, held_bytes
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Nf4Base
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.packed import Packed
from tinsmith.types.errors import ConfigError

NANO = PRESETS["nano"]
FREE = replace(NANO, tied=False, qkv_bias=True)
SHAPES = pytest.mark.parametrize(("config", "quantised"), [(NANO, False), (NANO, True), (FREE, False), (FREE, True)])


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 7])
def test_no_other_cut_has_a_smaller_largest_stage(layers: int, quantised: bool) -> None:
    config = replace(NANO, num_layers=layers)
    for shards in range(1, layers + 1):
        cut = cut_layers(config, shards, quantised=quantised)
        assert [n for each in cut for n in each] == list(range(layers))
        assert all(cut)
        assert len(cut) == shards
        every = [
            max(
                held_bytes(config, range(begin, end), quantised=quantised)
                for begin, end in pairwise((0, *ends, layers))
            )
            for ends in combinations(range(1, layers), shards - 1)
        ]
        assert max(held_bytes(config, each, quantised=quantised) for each in cut) == min(every)


def test_stages_that_need_not_be_small_are_even() -> None:
    wide = replace(NANO, num_layers=10, vocab_size=50_000)
    inner = cut_layers(wide, 4, quantised=True)[1:-1]
    assert [len(layers) for layers in inner] == [4, 4]


@pytest.mark.parametrize("shards", [0, -1, 5])
def test_a_stage_has_a_layer(shards: int) -> None:
    with pytest.raises(ConfigError, match="1 to 4"):
        cut_layers(NANO, shards)


@SHAPES
def test_the_bytes_are_those_that_are_held(config: DecoderConfig, quantised: bool) -> None:
    weights = initial_weights(config, 0)
    for layers in cut_layers(config, 3, quantised=quantised):
        stage = build_decoder(config, weights, NativeKernels(), quantised=quantised, layers=layers)
        held = held_base(stage).whole
        if config.tied and isinstance(copy := stage.head.base[0], Weight):
            held += copy.value.nbytes
        assert held == held_bytes(config, layers, quantised=quantised)


@SHAPES
def test_a_stage_reads_its_own_tensors_once_and_holds_what_the_whole_does(
    config: DecoderConfig, quantised: bool
) -> None:
    drawn = drawn_weights(config, 0)
    whole = build_decoder(config, drawn, NativeKernels(), quantised=quantised)
    read: list[str] = []

    def reading(name: str) -> torch.Tensor:
        read.append(name)
        return drawn[name]

    slots, linears = {}, {}
    for layers in cut_layers(config, 3):
        stage = build_decoder(config, InTurn(drawn, reading), NativeKernels(), quantised=quantised, layers=layers)
        slots |= values(stage.slots)
        linears |= stage.linears()
    tied = [EMBEDDING] if config.tied else []
    assert sorted(read) == sorted([*expected_tensors(config), *tied])
    assert sorted(slots) == sorted(slot.name for slot in whole.slots)
    assert all(torch.equal(slots[slot.name], slot.value) for slot in whole.slots)
    assert list(linears) == list(whole.linears())
    for place, linear in whole.linears().items():
        for ours, theirs in zip(linears[place].base, linear.base, strict=True):
            if isinstance(ours, Packed):
                assert ours.type == theirs.type  # pyright: ignore[reportAttributeAccessIssue]
                assert torch.equal(ours.widened(), theirs.widened())  # pyright: ignore[reportAttributeAccessIssue]
            elif isinstance(ours, Nf4Base):
                assert torch.equal(ours.codes, theirs.codes)  # pyright: ignore[reportAttributeAccessIssue]
                assert torch.equal(ours.absmax, theirs.absmax)  # pyright: ignore[reportAttributeAccessIssue]
            else:
                assert torch.equal(ours.value, theirs.value)  # pyright: ignore[reportAttributeAccessIssue]


def test_the_identity_is_the_same_however_a_base_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "base", NANO, initial_weights(NANO, 3))
    for name, seed in (("tinsmith/nano", 3), (str(tmp_path / "base"), None)):
        assert stored_base(name, seed=seed).identity() == open_base(name, seed=seed).identity


def test_a_value_is_read_whenever_it_is_asked_for_and_only_then() -> None:
    read: list[str] = []

    def reading(name: str) -> int:
        read.append(name)
        return len(name)

    found = InTurn(("a", "bb"), reading)
    assert "a" in found
    assert "c" not in found
    assert list(found) == ["a", "bb"]
    assert read == []
    assert [found["bb"], found["bb"]] == [2, 2]
    assert read == ["bb", "bb"]
    with pytest.raises(KeyError):
        found["c"]
