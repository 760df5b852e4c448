"""The experiments and their plans: lineage, keys, overrides, identity, and names that keep their meaning."""

import importlib
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from command_line import keys_in
from tinsmith.cli.registered import EXPERIMENTS, find
from tinsmith.lab.experiment.experiment import Experiment, Plan, make_plan, plan_fingerprint, with_default_log_path
from tinsmith.lab.experiment.key_text import At
from tinsmith.lab.experiment.materials import require_possible
from tinsmith.lab.labels.rewards import make_reward
from tinsmith.lab.papers.labels import label_task_of, on_papers
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.types.errors import BackendError, ConfigError

FROZEN = Path(__file__).parent / "fingerprints.json"
NAMES = sorted(EXPERIMENTS)


def plan(name: str = "ladder/exp4", **overrides: str) -> Plan:
    return make_plan(find(name), overrides)


def refused(name: str, overrides: Mapping[str, str]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        make_plan(find(name), overrides)
    return caught.value


def line_of(one: Experiment) -> list[Experiment]:
    return [*([] if one.parent is None else line_of(one.parent)), one]


# The registry


def there(at: At) -> list[str]:
    """The experiments that can run at a place."""
    return [name for name in NAMES if at in EXPERIMENTS[name].subject.kinds[EXPERIMENTS[name].kind].places]


@pytest.mark.parametrize(("at", "name"), [(at, name) for at in At for name in there(at)])
def test_every_experiment_resolves(name: str, at: At) -> None:
    resolved = plan(name, at=at.value)
    assert resolved.frame.at is at
    kind = resolved.frame.kind
    assert type(resolved.settings) is (SftSettings if kind is Kind.SFT else RlSettings)
    if resolved.frame.kind is Kind.RL:
        make_reward(on_papers(resolved).reward, label_task_of(resolved), **resolved.reward_settings)
    assert resolved.experiment.question.endswith("?")


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_descent_ends_at_a_root_and_every_rung_changes_something(name: str) -> None:
    line = line_of(EXPERIMENTS[name])
    assert line[-1].name == name
    assert line[0].parent is None
    assert len({one.name for one in line}) == len(line)
    for parent, one in pairwise(line):
        assert one.parent is parent
        assert one.delta
        # A delta says what differs: nothing of it is the parent's already.
        inherited = parent.inherited
        assert not set(one.delta.items()) & set(inherited.items())


def test_a_kind_without_numbers_for_a_place_is_refused_there() -> None:
    assert set(there(At.NANO)) == set(there(At.SEED)) == set(NAMES)
    assert {"ladder/exp4", "sft/lora", "remedy/exp6"} <= set(there(At.SMALL))
    for name in set(NAMES) - set(there(At.SMALL)):
        error = refused(name, {"at": "small"})
        assert (error.field, error.allowed) == ("at", "nano, seed")


@pytest.mark.parametrize("at", At)
def test_no_two_experiments_are_the_same_run(at: At) -> None:
    found: dict[str, str] = {}
    for name in there(at):
        fingerprint = plan_fingerprint(plan(name, at=at.value))
        # The nano base has read one prompt, and a small chat model answers one in one contract: the rungs that change
        # nothing else are one run there.
        if at is At.SEED:
            assert fingerprint not in found, (name, found.get(fingerprint))
        found[fingerprint] = name
    assert len(found) >= len(there(at)) - 3


def test_an_experiment_is_found_by_name_and_by_its_version() -> None:
    assert find("ladder/exp4") is find("ladder/exp4@1") is EXPERIMENTS["ladder/exp4"]


def test_another_version_is_no_such_experiment() -> None:
    with pytest.raises(ConfigError, match="study or experiment"):
        find("ladder/exp4@2")


# Keys and values


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("sft/lora", "group_size"),
        ("sft/lora", "reward"),
        ("sft/lora", "reward.window"),
        ("ladder/exp4", "batch_size"),
        ("ladder/exp4", "logit_offset"),
    ],
)
def test_a_key_that_the_kind_does_not_use_is_refused(name: str, key: str) -> None:
    assert "does not use this key" in refused(name, {key: "1"}).what


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("steps", "many", "a whole number"),
        ("steps", "1.5", "a whole number"),
        ("steps", "0", "1 or more"),
        ("learning_rate", "fast", "a number"),
        ("learning_rate", "nan", "above 0"),
        ("learning_rate", "-1", "above 0"),
        ("temperature", "0", "above 0"),
        ("seed", "-1", "0 or more"),
        ("with_metadata", "perhaps", "true or false"),
        ("adapter", "lara", "lora"),
        ("advantage", "mean", "center"),
        ("gradient", "wrong", "exact"),
        ("at", "home", "nano, small, seed"),
        ("arithmetic", "exact", "canonical"),
        ("threads", "-1", "0 or more"),
        ("micro_batch", "-1", "0 or more"),
        ("workers", "-1", "0 or more"),
        ("shards", "0", "1, with workers=0"),
        ("shards", "2", "workers=0"),
        ("stop_after", "-1", "0 or more"),
        ("prompt", "none", "plain"),
        ("contract", "three_key", "two_key"),
        ("task", "beauty", "disruption"),
        ("dry_run", "2", "true or false"),
        ("behavior_if_log_dir_exists", "maybe", "resume"),
        ("group_size", "1", "2 or more"),
        ("reward.window", "wide", "a number"),
        ("reward", "gold", "strong"),
        ("kind", "dpo", "rl, sft"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(key: str, value: str, allowed: str) -> None:
    error = refused("ladder/exp4", {key: value})
    assert error.field == key
    assert allowed in (error.allowed or "")


def test_a_reward_is_refused_what_it_does_not_take_before_anything_is_built() -> None:
    assert refused("remedy/exp6", {"reward.windw": "64"}).field == "windw"
    assert refused("ladder/exp4", {"reward.window": "64"}).allowed == "class_weights"
    assert "finite" in refused("remedy/exp6", {"reward.window": "inf"}).what


def test_values_are_read_as_what_they_are() -> None:
    resolved = plan(steps="7", learning_rate="5e-4", with_metadata="false", select_by="last")
    assert (resolved.settings.steps, resolved.settings.learning_rate) == (7, 5e-4)
    assert label_task_of(resolved).with_metadata is False
    assert resolved.settings.select_by.value == "last"
    assert dict(plan("remedy/exp6", **{"reward.window": "64"}).reward_settings) == {"window": 64.0}


# Overrides and identity


def test_overrides_are_recorded_and_change_the_identity() -> None:
    plain = plan()
    derived = plan(seed="3", learning_rate="1e-4")
    assert dict(derived.overrides) == {"learning_rate": 1e-4, "seed": 3}
    assert derived.title == "ladder/exp4@1 learning_rate=0.0001 seed=3"
    assert plan_fingerprint(derived) != plan_fingerprint(plain)
    remedy, window = plan("remedy/exp6"), plan("remedy/exp6", **{"reward.window": "64"})
    assert plan_fingerprint(window) != plan_fingerprint(remedy)
    assert plain.title == "ladder/exp4@1"


DECIDING = keys_in(
    "steps=7 seed=9 at=seed prompt=plain contract=four_key reward=soft with_metadata=false shuffle_labels=true "
    "prompt_lines=brief arithmetic=fast deviation=stock_silu adapter=dora"
)
CIRCUMSTANCES = keys_in(
    "model_name=/models/llama data=/slices/mine log_path=/runs/here base_url=http://127.0.0.1:1 threads=3 "
    "micro_batch=1 hold=fp32 workers=2 stop_after=2 behavior_if_log_dir_exists=resume dry_run=true wandb_project=p "
    "wandb_name=n trackio_project=p quiet=true"
)


@pytest.mark.parametrize(("key", "value"), DECIDING.items())
def test_every_key_that_decides_results_changes_the_identity(key: str, value: str) -> None:
    assert plan_fingerprint(plan(**{key: value})) != plan_fingerprint(plan())


@pytest.mark.parametrize(("key", "value"), CIRCUMSTANCES.items())
def test_circumstances_never_change_the_identity(key: str, value: str) -> None:
    changed = plan(**{key: value})
    assert plan_fingerprint(changed) == plan_fingerprint(plan())
    assert not changed.overrides
    assert getattr(changed.circumstances, key) != getattr(plan().circumstances, key)


def test_a_device_is_no_part_of_the_identity_and_must_be_one_that_has_such_kernels() -> None:
    for arithmetic in ("canonical", "fast"):
        cpu, cuda = plan(arithmetic=arithmetic), plan(arithmetic=arithmetic, device="cuda:1")
        assert cuda.circumstances.device == "cuda:1"
        assert plan_fingerprint(cuda) == plan_fingerprint(cpu)
    error = refused("ladder/exp4", {"device": "tpu"})
    assert (error.field, error.value) == ("device", "tpu")
    assert "canonical on cuda" in (error.allowed or "")
    assert refused("ladder/exp4", {"device": "cuda", "workers": "2"}).field == "device"
    assert plan(device="cuda", base_url="http://127.0.0.1:1").circumstances.device == "cuda"


def test_a_gpu_that_is_not_here_is_refused_before_anything_is_built() -> None:
    with pytest.raises(BackendError, match="device=cuda:63 is not here") as caught:
        require_possible(plan(device="cuda:63"))
    assert len(str(caught.value).splitlines()) == 1
    require_possible(plan(device="cuda:63", dry_run="true"))


def test_only_a_server_of_ones_own_is_given_a_fault() -> None:
    error = refused("ladder/exp4", {"deviation": "shared_rng", "base_url": "http://127.0.0.1:1"})
    assert (error.field, error.value) == ("deviation", "shared_rng")
    assert plan(deviation="none", base_url="http://127.0.0.1:1").engine.deviation.value == "none"
    assert dict(plan(deviation="shared_rng").overrides) == {"deviation": "shared_rng"}


@pytest.mark.parametrize(("key", "value"), [("workers", "2"), ("shards", "1")])
def test_only_a_server_of_ones_own_is_given_workers(key: str, value: str) -> None:
    error = refused("ladder/exp4", {key: value, "base_url": "http://127.0.0.1:1"})
    assert (error.field, error.value) == (key, value)


def test_a_base_is_spread_over_no_more_workers_than_there_are() -> None:
    assert plan(workers="4", shards="2").circumstances.shards == 2
    assert plan_fingerprint(plan(workers="4", shards="2")) == plan_fingerprint(plan())
    assert refused("ladder/exp4", {"workers": "1", "shards": "2"}).field == "shards"


def test_a_delta_wins_over_the_place_and_the_command_line_over_both() -> None:
    # exp4 asks for 64 tokens, and the seeds' place for 256 otherwise.
    assert plan("ladder/exp3", at="seed").settings.max_tokens == 256
    assert plan("ladder/exp4", at="seed").settings.max_tokens == 64
    assert plan("ladder/exp4", at="seed", max_tokens="9").settings.max_tokens == 9
    # The nano base has read the brief prompt only.
    assert label_task_of(plan("ladder/exp4")).prompt == "brief"
    assert label_task_of(plan("ladder/exp4", prompt="plain")).prompt == "plain"


def test_a_run_without_a_folder_is_named_after_itself() -> None:
    named = with_default_log_path(plan(seed="3", prompt="plain"))
    assert str(named.circumstances.log_path) == "runs/ladder-exp4-prompt=plain-seed=3"
    assert with_default_log_path(plan(log_path="x")).circumstances.log_path == Path("x")


# Names keep their meaning


def test_a_name_and_version_keep_their_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    found = importlib.import_module("freeze_experiments").fingerprints()
    changed = [name for name in frozen if name in found and found[name] != frozen[name]]
    freeze = "python scripts/freeze_experiments.py"
    assert not changed, f"{changed} mean something else now: raise their version, then {freeze}"
    assert set(found) <= set(frozen), f"new experiments: {freeze}"
