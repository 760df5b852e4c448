"""lm-eval on SmolLM2-135M: 200 items of four choices, the same by /v1 as by its own `hf` model of the same folder."""

import shutil
from pathlib import Path

import pytest
from foreign_programs import ROOT
from made_tasks import write_tasks
from transformers import AutoModelForCausalLM
from workbench import Workbench

from running import Running
from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.tokenizer import tokenizer_folder
from tinsmith.models.published.packaged import PACKAGED, require_fetched

PROGRAM = "with_lm_eval"
ITEMS, NATS = 200, 1e-4
LONG = 1800.0
"""Seconds: 800 prompts on a model of 135M parameters, on a machine that may have other work."""
FOLDER = ROOT / ".cache" / "smollm2"
NAME = "tests/smollm2"


@pytest.fixture(scope="module")
def smollm2() -> Path:
    """SmolLM2 as a folder of Hugging Face's: the weights as transformers reads them from the GGUF, in fp32."""
    if not FOLDER.exists():
        file = require_fetched(PACKAGED["smollm2"], "model")
        begun = FOLDER.with_name("smollm2.begun")
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
        # What was read from a quantised file is not saved; its weights in another model are.
        del read.config.quantization_config
        model = AutoModelForCausalLM.from_config(read.config)
        model.load_state_dict(read.state_dict())
        model.save_pretrained(begun)
        shutil.copytree(tokenizer_folder(read_gguf(file)), begun, dirs_exist_ok=True)
        begun.rename(FOLDER)
    return FOLDER


def test_200_items_are_chosen_as_by_its_own_model(bench: Workbench, smollm2: Path, tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks", ITEMS)
    task = (str(tmp_path / "tasks"), "made")
    with Running(tmp_path / "state", model=f"{NAME}={smollm2}") as server:
        where = f"model={NAME},base_url={server.url}/v1/completions"
        read = f"tokenizer_backend=huggingface,tokenizer={smollm2}"
        requests = ("local-completions", f"{where},{read}", *task)
        served = bench.run(server, PROGRAM, *requests, seconds=LONG)
        requests = ("hf", f"pretrained={smollm2},dtype=float32", *task)
        own = bench.run(server, PROGRAM, *requests, seconds=LONG)
    pairs = [list(zip(ours, theirs, strict=True)) for ours, theirs in zip(served["items"], own["items"], strict=True)]
    sums = [abs(ours[0] - theirs[0]) for item in pairs for ours, theirs in item]
    print(f"acc {own['metrics']['acc,none']}, largest difference {max(sums):.1e} nats")
    assert len(pairs) == ITEMS
    assert served["metrics"] == own["metrics"]
    for item in pairs:
        assert _best([ours[0] for ours, _ in item]) == _best([theirs[0] for _, theirs in item])
        assert [ours[1] for ours, _ in item] == [theirs[1] for _, theirs in item]
    assert max(sums) < NATS


def _best(sums: list[float]) -> int:
    return max(range(len(sums)), key=sums.__getitem__)
