import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from command_line import Ran, Run, command
from oracles import disturb
from sentences import missing
from tinsmith.engine.checkpoints import save
from tinsmith.engine.export import export
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import OpenedBase, open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.merge import all_logprobs, probe_sequences
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import CheckpointError

HEAVY = {"torch", "transformers", "tinker", "numpy", "rich", "safetensors", "peft", "polars", "msgspec"}
NANO, SEED = "tinsmith/nano", 5


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys)


@pytest.fixture(scope="module")
def nano() -> OpenedBase:
    return open_base(NANO, seed=SEED)


def _save(state: Path, path: str, base: OpenedBase, kind: AdapterKind = AdapterKind.LORA) -> tuple[Path, Adapter]:
    kernels = NativeKernels()
    decoder = build_decoder(base.config, base.weights, kernels, quantised=kind.quantised)
    adapter = create_adapter(decoder, AdapterSpec(kind=kind, rank=2))
    if kind is not AdapterKind.FULL:
        disturb(adapter, 1)
    folder = TinkerPath.parse(path).folder(state)
    session = TrainingSession(adapter)
    return save(session, folder, base=base.identity, with_optimizer=False), adapter


@pytest.fixture
def state(tmp_path: Path, nano: OpenedBase) -> Path:
    _save(tmp_path / "state", "tinker://s:train:0/weights/1", nano)
    return tmp_path / "state"


# What is imported


def test_the_command_line_loads_nothing_heavy() -> None:
    program = "import sys, tinsmith.cli; print('|'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(ran.stdout.strip().split("|")) & HEAVY


# Export


def _logprobs_of_transformers(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokens = probe_sequences(read_config(folder), seed=0)
    with torch.no_grad():
        rows = [model(torch.tensor([sequence.tolist()])).logits[0] for sequence in tokens]
    return torch.log_softmax(torch.cat(rows).double(), -1)


@pytest.mark.whole
@pytest.mark.parametrize("kind", AdapterKind)
def test_a_merged_export_is_the_model_that_was_trained(kind: AdapterKind, tmp_path: Path, nano: OpenedBase) -> None:
    path, out = "tinker://s:train:0/sampler_weights/a", tmp_path / "out"
    _, adapter = _save(tmp_path, path, nano, kind)
    exported = export(path, to="merged", out=out, state=tmp_path)
    assert exported.within_limit
    assert exported.limit <= 1e-4
    assert exported.difference <= 1e-5
    ours = all_logprobs(adapter.decoder, adapter.low, probe_sequences(nano.config, seed=0))
    assert float((ours - _logprobs_of_transformers(out)).abs().max()) <= 1e-5


def test_export_prints_what_it_wrote_and_the_difference(run: Run, state: Path, tmp_path: Path) -> None:
    path = "tinker://s:train:0/weights/1"
    ran = run("export", path, "--to", "peft", "--out", tmp_path / "o", "--state", state, code=0)
    assert "adapter_config.json, adapter_model.safetensors" in ran.out
    assert missing(ran.out, "lora", "tinsmith/nano", "0") == []
    assert "max log-probability difference: 0.00e+00 nats (limit 0.00e+00)" in ran.out
    settings = json.loads((tmp_path / "o" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == NANO


@pytest.mark.whole
def test_the_module_is_the_command_line_and_state_is_in_the_home(tmp_path: Path, state: Path) -> None:
    command = [sys.executable, "-m", "tinsmith", "export", "tinker://s:train:0/weights/1"]
    command += ["--to", "merged", "--out", str(tmp_path / "out")]
    ran = subprocess.run(
        command, env={**os.environ, "TINSMITH_HOME": str(state.parent)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert all(line.startswith("exporting") for line in ran.stderr.splitlines())  # as long as it takes
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        file.name for file in (tmp_path / "out").iterdir()
    }


def test_a_run_folder_stands_for_its_last_checkpoint(run: Run, state: Path, tmp_path: Path, nano: OpenedBase) -> None:
    _save(state, "tinker://s:train:0/weights/2", nano, AdapterKind.DORA)
    rows = [
        {"name": "1", "batch": 1, "state_path": "tinker://s:train:0/weights/1"},
        {
            "name": "2",
            "batch": 2,
            "state_path": "tinker://s:train:0/weights/2",
            "sampler_path": "tinker://s:train:0/sampler_weights/deleted",
        },
    ]
    folder = tmp_path / "run"
    folder.mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "checkpoints.jsonl").write_text(text)
    run("export", folder, "--to", "peft", "--out", tmp_path / "o", "--state", state, code=0)
    assert json.loads((tmp_path / "o" / "adapter_config.json").read_text())["use_dora"] is True


def test_a_base_that_moved_is_named_and_its_tokenizer_is_copied(run: Run, tmp_path: Path, nano: OpenedBase) -> None:
    write_folder(tmp_path / "base", nano.config, nano.weights)
    (tmp_path / "base" / "tokenizer.json").write_text("{}")
    (tmp_path / "base" / "README.md").touch()
    base = open_base(str(tmp_path / "base"))
    folder, _ = _save(tmp_path, "tinker://a/weights/a", base)
    (tmp_path / "base").rename(tmp_path / "moved")
    arguments = ("export", folder, "--to", "merged", "--out", tmp_path / "out")
    ran = run(*arguments, code=2)
    assert "--base PATH" in ran.err
    assert not (tmp_path / "out").exists()
    assert run(*arguments, "--base", tmp_path / "moved").code == 0
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "{}"
    assert not (tmp_path / "out" / "README.md").exists()


def test_an_export_above_the_limit_exits_with_1(run: Run, tmp_path: Path, nano: OpenedBase) -> None:
    kernels = NativeKernels()
    adapter = create_adapter(build_decoder(nano.config, nano.weights, kernels), AdapterSpec(kind=AdapterKind.FULL))
    adapter.decoder.final_norm.value.fill_(3e38)  # finite, but no logit is
    session = TrainingSession(adapter)
    save(session, tmp_path / "a", base=nano.identity, with_optimizer=False)
    ran = run("export", tmp_path / "a", "--to", "merged", "--out", tmp_path / "out", code=1)
    assert "nan nats" in ran.out
    assert missing(ran.err, "limit") == []


# Mistakes


def _refused(ran: Ran, says: str) -> None:
    assert ran.code == 2
    assert ran.out == ""
    assert says in ran.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["exprt"], "Did you mean 'export'"),
        (["export"], "Missing argument"),
        (["base", "build", "--data", "nowhere"], "nowhere is not a slice"),
        (["export", "x", "--to", "peft"], "Missing option '--out'"),
        (["export", "tinker://s/weights/9", "--to", "gguf", "--out", "o"], "FILE.gguf"),
        (["export", "x", "--too", "peft"], "No such option"),
        (["export", "x", "--to", "peft", "--out", "o"], "no such checkpoint"),
        (["export", "tinker://a", "--to", "peft", "--out", "o"], "tinker://SESSION/weights/NAME"),
        (["export", "tinker://../weights/a", "--to", "peft", "--out", "o"], "session = '..'"),
        (["export", "tinker://s/weights/9", "--to", "peft", "--out", "o"], "--state DIR"),
    ],
)
def test_a_mistake_is_told_in_five_lines(run: Run, tmp_path: Path, arguments: list[str], says: str) -> None:
    if "--out" in arguments:
        arguments = [*arguments[:-1], str(tmp_path / "o"), "--state", str(tmp_path)]
    _refused(run(*arguments), says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", ["", "{}\n", '{"state_path": "tinker://s/wei', "[1]\n"])
def test_a_run_whose_last_row_is_no_checkpoint_is_refused(run: Run, tmp_path: Path, row: str) -> None:
    (tmp_path / "checkpoints.jsonl").write_text(row)
    arguments = ("--to", "peft", "--out", tmp_path / "out", "--state", tmp_path)
    _refused(run("export", tmp_path, *arguments), "the last row names no checkpoint")


def test_a_damaged_checkpoint_is_refused(run: Run, state: Path, tmp_path: Path) -> None:
    folder = TinkerPath.parse("tinker://s:train:0/weights/1").folder(state)
    file = folder / "adapter.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    ran = run("export", folder, "--to", "peft", "--out", tmp_path / "out")
    _refused(ran, "adapter.safetensors: damaged")


def test_a_whole_trained_model_is_no_adapter(run: Run, tmp_path: Path, nano: OpenedBase) -> None:
    folder, _ = _save(tmp_path, "tinker://s/weights/a", nano, AdapterKind.FULL)
    _refused(run("export", folder, "--to", "peft", "--out", tmp_path / "out"), "--to merged")
    assert not (tmp_path / "out").exists()


def test_a_taken_out_folder_is_left_alone(run: Run, state: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    folder = TinkerPath.parse("tinker://s:train:0/weights/1").folder(state)
    ran = run("export", folder, "--to", "peft", "--out", tmp_path / "out")
    _refused(ran, "field: --out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["file"]


def test_a_place_one_cannot_write_to_is_told(run: Run, state: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = TinkerPath.parse("tinker://s:train:0/weights/1").folder(state)
    ran = run("export", folder, "--to", "peft", "--out", tmp_path / "file" / "out")
    _refused(ran, "file: ")


def test_a_base_of_other_weights_is_refused(tmp_path: Path, state: Path, nano: OpenedBase) -> None:
    weights = {**nano.weights, "model.norm.weight": nano.weights["model.norm.weight"] * 2}
    write_folder(tmp_path / "other", nano.config, weights)
    folder = TinkerPath.parse("tinker://s:train:0/weights/1").folder(state)
    with pytest.raises(CheckpointError, match="base fingerprint"):
        export(str(folder), to="peft", out=tmp_path / "o", state=state, base=str(tmp_path / "other"))
    assert not (tmp_path / "o").exists()
