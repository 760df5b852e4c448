"""Runs of `at=small` on a deep model of little width with a chat template: random weights, so nothing can be read."""

import dataclasses
from pathlib import Path

import pytest
from own_task import lines
from pages_of import report_of
from small_slice import Made

from tinsmith.cli.registered import find
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.splits import Split
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.runs.files import METRICS, ROLLOUTS, TIMINGS
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.renderers.tokenizer import save_tokenizer, train_tokenizer
from tinsmith.stats.monitors import AlarmKind
from tinsmith.types.waits import unsaid

LAYERS = 30
TEMPLATE = (
    "{%- for message in messages -%}{{- '<' + message.role + '>\\n' + message.content }}"
    "{{- eos_token + '\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{- '<assistant>\\n' }}{%- endif -%}"
)
TINY = {"steps": "2", "lora_rank": "2", "max_tokens": "6", "eval_every": "1", "save_every": "0", "eval_items": "4"}


@pytest.fixture(scope="module")
def deep(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as deep as SmolLM2 whose tokenizer has read the papers."""
    folder = tmp_path_factory.mktemp("models") / "deep"
    folder.mkdir()
    config = dataclasses.replace(
        PRESETS["nano"],
        num_layers=LAYERS,
        hidden_size=32,
        intermediate_size=64,
        num_heads=2,
        num_kv_heads=1,
        head_dim=16,
        vocab_size=1024,
    )
    write_folder(folder, config, initial_weights(config, 1))
    papers = [row.abstract or "" for row in Slice.open(made.data).rows(Split.TRAIN)]
    tokenizer = train_tokenizer(papers, config.vocab_size)
    tokenizer.chat_template = TEMPLATE
    save_tokenizer(tokenizer, folder)
    return folder


def test_a_ladder_run_says_first_that_nothing_can_be_read_and_looks_at_what_it_was_told(
    made: Made, deep: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    changes = {**TINY, "sft_steps": "1", "sft_batch_size": "2", "group_size": "2"}
    changes |= {"groups_per_batch": "2", "test_items": "5", "model_name": str(deep)}
    changes |= {"data": str(made.data), "log_path": str(out), "at": "small"}
    done = conduct(make_plan(find("remedy/exp6"), changes), say=unsaid)
    assert done.finished is not None
    assert [alarm.kind for alarm in done.alarms] == [AlarmKind.UNREAD]
    assert done.alarms[0].step == 0
    metrics = lines(out, METRICS)
    assert metrics[0]["alarm/unread"] == 0.0
    assert not any(key.startswith("alarm/min_class_recall") for row in metrics for key in row)
    rollouts = lines(out, ROLLOUTS)
    assert len({line["prompt_id"] for line in rollouts if line["split"] == "test"}) == 5
    assert len({line["prompt_id"] for line in rollouts if line["split"] == "eval"}) == 4
    messages = capfd.readouterr().err
    assert messages.index("ALARM at step 0") < messages.index("step 0/2")
    assert "left, then 1 step of RL" in messages
    assert "try_again" not in messages
    assert [row["step"] for row in lines(out, TIMINGS) if "left_s" in row] == [1, 2]  # At first of its supervised step.
    page = report_of(out).read_text(encoding="utf-8")
    assert "could be read" in page
    assert "5 papers" in page
