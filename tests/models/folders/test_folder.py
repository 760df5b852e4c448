import json
import stat
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from families import FAMILIES, MIXTURES, make_hf_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import read_weights, stored_weights, weights_fingerprint, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.in_turn import RowsInTurn, held_as_published
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.names import expected_tensors
from tinsmith.models.presets import PRESETS
from tinsmith.models.tensor_file import read_fp32
from tinsmith.ops.packed import Packed
from tinsmith.types.errors import CheckpointError, ConfigError

pytestmark = pytest.mark.whole

TOKENS = torch.arange(24).reshape(2, 12) * 13 % 320


def _logits(folder: Path) -> torch.Tensor:
    model, info = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    make_hf_model("llama", folder, 0)
    return folder


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((llama / name).read_bytes())
    return tmp_path


def _shard(folder: Path) -> dict[str, str]:
    """Split a folder's weights into two shards with an index, and return the index's map."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    shard_of: dict[str, str] = {}
    for shard, part in (("a.safetensors", names[:7]), ("b.safetensors", names[7:])):
        save_file({name: weights[name] for name in part}, folder / shard)
        shard_of |= dict.fromkeys(part, shard)
    _write_index(folder, shard_of)
    return shard_of


def _write_index(folder: Path, shard_of: object) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shard_of}))


def _rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    """Change tensors of a folder's weights; `_` in a key stands for `.`, None removes."""
    weights: dict[str, torch.Tensor | None] = {**load_file(folder / "model.safetensors"), **changes}
    save_file({n: w for n, w in weights.items() if w is not None}, folder / "model.safetensors")


def _refused(folder: Path, config: DecoderConfig | None = None) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read_weights(folder, config or read_config(folder))
    assert str(folder) in str(caught.value)
    return caught.value


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_those_of_transformers(family: str, tied: bool, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 1, tied=tied)
    config = read_config(tmp_path)
    weights = read_weights(tmp_path, config)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, local_files_only=True).state_dict()
    if tied:
        del theirs["lm_head.weight"]
    assert config.tied is tied
    assert list(weights) == list(expected_tensors(config))
    assert set(weights) == set(theirs)
    assert all(torch.equal(weights[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("family", "tied"), [*product(FAMILIES, (False, True)), *((family, None) for family in MIXTURES)]
)
def test_a_written_folder_is_the_same_model_to_transformers(family: str, tied: bool | None, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path / "from", 2, tied=tied)
    config = read_config(tmp_path / "from")
    write_folder(tmp_path / "to", config, read_weights(tmp_path / "from", config))
    assert read_config(tmp_path / "to") == config
    assert torch.equal(_logits(tmp_path / "to"), _logits(tmp_path / "from"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_read_as_fp32(dtype: str, tmp_path: Path) -> None:
    make_hf_model("qwen2", tmp_path, 3, dtype=dtype)
    weights = read_weights(tmp_path, read_config(tmp_path))
    stored = load_file(tmp_path / "model.safetensors")
    assert {w.dtype for w in stored.values()} == {getattr(torch, dtype)}
    assert {w.dtype for w in weights.values()} == {torch.float32}
    assert all(torch.equal(weights[name], stored[name].float()) for name in stored)


def test_shards_of_transformers_are_read(tmp_path: Path) -> None:
    make_hf_model("qwen3", tmp_path / "whole", 4)
    make_hf_model("qwen3", tmp_path / "shards", 4, max_shard_size="100KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    config = read_config(tmp_path / "shards")
    whole = read_weights(tmp_path / "whole", config)
    shards = read_weights(tmp_path / "shards", config)
    assert weights_fingerprint(shards) == weights_fingerprint(whole)


def test_a_folder_without_config_and_a_name_on_a_hub_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(tmp_path)
    for read in (read_config, lambda folder: read_weights(folder, PRESETS["nano"])):
        with pytest.raises(ConfigError, match="local folder"):
            read(Path("meta-llama/Llama-3.2-1B"))


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_config_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json: "):
        read_config(tmp_path)


def test_end_tokens_of_both_files_are_merged(copy: Path) -> None:
    (copy / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    assert read_config(copy).end_tokens == (2, 7)


def test_pickled_weights_are_refused(copy: Path) -> None:
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"'pytorch_model\.bin'"):
        read_weights(copy, read_config(copy))


def test_a_folder_without_weights_is_refused(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="no weights"):
        read_weights(copy, read_config(copy))


@pytest.mark.parametrize(
    ("name", "tensor", "value", "allowed"),
    [
        ("model.layers.1.mlp.up_proj.weight", None, "missing", "shape (96, 64)"),
        ("model.layers.0.self_attn.q_proj.bias", torch.zeros(64), (64,), "absent"),
        ("model.norm.weight", torch.zeros(65), (65,), "(64,)"),
        ("model.norm.weight", torch.zeros(64, dtype=torch.float64), "F64", "F32, BF16, F16"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    copy: Path, name: str, tensor: torch.Tensor | None, value: object, allowed: str
) -> None:
    _rewrite(copy, **{name: tensor})
    error = _refused(copy)
    assert (error.field, error.value, error.allowed) == (name, value, allowed)
    assert tensor is None or "model.safetensors" in error.what


@pytest.mark.parametrize("kept", [0, 5, 1000, -1])
def test_a_file_cut_short_is_refused(kept: int, copy: Path) -> None:
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    assert "damaged" in _refused(copy).what


def test_old_rope_frequencies_are_passed_over(copy: Path) -> None:
    _rewrite(copy, **{"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)})
    config = read_config(copy)
    assert list(read_weights(copy, config)) == list(expected_tensors(config))


def test_an_equal_tied_head_is_dropped_and_another_refused(tmp_path: Path) -> None:
    make_hf_model("llama", tmp_path, 5, tied=True)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    config = read_config(tmp_path)
    _rewrite(tmp_path, **{"lm_head.weight": embedding.clone()})
    assert "lm_head.weight" not in read_weights(tmp_path, config)
    _rewrite(tmp_path, **{"lm_head.weight": embedding + 1})
    with pytest.raises(ConfigError, match="tie_word_embeddings"):
        read_weights(tmp_path, config)


def test_a_missing_shard_is_named(copy: Path) -> None:
    _shard(copy)
    (copy / "b.safetensors").unlink()
    assert str(copy / "b.safetensors") in _refused(copy).what


@pytest.mark.parametrize(
    ("name", "shard", "value", "file"),
    [
        ("model.extra.weight", "a.safetensors", "missing", ""),
        ("model.norm.weight", "a.safetensors", "a.safetensors", "b.safetensors"),
        *(("model.norm.weight", shard, shard, "") for shard in ("../a.safetensors", "/a.safetensors", "a.bin", 3)),
    ],
)
def test_a_tensor_that_is_not_where_the_index_says_is_named(
    name: str, shard: object, value: object, file: str, copy: Path
) -> None:
    _write_index(copy, {**_shard(copy), name: shard})
    error = _refused(copy)
    assert (error.field, error.value) == (name, value)
    assert str(copy / file) in error.what


@pytest.mark.parametrize("shard_of", [None, {}, []])
def test_an_empty_index_is_refused(shard_of: object, copy: Path) -> None:
    _shard(copy)
    _write_index(copy, shard_of)
    assert _refused(copy).field == "weight_map"


def test_read_weights_outlive_their_file(copy: Path) -> None:
    weights = read_weights(copy, read_config(copy))
    before = weights_fingerprint(weights)
    (copy / "model.safetensors").write_bytes(b"")
    assert weights_fingerprint(weights) == before


def test_equal_weights_give_equal_bytes(tmp_path: Path) -> None:
    config, weights = PRESETS["nano"], initial_weights(PRESETS["nano"], 0)
    write_folder(tmp_path / "a", config, weights)
    write_folder(tmp_path / "b", config, dict(reversed(weights.items())))
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "a").iterdir()}
    assert len(modes) == 1


def test_weights_written_as_bf16_are_rounded_once(tmp_path: Path) -> None:
    config, weights = PRESETS["nano"], initial_weights(PRESETS["nano"], 0)
    write_folder(tmp_path / "m", config, weights, dtype=torch.bfloat16)
    again = read_weights(tmp_path / "m", read_config(tmp_path / "m"))
    assert all(torch.equal(again[name], w.bfloat16().float()) for name, w in weights.items())
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "m").dtype == torch.bfloat16


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    weights = initial_weights(PRESETS["nano"], 0)
    del weights["model.norm.weight"]
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight"):
        write_folder(tmp_path / "m", PRESETS["nano"], weights)
    with pytest.raises(ConfigError, match="dtype"):
        write_folder(tmp_path / "m", PRESETS["nano"], weights, dtype=torch.float64)
    assert list(tmp_path.iterdir()) == []


def test_the_remains_of_a_killed_write_are_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".m.writing-abcdefgh" / "whole").mkdir(parents=True)
    write_folder(tmp_path / "m", PRESETS["nano"], initial_weights(PRESETS["nano"], 0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    config, weights = PRESETS["nano"], initial_weights(PRESETS["nano"], 0)
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", config, weights)
    with pytest.raises(ConfigError, match="already something"):
        write_folder(tmp_path / "empty", config, weights)


def test_fingerprint_counts_names_and_bits_only() -> None:
    weights = {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([2.0])}
    known = weights_fingerprint(weights)
    assert weights_fingerprint(dict(reversed(weights.items()))) == known
    assert weights_fingerprint({"a": torch.tensor([1.0, -0.0]), "b": weights["b"]}) == known
    assert weights_fingerprint({**weights, "b": weights["b"].bfloat16()}) == known
    assert weights_fingerprint({**weights, "b": torch.tensor([2.5])}) != known
    assert weights_fingerprint({"c": weights["a"], "b": weights["b"]}) != known


def test_a_packed_matrix_has_the_fingerprint_of_its_values() -> None:
    """Hashed in several blocks of rows, with negative zeros."""
    halves = np.random.default_rng(0).normal(size=(1030, 2048)).astype(np.float16)
    halves[::3] = -0.0
    held = held_as_published({"a": Packed("F16", halves, halves.shape), "b": torch.tensor([2.0])})
    assert weights_fingerprint(held) == weights_fingerprint(
        {"a": torch.from_numpy(halves.astype(np.float32)), "b": torch.tensor([2.0])}
    )
    halves[-1, 0] = np.inf
    with pytest.raises(CheckpointError, match="NaN or infinity"):
        weights_fingerprint(held_as_published({"a": Packed("F16", halves, halves.shape)}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_tensor_that_holds_no_number_is_refused_with_its_file_and_name(
    copy: Path, value: float, dtype: torch.dtype, sharded: bool
) -> None:
    weights = {name: tensor.to(dtype) for name, tensor in load_file(copy / "model.safetensors").items()}
    name = "model.layers.1.mlp.up_proj.weight"
    weights[name][3, 5] = value
    save_file(weights, copy / "model.safetensors")
    file = copy / "model.safetensors"
    if sharded:
        file = copy / _shard(copy)[name]
    with pytest.raises(CheckpointError, match="NaN or infinity") as caught:
        read_weights(copy, read_config(copy))
    assert caught.value.field == name
    assert str(file) in str(caught.value)


def test_rows_that_hold_no_number_are_refused_where_only_they_are_read(copy: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["model.embed_tokens.weight"][7, 0] = float("nan")
    save_file(weights, copy / "model.safetensors")
    read = stored_weights(copy, read_config(copy))
    assert isinstance(read, RowsInTurn)
    assert read.read_rows("model.embed_tokens.weight", 0, 7).isfinite().all()
    with pytest.raises(CheckpointError, match="embed_tokens"):
        read.read_rows("model.embed_tokens.weight", 7, 8)


def test_finite_values_however_large_are_read(copy: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["model.norm.weight"][:2] = torch.tensor([3.4e38, -3.4e38])
    save_file(weights, copy / "model.safetensors")
    assert read_weights(copy, read_config(copy))["model.norm.weight"][0] > 3e38


def test_end_tokens_beyond_the_rows_are_left_out(copy: Path) -> None:
    values = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**values, "eos_token_id": [2, values["vocab_size"], 10**9]}))
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, values["vocab_size"] + 1]}))
    assert read_config(copy).end_tokens == (2, 3)


# Mixtures, in both layouts of their experts


def _fuse(folder: Path) -> None:
    """Store every layer's experts in two tensors, as transformers 5 holds them."""
    weights = load_file(folder / "model.safetensors")
    experts = sorted({name.partition("experts.")[0] + "experts." for name in weights if ".experts." in name})
    for prefix in experts:
        count = len([name for name in weights if name.startswith(prefix)]) // 3
        taken = {
            matrix: torch.stack([weights.pop(f"{prefix}{e}.{matrix}_proj.weight") for e in range(count)])
            for matrix in ("gate", "up", "down")
        }
        weights[f"{prefix}gate_up_proj"] = torch.cat([taken["gate"], taken["up"]], dim=1)
        weights[f"{prefix}down_proj"] = taken["down"].contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", MIXTURES)
def test_both_layouts_are_one_model(family: str, dtype: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 1, dtype=dtype)
    config = read_config(tmp_path)
    apart = read_weights(tmp_path, config)
    assert {name: tuple(w.shape) for name, w in apart.items()} == expected_tensors(config)
    _fuse(tmp_path)
    together = read_weights(tmp_path, config)
    assert list(together) == list(apart)
    assert all(torch.equal(together[name], tensor) for name, tensor in apart.items())


@pytest.fixture
def fused(tmp_path: Path) -> Path:
    make_hf_model("olmoe", tmp_path, 3)
    _fuse(tmp_path)
    return tmp_path


def test_some_rows_are_read_by_themselves(fused: Path) -> None:
    weights = stored_weights(fused, read_config(fused))
    assert isinstance(weights, RowsInTurn)
    for matrix in ("gate", "up", "down"):
        name = f"model.layers.1.mlp.experts.5.{matrix}_proj.weight"
        assert torch.equal(weights.read_rows(name, 7, 29), weights[name][7:29])


@pytest.mark.parametrize("shape", [(7, 80, 64), (8, 64, 80), (8, 80)])
def test_experts_of_another_shape_are_refused_by_name(shape: tuple[int, ...], fused: Path) -> None:
    _rewrite(fused, **{"model.layers.0.mlp.experts.gate_up_proj": torch.zeros(shape)})
    assert _refused(fused).field == "model.layers.0.mlp.experts.0.gate_proj.weight"


def test_a_matrix_that_is_stored_twice_is_refused(fused: Path) -> None:
    again = {f"model.layers.0.mlp.experts.{e}.up_proj.weight": torch.zeros(40, 64) for e in range(8)}
    _rewrite(fused, **again)
    assert "missing" in str(_refused(fused))


def test_a_dense_layer_has_no_experts(tmp_path: Path) -> None:
    make_hf_model("qwen3_moe", tmp_path, 3)
    config = read_config(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values["mlp_only_layers"] == [0]
    (tmp_path / "config.json").write_text(json.dumps({**values, "mlp_only_layers": []}))
    assert _refused(tmp_path).field == "model.layers.0.mlp.gate.weight"
    assert read_weights(tmp_path, config)["model.layers.0.mlp.up_proj.weight"].shape == (96, 64)


# Checkpoints and snapshots: fp32 alone, and nothing that stays behind

COUNT = 50


@pytest.fixture
def file(tmp_path: Path) -> Path:
    random = torch.Generator().manual_seed(0)
    tensors = {f"t{i}": torch.randn(30, 40, generator=random) for i in range(COUNT)}
    save_file({**tensors, "scalar": torch.tensor(1.5), "none": torch.zeros(0, 3)}, tmp_path / "a")
    return tmp_path / "a"


def test_read_fp32_reads_the_bits_that_were_written(file: Path) -> None:
    random = torch.Generator().manual_seed(0)
    read = read_fp32(file)
    assert len(read) == COUNT + 2
    assert all(torch.equal(read[f"t{i}"], torch.randn(30, 40, generator=random)) for i in range(COUNT))
    assert read["scalar"].shape == ()
    assert read["scalar"].item() == 1.5
    assert read["none"].shape == (0, 3)


def test_read_fp32_leaves_no_objects_behind(file: Path) -> None:
    read_fp32(file)
    before = sys.getallocatedblocks()
    for _ in range(20):
        read_fp32(file)
    assert sys.getallocatedblocks() - before < 5 * COUNT


def test_read_fp32_refuses_another_dtype_and_a_file_that_is_cut_short(file: Path, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3, dtype=torch.bfloat16)}, tmp_path / "b")
    with pytest.raises(CheckpointError, match="field: a = 'BF16'"):
        read_fp32(tmp_path / "b")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="missing or damaged"):
        read_fp32(file)


def test_an_adapter_beside_the_weights_is_refused_by_name(copy: Path) -> None:
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        read_config(copy)
    assert caught.value.value == str(copy / "adapter_config.json")
    assert "merge it first" in str(caught.value.fix)
