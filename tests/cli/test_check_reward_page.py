"""`docs/results/check-reward.md`: a row for every packaged task and both examples, with what the check gives."""

from functools import partial
from pathlib import Path

import pytest
from taste_corpora import world, write

from command_line import Run, command
from tinsmith.cli.registered import TASKS, source_of
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.reward_check import Tried, check_reward

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs" / "results" / "check-reward.md").read_text("utf-8").splitlines()
ROWS = {row.split("`")[1]: row.split(" | ")[1:8] for row in LINES if row[:3] == "| `"}
EXAMPLES = ("turned_words.py", "arithmetic_tutor.py")
SLOW = {"instructions", "reasoning_gym", "verifiers"}  # Seconds each, most of them to load what they need.


def test_the_page_has_every_packaged_task_and_both_examples() -> None:
    assert set(ROWS) == {*TASKS, *EXAMPLES}
    assert f"all {len(TASKS)} packaged tasks" in LINES[1]


@pytest.mark.parametrize("name", sorted(ROWS.keys() - SLOW))
def test_a_row_is_what_the_check_gives(name: str, tmp_path: Path) -> None:
    given = {"data": str(write(tmp_path / "corpus", world()).folder)} if name == "taste" else {}
    source = source_of(str(ROOT / "examples" / name) if name in EXAMPLES else name, given)
    task = source.make({key.name: key.read(given.get(key.name)) for key in source.keys})
    found = check_reward(task, split_items(task, source.folder, 0).train)
    ends = [f"{one:g}" for one in (min(found.rights), max(found.rights))] if found.rights else ["not known"]
    cells = [(len(found.as_much(how)), found.of(how)) for how in Tried]
    counts = [f"{much}, {sum(one.reward > 0 for one in some)} of {len(some)}" if some else "" for much, some in cells]
    assert ROWS[name] == [" to ".join(dict.fromkeys(ends)), *counts]
    assert not any(found.instead(how) for how in Tried)
    assert found.failed == 0


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command where nothing is, with a home that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    return partial(command, capsys, "run")


@pytest.mark.parametrize("name", ["relay", "relay/sum", "tones", "tones/exact", "tones/labels"])
@pytest.mark.parametrize("checked", [(), ("check_reward=true",)])
def test_a_reward_of_rollouts_below_or_that_is_learned_can_be_tried_before_a_run(
    run: Run, name: str, checked: tuple[str, ...]
) -> None:
    ran = run(name, "dry_run=true", *checked, code=0)
    assert (Tried.MUTANT.value in ran.out) == bool(checked)


def test_the_learned_reward_of_the_documentation_can_be_tried_before_a_run(run: Run, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "your-task.md").read_text("utf-8")
    (shown,) = (part.partition("```")[0] for part in text.split("```python\n") if "import LearnedReward" in part)
    (tmp_path / "mine.py").write_text(shown, encoding="utf-8")
    ran = run("mine.py", "model_name=tinsmith/nano", "dry_run=true", "check_reward=true", code=0)
    assert "no right answer is known" in ran.out
