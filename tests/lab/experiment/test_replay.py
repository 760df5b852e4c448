"""A run made again from its folder: equal, unequal where something was wrong, or refused where it cannot be had."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from label_runs import AUDITED, manifest, run
from small_slice import Made

from command_line import command
from tinsmith.cli.registered import plan_of
from tinsmith.lab.difference.runs import Phase, compare_runs
from tinsmith.lab.experiment import manifest as manifest_module
from tinsmith.lab.experiment import replay as replay_module
from tinsmith.lab.experiment.replay import replay
from tinsmith.lab.runs.files import MANIFEST, METRICS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Manifest
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole


def copied(original: Path, folder: Path) -> Path:
    return Path(shutil.copytree(original, folder, ignore=shutil.ignore_patterns("checkpoints")))


def changed(folder: Path, part: str, **values: object) -> None:
    whole = manifest(folder)
    whole[part] |= values
    (folder / MANIFEST).write_text(json.dumps(whole))


def test_a_manifest_tells_identity_apart_from_circumstances(made: Made, original: Path) -> None:
    messages = manifest(original)
    identity, around = messages["identity"], messages["circumstances"]
    assert str(made.home) not in json.dumps(identity)
    assert identity["deviation"] == identity["model"]["deviation"] == "none"
    assert len(identity["source_sha256"]) == 64
    assert set(identity["seeds"]) == {"run", "adapter", "server"}
    assert around["data"] == around["data_folder"] == str(made.data)
    assert around["model_folder"] == str(made.base)
    assert around["threads"] >= 1
    assert around["torch"]
    wanted = {"weights_sha256", "rollouts_sha256", "metrics_sha256", "trace_sha256"}
    assert set(messages["hashes"]) == wanted


def test_a_replay_is_equal_and_leaves_nothing(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = command(capsys, "replay", original, code=0)
    assert "equal: 5 recorded steps, bit for bit" in printed.out
    assert "time: " in printed.out
    assert "source_sha256" not in printed.err
    assert [each.name for each in original.parent.iterdir()] == [original.name]


def test_a_replay_of_some_steps_compares_these_and_can_be_resumed(made: Made, original: Path, tmp_path: Path) -> None:
    broken = copied(original, tmp_path / "broken")
    lines = (broken / METRICS).read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace('"step": 1', '"step": 1, "train/more": 1.0')
    (broken / METRICS).write_text("".join(lines))
    output: list[str] = []
    done = replay(broken, plan_of, steps=1, out=tmp_path / "kept", say=output.append)
    assert done.comparison.equal
    assert (done.comparison.steps, done.folder) == (1, tmp_path / "kept")
    assert manifest(tmp_path / "kept")["status"] == "interrupted"
    assert manifest(tmp_path / "kept")["identity"] == manifest(broken)["identity"]
    assert done.original_s > 0.0
    assert done.replay_s > 0.0
    found = compare_runs((original, tmp_path / "kept"))
    assert (found.first.step, found.first.phase) == (1, Phase.LENGTH)
    # What was stopped goes on as if it had not been.
    run(made, tmp_path / "kept", given=AUDITED, behavior_if_log_dir_exists="resume")
    assert compare_runs((original, tmp_path / "kept")).equal
    assert manifest(tmp_path / "kept")["hashes"] == manifest(original)["hashes"]


@pytest.mark.parametrize(("deviation", "phase"), [("reordered_gradient", Phase.GRADIENT), ("stock_silu", Phase.SAMPLE)])
def test_a_fault_is_named_by_step_and_phase(
    made: Made, original: Path, tmp_path: Path, deviation: str, phase: Phase
) -> None:
    wrong = run(made, tmp_path / "wrong", given=AUDITED, deviation=deviation, stop_after="1").folder
    found = compare_runs((original, wrong), steps=1)
    assert (found.first.step, found.first.phase) == (0, phase)
    assert {"deviation", "model.deviation"} <= {each.name for each in found.identity}
    if phase is Phase.GRADIENT:
        tensor = found.first.tensor
        assert 0.0 < tensor.size < 1e-4


def test_a_run_that_was_tampered_with_is_unequal_and_the_replay_is_kept(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copied(original, tmp_path / "other")
    changed(other, "identity", source_sha256="0" * 64)

    def made_before(plan: Any, **given: object) -> None:
        assert given["like"] == RunFolder(other).manifest()
        folder = plan.circumstances.log_path
        folder.rmdir()
        copied(original, folder)
        changed(folder, "hashes", weights_sha256="0" * 64)

    monkeypatch.setattr(replay_module, "conduct", made_before)
    told: list[str] = []
    done = replay(other, plan_of, steps=None, out=None, say=told.append)
    assert done.comparison.first.phase is Phase.WEIGHTS
    assert done.folder.parent == tmp_path
    assert any("warning: source_sha256 was 0000" in line for line in told)


def test_what_cannot_be_had_again_is_refused_before_anything_runs(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object, **__: object) -> None:
        raise AssertionError("a run that cannot be had is not begun")

    monkeypatch.setattr(replay_module, "conduct", never)
    other = copied(original, tmp_path / "other")
    as_it_was = (other / MANIFEST).read_text()
    refusals: list[tuple[str, dict[str, object], type[Exception], str]] = [
        ("circumstances", {"data": str(tmp_path / "gone")}, DataError, "gone"),
        ("circumstances", {"model_folder": str(tmp_path / "gone")}, ConfigError, "model is no longer there"),
        ("circumstances", {"data_folder": None}, ConfigError, "passed in Python"),
        ("identity", {"data": {"sha256": "1" * 64}}, ConfigError, r"its data\.rows"),
        ("identity", {"arithmetic": "fast"}, ConfigError, "its arithmetic has changed"),
    ]
    for part, values, error, match in refusals:
        (other / MANIFEST).write_text(as_it_was)
        changed(other, part, **values)
        with pytest.raises(error, match=match):
            replay(other, plan_of, steps=None, out=None, say=unsaid)
    (other / METRICS).write_text("")
    with pytest.raises(DataError, match="no finished step"):
        replay(other, plan_of, steps=None, out=None, say=unsaid)
    (other / MANIFEST).unlink()
    (other / METRICS).write_bytes((original / METRICS).read_bytes())
    with pytest.raises(ConfigError, match="does not say where"):
        replay(other, plan_of, steps=None, out=None, say=unsaid)
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_a_forged_adapter_is_not_equal(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = Path(shutil.copytree(original, tmp_path / "forged"))
    (adapter,) = forged.rglob("sampler_weights/final/adapter.safetensors")
    adapter.write_bytes(adapter.read_bytes()[:-1] + b"?")
    found = compare_runs((original, forged))
    assert (found.first.phase, found.notes[0].startswith(str(forged))) == (Phase.WEIGHTS, True)
    assert compare_runs((original, forged), steps=2).equal
    assert command(capsys, "diff", original, original).code == 0


@pytest.mark.parametrize("crate", ["ro-crate-metadata.json", "../../ro-crate-metadata.json"])
def test_a_base_that_a_bundle_brings_is_not_used_for_a_run_on_one_that_is_built(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crate: str
) -> None:
    other = copied(original, tmp_path / "study/cells/other")
    changed(other, "circumstances", model_name=None, model_folder="./base")
    (other / "base").mkdir()
    used: list[bool] = []

    def stop(*given: object) -> None:
        used.append(given[-1] == str(other / "base"))
        raise DataError("enough")

    monkeypatch.setattr(replay_module, "on_base", stop)
    monkeypatch.setattr(replay_module, "with_model", stop)
    for received in (False, True):
        if received:
            (other / crate).write_text("{}")
        with pytest.raises(DataError, match="enough"):
            replay(other, plan_of, steps=None, out=None, say=unsaid)
    assert used == [True, False]


def test_a_finished_run_without_its_bases_fingerprint_is_refused(original: Path, tmp_path: Path) -> None:
    other = copied(original, tmp_path / "other")
    changed(other, "identity", model={})
    with pytest.raises(DataError, match="fingerprint of the base is missing"):
        replay(other, plan_of, steps=None, out=None, say=unsaid)


@pytest.mark.parametrize(("key", "value", "was"), [("seed", 3, "0"), ("arithmetic", "fast", "canonical")])
def test_a_replay_says_which_setting_it_cannot_change(original: Path, key: str, value: object, was: str) -> None:
    with pytest.raises(ConfigError) as refused:
        replay(original, plan_of, steps=None, out=None, say=unsaid, here={key: str(value)})
    assert (refused.value.field, refused.value.value, refused.value.allowed) == (key, value, was)
    assert f"leave {key} out" in (refused.value.fix or "")


def test_a_run_does_not_go_on_with_another_model() -> None:
    def say(*, beside: dict[str, object] | None = None, **model: object) -> Manifest:
        return Manifest(identity={"model": model or None, "beside": {"opponent": beside}})

    same = manifest_module.require_same_models
    same(say(fingerprint="a"), say(fingerprint="a", beside={"fingerprint": "b"}))
    same(say(), say(fingerprint="a"))
    same(Manifest(), say(fingerprint="a"))
    same(Manifest(identity={"model": {"fingerprint": "a"}}), say(fingerprint="a"))
    with pytest.raises(ConfigError, match=r"the model .* its fingerprint differs") as caught:
        same(say(fingerprint="a"), say(fingerprint="b"))
    assert caught.value.field == "model_name"
    with pytest.raises(ConfigError, match="its fingerprint differs"):
        same(say(fingerprint="a", certificate="c"), say(fingerprint="b", certificate="d"))
    one, other = (say(fingerprint="a", beside={"fingerprint": name}) for name in "ab")
    same(one, one)
    with pytest.raises(ConfigError, match=r"the opponent .* its fingerprint differs") as caught:
        same(one, other)
    assert caught.value.field == "opponent"


def test_certificates_are_compared_where_a_base_is_spread_over_equally_many() -> None:
    def say(certificate: str, shards: int | None) -> Manifest:
        model = {"fingerprint": "a", "certificate": certificate}
        return Manifest(identity={"model": model}, circumstances={"shards": shards})

    same = manifest_module.require_same_models
    same(say("c", 1), say("d", 2))
    same(say("c", 2), say("c", 2))
    for one, other in ((1, 1), (2, 2), (None, 1)):
        with pytest.raises(ConfigError, match="its certificate differs"):
            same(say("c", one), say("d", other))
