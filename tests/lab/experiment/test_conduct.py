"""A run from its plan to its folder: refused, begun again, lost, interrupted and resumed as if nothing had happened."""

import json
import os
import signal
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import tinker
from label_runs import EXPERIMENT, keys, manifest, planned, run
from own_task import lines
from small_slice import BASE, Made, build

from command_line import Terminal, command
from tinsmith.cli.registered import find
from tinsmith.data.slices.reader import Slice
from tinsmith.lab import run as run_module
from tinsmith.lab.experiment import conduct as conduct_module
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.estimate import start_seconds
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.labels.task import make_task
from tinsmith.lab.live.progress import Standing
from tinsmith.lab.papers.run_data import PaperData
from tinsmith.lab.papers.worlds import nano_base, papers_of
from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import CHECKPOINTS, CONFIG, MANIFEST, METRICS, REPORT, ROLLOUTS, TIMINGS
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.types.errors import BackendError, ConfigError, LostError
from tinsmith.types.waits import Say, tell, unsaid

# Materials


def test_what_was_built_is_found_again_and_never_mixed_up(made: Made) -> None:
    messages: list[str] = []
    source, base = build(messages)
    assert (source.folder, base, messages) == (made.data, made.base, [])
    # Another contract is another base: this one has never seen its answers.
    four = make_task("disruption", prompt="brief", contract="four_key")
    papers = papers_of(source, four, shuffle_seed=None)
    with pytest.raises(InterruptedError):
        nano_base(BASE, four, papers, _stop)


def _stop(message: str) -> None:
    raise InterruptedError(message)


def test_shuffled_labels_stay_the_same_labels_on_other_papers(made: Made) -> None:
    task = make_task("disruption", prompt="brief", contract="two_key")
    source = Slice.open(made.data)
    plain = papers_of(source, task, shuffle_seed=None)
    shuffled = papers_of(source, task, shuffle_seed=0)
    assert [each.paper for each in shuffled.train] == [each.paper for each in plain.train]
    before, after = ([each.gold for each in papers.train] for papers in (plain, shuffled))
    assert sorted(before) == sorted(after)
    kept = sum(a == b for a, b in zip(before, after, strict=True)) / len(before)
    assert kept < 0.6
    assert shuffled.validation == plain.validation
    assert shuffled.test == plain.test


# A whole run


@pytest.mark.parametrize(("minutes", "quiet", "slower"), [(2.0, "false", 3.0), (2.0, "true", 1.0), (0.5, "false", 1.0)])
def test_a_forecast_counts_other_work_where_a_run_is_long_and_says_how_long(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: float, quiet: str, slower: float
) -> None:
    found: list[float | None] = []

    def train(run: Run[Any, Any]) -> None:
        found.append(run.forecast)
        raise ConfigError("this is as far as it goes")

    monkeypatch.setattr(PaperData, "minutes", lambda _: minutes)
    monkeypatch.setattr(conduct_module, "slowdown", lambda _: 3.0)
    monkeypatch.setattr(conduct_module, "train", train)
    with pytest.raises(ConfigError, match="as far as it goes"):
        run(made, tmp_path / "run", quiet=quiet)
    assert found == [(60 * minutes - start_seconds()) * slower]


def test_a_start_says_what_the_run_takes_with_a_base_that_is_built_first(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    def no_base(*_: object) -> Path:
        raise ConfigError("this is as far as it goes")

    monkeypatch.setattr(PaperData, "nano_base", no_base)
    monkeypatch.setattr(PaperData, "minutes", lambda _: 600.0)
    lines: list[str] = []
    given = {key: value for key, value in keys(made, tmp_path / "run").items() if key != "model_name"}
    with pytest.raises(ConfigError, match="as far as it goes"):
        conduct(make_plan(find(EXPERIMENT), given), say=lines.append)
    assert lines[-1].startswith("a small base, then the run: about 10 hours")
    assert not (own_home / "bases").exists()


def test_in_a_terminal_no_wait_s_control_characters_stand_before_the_table(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(run: Run[Any, Any]) -> None:
        del run
        raise ConfigError("this is as far as it goes")

    monkeypatch.setattr(conduct_module, "train", train)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with pytest.raises(ConfigError, match="as far as it goes"):
        conduct(planned(made, tmp_path / "run", quiet="false"), say=tell)
    text = terminal.getvalue()
    assert f"{EXPERIMENT}: first step" in text, "the table was drawn"
    assert "\\u001b" not in text


def test_a_run_leaves_its_folder(made: Made, whole: Path) -> None:
    config, printed = json.loads((whole / CONFIG).read_text()), manifest(whole)
    assert config["name"] == "remedy/exp6"
    assert config["parent"] == "ladder/exp4"
    assert config["delta"] == {"reward": "macro_f1"}
    assert config["overrides"]["steps"] == 4
    assert config["data"]["fingerprint"] == Slice.open(made.data).card.sha256
    assert printed["status"] == "finished"
    assert printed["identity"]["model"]["certificate"]
    assert len(printed["hashes"]["weights_sha256"]) == 64
    for name in (METRICS, ROLLOUTS):
        assert str(made.home) not in (whole / name).read_text()
    assert str(made.home) not in (whole / CONFIG).read_text()
    metrics = lines(whole, METRICS)
    assert [line["step"] for line in metrics] == [0, 1, 2, 3, 4]
    assert all("optim/grad_norm" in line for line in metrics[:-1]), "nothing was learned"
    assert metrics[2]["eval/kl_base"] != 0.0


def test_a_run_that_is_there_is_not_overwritten(made: Made, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (whole / METRICS).read_bytes()
    monkeypatch.setattr(conduct_module, "open_connection", _no_server)
    with pytest.raises(ConfigError, match="holds a run already") as caught:
        run(made, whole)
    assert "resume" in (caught.value.fix or "")
    with pytest.raises(ConfigError, match="another run"):
        run(made, whole, seed="5", behavior_if_log_dir_exists="resume")
    assert (whole / METRICS).read_bytes() == before


def test_a_folder_of_something_else_is_left_alone(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis.tex").write_text("all my work")
    monkeypatch.setattr(conduct_module, "open_connection", _no_server)
    for choice in ("raise", "resume", "delete"):
        with pytest.raises(ConfigError, match="not a run"):
            run(made, tmp_path, behavior_if_log_dir_exists=choice)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_server_that_does_not_start_leaves_the_folder_free_for_the_mended_command(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(base_url: str | None, settings: EmbeddedSettings, *_say: Say) -> Connection:
        del base_url, settings
        raise BackendError("the embedded server did not start: no GPU")

    monkeypatch.setattr(conduct_module, "open_connection", broken)
    folder = tmp_path / "run"
    for _ in range(2):
        with pytest.raises(BackendError, match="no GPU"):
            run(made, folder)
        assert not folder.exists()
    with pytest.raises(BackendError, match="no GPU"):
        run(made, folder, behavior_if_log_dir_exists="resume")
    assert (folder / CONFIG).exists(), "what is resumed is kept, whatever was paid in it"


def test_a_finished_run_that_is_resumed_stays_as_it_is(
    made: Made, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each: (whole / each).read_bytes() for each in (METRICS, ROLLOUTS, MANIFEST)}
    monkeypatch.setattr(conduct_module, "open_connection", _no_server)
    again = run(made, whole, behavior_if_log_dir_exists="resume")
    assert {each: (whole / each).read_bytes() for each in before} == before
    assert again.finished.step == manifest(whole)["selected"]["step"]
    assert again.finished.final_path == manifest(whole)["selected"]["final_path"]


def _no_server(base_url: str | None, settings: EmbeddedSettings, *_say: Say) -> Connection:
    del base_url, settings
    raise AssertionError("a run that may not begin starts no server")


# Lost, interrupted


def test_a_lost_server_stops_the_run_and_a_resumed_one_ends_the_same(
    made: Made, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lost"
    given = [f"{key}={value}" for key, value in keys(made, folder).items()]
    opened: list[Connection] = []
    record = Run.record

    def opening(base_url: str | None, settings: EmbeddedSettings, *_say: Say) -> Connection:
        opened.append(open_connection(base_url, settings))
        return opened[-1]

    def dying(self: Run[Any, Any], step: int, metrics: dict[str, float]) -> None:
        record(self, step, metrics)
        if step == 2:
            server = opened[0].server
            os.kill(server.pid, signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(conduct_module, "open_connection", opening)
        patch.setattr(Run, "record", dying)
        code, _, output = command(capsys, "run", "remedy/exp6", *given)
    assert code == 3
    assert "the server was lost at step 3" in output
    assert "the same command" in output
    assert manifest(folder)["status"] == "lost"
    assert [mark["step"] for mark in lines(folder, CHECKPOINTS)] == [2]

    assert command(capsys, "run", "remedy/exp6", *given).code == 0
    assert (folder / REPORT).is_file()
    for name in (METRICS, ROLLOUTS):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert manifest(folder)["hashes"] == manifest(whole)["hashes"]


class NoServer:
    """A client of a server that answers no question."""

    def close(self, reason: str) -> Future[None]:
        assert reason
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def opened(cls, base_url: str | None, settings: EmbeddedSettings, *_say: Say) -> Connection:
        del settings
        return Connection(cast(tinker.ServiceClient, cls()), base_url, None)


def test_a_server_that_fails_before_the_first_step_is_a_lost_server(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(NoServer):
        def create_lora_training_client(self, **settings: object) -> None:
            raise tinker.TinkerError(f"nobody answers about {settings['base_model']}")

    monkeypatch.setattr(conduct_module, "open_connection", Gone.opened)
    with pytest.raises(LostError, match="before the first step: nobody answers about base"):
        run(made, tmp_path / "early", "sft/lora")
    assert manifest(tmp_path / "early")["status"] == "lost"


def test_an_interrupt_before_the_manifest_leaves_the_folder_free(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(conduct_module, "open_connection", NoServer.opened)
    monkeypatch.setattr(conduct_module, "model_identity", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path / "early", "sft/lora")
    assert not (tmp_path / "early").exists()


def test_an_interrupted_run_says_so_and_ends_its_server_and_its_pages_are_no_part_of_its_steps(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "interrupted"
    seen: list[Standing] = []
    drawing = 0.0
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: time.monotonic() + drawing)

    def reached(standing: Standing) -> None:
        nonlocal drawing
        drawing += 10_000.0
        seen.append(standing)
        if standing.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conduct(planned(made, folder), say=unsaid, reached=reached)
    assert [(each.step, each.steps) for each in seen] == [(0, 4), (2, 4)]
    assert manifest(folder)["status"] == "interrupted"
    assert [row["step"] for row in lines(folder, TIMINGS) if row["step_s"] < 5_000.0] == [0, 1, 2]
    assert not [each for each in children_of_this_process() if str(folder) in each]


def children_of_this_process() -> list[str]:
    """Return the command lines of this process's children, as the system tells them."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ") for each in children]


def test_a_server_that_refuses_the_model_is_a_mistake_and_leaves_the_folder_free(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(NoServer):
        def create_lora_training_client(self, **settings: object) -> None:
            assert settings["base_model"] == "base"
            request = httpx.Request("POST", "http://127.0.0.1/")
            words = "not served here\n  field: base_model\n  allowed: other"
            raise tinker.BadRequestError("400", response=httpx.Response(400, request=request), body={"error": words})

    monkeypatch.setattr(conduct_module, "open_connection", Refusing.opened)
    with pytest.raises(ConfigError) as caught:
        run(made, tmp_path / "refused", "sft/lora")
    assert (caught.value.field, caught.value.allowed) == ("model_name", "other")
    assert not (tmp_path / "refused").exists()
