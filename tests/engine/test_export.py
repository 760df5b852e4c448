"""Exports of a deep model whose adapter was really trained: merged, and as a file for llama.cpp."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tokenizer_kinds import tokenizer

from gguf_files import VOCAB, small_tokenizer, write_gguf
from oracles import LLAMA, OLMOE, QWEN2, QWEN3, QWEN3_MOE, random_weights, sequences
from tinsmith.engine import export as exporting
from tinsmith.engine.checkpoint_files import MARKER
from tinsmith.engine.checkpoints import save
from tinsmith.engine.export import export
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling, Mixture
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.gguf.ends import TOKENS
from tinsmith.models.gguf.file import Value, read_gguf
from tinsmith.models.gguf.tokens import COMPOSES
from tinsmith.models.gguf.vocabulary import vocabulary
from tinsmith.models.gguf.writing import StoredAs
from tinsmith.models.gguf.writing import write_gguf as write_file
from tinsmith.models.merge import all_logprobs, merged_config, merged_weights, probe_sequences
from tinsmith.models.published.sources import Source, find_model
from tinsmith.models.rounding import renumbered, rounding_difference
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.tokenizer import load_tokenizer, save_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import bases_folder

pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("own_home")]

DEEP = replace(LLAMA, vocab_size=VOCAB, num_layers=30, end_tokens=(0,))
SHALLOW = replace(LLAMA, vocab_size=VOCAB, end_tokens=(0,))
QWEN2_SMALL = replace(QWEN2, vocab_size=len(tokenizer("qwen2_nfc")), end_tokens=(0,))
STEPS = 6
WITHIN_FP32 = 5e-5


def model_folder(folder: Path, config: DecoderConfig, *, scale: float = 1.0) -> Path:
    weights = random_weights(config, 1)
    for name in weights:
        if ".layers." in name and name.endswith("proj.weight"):
            weights[name] = weights[name] * scale
    write_folder(folder, config, weights)
    save_tokenizer(small_tokenizer(), folder)
    return folder


def trained(folder: Path, where: Path) -> tuple[Path, Adapter]:
    """A checkpoint of a LoRA that several steps moved, on the model in `folder`."""
    base = open_base(str(folder))
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.LORA, rank=8)))
    for step in range(STEPS):
        datums = [
            Datum(
                tokens=tokens[:-1],
                inputs={"target_tokens": tokens[1:], "weights": np.ones(len(tokens) - 1, dtype=np.float32)},
            )
            for tokens in sequences((24, 17), base.config, step)
        ]
        session.forward_backward(datums, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=5e-3))
    save(session, where, base=base.identity, with_optimizer=False)
    return where, session.adapter


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Adapter]:
    place = tmp_path_factory.mktemp("deep")
    return trained(model_folder(place / "base", DEEP), place / "a")


def test_a_trained_adapter_on_a_deep_model_is_merged(deep: tuple[Path, Adapter], tmp_path: Path) -> None:
    checkpoint, adapter = deep
    done = export(str(checkpoint), to="merged", out=tmp_path / "out", state=tmp_path)
    assert 0 < done.difference <= done.limit
    assert done.within_limit
    untrained = _difference(adapter, random_weights(DEEP, 1))
    assert untrained > 100 * done.limit


def test_a_base_that_was_built_here_is_found_by_the_name_in_a_packed_checkpoint(
    deep: tuple[Path, Adapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    base, packed = deep[0].parent / "base", Path(shutil.copytree(deep[0], tmp_path / "packed"))
    values = json.loads((packed / MARKER).read_text())
    values["base"]["name"], _ = "0123abcd", values.pop("sha256")
    (packed / MARKER).write_text(json.dumps({**values, "sha256": sha256_of(values)}))
    with pytest.raises(ConfigError) as refused:
        export(str(packed), to="peft", out=tmp_path / "out", state=tmp_path)
    assert (refused.value.field, refused.value.value) == ("--base", "0123abcd")
    built = Path(shutil.copytree(base, bases_folder() / "0123abcd"))
    assert export(str(packed), to="peft", out=tmp_path / "out", state=tmp_path).difference == 0.0
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(built)


@pytest.mark.parametrize("layer", [0, 29])
def test_one_weight_that_was_not_merged_is_found(
    deep: tuple[Path, Adapter], layer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"model.layers.{layer}.mlp.up_proj.weight"

    def wrong(adapter: Adapter) -> dict[str, torch.Tensor]:
        return {**merged_weights(adapter), name: random_weights(DEEP, 1)[name]}

    monkeypatch.setattr(exporting, "merged_weights", wrong)
    done = export(str(deep[0]), to="merged", out=tmp_path / "out", state=tmp_path)
    assert done.difference > 4 * done.limit
    assert not done.within_limit


def _difference(adapter: Adapter, weights: dict[str, torch.Tensor]) -> float:
    config = adapter.decoder.config
    tokens = probe_sequences(config, seed=0)
    other = build_decoder(config, weights, NativeKernels())
    ours = all_logprobs(adapter.decoder, adapter.low, tokens)
    return float((ours - all_logprobs(other, {}, tokens)).abs().max())


@pytest.mark.parametrize("config", [SHALLOW, QWEN2, QWEN3], ids=["llama", "qwen2", "qwen3"])
def test_renumbered_channels_are_the_same_function(config: DecoderConfig) -> None:
    weights, kernels = random_weights(config, 1), NativeKernels()
    tokens = probe_sequences(config, seed=0)
    plain = all_logprobs(build_decoder(config, weights, kernels), {}, tokens)
    other = renumbered(config, weights, seed=3)
    assert not torch.equal(other["model.norm.weight"], weights["model.norm.weight"])
    found = (plain - all_logprobs(build_decoder(config, other, kernels), {}, tokens)).abs().max()
    assert 0 < found <= WITHIN_FP32
    assert 0 < rounding_difference(config, weights, kernels) <= WITHIN_FP32


_SHAPES = {
    "llama": SHALLOW,
    "llama_free_head": replace(SHALLOW, tied=False, head_dim=32),
    "llama_biases": replace(SHALLOW, qkv_bias=True, o_bias=True, mlp_bias=True),
    "linear_rope": replace(SHALLOW, rope_scaling=LinearScaling(factor=4.0)),
    "llama3_rope": replace(
        SHALLOW,
        rope_theta=500_000.0,
        rope_scaling=Llama3Scaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=4096),
    ),
    "qwen2": replace(QWEN2, vocab_size=VOCAB, end_tokens=(0, 1)),
    "qwen3": replace(QWEN3, vocab_size=VOCAB, end_tokens=(0,)),
    "qwen3moe": replace(
        QWEN3_MOE,
        vocab_size=VOCAB,
        end_tokens=(0,),
        num_layers=2,
        mixture=Mixture(num_experts=8, num_active=2, expert_size=40, normalised=True),
    ),
    "olmoe": replace(
        OLMOE,
        vocab_size=VOCAB,
        end_tokens=(0,),
        intermediate_size=40,
        num_kv_heads=OLMOE.num_heads,
        mixture=Mixture(num_experts=8, num_active=2, expert_size=40, normalised=False),
    ),
}


@pytest.mark.parametrize("name", _SHAPES)
def test_a_gguf_file_is_the_merged_model_when_it_is_read_again(name: str, tmp_path: Path) -> None:
    config = _SHAPES[name]
    checkpoint, adapter = trained(model_folder(tmp_path / "base", config), tmp_path / "a")
    done = export(str(checkpoint), to="gguf", out=tmp_path / "out.gguf", state=tmp_path)
    assert done.within_limit
    assert done.files == ("out.gguf",)
    again = open_base(str(tmp_path / "out.gguf"))
    assert again.config == merged_config(adapter)
    for key, tensor in merged_weights(adapter).items():
        assert torch.equal(again.weights[key], tensor), key
    assert again.folder is not None
    tokenizer, text = load_tokenizer(again.folder), "a  12 <|end|>x ☃"
    assert tokenizer.encode(text, add_special_tokens=False) == small_tokenizer().encode(text)
    assert tokenizer.chat_template == small_tokenizer().chat_template
    assert tokenizer.eos_token_id == 0


@pytest.mark.parametrize("stored_as", StoredAs)
def test_transformers_reads_an_exported_file_as_the_trained_model(stored_as: StoredAs, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    checkpoint, adapter = trained(model_folder(tmp_path / "base", SHALLOW), tmp_path / "a")
    done = export(str(checkpoint), to="gguf", out=tmp_path / "out.gguf", state=tmp_path, stored_as=stored_as)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="out.gguf", dtype=torch.float32).eval()
    tokens = probe_sequences(SHALLOW, seed=0)
    with torch.no_grad():
        rows = [model(torch.tensor([each.tolist()])).logits[0] for each in tokens]
    theirs = torch.log_softmax(torch.cat(rows).double(), -1)
    ours = all_logprobs(adapter.decoder, adapter.low, tokens)
    moved = 0.0 if done.moved is None else done.moved
    assert float((ours - theirs).abs().max()) <= WITHIN_FP32 + moved
    assert (done.moved is None) == (stored_as is StoredAs.F32)


def test_a_file_can_be_trained_on_and_exported_again(tmp_path: Path) -> None:
    first, _ = trained(model_folder(tmp_path / "base", SHALLOW), tmp_path / "a")
    export(str(first), to="gguf", out=tmp_path / "one.gguf", state=tmp_path)
    second, _ = trained(tmp_path / "one.gguf", tmp_path / "b")
    done = export(str(second), to="gguf", out=tmp_path / "two.gguf", state=tmp_path)
    assert done.within_limit
    export(str(second), to="merged", out=tmp_path / "whole", state=tmp_path)
    assert torch.equal(
        open_base(str(tmp_path / "two.gguf")).weights["model.norm.weight"],
        open_base(str(tmp_path / "whole")).weights["model.norm.weight"],
    )
    assert load_tokenizer(tmp_path / "whole").encode("a 1") == small_tokenizer().encode("a 1")


def test_what_a_gguf_file_cannot_say_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "base", SHALLOW)
    checkpoint, _ = trained(folder, tmp_path / "a")
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"individual_digits":true', '"individual_digits":false'))
    file.write_text(file.read_text().replace('"individual_digits": true', '"individual_digits": false'))
    with pytest.raises(ConfigError, match="pre_tokenizer"):
        export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    with pytest.raises(ConfigError, match="stored-as"):
        export(str(checkpoint), to="merged", out=tmp_path / "o", state=tmp_path, stored_as=StoredAs.F16)
    assert not list(tmp_path.glob("*o*.gguf*"))


def test_a_rotation_that_no_file_can_say_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    scaling = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=65_536)
    config = replace(SHALLOW, rope_theta=10_000.0, rope_scaling=scaling)
    checkpoint, _ = trained(model_folder(tmp_path / "base", config), tmp_path / "a")
    with pytest.raises(ConfigError, match="slowed in full"):
        export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    assert not list(tmp_path.glob("*o*.gguf*"))


def test_a_padding_token_without_a_row_is_left_out_of_a_file(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "base", SHALLOW)
    padded = load_tokenizer(folder)
    padded.add_special_tokens({"pad_token": "<padding>"})
    padded.save_pretrained(folder)
    assert load_tokenizer(folder).pad_token_id == VOCAB
    checkpoint, _ = trained(folder, tmp_path / "a")
    export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    read = tokenizer_of(str(tmp_path / "o.gguf"))
    assert (len(read), read.pad_token) == (VOCAB, None)
    assert read.encode("a <|user|> 12") == padded.encode("a <|user|> 12")


def test_a_file_that_would_give_other_tokens_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, _ = trained(model_folder(tmp_path / "base", SHALLOW), tmp_path / "a")

    def wrong(source: Source, vocab_size: int, end_tokens: Sequence[int]) -> dict[str, Value]:
        return {**vocabulary(source, vocab_size, end_tokens), "tokenizer.ggml.merges": []}

    monkeypatch.setattr(exporting, "vocabulary", wrong)
    with pytest.raises(CheckpointError, match="other tokens"):
        export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    assert not list(tmp_path.glob("*o*.gguf*"))


def test_named_chat_templates_go_with_a_merged_folder_and_with_a_file(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "base", SHALLOW)
    several = load_tokenizer(folder)
    several.chat_template = {"default": str(several.chat_template), "tool_use": "{{ tools }}"}
    several.save_pretrained(folder)
    checkpoint, _ = trained(folder, tmp_path / "a")
    export(str(checkpoint), to="merged", out=tmp_path / "merged", state=tmp_path)
    export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    assert load_tokenizer(tmp_path / "merged").chat_template == several.chat_template
    assert tokenizer_of(str(tmp_path / "o.gguf")).chat_template == several.chat_template


@pytest.mark.parametrize("rows", [VOCAB - 1, VOCAB, VOCAB + 3])
def test_a_file_made_of_a_file_has_a_token_for_every_row(rows: int, tmp_path: Path) -> None:
    config = replace(SHALLOW, vocab_size=rows)
    more: dict[str, int | str | float] = {"tokenizer.ggml.padding_token_id": VOCAB - 1}
    write_gguf(tmp_path / "base.gguf", config, random_weights(config, 1), more=more)
    checkpoint, _ = trained(tmp_path / "base.gguf", tmp_path / "a")
    if rows < VOCAB:  # its last token is what a merge makes
        with pytest.raises(CheckpointError, match="merge"):
            export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
        return
    export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    metadata = read_gguf(tmp_path / "o.gguf").metadata
    for key in ("tokens", "token_type"):
        assert len(metadata[f"tokenizer.ggml.{key}"]) == rows  # pyright: ignore[reportArgumentType]
    assert metadata["tokenizer.ggml.padding_token_id"] == VOCAB - 1


def test_a_context_that_a_sliding_window_cuts_is_noted(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "base", replace(SHALLOW, family=Family.MISTRAL))
    file = folder / "config.json"
    published = json.loads(file.read_text())
    positions = published["max_position_embeddings"]
    checkpoint, _ = trained(folder, tmp_path / "a")
    assert export(str(checkpoint), to="merged", out=tmp_path / "same", state=tmp_path).note is None
    file.write_text(json.dumps({**published, "max_position_embeddings": 2 * positions, "sliding_window": positions}))
    done = export(str(checkpoint), to="merged", out=tmp_path / "cut", state=tmp_path)
    assert f"{positions} tokens, not {2 * positions}" in str(done.note)


def test_letters_that_only_the_file_composes_are_said(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "base", QWEN2_SMALL)
    tokenizer("qwen2_nfc").save_pretrained(folder)
    checkpoint, _ = trained(folder, tmp_path / "a")
    done = export(str(checkpoint), to="gguf", out=tmp_path / "o.gguf", state=tmp_path)
    assert "NFC" in str(done.note)
    read = tokenizer_of(str(tmp_path / "o.gguf"))
    assert read.encode("e\u0301 <|user|>") == load_tokenizer(folder).encode("\u00e9 <|user|>")


def test_a_folder_s_tokenizer_that_transformers_rebuilds_by_other_rules_is_not_written(tmp_path: Path) -> None:
    config = replace(QWEN2, vocab_size=VOCAB, end_tokens=(0,))
    write_gguf(tmp_path / "base.gguf", config, random_weights(config, 1))
    checkpoint, _ = trained(tmp_path / "base.gguf", tmp_path / "a")
    with pytest.raises(CheckpointError) as refused:
        export(str(checkpoint), to="merged", out=tmp_path / "out", state=tmp_path)
    assert refused.value.field == "tokenizer"
    assert not (tmp_path / "out").exists()
    text = str(refused.value.value)
    assert tokenizer_of(str(tmp_path / "base.gguf")).encode(text) == small_tokenizer().encode(text)


def test_letters_that_only_the_folder_composes_are_said(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "folder", QWEN2_SMALL)
    tokenizer("qwen2_nfc").save_pretrained(folder)
    keys = dict(vocabulary(find_model(str(folder)), QWEN2_SMALL.vocab_size, QWEN2_SMALL.end_tokens))
    del keys[COMPOSES]
    tokens = cast("list[str]", keys[TOKENS])  # transformers adds <|endoftext|> to any tokenizer of this type
    keys[TOKENS] = ["<|endoftext|>" if each == "<|begin|>" else each for each in tokens]
    base = tmp_path / "base.gguf"
    write_file(base, QWEN2_SMALL, random_weights(QWEN2_SMALL, 1), keys, stored_as=StoredAs.F32, name="base")
    checkpoint, _ = trained(base, tmp_path / "a")
    done = export(str(checkpoint), to="merged", out=tmp_path / "out", state=tmp_path)
    assert "NFC" in str(done.note)
    composed = "\u00e9 <|user|> 12"
    assert load_tokenizer(tmp_path / "out").encode(composed) == tokenizer_of(str(base)).encode(composed)
