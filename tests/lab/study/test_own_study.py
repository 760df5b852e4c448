"""A study in a file of a user's: dry run, keys, mistakes, runs that are read again, and a page."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_studies import MadeArm, MadeStudy, Maker

from command_line import command
from tinsmith import Arm, Study, run
from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import load_study
from tinsmith.lab.study.report import drawn_anew
from tinsmith.lab.study.sizes import cells_of, planned
from tinsmith.pages.page import ending
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

EXAMPLE = Path(__file__).parents[3] / "examples" / "turned_words_study.py"
ITEMS = tuple(f"{a}-{b}" for a in ("apple", "bread", "cloud", "dance") for b in ("earth", "flame"))
MADE = MadeStudy(
    items=ITEMS,
    keys={},
    arms={
        "plain": MadeArm(right=(0.2, 0.9)),
        "bonus": MadeArm(right=(0.2, 0.5)),
        "shuffled": MadeArm(right=(0.2, 0.2)),
    },
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def example() -> Study:
    found = load_study(EXAMPLE)
    assert isinstance(found, Study)
    return found


def test_the_example_is_short_and_its_runs_open_its_task_again() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    cells = cells_of(example(), {})
    cell, *_ = cells.reported(cells.arms[1], 2e-3)
    assert cell.command[0] == f"{EXAMPLE}:turn"
    assert {"entropy_bonus=0.05", "steps=20", "seed=1"} <= set(cell.command)


def test_the_commands_forecast_it_and_tell_its_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    forecast = command(capsys, "run", str(EXAMPLE), "dry_run=true")
    assert (forecast.code, "15 to report" in forecast.out) == (0, True)
    assert not (tmp_path / "runs").exists()
    assert "tuning_seed" in command(capsys, "run", str(EXAMPLE), "--help").out
    task = command(capsys, "run", f"{EXAMPLE}:turn", "--help")
    assert "How long the small base is trained." in task.out


def test_a_study_asks_a_question_of_a_packaged_task(capsys: pytest.CaptureFixture[str]) -> None:
    forecast = command(capsys, "run", str(EXAMPLE.with_name("rubric_rewards.py")), "dry_run=true", code=0)
    assert "10 to report" in forecast.out


@pytest.mark.parametrize("key", ["stepz", "seed", "size"])
def test_a_mistake_in_a_key_takes_five_lines_at_most(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, "run", str(EXAMPLE), f"{key}=1", code=2)
    assert key in refused.err


PLAIN, SIZES = 'Arm("plain", "RL")', "Size(learning_rate=2e-3"


@pytest.mark.parametrize(
    ("text", "wrong", "key", "meant"),
    [
        (PLAIN, 'Arm("plain", "RL", learning_rte=1e-3)', "learning_rte", "perhaps learning_rate"),
        (PLAIN, 'Arm("plain", "RL", "stepz=3")', "stepz", "perhaps steps"),
        (PLAIN, 'Arm("plain", "RL", base_stpes=9)', "base_stpes", "perhaps base_steps"),
        (PLAIN, 'Arm("plain", "RL", steps={"nan": 3})', "steps", "perhaps nano"),
        (SIZES, "Size(learning_rte=2e-3", "learning_rte", "perhaps learning_rate"),
        (SIZES, "Size(seds=(1, 2)", "seds", "seeds"),
        (SIZES, "Size(seed=3", "seed", "Size(seeds="),
        ('{"nano"', '{"small": Size(stepz=3), "nano"', "stepz", "perhaps steps"),
        ("task=turn,", 'task=turn, keys={"learning_rte": 1e-3},', "learning_rte", "perhaps learning_rate"),
    ],
)
@pytest.mark.parametrize("more", [(), ("dry_run=true",)])
def test_a_mistyped_key_of_the_file_is_refused_before_any_run(
    text: str, wrong: str, key: str, meant: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    source = EXAMPLE.read_text()
    assert text in source
    Path("mine.py").write_text(source.replace(text, wrong, 1))
    refused = command(capsys, "run", "mine.py", *more, code=2)
    assert f"field: {key} = " in refused.err
    assert meant in refused.err
    assert len(refused.err.strip().splitlines()) <= 5
    assert not Path("runs").exists()


def test_a_mistyped_key_beside_a_packaged_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    source = EXAMPLE.with_name("rubric_rewards.py").read_text()
    Path("mine.py").write_text(source.replace("Size(", "Size(group_sise=4, ", 1))
    assert "perhaps group_size" in command(capsys, "run", "mine.py", "dry_run=true", code=2).err


def test_a_mistyped_key_of_an_arm_on_labels_is_refused_by_the_forecast() -> None:
    packaged = STUDIES["study/sft_vs_rl"].value()
    assert isinstance(packaged, Study)
    study = replace(planned(packaged, {})[0], shared=None)
    arm, *others = study.arms
    wrong = Arm(arm.name, arm.label, {**arm.keys, "learning_rte": 1e-3}, experiment=arm.experiment)
    with pytest.raises(ConfigError) as refused:
        run_study(replace(study, arms=[wrong, *others]), {"dry_run": "true"}, unsaid)
    assert refused.value.field == "learning_rte"


def test_a_new_study_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "new", "--study", "mine.py").code == 0
    assert command(capsys, "run", "mine.py", "dry_run=true", "size=smallest").code == 0


def test_what_is_no_study_is_told(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("study = 3\n")
    with pytest.raises(ConfigError) as refused:
        load_study(file)
    assert refused.value.field == "study"
    file.write_text("task = 3\n")
    assert load_study(file) is None


def test_the_console_of_a_study_ends_with_its_result_and_what_may_be_claimed(tmp_path: Path) -> None:
    lines: list[str] = []
    given = {"out": str(tmp_path / "out"), "seeds": "1,2"}
    page = drawn_anew(run_study(example(), given, lines.append, run=Maker(MADE)))
    assert lines[-2:] == ending(page)
    assert "The gate allows" in "".join(lines[:-2])


def test_runs_that_are_there_are_read_again_to_the_same_bytes(tmp_path: Path) -> None:
    given = {"out": str(tmp_path / "out"), "seeds": "1,2"}

    def files() -> dict[str, bytes]:
        folder = run_study(example(), given, unsaid, run=Maker(MADE))
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    first = files()
    assert files() == first
    assert "RL, entropy bonus" in first["study.md"].decode()


def test_a_study_whose_task_is_no_function_of_a_file_is_refused() -> None:
    whole = example()
    with pytest.raises(ConfigError) as refused:
        run(Study(name="x", question="?", task=lambda: whole.task(), arms=whole.arms))
    assert refused.value.field == "task"
