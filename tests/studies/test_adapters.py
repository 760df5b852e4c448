"""The study of adapters: what it is told, how it chooses a rate, what it reads, and that it says the same again."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sent_cells import Sent
from small_slice import Made

from command_line import keys_in
from tinsmith.cli.registered import find
from tinsmith.engine.checkpoints import load_adapter, read
from tinsmith.engine.export import export
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.papers.labels import NOTEBOOK
from tinsmith.lab.runs.files import CONFIG, MANIFEST, STATE
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import PAGE, SECONDS_JSON, STUDY_JSON, TABLES
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import Cell, StudyArm, StudyCells, cells_of
from tinsmith.models.adapter import Adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.merge import all_logprobs, merged_weights, probe_sequences
from tinsmith.ops.native import NativeKernels
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import CheckName, Finding
from tinsmith.studies.adapters import study
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say, unsaid

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*tie_word_embeddings:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*save_embedding_layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
]

LORA, QDORA = AdapterKind.LORA, AdapterKind.QDORA
KINDS = ("lora", "dora", "qlora", "qdora")
DRAWS = Draws(claims=Bootstrap(draws=200), tables=Bootstrap(draws=100))
RATES = "1e-4,2e-4,4e-4,8e-4,1.6e-3"
SMALL = keys_in("lora_rank=4 steps=2 batch_size=4 eval_every=0 save_every=0 eval_items=6 max_tokens=20")


def settings(**changes: str) -> StudyCells:
    return cells_of(study, {"out": "x", **changes})


def tuning(study: StudyCells) -> list[Cell]:
    return [cell for arm in study.arms for cell in study.tuning(arm).values()]


def arm(study: StudyCells, name: str) -> StudyArm:
    return next(one for one in study.arms if one.name == name)


# What it is told


@pytest.mark.parametrize("kind", KINDS)
def test_every_adapter_is_lora_but_for_the_adapter(kind: str) -> None:
    one, lora = (make_plan(find(f"sft/{name}"), {}) for name in (kind, "lora"))
    assert one.settings.adapter.value == kind
    assert one.frame == lora.frame
    changed = {
        key
        for key in SMALL.keys() | {"adapter", "seed", "learning_rate"}
        if getattr(one.settings, key, None) != getattr(lora.settings, key, None)
    }
    assert changed <= {"adapter"}


def test_at_the_seeds_place_all_of_them_stand_at_the_notebook() -> None:
    cells = tuning(settings(at="seed", model_name="x", rates=RATES))
    plans = [make_plan(cell.experiment, cell.overrides) for cell in cells]
    alike = [
        {key: value for key, value in asdict(plan.settings).items() if key not in ("adapter", "learning_rate")}
        for plan in plans
    ]
    assert all(one == alike[0] for one in alike)
    notebook = {key: value for key, value in NOTEBOOK.items() if key != "learning_rate"}
    assert {key: alike[0][key] for key in notebook} == notebook


def test_all_runs_have_the_same_settings_but_rate_seed_and_adapter() -> None:
    lines = settings(steps="7", lora_rank="8", rates=RATES, **{"rates.qdora": "1,2,3,4,5"})
    assert tuple(one.name for one in lines.arms) == KINDS
    assert arm(lines, QDORA).rates == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert arm(lines, LORA).rates == (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
    cells = tuning(lines)
    assert len({cell.folder for cell in cells}) == len(cells) == 20
    plans = [make_plan(cell.experiment, cell.overrides) for cell in cells]
    assert {plan.settings.seed for plan in plans} == {0}
    assert {(plan.settings.steps, plan.settings.lora_rank) for plan in plans} == {(7, 8)}
    assert {plan.settings.lr_schedule.value for plan in plans} == {"cosine"}
    assert [plan.settings.learning_rate for plan in plans[-5:]] == [1.0, 2.0, 3.0, 4.0, 5.0]


# What it reads: one run of each adapter stands for all of its cells


@pytest.fixture(scope="module")
def ran(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Cell]:
    """A trained run of LoRA and one of QDoRA."""
    out = tmp_path_factory.mktemp("ran")
    where = {"data": str(made.data), "model_name": str(made.base)}
    messages = settings(out=str(out), rates=RATES, **SMALL, **where)
    cells = {kind.value: messages.cell(arm(messages, kind), 8e-4, 0) for kind in (LORA, QDORA)}
    for cell in cells.values():
        plan = make_plan(cell.experiment, {**cell.overrides, "log_path": str(cell.folder)})
        conduct(plan, say=unsaid)
    return cells


def _copied(ran: Mapping[str, Cell], cells: Sequence[Cell]) -> None:
    """Put the run of each cell's adapter where the cell's would be, as if trained at its rate and seed."""
    for cell in cells:
        if cell.folder.exists():
            continue
        kind = cell.experiment.name.removeprefix("sft/")
        shutil.copytree(ran[kind].folder, cell.folder)
        rate, seed = float(cell.overrides["learning_rate"]), int(cell.overrides["seed"])
        _rewrite(cell.folder / CONFIG, "settings", {"learning_rate": rate, "seed": seed})
        score = {"score": {"value": 0.5 - abs(rate - 4e-4), "tie_break": 0.0}}
        _rewrite(cell.folder / MANIFEST, "selected", score)


def _rewrite(file: Path, key: str, changes: dict[str, Any]) -> None:
    content = json.loads(file.read_text())
    content[key] |= changes
    file.write_text(json.dumps(content))


def test_a_study_is_told_as_values_table_and_page(ran: Mapping[str, Cell], tmp_path: Path) -> None:
    def copied(cells: Sequence[Cell], say: Say) -> None:
        del say
        _copied(ran, cells)

    keys = {"adapters": "lora,qdora", "rates": RATES, **SMALL}
    out = run_study(study, {**keys, "out": str(tmp_path / "one")}, unsaid, run=copied, draws=DRAWS)
    assert (out / SECONDS_JSON).is_file()
    found = json.loads((out / STUDY_JSON).read_bytes())
    assert found["chosen"] == {"LoRA": 4e-4, "QDoRA": 4e-4}
    scores, cost = ({row[0].split("|")[0]: row[1] for row in reversed(table["rows"])} for table in found["tables"])
    assert scores["LoRA"][-2:] == [None, None]
    gap, p_value = scores["QDoRA"][-2:]
    assert gap["low"] <= gap["value"] <= gap["high"]
    assert 0.0 < p_value["value"] <= 1.0
    lora, qdora = cost["LoRA"], cost["QDoRA"]
    assert lora[-2:] == ["has none", "has none"]
    assert 0.0 < qdora[-1]["value"] < 1.0
    assert int(qdora[0].replace(",", "")) > int(lora[0].replace(",", ""))
    assert lora[4]["value"] == 1.0
    assert qdora[4]["value"] < 0.13
    assert [(one["first"], one["second"]) for one in found["beats"]] == [("QDoRA", "LoRA")]
    for claim in found["learned"]:
        assert {check["name"]: check["finding"] for check in claim["checks"]}[CheckName.CONTROL] == Finding.MISSING
    assert len(scores) > 2, "the slice has baselines"
    page, table = ((tmp_path / "one" / name).read_text() for name in (PAGE, TABLES))
    assert all("QDoRA" in text for text in (page, table))
    assert "://" not in page.replace("http://www.w3.org", "")


def another_base(base: Path, folder: Path) -> Path:
    """Copy a base, with one of its weights changed."""
    shutil.copytree(base, folder)
    (file,) = folder.glob("*.safetensors")
    weights = load_file(file)
    weights[min(weights)] += 1
    save_file(weights, file, {"format": "pt"})
    return folder


def test_a_cell_that_came_to_its_end_is_not_run_again(ran: Mapping[str, Cell], tmp_path: Path) -> None:
    cell, sent = ran["qdora"], Sent()
    run_cells([cell], unsaid, send=sent, cores=(1,))
    changed = {**cell.overrides, "seed": "9"}
    with pytest.raises(ConfigError, match="this folder holds another run"):
        run_cells([Cell(experiment=cell.experiment, overrides=changed, folder=cell.folder)], unsaid, send=sent)
    other = another_base(Path(cell.overrides["model_name"]), tmp_path / "other")
    rebased = {**cell.overrides, "model_name": str(other)}
    with pytest.raises(ConfigError, match="trained on another base"):
        run_cells([Cell(experiment=cell.experiment, overrides=rebased, folder=cell.folder)], unsaid, send=sent)
    assert sent.arguments == []
    new = Cell(experiment=cell.experiment, overrides=changed, folder=tmp_path / "new")
    run_cells([new], unsaid, send=sent, cores=(1,))
    assert [arguments[0] for arguments in sent.arguments] == ["sft/qdora"]


def test_a_trained_qdora_exports_to_peft_on_the_dequantised_base(ran: Mapping[str, Cell], tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = ran["qdora"].folder
    manifest = json.loads((folder / MANIFEST).read_text())
    path = manifest["selected"]["final_path"]
    checkpoint = read(TinkerPath.parse(path).folder(folder / STATE))
    base = open_base(manifest["circumstances"]["model_folder"])
    decoder = build_decoder(base.config, base.weights, NativeKernels(), quantised=True)
    adapter = load_adapter(decoder, checkpoint, base=base.identity)
    moved = load_file(checkpoint.folder / "adapter.safetensors")
    assert any(value.abs().max() > 0 for name, value in moved.items() if "lora_B" in name)
    done = export(path, to="peft", out=tmp_path / "peft", state=folder / STATE)
    assert done.within_limit
    held = tmp_path / "held"
    write_folder(held, decoder.config, merged_weights(Adapter(adapter.spec, decoder)))
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(held), tmp_path / "peft").eval()
    tokens = probe_sequences(decoder.config, seed=0)
    with torch.no_grad():
        rows = [model(torch.tensor([ids.tolist()])).logits[0].double() for ids in tokens]
    theirs = torch.log_softmax(torch.cat(rows), -1)
    assert float((theirs - all_logprobs(decoder, adapter.low, tokens)).abs().max()) <= 1e-5
