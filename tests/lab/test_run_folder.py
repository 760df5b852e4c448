"""A run's folder under kills and damage: what is cut, what is skipped, what is asked; nothing here trains."""

import io
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from command_line import Terminal
from tinsmith.engine.checkpoint_files import ADAPTER, MARKER, OPTIMIZER, write
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.runs import folder as run_folder
from tinsmith.lab.runs.files import (
    BASELINES,
    CHECKPOINTS,
    CONFIG,
    MANIFEST,
    METRICS,
    REPORT,
    ROLLOUTS,
    STATE,
    TIMINGS,
    TRACE,
    IfExists,
    Status,
    require_room,
    settle,
)
from tinsmith.lab.runs.folder import Mark, RunFolder
from tinsmith.lab.runs.records import Manifest
from tinsmith.models.base import BaseModel
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.errors import ConfigError, DataError

CONFIGURED = {"identity_sha256": "a"}
GROWING = (METRICS, ROLLOUTS, TIMINGS, TRACE)


def saved(folder: Path, kind: str, name: str) -> str:
    """Write a checkpoint as an embedded server does; return its path."""
    path = f"tinker://run:train:0/{kind}/{name}"
    place = TinkerPath.parse(path).folder(folder / STATE)
    place.mkdir(parents=True)
    files = [ADAPTER] if kind == "sampler_weights" else [ADAPTER, OPTIMIZER]
    write(
        place,
        {file: {"w": torch.full((3,), float(len(name)))} for file in files},
        spec=AdapterSpec(kind=AdapterKind.LORA, rank=4),
        base=BaseModel(name="base", fingerprint="f", config_sha256="c", seed=None),
        step_count=1,
        user_metadata={},
    )
    return path


def begin(
    folder: Path, if_exists: IfExists = IfExists.RESUME, say: list[str] | None = None
) -> tuple[RunFolder, Mark | None]:
    words: list[str] = [] if say is None else say
    return RunFolder.begin(folder, CONFIGURED, if_exists=if_exists, say=words.append)


def write_steps(run: RunFolder, steps: range) -> None:
    for step in steps:
        for name in GROWING:
            run.append(name, [{"step": step, "of": name}])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with checkpoints at steps 3 and 6 that was killed after step 7; the best policy was saved at 5."""
    path = tmp_path / "run"
    run, mark = begin(path)
    assert mark is None
    best = ""
    for end in (3, 6):
        write_steps(run, range(end - 3, end))
        if end == 6:
            best = saved(path, "sampler_weights", "best-000005")
        kept = {"best": {"step": 5, "sampler_path": best}, "course": None}
        run.mark(step=end, state_path=saved(path, "weights", f"step-{end:06d}"), kept=kept)
    write_steps(run, range(6, 8))
    run.close()
    return path


def steps(folder: Path, name: str) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / name).read_bytes().splitlines()]


def assert_stands_at(folder: Path, mark: Mark | None, step: int) -> None:
    assert (0 if mark is None else mark.step) == step
    assert all(steps(folder, name) == list(range(step)) for name in GROWING)
    assert [one.step for one in RunFolder(folder).marks()] == list(range(3, step + 1, 3))


# Going on


def test_a_killed_run_goes_on_from_its_newest_checkpoint(folder: Path) -> None:
    messages: list[str] = []
    _, mark = begin(folder, say=messages)
    assert_stands_at(folder, mark, 6)
    assert mark.here
    assert messages == []


def test_a_line_cut_off_by_a_kill_is_no_checkpoint(folder: Path) -> None:
    with (folder / CHECKPOINTS).open("ab") as file:
        file.write(b'{"step": 9, "state_pa')
    printed: list[str] = []
    assert_stands_at(folder, begin(folder, say=printed)[1], 6)
    assert printed == []


def test_nothing_was_saved_yet(tmp_path: Path) -> None:
    run, _ = begin(tmp_path)
    write_steps(run, range(2))
    run.close()
    assert_stands_at(tmp_path, begin(tmp_path)[1], 0)


def test_a_kill_while_the_folder_is_begun_leaves_a_folder_to_begin_in(tmp_path: Path) -> None:
    (tmp_path / f".{CONFIG}.new").write_text('{"half')
    run, mark = begin(tmp_path)
    assert mark is None
    assert run.read_json(CONFIG) == CONFIGURED


@pytest.mark.parametrize("kill_at", range(1, 8))
def test_a_resume_that_is_killed_between_any_two_writes_is_resumed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kill_at: int
) -> None:
    """Also with a damaged newest checkpoint, where most is rewritten."""
    (state_of(folder, 6) / OPTIMIZER).write_bytes(b"")
    replace, truncate, count = os.replace, os.truncate, iter(range(1, 100))

    class Killed(BaseException):
        pass

    def dying_replace(a: Path, b: Path) -> None:
        if next(count) == kill_at:
            raise Killed
        replace(a, b)

    def dying_truncate(file: Path, length: int) -> None:
        if next(count) == kill_at:
            raise Killed
        truncate(file, length)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.os, "replace", dying_replace)
        patch.setattr(run_folder.os, "truncate", dying_truncate)
        try:
            begin(folder)
        except Killed:
            pass
        else:
            assert kill_at == 7, "a resume is six writes"
    assert_stands_at(folder, begin(folder)[1], 3)


# Damage


def state_of(folder: Path, step: int) -> Path:
    path = TinkerPath.parse(f"tinker://run:train:0/weights/step-{step:06d}")
    return path.folder(folder / STATE)


def change_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def spoil_line(folder: Path, step: int, old: bytes, new: bytes) -> None:
    lines = (folder / CHECKPOINTS).read_bytes().split(b"\n")
    place = step // 3 - 1
    assert old in lines[place]
    lines[place] = lines[place].replace(old, new)
    (folder / CHECKPOINTS).write_bytes(b"\n".join(lines))


DAMAGE = {
    "line cut": lambda folder, step: spoil_line(folder, step, b'"lengths"', b'"len'),
    "line changed": lambda folder, step: spoil_line(folder, step, b'"course": null', b'"course": true'),
    "line no json": lambda folder, step: spoil_line(folder, step, b"{", b"\xff"),
    "weights missing": lambda folder, step: (state_of(folder, step) / ADAPTER).unlink(),
    "optimizer cut": lambda folder, step: os.truncate(state_of(folder, step) / OPTIMIZER, 9),
    "optimizer changed": lambda folder, step: change_a_byte(state_of(folder, step) / OPTIMIZER),
    "marker missing": lambda folder, step: (state_of(folder, step) / MARKER).unlink(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_newest_checkpoint_is_passed_over_with_a_message(folder: Path, how: str) -> None:
    DAMAGE[how](folder, 6)
    output: list[str] = []
    assert_stands_at(folder, begin(folder, say=output)[1], 3)
    assert len(output) == 2
    assert "skipped" in output[0]
    assert output[1] == "resuming from the checkpoint at step 3"


def test_a_best_policy_that_is_gone_takes_the_checkpoint_that_needs_it_along(folder: Path) -> None:
    best = TinkerPath.parse("tinker://run:train:0/sampler_weights/best-000005")
    (best.folder(folder / STATE) / MARKER).unlink()
    assert_stands_at(folder, begin(folder)[1], 3)


def test_a_file_that_is_shorter_than_a_checkpoint_says_takes_it_along(folder: Path) -> None:
    os.truncate(folder / ROLLOUTS, (folder / ROLLOUTS).stat().st_size // 2)
    told: list[str] = []
    assert_stands_at(folder, begin(folder, say=told)[1], 3)
    assert f"{ROLLOUTS} is shorter than it was then" in told[0]


@pytest.mark.parametrize("how", DAMAGE)
def test_without_any_whole_checkpoint_it_begins_again(folder: Path, how: str) -> None:
    for step in (3, 6):
        DAMAGE[how](folder, step)
    told: list[str] = []
    assert_stands_at(folder, begin(folder, say=told)[1], 0)
    assert told[-1] == "no checkpoint is complete: starting again from step 0"


def test_what_is_passed_over_is_told_to_a_person(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state_of(folder, 6) / MARKER).unlink()
    RunFolder.begin(folder, CONFIGURED, if_exists=IfExists.RESUME)
    assert "the checkpoint at step 6 is skipped" in capsys.readouterr().err


def test_weights_on_another_server_are_taken_on_trust(tmp_path: Path) -> None:
    run, _ = begin(tmp_path)
    write_steps(run, range(3))
    kept: Mapping[str, object] = {"best": None, "course": None}
    run.mark(step=3, state_path="tinker://elsewhere/weights/step-3", kept=kept)
    run.close()
    _, mark = begin(tmp_path)
    assert (mark.step, mark.here) == (3, False)


# What is there already


def test_a_deleted_run_leaves_nothing_of_itself(folder: Path) -> None:
    run = RunFolder(folder)
    for name in (MANIFEST, BASELINES, REPORT):
        run.write_json(name, {})
    (folder / "notes.txt").write_text("mine")
    _, mark = begin(folder, IfExists.DELETE)
    assert_stands_at(folder, mark, 0)
    assert not (folder / STATE).exists()
    assert {each.name for each in folder.iterdir()} == {*(CONFIG, CHECKPOINTS, "notes.txt"), *GROWING}


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ("resume\n", IfExists.RESUME),
        (" delete\n", IfExists.DELETE),
        ("ask\nno\nraise\n", IfExists.RAISE),
        ("what?\n", IfExists.RAISE),
    ],
)
def test_at_a_terminal_it_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, chosen: IfExists) -> None:
    requests = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(said))
    monkeypatch.setattr("sys.stderr", requests)
    assert settle(folder, IfExists.ASK) is chosen
    assert "raise, resume, delete?" in requests.getvalue()
    assert requests.getvalue().count("?") == said.count("\n") + (not said.endswith(f"{chosen}\n"))


def test_without_a_terminal_asking_is_refusing_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("resume\n"))
    with pytest.raises(ConfigError, match="no terminal to ask at"):
        begin(folder, IfExists.ASK)
    assert steps(folder, METRICS) == list(range(8))


def test_nothing_is_asked_where_no_run_is(tmp_path: Path) -> None:
    assert settle(tmp_path, IfExists.ASK) is IfExists.ASK
    assert begin(tmp_path, IfExists.ASK)[1] is None


@pytest.mark.parametrize("torn", ['{"status": "fini', "[1, 2]", ""])
def test_a_torn_file_is_told(tmp_path: Path, torn: str) -> None:
    (tmp_path / "manifest.json").write_text(torn)
    with pytest.raises(DataError, match="is damaged"):
        RunFolder(tmp_path).read_json("manifest.json")


def test_a_manifest_with_fields_of_other_types_is_damaged_and_none_is_empty(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).manifest() == Manifest()
    (tmp_path / MANIFEST).write_text('{"status": "finished", "identity": 3}')
    with pytest.raises(DataError, match="is damaged"):
        RunFolder(tmp_path).manifest()


def a_run(folder: Path, manifest: str) -> Path:
    folder.mkdir()
    (folder / CONFIG).write_text("{}")
    (folder / MANIFEST).write_text(manifest)
    return folder


@pytest.mark.parametrize(
    ("status", "goes_on"),
    [(Status.INTERRUPTED, True), (Status.LOST, True), (Status.RUNNING, True), (Status.FINISHED, False)],
)
def test_a_run_that_stopped_or_was_killed_goes_on_with_the_same_command(
    tmp_path: Path, status: Status, goes_on: bool
) -> None:
    folder = a_run(tmp_path / "run", json.dumps({"status": status.value}))
    settled = settle(folder, IfExists.RESUME_INTERRUPTED)
    assert settled is (IfExists.RESUME if goes_on else IfExists.RAISE)
    if not goes_on:
        with pytest.raises(ConfigError) as caught:
            require_room(folder, settled)
        assert caught.value.field == "log_path"


def test_a_run_that_another_process_runs_does_not_go_on_with_the_same_command(tmp_path: Path) -> None:
    running, _ = RunFolder.begin(tmp_path / "run", CONFIGURED, if_exists=IfExists.RAISE)
    running.write_json(MANIFEST, {"status": Status.RUNNING.value})
    assert settle(running.path, IfExists.RESUME_INTERRUPTED) is IfExists.RAISE
    running.close()
    assert settle(running.path, IfExists.RESUME_INTERRUPTED) is IfExists.RESUME


def test_a_run_that_was_killed_before_its_manifest_goes_on_with_the_same_command(tmp_path: Path) -> None:
    begun, _ = RunFolder.begin(tmp_path / "run", CONFIGURED, if_exists=IfExists.RAISE)
    assert settle(begun.path, IfExists.RESUME_INTERRUPTED) is IfExists.RAISE
    begun.close()
    assert settle(begun.path, IfExists.RESUME_INTERRUPTED) is IfExists.RESUME


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}"])
def test_a_damaged_manifest_says_nothing_and_the_run_is_left_alone(tmp_path: Path, manifest: str) -> None:
    folder = a_run(tmp_path / "run", manifest)
    assert settle(folder, IfExists.RESUME_INTERRUPTED) is IfExists.RAISE


def test_there_is_room_in_a_new_or_empty_folder_and_in_none_that_holds_something(tmp_path: Path) -> None:
    require_room(tmp_path / "new", IfExists.RAISE)
    require_room(tmp_path, IfExists.RAISE)
    (tmp_path / "thesis.tex").touch()
    for taken in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(ConfigError) as caught:
            require_room(taken, IfExists.DELETE)
        assert caught.value.field == "log_path"


@pytest.mark.parametrize("if_exists", [IfExists.RESUME, IfExists.DELETE])
def test_a_folder_that_is_written_to_is_nobody_elses(tmp_path: Path, if_exists: IfExists) -> None:
    folder = tmp_path / "run"
    running, _ = RunFolder.begin(folder, CONFIGURED, if_exists=IfExists.RAISE)
    running.append("metrics.jsonl", [{"step": 0}])
    with pytest.raises(ConfigError, match="another process is running in this folder"):
        RunFolder.begin(folder, CONFIGURED, if_exists=if_exists)
    running.append("metrics.jsonl", [{"step": 1}])
    assert [line["step"] for line in running.read_lines("metrics.jsonl")] == [0, 1]
    running.close()
    RunFolder.begin(folder, CONFIGURED, if_exists=if_exists)[0].close()


def test_a_run_that_is_abandoned_keeps_others_out_until_all_of_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, delete, refused = tmp_path / "run", shutil.rmtree, list[ConfigError]()
    running, _ = RunFolder.begin(folder, CONFIGURED, if_exists=IfExists.RAISE)

    def between(path: Path, *, ignore_errors: bool) -> None:
        with pytest.raises(ConfigError, match="another process") as caught:
            RunFolder.begin(folder, CONFIGURED, if_exists=IfExists.RESUME)
        refused.append(caught.value)
        delete(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", between)
    running.abandon()
    assert (len(refused), folder.exists()) == (1, False)
