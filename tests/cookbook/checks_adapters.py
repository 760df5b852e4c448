"""The cookbook's adapters: tasks of inspect-ai evaluate a model, environments of verifiers train one."""

import re
import shutil

from tiny_model import NAME
from workbench import COOKBOOK, NO_MISMATCH, SCRIPTS, Workbench, script, told

from running import Running

RENDERER = "role_colon"


def test_inspect_evaluates_a_model(bench: Workbench, server: Running) -> None:
    task = f"tasks={SCRIPTS / 'inspect_boxed.py'}@boxed"
    options = (f"model_name={NAME}", f"renderer_name={RENDERER}", "max_tokens=12", "log_dir=inspect")
    command = ["-m", "tinker_cookbook.eval.run_inspect_evals", task, *options]
    printed = COOKBOOK.run(command, folder=bench.folder, told=told(server))
    accuracy = re.search(r"sums/\S+: ([0-9.]+)", printed)
    assert accuracy is not None, printed
    assert 0 < float(accuracy[1]) < 1


def test_verifiers_environments_train_a_model(bench: Workbench, server: Running) -> None:
    shutil.copy(SCRIPTS / "verifiers_boxed.py", bench.folder)
    options = {
        "renderer_name": RENDERER,
        "vf_env_id": "verifiers-boxed",
        "groups_per_batch": 2,
        "group_size": 8,
        "max_tokens": 12,
        "learning_rate": 1e-3,
        "lora_rank": 8,
        "max_steps": 2,
        "behavior_if_log_dir_exists": "raise",
    }
    done = bench.run(server, "verifiers", script("verifiers_train", options))
    assert done.column("progress/batch") == [0, 1]
    assert done.mismatch() == NO_MISMATCH
    assert max(norm for norm in done.column("grad_norm:mean") if norm is not None) > 0
