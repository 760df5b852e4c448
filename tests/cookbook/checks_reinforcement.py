"""The cookbook's rl.train in each of its ways; unseeded, it repeats on a fresh server."""

import signal

import pytest
from tiny_model import NAME
from workbench import NO_MISMATCH, Program, Workbench, script

from running import Running

BATCHES, GROUPS = 4, 3
PENALTY = {"kl_penalty_coef": 0.1, "kl_reference_config.base_model": NAME, "compute_post_kl": True}


def toy(options: dict[str, object], **data: object) -> list[str]:
    """The command of the toy task, with options of rl.train and of the task's data."""
    data = {"model_name": NAME, "batches": BATCHES, **data}
    return script("toy_rl", {**options, **{f"dataset_builder.{k}": v for k, v in data.items()}})


@pytest.fixture(scope="module")
def penalised(bench: Workbench, server: Running) -> tuple[Program, Program]:
    """Two turns a rollout, two optimizer steps a batch, a penalty; ended before batch 3, and gone on with."""
    # The last batch has a periodic save: a rolling one would be noted before or after the final, as it happens.
    options = {**PENALTY, "num_substeps": 2, "save_every": 2, "rolling_save_every": 1}
    first = bench.run(server, "penalised", toy(options, turns=2, dies_at=3), code=9)
    return first, bench.run(server, "penalised", toy(options, turns=2))


def test_a_run_goes_on_from_its_last_checkpoint(penalised: tuple[Program, Program]) -> None:
    first, again = penalised
    assert first.column("progress/batch") == [0, 1, 2]
    last = first.checkpoints[-1]
    assert last["batch"] > 0
    assert f"Resumed training from {last['state_path']}" in again.printed
    assert "Renderer metadata matches" in again.printed
    assert again.rows[:3] == first.rows
    assert again.column("progress/batch")[3:] == list(range(last["batch"], BATCHES))
    assert again.checkpoints[-1]["name"] == "final"


def test_penalty_and_substeps_are_seen_in_the_metrics(penalised: tuple[Program, Program]) -> None:
    _, done = penalised
    assert done.rows[0]["kl_policy_base"] == 0.0
    assert all(value != 0 for value in done.column("kl_policy_base")[1:])
    assert max(done.column("kl_pre_post_v2")) > 0
    # The second of two optimizer steps trains weights that the samples do not come from.
    assert max(done.column("optim/kl_sample_train_v2")) > 0
    assert max(done.column("env/all/by_group/frac_mixed")) > 0
    assert set(done.column("env/all/turns_per_episode")) == {2.0}


def test_rolling_checkpoints_are_deleted_and_others_kept(penalised: tuple[Program, Program], server: Running) -> None:
    _, done = penalised
    rolling = [saved["state_path"] for saved in done.checkpoints if saved.get("rolling")]
    assert len(rolling) >= 2
    run = done.checkpoints[-1]["state_path"].split("/")[2]
    listed = server.http.get(f"/api/v1/training_runs/{run}/checkpoints").json()["checkpoints"]
    assert {entry["checkpoint_id"] for entry in listed} == {
        "weights/000004",
        "sampler_weights/000004",
        "weights/final",
        "sampler_weights/final",
    }


def test_async_rollouts_are_trained_on_however_old(bench: Workbench, server: Running) -> None:
    # No rollout is ever too old, else the cookbook drops some, and the number of steps would be a matter of timing.
    options = {"async_config.max_steps_off_policy": BATCHES}
    options["async_config.groups_per_batch"] = GROUPS
    done = bench.run(server, "async", toy({**options, "save_every": 2}))
    assert done.column("training_client/step") == list(range(BATCHES))
    assert done.rows[0]["sampling_client/step_max"] == 0
    assert done.rows[0]["optim/kl_sample_train_v2"] == 0.0
    assert max(done.column("grad_norm:mean")) > 0
    assert [saved["batch"] for saved in done.checkpoints] == [0, 2, 4, 4]


def test_minibatches_are_trained_on_as_they_come(bench: Workbench, server: Running) -> None:
    options = {"stream_minibatch_config.groups_per_batch": GROUPS}
    options["stream_minibatch_config.num_minibatches"] = GROUPS
    done = bench.run(server, "stream", toy(options))
    assert done.column("progress/batch") == list(range(BATCHES))
    assert done.column("sampling_client/step_min") == list(range(BATCHES))
    assert done.column("env/all/total_episodes") == [4 * GROUPS] * BATCHES
    assert done.mismatch() == NO_MISMATCH
    assert max(done.column("grad_norm:mean")) > 0


@pytest.fixture(scope="module")
def repeated(bench: Workbench, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Program, Program]:
    """One unseeded script, eight tries at a question, on three fresh servers.

    The second has the first's seed and one thread; the third has another seed.
    """
    done: list[Program] = []
    for i, (seed, threads) in enumerate(((7, "2"), (7, "1"), (8, "2"))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TINSMITH_THREADS", threads)
            with bench.serve(tmp_path_factory.mktemp("fresh") / "state", seed=seed) as server:
                command = toy(dict(PENALTY), group_size=8)
                done.append(bench.run(server, f"repeated-{i}", command))
                assert server.stop(signal.SIGTERM) == 0
    return done[0], done[1], done[2]


def test_an_unseeded_run_repeats_on_a_fresh_server(repeated: tuple[Program, Program, Program]) -> None:
    first, again, other = repeated
    assert first.column("progress/batch") == list(range(BATCHES))
    assert first.untimed() == again.untimed()
    assert len(first.rollouts()) == 8 * GROUPS * BATCHES
    # Sixteen of every twenty-four rollouts have one prompt and are asked for at once; each has its own place.
    assert first.rollouts() == again.rollouts()
    assert first.rollouts() != other.rollouts()
    assert first.untimed() != other.untimed()


def test_sampler_and_trainer_are_one_model(repeated: tuple[Program, Program, Program]) -> None:
    for done in repeated:
        assert done.mismatch() == NO_MISMATCH
        assert done.rows[0]["kl_policy_base"] == 0.0
        assert all(value != 0 for value in done.column("kl_policy_base")[1:])
        assert all(norm > 0 for norm in done.column("grad_norm:mean"))
