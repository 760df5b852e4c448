import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from families import make_hf_model
from peft_cases import CASES, Case, clean_answers, decoder_of, logprobs_of, spec_of
from safetensors.torch import load_file, save_file

from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import max_logprob_difference, probe_sequences
from tinsmith.models.peft_format import export_peft, import_peft
from tinsmith.models.slots import values
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

LIMIT = 1e-5

pytestmark = [
    pytest.mark.whole,
    # peft 0.21 on transformers 5.23: an adapted tied head, and a call to a deprecated name.
    pytest.mark.filterwarnings("ignore:.*tie_word_embeddings:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*save_embedding_layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Adapter], Path]:
    """Every case's adapter, and the answers of one script that knows transformers and peft only."""
    folder = tmp_path_factory.mktemp("clean")
    adapters: dict[str, Adapter] = {}
    questions: dict[str, object] = {}
    for name, case in CASES.items():
        base = folder / name
        adapters[name] = case.adapter(base)
        export_peft(adapters[name], folder / f"{name}-adapter", base_name=str(base))
        tokens = probe_sequences(adapters[name].decoder.config, seed=0)
        questions[name] = {
            "base": f"{base}-held" if case.spec.kind.quantised else str(base),
            "adapter": str(folder / f"{name}-adapter"),
            "tokens": [sequence.tolist() for sequence in tokens],
        }
    return adapters, clean_answers(folder, questions)


@pytest.mark.parametrize("name", CASES)
def test_plain_peft_loads_what_was_exported(clean: tuple[dict[str, Adapter], Path], name: str) -> None:
    adapters, answers = clean
    difference = float((logprobs_of(adapters[name]) - load_file(answers)[name]).abs().max())
    assert difference <= LIMIT


@pytest.mark.parametrize("name", CASES)
def test_an_exported_adapter_comes_back_with_the_same_bits(clean: tuple[dict[str, Adapter], Path], name: str) -> None:
    adapters, answers = clean
    adapter = adapters[name]
    again = import_peft(answers.with_name(f"{name}-adapter"), adapter.decoder)
    before, after = values(adapter.slots), values(again.slots)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert torch.equal(logprobs_of(again), logprobs_of(adapter))
    assert again.spec.kind == adapter.spec.kind
    assert again.spec.scaling == adapter.spec.scaling
    if adapter.decoder.config.mixture is not None:
        assert again.spec.train_router == adapter.spec.train_router
        assert again.spec.train_mlp == adapter.spec.train_mlp


def test_every_expert_and_matrix_has_a_pair_of_its_own(clean: tuple[dict[str, Adapter], Path]) -> None:
    _, answers = clean
    stored = load_file(answers.with_name("olmoe-experts-adapter") / "adapter_model.safetensors")
    assert set(stored) == {
        f"base_model.model.model.layers.{n}.mlp.experts.{e}.{matrix}_proj.lora_{which}.weight"
        for n in range(2)
        for e in range(8)
        for matrix in ("gate", "up", "down")
        for which in "AB"
    }
    settings = json.loads((answers.with_name("olmoe-experts-adapter") / "adapter_config.json").read_text())
    assert settings["target_modules"] == ["gate_proj", "up_proj", "down_proj"]


# Made by PEFT


def _peft_adapter(base: Path, folder: Path, *, scale: float = 0.3, **settings: object) -> torch.Tensor:
    """Let PEFT make an adapter that is no identity; return what PEFT's model says."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_pretrained(base)
    config = LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings)
    peft_model = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in peft_model.named_parameters():
            if "lora_" in name:
                parameter.mul_(1.1 if "magnitude" in name else scale)
    peft_model.save_pretrained(folder)
    tokens = probe_sequences(read_config(base), seed=0)
    with torch.no_grad():
        rows = [peft_model(torch.from_numpy(t.astype(np.int64))[None]).logits[0] for t in tokens]
    return torch.log_softmax(torch.cat(rows).double(), -1)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    make_hf_model("qwen2", folder / "tied", 1, tied=True)
    make_hf_model("llama", folder / "free", 2)
    return {"tied": folder / "tied", "free": folder / "free"}


MADE_BY_PEFT: dict[str, tuple[str, dict[str, object]]] = {
    "all-linear": ("free", {"target_modules": "all-linear"}),
    "q and v": ("free", {"target_modules": ["q_proj", "v_proj"], "r": 3, "lora_alpha": 7}),
    "k alone": ("free", {"target_modules": ["k_proj"], "r": 1}),
    "rslora": ("free", {"target_modules": ["up_proj"], "r": 5, "use_rslora": True}),
    "dora": ("free", {"target_modules": ["v_proj", "up_proj", "lm_head"], "use_dora": True}),
    "dora and rslora": ("tied", {"target_modules": ["q_proj", "down_proj"], "use_dora": True}),
    "tied head": ("tied", {"target_modules": ["lm_head"], "use_dora": True}),
    "one layer": ("free", {"target_modules": ["k_proj", "gate_proj"], "layers_to_transform": [1]}),
    "dropout": ("free", {"target_modules": ["o_proj"], "lora_dropout": 0.5}),
}
MADE_BY_PEFT["dora and rslora"][1]["use_rslora"] = True


@pytest.mark.parametrize("name", MADE_BY_PEFT)
def test_what_peft_made_says_the_same_here(bases: dict[str, Path], tmp_path: Path, name: str) -> None:
    base, settings = MADE_BY_PEFT[name]
    theirs = _peft_adapter(bases[base], tmp_path / "adapter", **settings)
    decoder = decoder_of(bases[base])
    adapter = import_peft(tmp_path / "adapter", decoder)
    difference = float((logprobs_of(adapter) - theirs).abs().max())
    assert difference <= LIMIT
    assert float((logprobs_of(Adapter(adapter.spec, decoder)) - theirs).abs().max()) > 0.01


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": r".*\.1\.self_attn\.(q|v)_proj"},
        {"target_modules": ["q_proj", "v_proj"], "exclude_modules": r".*layers\.0.*"},
        {"target_modules": ["model.layers.1.self_attn.q_proj"], "layers_to_transform": [0]},
        {"target_modules": ["v_proj"], "layers_to_transform": 1, "layers_pattern": "layers"},
    ],
)
def test_layers_that_peft_chose_by_patterns_are_read_and_others_are_refused(
    bases: dict[str, Path], tmp_path: Path, settings: dict[str, object]
) -> None:
    theirs = _peft_adapter(bases["free"], tmp_path, **settings)
    decoder = decoder_of(bases["free"])
    assert float((logprobs_of(import_peft(tmp_path, decoder)) - theirs).abs().max()) <= LIMIT
    stored = load_file(tmp_path / "adapter_model.safetensors")
    other = {name.replace("layers.1.", "layers.0."): tensor.clone() for name, tensor in stored.items()}
    save_file(stored | other, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ConfigError, match=r"has tensors of model\.layers\.0"):
        import_peft(tmp_path, decoder)


def test_a_named_layer_without_tensors_is_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    _peft_adapter(bases["free"], tmp_path, target_modules=["q_proj"])
    stored = load_file(tmp_path / "adapter_model.safetensors")
    save_file(
        {name: each for name, each in stored.items() if "layers.0." in name}, tmp_path / "adapter_model.safetensors"
    )
    with pytest.raises(CheckpointError) as caught:
        import_peft(tmp_path, decoder_of(bases["free"]))
    assert (caught.value.field, caught.value.value) == ("target_modules", "model.layers.1.self_attn.q_proj")


MIXTURES_BY_PEFT = {
    "experts": {"target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
    "gate_up": {"target_parameters": ["mlp.experts.gate_up_proj"]},
    "down": {"target_parameters": ["experts.down_proj"]},
    "router": {"target_parameters": ["mlp.gate.weight"]},
    "all": {"target_modules": ["q_proj", "o_proj"], "target_parameters": ["gate_up_proj", "down_proj", "gate.weight"]},
}


@pytest.mark.parametrize("family", ["olmoe", "qwen3_moe_64"])
@pytest.mark.parametrize("name", MIXTURES_BY_PEFT)
def test_experts_that_peft_trains_on_transformers_5_are_read(family: str, name: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path / "base", 6)
    settings: dict[str, object] = {"target_modules": [], "r": 4, **MIXTURES_BY_PEFT[name]}
    theirs = _peft_adapter(tmp_path / "base", tmp_path / "adapter", scale=0.2, **settings)
    decoder = decoder_of(tmp_path / "base")
    adapter = import_peft(tmp_path / "adapter", decoder)
    assert float((logprobs_of(adapter) - theirs).abs().max()) <= LIMIT
    assert max_logprob_difference(adapter, decoder) > 100 * LIMIT
    assert adapter.spec.train_router == (name in ("router", "all"))


@pytest.mark.parametrize("name", ["one layer", "q and v", "dora"])
def test_what_peft_made_is_written_back_with_the_same_bits(bases: dict[str, Path], tmp_path: Path, name: str) -> None:
    base, settings = MADE_BY_PEFT[name]
    _peft_adapter(bases[base], tmp_path / "one", **settings)
    export_peft(import_peft(tmp_path / "one", decoder_of(bases[base])), tmp_path / "two", base_name="b")
    one, two = (load_file(tmp_path / n / "adapter_model.safetensors") for n in ("one", "two"))
    one.pop("base_model.model.lm_head.base_layer.weight", None)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_scaling_of_rslora_is_alpha_by_the_root_of_the_rank(bases: dict[str, Path], tmp_path: Path) -> None:
    _peft_adapter(bases["free"], tmp_path / "a", target_modules=["q_proj"], r=9, use_rslora=True)
    assert import_peft(tmp_path / "a", decoder_of(bases["free"])).spec.scaling == pytest.approx(8 / 3)


def test_groups_that_are_not_adapted_are_off_in_the_spec(bases: dict[str, Path], tmp_path: Path) -> None:
    _peft_adapter(bases["free"], tmp_path / "a", target_modules=["v_proj"], r=2, lora_alpha=4)
    spec = import_peft(tmp_path / "a", decoder_of(bases["free"])).spec
    assert spec == AdapterSpec(rank=2, alpha=4.0, train_attn=True, train_mlp=False, train_unembed=False)


# Writing


@pytest.fixture
def exported(bases: dict[str, Path], tmp_path: Path) -> tuple[Decoder, Path]:
    decoder = decoder_of(bases["free"])
    adapter = create_adapter(decoder, AdapterSpec(rank=2, train_mlp=False))
    export_peft(adapter, tmp_path / "adapter", base_name="some/base")
    return decoder, tmp_path / "adapter"


def test_the_config_names_base_rank_and_targets(exported: tuple[Decoder, Path]) -> None:
    settings = json.loads((exported[1] / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "some/base"
    assert (settings["r"], settings["lora_alpha"], settings["use_dora"]) == (2, 32, False)
    assert settings["target_modules"] == ["q_proj", "k_proj", "v_proj", "o_proj", "lm_head"]


def test_targets_that_differ_by_layer_are_named_in_full(bases: dict[str, Path], tmp_path: Path) -> None:
    targets = ["model.layers.1.mlp.up_proj", "lm_head"]
    adapter = create_adapter(decoder_of(bases["free"]), AdapterSpec(rank=2), targets=targets)
    export_peft(adapter, tmp_path / "a", base_name="b")
    settings = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    assert settings["target_modules"] == ["lm_head", "model.layers.1.mlp.up_proj"]


def test_a_taken_folder_is_left_alone(exported: tuple[Decoder, Path]) -> None:
    decoder, folder = exported
    adapter = create_adapter(decoder, AdapterSpec(rank=2))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(ConfigError, match=r"field: path = '.*/adapter'"):
        export_peft(adapter, folder, base_name="b")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_whole_trained_model_is_no_adapter(bases: dict[str, Path], tmp_path: Path) -> None:
    adapter = create_adapter(decoder_of(bases["free"]), AdapterSpec(kind=AdapterKind.FULL))
    with pytest.raises(ConfigError, match="--to merged"):
        export_peft(adapter, tmp_path / "a", base_name="b")
    assert list(tmp_path.iterdir()) == []


def test_what_peft_would_load_a_part_of_is_not_exported(tmp_path: Path) -> None:
    adapter = Case("qwen3_moe", spec_of()).adapter(tmp_path / "base")
    with pytest.raises(ConfigError, match="experts and dense layers"):
        export_peft(adapter, tmp_path / "adapter", base_name="b")
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize("kind", [AdapterKind.DORA, AdapterKind.QDORA])
def test_dora_of_experts_is_not_exported(kind: AdapterKind, tmp_path: Path) -> None:
    adapter = Case("olmoe", spec_of(kind)).adapter(tmp_path / "base")
    with pytest.raises(ConfigError, match="--to merged"):
        export_peft(adapter, tmp_path / "adapter", base_name="b")
    assert not (tmp_path / "adapter").exists()


# Refusals


def _configure(folder: Path, field: str, value: object) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("peft_type", "LOHA"),
        ("task_type", "SEQ_CLS"),
        ("bias", "all"),
        ("lora_bias", True),
        ("modules_to_save", ["embed_tokens"]),
        ("rank_pattern", {"q_proj": 4}),
        ("alpha_pattern", {"q_proj": 4}),
        ("fan_in_fan_out", True),
        ("layer_replication", [[0, 1]]),
        ("trainable_token_indices", [1]),
        ("target_parameters", ["a"]),
        ("ensure_weight_tying", True),
        ("init_lora_weights", "pissa"),
        ("init_lora_weights", "loftq"),
        ("use_qalora", True),
        ("setting_of_the_future", 1),
        ("use_rslora", 1),
        ("use_dora", "yes"),
        ("target_modules", ["q_proj"]),
        ("target_modules", r".*layers\.0\..*"),
        ("target_modules", "("),
        ("target_modules", None),
        ("exclude_modules", ["v_proj"]),
        ("exclude_modules", r".*layers\.0\..*"),
        ("layers_to_transform", [1]),
        ("layers_to_transform", 0),
        ("layers_to_transform", "0"),
        ("r", "2"),
        ("r", None),
        ("r", 0),
        ("r", 2**62),
        ("r", 10**400),
        ("lora_alpha", -1),
        ("lora_alpha", 10**400),
        ("lora_alpha", 0),
        ("lora_alpha", math.inf),
        ("lora_alpha", True),
    ],
)
def test_an_unsupported_setting_is_refused_by_name(exported: tuple[Decoder, Path], field: str, value: object) -> None:
    decoder, folder = exported
    _configure(folder, field, value)
    name = {"lora_alpha": "(lora_)?alpha"}.get(field, field)
    with pytest.raises(ConfigError, match=f"field: {name} = "):
        import_peft(folder, decoder)


@pytest.fixture(scope="module")
def of_experts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Decoder, Path]:
    folder = tmp_path_factory.mktemp("experts")
    adapter = Case("olmoe", spec_of()).adapter(folder / "base")
    export_peft(adapter, folder / "adapter", base_name="b")
    return adapter.decoder, folder / "adapter"


@pytest.mark.parametrize(
    ("field", "value"),
    [("target_parameters", ["experts.w1"]), ("target_parameters", "all"), ("rank_pattern", {"a": 2})],
)
def test_an_unsupported_setting_of_experts_is_refused_by_name(
    of_experts: tuple[Decoder, Path], field: str, value: object, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(of_experts[1], tmp_path / "adapter"))
    _configure(folder, field, value)
    with pytest.raises(ConfigError) as caught:
        import_peft(folder, of_experts[0])
    assert caught.value.field == field


def test_an_adapter_of_other_experts_is_refused(of_experts: tuple[Decoder, Path], tmp_path: Path) -> None:
    make_hf_model("olmoe_64", tmp_path / "other", 6)
    with pytest.raises(CheckpointError):
        import_peft(of_experts[1], decoder_of(tmp_path / "other"))


def _rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    file = folder / "adapter_model.safetensors"
    tensors: dict[str, torch.Tensor | None] = {**load_file(file), **changes}
    save_file({name: t for name, t in tensors.items() if t is not None}, file)


Q = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({f"{Q}.lora_B.weight": None}, "a tensor is missing"),
        ({f"{Q}.lora_A.weight": torch.zeros(3, 64)}, "another shape"),
        ({f"{Q}.lora_A.weight": torch.full((2, 64), math.nan)}, "NaN or infinity"),
        ({f"{Q}.lora_A.weight": torch.zeros(2, 64, dtype=torch.int32)}, "no tensor of a PEFT"),
        ({f"{Q}.lora_magnitude_vector": torch.ones(64)}, "belongs to no weight"),
        ({"model.layers.0.x": torch.ones(1)}, "no tensor of a PEFT"),
        ({"base_model.model.model.embed_tokens.lora_A.weight": torch.ones(1)}, "linear layers"),
        ({"base_model.model.lm_head.base_layer.weight": torch.ones(320, 64)}, "a head of its own"),
    ],
)
def test_tensors_of_another_model_are_refused_by_name(
    exported: tuple[Decoder, Path], changes: dict[str, torch.Tensor | None], says: str
) -> None:
    decoder, folder = exported
    _rewrite(folder, **changes)
    with pytest.raises(CheckpointError, match=says):
        import_peft(folder, decoder)


def test_no_adapter_at_all_is_refused(exported: tuple[Decoder, Path], tmp_path: Path) -> None:
    decoder, folder = exported
    with pytest.raises(ConfigError, match="no PEFT adapter"):
        import_peft(tmp_path / "absent", decoder)
    _rewrite(folder, **dict.fromkeys(load_file(folder / "adapter_model.safetensors")))
    with pytest.raises(CheckpointError, match="linear layers"):
        import_peft(folder, decoder)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_a_damaged_file_is_refused(exported: tuple[Decoder, Path], name: str) -> None:
    decoder, folder = exported
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(TinsmithError, match=name):
        import_peft(folder, decoder)


def test_a_pickle_is_not_read(exported: tuple[Decoder, Path]) -> None:
    decoder, folder = exported
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(ConfigError, match="only safetensors"):
        import_peft(folder, decoder)


def test_half_precision_tensors_are_read_as_fp32(exported: tuple[Decoder, Path]) -> None:
    decoder, folder = exported
    tensors = load_file(folder / "adapter_model.safetensors")
    _rewrite(folder, **{name: tensor.bfloat16() for name, tensor in tensors.items()})
    read = values(import_peft(folder, decoder).slots)
    expected = tensors[f"{Q}.lora_A.weight"].bfloat16().float()
    assert torch.equal(read["model.layers.0.self_attn.q_proj.lora_A.weight"], expected)
