"""`tinsmith run`: the list, what a run would take, and mistakes told in at most five lines; nothing of it writes."""

import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from command_line import Run, command
from sentences import missing
from tinsmith.cli import main
from tinsmith.cli.registered import EXPERIMENTS, STUDIES, TASKS, find
from tinsmith.cli.run import INTERRUPTED, quickstart_cells
from tinsmith.lab.experiment.experiment import key_help
from tinsmith.lab.study.cells import sole_process
from tinsmith.types.errors import ConfigError


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command where nothing is, with a home that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    return partial(command, capsys, "run")


def test_without_a_name_every_experiment_is_listed_with_its_question(run: Run, tmp_path: Path) -> None:
    ran = run()
    assert (ran.code, ran.err) == (0, "")
    for one in EXPERIMENTS.values():
        assert one.full_name in ran.out
        assert " ".join(one.question.split()[:3]) in ran.out
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["ladder/exp5", "sft/lora_offset", "control/exact_gradient"])
def test_a_dry_run_says_what_it_would_take_and_writes_nothing(run: Run, tmp_path: Path, name: str) -> None:
    ran = run(name, "seed=2", "dry_run=true", code=0)
    assert f"{name}@1 seed=2" in ran.out
    assert EXPERIMENTS[name].question in ran.out
    for messages in ("identity", "values: ", "changed here: seed=2", "steps", "minutes", "disk"):
        assert messages in ran.out
    assert not any(tmp_path.iterdir())


def test_a_dry_run_at_the_seeds_place_needs_a_model_and_knows_no_time(run: Run) -> None:
    refused = run("ladder/exp4", "at=seed", "dry_run=true")
    assert (refused.code, refused.out) == (2, "")
    assert "model_name" in refused.err
    ran = run("ladder/exp4", "at=seed", "model_name=tinsmith/nano", "device=cuda", "dry_run=true", "arithmetic=fast")
    assert "313 steps" in ran.out
    assert "unknown" in ran.out


def test_a_dry_run_tells_the_parent_its_own_change_and_every_value(run: Run) -> None:
    lines = run("remedy/exp6", "lora_rank=4", "dry_run=true").out.splitlines()
    assert "ladder/exp4" in lines[1]
    assert lines[1].split()[-1] == "reward=macro_f1"
    assert lines[2].split()[-1] == "lora_rank=4"
    assert [line.partition(":")[0] for line in lines[3:5]] == ["values", "further values, at their defaults"]
    values, usual = (dict(word.split("=") for word in line.partition(": ")[2].split()) for line in lines[3:5])
    own = {each.name for each in key_help(EXPERIMENTS["remedy/exp6"]) if not each.circumstance}
    assert values.keys() | usual.keys() == own
    assert not values.keys() & usual.keys()
    assert {"early_stop", "snr_filter"} <= usual.keys()
    assert (values["reward"], values["lora_rank"], values["contract"]) == ("macro_f1", "4", "two_key")


def test_an_interrupt_before_any_command_begins_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tinsmith.cli.app", interrupted)
    assert run(code=130).err == "tinsmith: interrupted; nothing has begun\n"


@pytest.mark.parametrize(("times", "says"), [(2.04, True), (1.1, False)])
def test_a_forecast_says_that_other_work_runs_on_the_machine(
    run: Run, monkeypatch: pytest.MonkeyPatch, times: float, says: bool
) -> None:
    monkeypatch.setattr("tinsmith.lab.live.progress.slowdown", lambda _: times)
    assert ("beside the other work here" in run("crossroads", "dry_run=true").out) is says


def test_with_another_model_or_server_nothing_speaks_of_the_base_that_is_built_here(run: Run) -> None:
    elsewhere = ("base_url=http://127.0.0.1:9", "model_name=org/model")
    for arguments in (elsewhere, (*elsewhere, "learning_rate=1e-4", "dry_run=true")):
        ran = run("ladder/exp1", *arguments)
        printed = (ran.out + ran.err).replace("at=nano", "")
        assert printed
        assert "nano" not in printed


def test_experiments_that_are_one_and_the_same_for_the_nano_base_say_so(run: Run) -> None:
    output = run("ladder/exp1", "dry_run=true").out
    assert "prompt is brief, not ontology" in output
    assert "ladder/baseline@1" in output
    assert "this run equals" not in run("ladder/exp4", "dry_run=true").out
    for arguments in (("ladder/exp1", "at=seed"), ("ladder/exp1", "prompt=ontology")):
        assert "prompt is brief" not in run(*arguments, "dry_run=true").out


@pytest.mark.parametrize("name", [*EXPERIMENTS, *STUDIES])
def test_help_tells_every_key_and_its_meaning(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    if name in STUDIES:
        told = {key.name: key.words for key in STUDIES[name].all_keys().own}
    else:
        told = {key.name: key.words for key in key_help(EXPERIMENTS[name])}
    for key, words in told.items():
        assert words, key
        assert all(word in lines[key] for word in words.split()[:2])
    assert "dry_run" in told


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_takes_each_of_its_keys_with_its_default(name: str) -> None:
    keys = STUDIES[name].all_keys()
    assert all(key.words for key in keys.own)
    assert len({key.name for key in keys.own}) == len(keys.own)
    keys.require({key.name: key.default for key in keys.own})
    keys.require(dict.fromkeys(keys.passed_on, ""))


@pytest.mark.parametrize("name", ["study/adapters", "study/sft_vs_rl"])
def test_a_study_that_another_process_runs_is_left_alone(run: Run, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    with sole_process(out):
        ran = run(name, f"out={out}")
    assert ran.code == 2
    assert missing(ran.err, "process", "out", out) == []
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    with sole_process(out):
        pass


@pytest.mark.parametrize(
    ("keys", "kept"), [({}, "1"), ({"save_every": "25"}, "25"), ({"at": "nano"}, "1"), ({"at": "small"}, None)]
)
def test_one_run_of_a_quickstart_has_a_checkpoint_of_each_step(keys: dict[str, str], kept: str | None) -> None:
    cells = {cell.experiment.name: cell for cell in quickstart_cells(keys, Path("out"))}
    assert cells.pop("remedy/exp6").overrides.get("save_every") == kept
    assert all(cell.overrides == keys for cell in cells.values())


@pytest.mark.usefixtures("run")
def test_an_interrupted_quickstart_says_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tinsmith.lab.study.cells.runner", interrupted)
    ran = command(capsys, "quickstart")
    assert ran.code == INTERRUPTED
    assert "the same command goes on where it stopped" in ran.err


def test_a_quickstart_that_another_process_makes_is_left_alone(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del run  # its empty folder
    with sole_process(tmp_path / "out"):
        ran = command(capsys, "quickstart", "--out", str(tmp_path / "out"))
    assert ran.code == 2
    assert missing(ran.err, "another process", "out") == []


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_ends_no_command(closed: str, tmp_path: Path) -> None:
    words = f"{shlex.quote(sys.executable)} -m tinsmith ls {shlex.quote(str(tmp_path))} {closed}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


def test_a_quickstart_refuses_an_unknown_key_before_it_makes_anything(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    del run  # its empty folder
    refused = command(capsys, "quickstart", "stpes=3", code=2)
    assert "stpes" in refused.err
    assert not any(tmp_path.iterdir())


def test_no_line_of_the_help_is_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["data"], ["base"], ["analyse"]):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        listed = capsys.readouterr().out.partition("Commands:")[2].splitlines()
        told = [line.split(None, 1)[1] for line in listed if line.strip()]
        assert told
        assert [line for line in told if len(line) >= 55 or not line.endswith(".")] == []


def test_the_list_begins_with_where_to_start(run: Run) -> None:
    assert run().out.splitlines()[0] == "start here"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("rlvr", "--steps", "5"), "steps=5"),
        (("rlvr", "--learning-rate=1e-4"), "learning_rate=1e-4"),
        (("--steps", "5", "rlvr"), "steps=5"),
        (("rlvr", "at", "=", "small"), "at=small"),
        (("rlvr", "at=", "small"), "at=small"),
        (("rvlr",), "rlvr"),
        (("crossroad/rl",), "crossroads/rl"),
        (("dead_group",), "dead_groups"),
        (("rlvr", "stpes=5"), "steps"),
        (("rlvr", "model_name=tinsmith/smolm2"), "tinsmith/smollm2"),
    ],
)
def test_what_was_meant_is_said_first_and_short(run: Run, arguments: tuple[str, ...], meant: str) -> None:
    ran = run(*arguments, code=2)
    fix = ran.err.partition("  do: ")[2]
    assert fix.split()[:2][1].rstrip(";") == meant
    assert len(ran.err) < 400


def test_a_file_of_settings_names_what_to_run_and_the_command_line_goes_before_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('run = "ladder/exp4"\nlora_rank = 4\nseed = 3\ndry_run = true\n', encoding="utf-8")
    told = run("--config", str(file), "seed=5").out
    assert "changed here: lora_rank=4 seed=5" in told
    file.write_text("[task]\nsteps = 3\n", encoding="utf-8")
    refused = run("ladder/exp4", "--config", str(file))
    assert (refused.code, refused.err.partition("\n")[0].split()[1]) == (2, "mine.toml:")
    assert "field: task = " in refused.err


@pytest.mark.parametrize(
    ("change", "usual"), [("learning_rate=3", "0.0006"), ("temperature=0.1", "0.5 to 1.3"), ("learning_rate=1e-3", "")]
)
def test_a_setting_far_from_what_is_usual_is_warned_about_with_the_usual_one(run: Run, change: str, usual: str) -> None:
    warned = [line for line in run("rlvr", change, "dry_run=true").out.splitlines() if line.startswith("warning")]
    assert [usual in line for line in warned] == ([True] if usual else [])


MEANT = {
    "Exp5": "ladder/exp5",
    "debate": "adversarial/gated",
    "disruption": "ladder/baseline",
    "Novelty": "joint/disruption_novelty",
    "sft": "sft/lora",
    "GRPO": "remedy/exp6",
    "just-rl": "remedy/exp6",
}


@pytest.mark.parametrize(("typed", "meant"), MEANT.items())
def test_a_word_of_the_field_suggests_names_that_run(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(typed)
    first, _, _ = (caught.value.fix or "").partition(";")
    suggested = first.removeprefix("perhaps ").split(" or ")
    assert suggested[0] == meant
    for name in suggested:
        bare, *_ = name.split()
        assert bare in EXPERIMENTS or bare in STUDIES or bare.partition("/")[0] in TASKS


@pytest.mark.parametrize("where", ["lr=1/my.py", "my=1.py", "lr=1/my.py:task"])
def test_a_file_whose_path_has_an_equals_sign_is_no_key(
    run: Run, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path(where.partition(":")[0])
    file.parent.mkdir(exist_ok=True)
    parts = "items=['a', 'b'], prompt='{item}', reward=lambda i, t: 0.0, demonstrate=lambda i, r: i"
    file.write_text(f"from tinsmith import Task\ndef task() -> Task:\n    return Task({parts})\n")
    assert "time: about" in run(where, "dry_run=true").out
