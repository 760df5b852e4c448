"""`tinsmith run FILE.py` before anything runs: its keys, what it would take, and mistakes in at most five lines."""

import subprocess
import sys
from pathlib import Path

import pytest
from own_task import TASK

import tinsmith
from command_line import command
from tinsmith.cli.registered import SUBJECTS
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.user_task.functions import load_file
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.run import TaskRun
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, task_conversations
from tinsmith.renderers.renderer import Role
from tinsmith.types.errors import ConfigError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that is not there, and a folder with a task."""
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TASK)


def test_help_lists_the_files_own_keys_before_those_of_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    ran = command(capsys, "run", "mine.py", "--help", code=0)
    listed = [line.split()[0] for line in ran.out.splitlines()[3:] if line and line[0] != " "]
    assert listed[0] == "start"
    assert "the first of the numbers" in ran.out
    assert SUBJECTS[Kind.TASK].kinds[Kind.TASK].known - {"kind"} <= set(listed)
    assert "select_by" not in listed


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    ran = command(capsys, "run", "mine.py", "model_name=tinsmith/nano", "start=5", "dry_run=true", code=0)
    for words in (
        "Does it write letters?",
        "start=5",
        "max_tokens=5",
        "6 items",
        "6 held out",
        "(without task file, data and",
    ):
        assert words in ran.out
    assert sorted(tmp_path.rglob("*")) == before
    from_python = tinsmith.run("mine.py", model_name="tinsmith/nano", start=5, dry_run=True)
    assert " ".join(str(from_python).split()) in " ".join(ran.out.split())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gone.py"], "tinsmith new gone.py"),
        (["mine.py", "begin=3"], "begin"),
        (["mine.py", "strat=3"], "perhaps start"),
        (["mine.py", "start=x"], "a whole number"),
        (["mine.py", "kind=rl"], "kind"),
        (["mine.py", "select_by=last"], "select_by"),
        (["mine.py", "eval_samples=0"], "eval_samples"),
        (["mine.py", "at=nowhere"], "nano"),
        (["mine.py"], "demonstrate"),
        (["mine.py", "dry_run=true"], "demonstrate"),
        (["mine.py", "at=seed"], "model_name"),
        (["mine.py", "model_name=nobody/knows"], "model_name"),
        (["mine.py", "model_name=tinsmith/smollm2"], "learning_rate"),
        (["mine.py", "base_url=http://127.0.0.1:9"], "model_name"),
        (["torn.py"], "torn.py, line 2"),
        (["items.py"], "items.py"),
        (["keys.py"], "stepz"),
        (["clash.py"], "steps"),
    ],
)
def test_mistakes_are_told_in_five_lines_and_leave_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    head = "from tinsmith import Task\n"
    made = "Task(items=[1], prompt='{item}', reward=lambda item, text: 1.0"
    (tmp_path / "torn.py").write_text(f"{head}task = Task(\n")
    (tmp_path / "items.py").write_text(f"{head}task = Task(items='no.jsonl', prompt='', reward=max)")
    (tmp_path / "keys.py").write_text(f"{head}task = {made}, keys={{'stepz': 3}})\n")
    (tmp_path / "clash.py").write_text(f"{head}def task(steps=3):\n    return {made})\n")
    before = sorted(tmp_path.rglob("*"))
    ran = command(capsys, "run", *arguments, code=2)
    assert words in ran.err
    assert sorted(tmp_path.rglob("*")) == before


def test_python_lists_its_names_shows_a_run_in_a_line_and_refuses_what_it_cannot_run(tmp_path: Path) -> None:
    assert dir(tinsmith) == sorted(tinsmith.__all__)
    done = TaskRun(folder=tmp_path, report=None, metrics=dict.fromkeys("abc", 0.5), alarms=())
    assert repr(done) == f"TaskRun(folder={tmp_path!r}, report=None, alarms=())"
    with pytest.raises(ConfigError, match="this is nothing to run\n  field: task = 3\n  allowed: a Task"):
        tinsmith.run(3)  # type: ignore[call-overload]


def test_a_small_base_reads_training_items_alone_and_whole_conversations() -> None:
    task = load_file(EXAMPLES / "arithmetic_tutor.py").make({"largest": 4})
    split = split_items(task, EXAMPLES, 0)
    read = task_conversations(task, split.train, TaskBaseRecipe(count=60))
    assert read == task_conversations(task, split.train, TaskBaseRecipe(count=60))
    assert read != task_conversations(task, split.train, TaskBaseRecipe(count=60, seed=1))
    requests = {conversation[0].content for conversation in read}
    assert requests == {one.prompt for one in split.train}
    turns = {tuple(message.role for message in conversation) for conversation in read}
    once = (Role.USER, Role.ASSISTANT)
    assert turns == {once, once * 2}


def test_a_demonstration_that_fails_is_a_mistake_in_the_file(tmp_path: Path) -> None:
    text = TASK.replace("keys=", "demonstrate=lambda item, random: item['m'], keys=")
    (tmp_path / "mine.py").write_text(text)
    task = load_file(tmp_path / "mine.py").make({"start": 0})
    with pytest.raises(ConfigError, match="KeyError"):
        task_conversations(task, split_items(task, tmp_path, 0).train, TaskBaseRecipe(count=1))


def test_the_front_door_and_a_mistake_in_a_file_load_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from tinsmith import Task\n"
        "from tinsmith.lab.user_task.functions import load_file\n"
        "load_file(pathlib.Path('mine.py'))\n"
        "print([name for name in ('torch', 'transformers', 'sklearn', 'tinker', 'matplotlib') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.strip() == "[]"
