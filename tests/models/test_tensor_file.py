"""Reading what a checkpoint or a snapshot holds: the same bits, fp32 alone, and nothing that stays behind."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tinsmith.models.tensor_file import read_fp32
from tinsmith.types.errors import CheckpointError

COUNT = 50


@pytest.fixture
def file(tmp_path: Path) -> Path:
    random = torch.Generator().manual_seed(0)
    tensors = {f"t{i}": torch.randn(30, 40, generator=random) for i in range(COUNT)}
    save_file({**tensors, "scalar": torch.tensor(1.5), "none": torch.zeros(0, 3)}, tmp_path / "a")
    return tmp_path / "a"


def test_it_reads_the_bits_that_were_written(file: Path) -> None:
    random = torch.Generator().manual_seed(0)
    read = read_fp32(file)
    assert len(read) == COUNT + 2
    assert all(torch.equal(read[f"t{i}"], torch.randn(30, 40, generator=random)) for i in range(COUNT))
    assert read["scalar"].shape == ()
    assert read["scalar"].item() == 1.5
    assert read["none"].shape == (0, 3)


def test_it_leaves_no_objects_behind(file: Path) -> None:
    read_fp32(file)
    before = sys.getallocatedblocks()
    for _ in range(20):
        read_fp32(file)
    assert sys.getallocatedblocks() - before < 5 * COUNT


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3, dtype=torch.bfloat16)}, tmp_path / "a")
    with pytest.raises(CheckpointError, match="field: a = 'BF16'"):
        read_fp32(tmp_path / "a")


def test_a_file_that_is_cut_short_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="missing or damaged"):
        read_fp32(file)
