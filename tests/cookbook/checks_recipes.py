"""The cookbook's recipes and its fine-tuning run to their end, and go on where they were ended."""

import shutil
import signal
from pathlib import Path

from tiny_model import NAME
from workbench import NO_MISMATCH, Workbench, recipe, script

from running import Running


def test_sl_loop_goes_on_exactly(bench: Workbench, server: Running) -> None:
    command = recipe("sl_loop", batch_size=4, save_every=2, lora_rank=8, learning_rate=5e-3)
    first = bench.run(server, "sl_loop", command)
    assert first.column("step") == [0, 1, 2, 3, 4]
    assert first.rows[-1]["train_mean_nll"] < first.rows[0]["train_mean_nll"]
    assert [saved["batch"] for saved in first.checkpoints] == [2, 4, 5]
    # As if it had been ended at step 2: the state before that step is all it has to go on from.
    saved = first.log / "checkpoints.jsonl"
    saved.write_text(saved.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    again = bench.run(server, "sl_loop", command)
    assert "Resuming from batch 2" in again.printed
    for row in (*first.rows, *again.rows):
        assert row.pop("time_total") > 0
    assert again.rows == first.rows + first.rows[2:]
    assert [saved["batch"] for saved in again.checkpoints] == [2, 2, 4, 5]


def test_rl_loop_trains_on_the_answers_of_its_data(bench: Workbench, server: Running) -> None:
    options = {"batch_size": 2, "group_size": 8, "max_tokens": 24, "save_every": 2, "lora_rank": 8}
    done = bench.run(server, "rl_loop", recipe("rl_loop", learning_rate=3e-4, **options))
    rewards = done.column("reward/total")
    assert len(rewards) == 4
    assert 0 < sum(rewards) < 4
    # A batch without a mixed group is not trained on, and has no norm.
    assert max(norm for norm in done.column("grad_norm:mean") if norm is not None) > 0
    assert [saved["name"] for saved in done.checkpoints] == ["000002", "final"]


def test_supervised_train_goes_on_after_it_and_the_server_were_killed(bench: Workbench, tmp_path: Path) -> None:
    shutil.copy(bench.folder / "HuggingFaceH4/no_robots/train.jsonl", bench.folder / "chats.jsonl")
    options: dict[str, object] = {
        "dataset_builder.file_path": "chats.jsonl",
        "dataset_builder.test_size": 4,
        "dataset_builder.common_config.model_name_for_tokenizer": NAME,
        "eval_every": 1,
        "save_every": 1,
    }
    ended = {**options, "dataset_builder.dies_at": 3}
    with bench.serve(tmp_path / "state") as server:
        first = bench.run(server, "supervised", script("supervised", ended), code=9)
        server.stop(signal.SIGKILL)
    saved = first.checkpoints[-1]
    steps = first.column("step")
    with bench.serve(tmp_path / "state") as server:
        again = bench.run(server, "supervised", script("supervised", options))
    assert f"Resumed training from {saved['state_path']}" in again.printed
    assert "Renderer metadata matches" in again.printed
    assert again.column("step") == [*steps, *range(saved["batch"], 4)]
    losses = again.column("test/nll")
    assert losses[-1] < losses[0]
    assert again.checkpoints[-1]["name"] == "final"


def test_rubric_is_graded_by_a_model_of_the_same_server(bench: Workbench, server: Running) -> None:
    command = recipe(
        "rubric.train",
        renderer_name="role_colon",
        grader_llm_name=NAME,
        grader_renderer_name="role_colon",
        train_jsonl_path="rubrics/train.jsonl",
        test_jsonl_path="rubrics/test.jsonl",
        groups_per_batch=2,
        eval_every=1,
        lora_rank=8,
        loss_fn="importance_sampling",
        behavior_if_log_dir_exists="raise",
    )
    done = bench.run(server, "rubric", command)
    assert done.column("step") == [0, 1]
    assert all(1 <= score <= 2 for score in done.column("env/all/rubric_score"))
    assert max(done.column("env/all/by_group/frac_mixed")) > 0
    assert max(done.column("grad_norm:mean")) > 0
    assert done.column("test/env/all/total_episodes") == [2, 2]
    assert done.mismatch() == NO_MISMATCH


def test_twenty_questions_are_asked_and_answered(bench: Workbench, server: Running) -> None:
    options = {
        "dataset_builder.model_name_for_tokenizer": NAME,
        "dataset_builder.answerer_base_model": NAME,
        "dataset_builder.batch_size": 1,
        "dataset_builder.group_size": 2,
        "max_steps": 1,
    }
    done = bench.run(server, "questions", script("twenty_questions", options))
    assert done.column("env/all/turns_per_episode") == [20.0]
    assert done.column("env/all/total_episodes") == [2]
    # One sequence of forty turns, sampled piece by piece and scored whole.
    assert done.mismatch() == NO_MISMATCH
