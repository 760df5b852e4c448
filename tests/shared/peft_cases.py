"""Adapters that are exported for PEFT, each on a base of its own, and how they are read."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from families import make_hf_model

from oracles import disturb
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import read_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import all_logprobs, merged_weights, probe_sequences
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec


def decoder_of(folder: Path, *, quantised: bool = False) -> Decoder:
    config = read_config(folder)
    return build_decoder(config, read_weights(folder, config), NativeKernels(), quantised=quantised)


def logprobs_of(adapter: Adapter) -> torch.Tensor:
    return all_logprobs(adapter.decoder, adapter.low, probe_sequences(adapter.decoder.config, seed=0))


def spec_of(kind: AdapterKind = AdapterKind.LORA, **changes: bool) -> AdapterSpec:
    return AdapterSpec(kind=kind, rank=6, alpha=12.0, seed=2, **changes)


@dataclass
class Case:
    family: str
    spec: AdapterSpec
    tied: bool | None = None
    targets: tuple[str, ...] | None = None

    def adapter(self, base: Path) -> Adapter:
        make_hf_model(self.family, base, 5, tied=self.tied)
        decoder = decoder_of(base, quantised=self.spec.kind.quantised)
        adapter = create_adapter(decoder, self.spec, targets=self.targets)
        disturb(adapter, 4)
        if self.spec.kind.quantised:  # what PEFT is to load the adapter on: the base as it is held
            held = base.with_name(base.name + "-held")
            write_folder(held, decoder.config, merged_weights(Adapter(self.spec, decoder)))
        return adapter


TWO = (AdapterKind.LORA, AdapterKind.DORA)
CASES = {
    **{
        f"{family}-{kind}": Case(family, spec_of(kind))
        for family in ("llama", "mistral", "qwen2", "qwen3", "llama3_rope", "llama_bias")
        for kind in TWO
    },
    **{
        f"{family}-tied-{kind}": Case(family, spec_of(kind), tied=True) for family in ("llama", "qwen2") for kind in TWO
    },
    **{f"qwen3-{kind}": Case("qwen3", spec_of(kind)) for kind in (AdapterKind.QLORA, AdapterKind.QDORA)},
    "llama-some": Case(
        "llama", spec_of(AdapterKind.DORA), targets=("model.layers.1.self_attn.v_proj", "model.layers.0.mlp.gate_proj")
    ),
    "qwen3_moe-router": Case("qwen3_moe_64", spec_of(train_router=True)),
    "qwen3_moe-qlora": Case("qwen3_moe_64", spec_of(AdapterKind.QLORA)),
    "qwen3_moe-attention-dora": Case("qwen3_moe", spec_of(AdapterKind.DORA, train_mlp=False)),
    "olmoe": Case("olmoe", spec_of()),
    "olmoe-experts": Case("olmoe", spec_of(train_attn=False, train_unembed=False)),
    "olmoe-router-alone": Case(
        "olmoe", spec_of(train_attn=False, train_unembed=False, train_mlp=False, train_router=True)
    ),
}


_SCRIPT = """
import json, sys
import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

answers = {}
for name, case in json.load(open(sys.argv[1])).items():
    base = AutoModelForCausalLM.from_pretrained(case["base"])
    model = PeftModel.from_pretrained(base, case["adapter"]).eval()
    with torch.no_grad():
        rows = [model(torch.tensor([ids])).logits[0].double() for ids in case["tokens"]]
    answers[name] = torch.log_softmax(torch.cat(rows), -1)
save_file(answers, sys.argv[2])
"""


def clean_answers(folder: Path, questions: Mapping[str, object]) -> Path:
    """Ask of each case's `base`, `adapter` and `tokens`; return the file of its log-probabilities, (positions, V)."""
    (folder / "script.py").write_text(_SCRIPT)
    (folder / "questions.json").write_text(json.dumps(questions))
    answers = folder / "answers.safetensors"
    command = ["-I", "script.py", "questions.json", answers.name]
    ran = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "missing adapter keys" not in ran.stderr
    assert "unexpected adapter keys" not in ran.stderr
    return answers
