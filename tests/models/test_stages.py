"""Bases cut into stages: what each holds, reads and computes, and how their weights are staged."""

import stat
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch

from tinsmith.models.base import open_base, stored_base
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.cut import cut
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.held import held_base
from tinsmith.models.in_turn import InTurn
from tinsmith.models.initial_weights import drawn_weights, initial_weights
from tinsmith.models.merge import all_logprobs, probe_sequences
from tinsmith.models.names import EMBEDDING, HEAD, expected_tensors
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.models.stages import cut_layers, held_bytes
from tinsmith.models.staging import is_taken, names_in, present, remove, staged
from tinsmith.models.tensor_file import write_tensors
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


DEEP = replace(PRESETS["nano"], num_layers=5)


@pytest.mark.parametrize("config", [replace(DEEP, tied=True), replace(DEEP, tied=False)])
def test_it_is_the_decoder_of_its_own_weights(config: DecoderConfig) -> None:
    weights, kernels = initial_weights(config, 0), NativeKernels()
    part = cut(build_decoder(config, weights, kernels), layers=2, vocab=101, positions=64)
    small = replace(config, num_layers=2, vocab_size=101, max_positions=64)
    assert part.config == small
    taken = {
        name: weights[name][:101] if name in (EMBEDDING, HEAD) else weights[name] for name in expected_tensors(small)
    }
    found = values(part.slots)
    assert sorted(found) == sorted(taken)
    assert all(torch.equal(found[name], taken[name]) for name in taken)
    sequences = probe_sequences(small, seed=0)
    alone = build_decoder(small, taken, kernels)
    assert torch.equal(all_logprobs(part, {}, sequences), all_logprobs(alone, {}, sequences))


def test_a_decoder_within_the_limits_is_left_as_it_is() -> None:
    config = PRESETS["nano"]
    whole = build_decoder(config, initial_weights(config, 0), NativeKernels())
    part = cut(whole, layers=99, vocab=10**6, positions=10**6)
    assert part.config == config
    assert part.head is whole.head
    assert part.embedding is whole.embedding
    assert [slot.name for slot in part.slots] == [slot.name for slot in whole.slots]


def _write(path: Path, text: str, *, overwrite: bool = False) -> None:
    with staged(path, overwrite=overwrite) as whole:
        (whole / "file").write_text(text)


def _fail_half_way(path: Path, *, overwrite: bool = False) -> None:
    with staged(path, overwrite=overwrite) as whole:
        (whole / "file").write_text("half")
        raise RuntimeError


def _everything(folder: Path) -> list[str]:
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*"))


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "b", "text")
    assert _everything(tmp_path) == ["a", "a/b", "a/b/file"]


def test_a_body_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        _fail_half_way(tmp_path / "a")
    assert _everything(tmp_path) == []


def test_a_body_that_fails_keeps_what_was_there(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    with pytest.raises(RuntimeError):
        _fail_half_way(tmp_path / "a", overwrite=True)
    assert _everything(tmp_path) == ["a", "a/file"]
    assert (tmp_path / "a" / "file").read_text() == "old"


def test_a_taken_place_is_refused_unless_overwritten(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    with pytest.raises(ConfigError, match=r"field: path = '.*/a'"):
        _write(tmp_path / "a", "new")
    assert (tmp_path / "a" / "file").read_text() == "old"
    _write(tmp_path / "a", "new", overwrite=True)
    assert (tmp_path / "a" / "file").read_text() == "new"
    assert _everything(tmp_path) == ["a", "a/file"]


def test_an_empty_folder_is_not_taken_and_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert not is_taken(tmp_path / "empty")
    assert not is_taken(tmp_path / "absent")
    assert is_taken(tmp_path / "file")
    _write(tmp_path / "empty", "text")
    assert (tmp_path / "empty" / "file").read_text() == "text"


def test_what_a_cut_short_replacement_moved_aside_is_still_found(tmp_path: Path) -> None:
    place = tmp_path / "a"
    _write(place, "old")
    place.replace(tmp_path / ".a.old")  # the first of the two renames
    assert (present(place) / "file").read_text() == "old"
    assert names_in(tmp_path) == ["a"]
    with pytest.raises(ConfigError):
        _write(place, "new")
    _write(place, "new", overwrite=True)
    assert (place / "file").read_text() == "new"
    assert _everything(tmp_path) == ["a", "a/file"]


def test_what_was_replaced_and_not_yet_deleted_is_not_found(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    (tmp_path / "a").replace(tmp_path / ".a.old")
    _write(tmp_path / "b", "new")
    (tmp_path / "b").replace(tmp_path / "a")  # the second rename; the old folder is still there
    assert (present(tmp_path / "a") / "file").read_text() == "new"
    assert names_in(tmp_path) == ["a"]
    _write(tmp_path / "a", "newer", overwrite=True)
    assert _everything(tmp_path) == ["a", "a/file"]


def test_a_killed_writers_leavings_are_removed_by_the_next_of_that_name(tmp_path: Path) -> None:
    for leaving in (".a.writing-abcd_123", ".a.b.writing-abcd_123", ".a.writing-abcd.old"):
        (tmp_path / leaving).mkdir()
    _write(tmp_path / "a", "text")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".a.b.writing-abcd_123", ".a.writing-abcd.old", "a"]


def test_remove_takes_both_a_folder_and_what_was_moved_aside(tmp_path: Path) -> None:
    _write(tmp_path / "a", "old")
    (tmp_path / ".a.old").mkdir()
    remove(tmp_path / "a")
    assert _everything(tmp_path) == []


def test_tensors_are_readable_by_all_and_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3.0), "a": torch.ones(2, 2)}
    write_tensors(tmp_path / "one", tensors)
    write_tensors(tmp_path / "two", dict(reversed(tensors.items())))
    (tmp_path / "plain").touch()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", "plain")}
    assert len(modes) == 1
