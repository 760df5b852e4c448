"""Runs on a user's own task have what the built-in ones have: evaluation, page, resume, replay, diff, failures kept."""

import json
import re
import shutil
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from own_task import KEYS, NANO, TASK, lines, whole

import tinsmith
from command_line import Run, command
from tinsmith.lab.page.comparison import REWARD, study_of_runs
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.types.errors import ConfigError, DiskFullError, LostError

EXAMPLES = Path(__file__).parents[3] / "examples"
BYTES = ("metrics.jsonl", "rollouts.jsonl", "sections.json", "task.json")


pytestmark = pytest.mark.usefixtures("place")


@pytest.fixture(scope="module")
def original(server: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of TASK that nothing disturbed, and what is beside it."""
    place = tmp_path_factory.mktemp("original")
    (place / "mine.py").write_text(TASK)
    where = {"base_url": server.base_url, "model_name": NANO, "log_path": place / "run"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_API_KEY", str(server.key))
        patch.chdir(place)
        assert tinsmith.run("mine.py", **KEYS, **where).report == place / "run" / "report.html"
    return place / "run"


def test_a_run_evaluates_what_is_held_out_and_leaves_its_page(original: Path) -> None:
    folder = original
    metrics = lines(folder, "metrics.jsonl")
    for step in (0, 2, 3):
        for split in ("eval", "eval_greedy"):
            for name in ("total", "letters", "rare"):
                assert f"{split}/reward/{name}" in metrics[step]
            assert f"{split}/metric/length" in metrics[step]
    assert "train/reward/letters" in metrics[1]
    rollouts = lines(folder, "rollouts.jsonl")
    data = whole(folder, "config.json")["data"]
    assert (data["train"], data["test"]) == (6, 6)
    held_out = {one["id"] for one in whole(folder, "task.json")["items"]}
    assert {one["prompt_id"] for one in rollouts if one["split"] != "train"} == held_out
    assert held_out.isdisjoint(one["prompt_id"] for one in rollouts if one["split"] == "train")
    for one in rollouts:
        assert one["total"] == pytest.approx(sum(one["terms"].values()))
        assert one["terms"]["letters"] == sum(each.isalpha() for each in one["text"]) / 10
    total = [one["total"] for one in rollouts if (one["step"], one["split"]) == (3, "eval")]
    assert metrics[3]["eval/reward/total"] == pytest.approx(sum(total) / len(total))
    assert whole(folder, "manifest.json")["hashes"]["weights_sha256"]

    page = (folder / "report.html").read_text()
    first = re.search(r'<p class="verdict-line">(.*?)</p>', page)
    assert "2 held-out items" in first[1]
    assert f"{metrics[0]['eval/reward/total']:.3f}" in first[1]
    assert f"{metrics[3]['eval/reward/total']:.3f}" in first[1]
    for words in ("Does it write letters?", "a word", "ZeroDivisionError", "Lengths", "4 answers"):
        assert words in page
    sections = {one["title"]: one for one in whole(folder, "sections.json")["sections"]}
    assert sections["Lengths"]["columns"] == ["item", "length"]
    assert "mine.py, line" in sections["Broken"]["failure"]


def test_a_replay_is_equal_and_another_argument_is_another_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(log_path="a", start="3", steps="1")
    assert (ran.code, "a/report.html" in ran.out) == (0, True)
    assert run(log_path="c", start="4", steps="1").code == 0
    assert command(capsys, "diff", "a", "c").code == 1
    assert whole(tmp_path / "a", "config.json")["overrides"]["start"] == 3
    assert command(capsys, "replay", "a").code == 0

    task = tmp_path / "mine.py"
    task.write_text(TASK + "# another\n")
    refused = command(capsys, "replay", "a", code=2)
    assert "code.mine.py" in refused.err
    task.unlink()
    assert command(capsys, "replay", "a").code == 2


def test_data_that_changed_are_refused_by_a_replay(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TASK.replace('[{"id": f"item-{n}", "n": n} for n in range(start, start + 12)]', '"data.jsonl"')
    (tmp_path / "mine.py").write_text(text)
    rows = [f'{{"id": "{n}", "n": {n}}}\n' for n in range(12)]
    (tmp_path / "data.jsonl").write_text("".join(rows))
    assert run(log_path="run", steps="1").code == 0
    assert command(capsys, "replay", "run").code == 0
    (tmp_path / "data.jsonl").write_text("".join(rows[1:]))
    refused = command(capsys, "replay", "run", code=2)
    assert "data." in refused.err


def test_a_file_that_a_key_names_belongs_to_the_identity_by_its_bytes_and_not_by_its_place(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TASK.replace("start: int = 0", "start: int = 0, words: Path = Path(), more: Path = Path()")
    (tmp_path / "mine.py").write_text(text)
    for name, content in (("one", "a"), ("same", "a"), ("other", "b")):
        (tmp_path / f"{name}.txt").write_text(content)
    given = {name: {"log_path": name, "words": f"{name}.txt", "steps": "1"} for name in ("one", "same", "other")}
    for keys in given.values():
        run(**keys, code=0)
    one, same, other = (whole(tmp_path / name, "manifest.json")["identity_sha256"] for name in given)
    assert one == same != other
    assert [*whole(tmp_path / "one", "manifest.json")["identity"]["data"]["files"]] == ["words"]
    file = tmp_path / "one.txt"
    file.write_text("b")
    assert "data.files.words" in command(capsys, "replay", "one", code=2).err
    file.unlink()
    assert str(file) in run(**{**given["one"], "log_path": "gone"}, code=2).err


def test_all_weights_are_trained_by_a_task_whose_settings_have_a_rank(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    whole_model = {"adapter": "full", "without": ("lora_rank",), "code": 0}
    run(log_path="full", **whole_model)
    command(capsys, "replay", "full", code=0)
    run(log_path="parts", stop_after="2", **whole_model)
    run(log_path="parts", behavior_if_log_dir_exists="resume", **whole_model)
    command(capsys, "diff", "full", "parts", code=0)


def test_a_run_that_stopped_goes_on_as_if_it_never_had(run: Run, original: Path, tmp_path: Path) -> None:
    assert run(log_path="parts", stop_after="2").code == 0
    assert not (tmp_path / "parts" / "report.html").exists()
    run(log_path="parts", behavior_if_log_dir_exists="resume", code=0)
    for name in BYTES:
        assert (original / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    run(log_path="parts", behavior_if_log_dir_exists="resume", code=0)
    (tmp_path / "mine.py").write_text(TASK + "# another\n")
    refused = run(log_path="parts", behavior_if_log_dir_exists="resume", code=2)
    assert "code.mine.py" in refused.err
    run(log_path="parts", code=2)


def test_what_a_reward_raises_is_a_failed_rollout_with_its_cause(run: Run, tmp_path: Path) -> None:
    (tmp_path / "brittle").touch()
    assert run(log_path="run", eval_items="6", group_size="8", steps="1").code == 0
    rollouts = lines(tmp_path / "run", "rollouts.jsonl")
    failed = [one for one in rollouts if "failure" in one]
    assert failed
    for one in failed:
        assert "total" not in one
        assert one["failure"]["where"] == "reward"
        assert re.fullmatch(r"letters: mine\.py, line \d+: ValueError: a text of threes", one["failure"]["what"])
    kept = [one for one in rollouts if "failure" not in one]
    assert kept
    assert all(len(one["text"]) % 3 for one in kept)
    metrics = lines(tmp_path / "run", "metrics.jsonl")
    assert 0 < metrics[0]["eval/failed"] < 1
    alarms = [one["kind"] for one in whole(tmp_path / "run", "manifest.json")["alarms"]]
    assert "rollouts_failed" in alarms
    assert "a text of threes" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("status", ["lost", "running"])
def test_a_reward_that_always_fails_ends_the_run_which_can_be_resumed(
    run: Run, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    assert run(log_path="run", stop_after="1").code == 0
    (tmp_path / "broken").touch()
    write = RunFolder.write_json

    def full(folder: RunFolder, name: str, value: Mapping[str, object]) -> None:
        if value.get("status") == "lost":
            raise DiskFullError("no room", field=name)
        write(folder, name, value)

    with monkeypatch.context() as patch:
        if status == "running":  # as there is no room for the manifest either
            patch.setattr(RunFolder, "write_json", full)
        lost = run(log_path="run", behavior_if_log_dir_exists="resume", code=3)
    assert "the checker is not there" in lost.err
    assert "the same command" in lost.err
    assert whole(tmp_path / "run", "manifest.json")["status"] == status
    (tmp_path / "broken").unlink()
    assert run(log_path="run").code == 0
    for name in BYTES:
        assert (original / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_several_turns_are_sampled_told_and_scored(run: Run, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "arithmetic_tutor.py", tmp_path)
    assert run("arithmetic_tutor.py", log_path="run", largest="3", steps="1").code == 0
    rollouts = lines(tmp_path / "run", "rollouts.jsonl")
    for one in rollouts:
        assert [turn["role"] for turn in one["turns"]] == ["assistant", "user", "assistant"]
        assert one["turns"][1]["text"] == "Only a number."  # the model writes nonsense
        assert one["turns"][-1]["text"] == one["text"]
        assert list(one["terms"]) == ["solved", "listened"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Only a number." in page
    assert "0 of 4 sums" in page


def test_text_that_no_file_can_hold_does_not_end_a_run(run: Run, tmp_path: Path) -> None:
    task = TASK.replace('f"{len(answers)} answers"', r'"a\ud800"').replace('"a word"', r'"a\ud800"')
    (tmp_path / "mine.py").write_text(task.replace("a text of threes", r"\ud800"))
    (tmp_path / "brittle").touch()
    assert run(log_path="run", steps="1").code == 0
    (words,) = (one for one in whole(tmp_path / "run", "sections.json")["sections"] if one["title"] == "Words")
    assert words["text"] == "a?"
    assert any("failure" in one for one in lines(tmp_path / "run", "rollouts.jsonl"))


def test_a_run_that_diverged_is_told_to_begin_again_with_a_lower_rate(run: Run) -> None:
    lost = run(log_path="run", learning_rate="1e30", code=3)
    assert "diverged" in lost.err
    assert "lower learning_rate" in lost.err


def test_the_one_turn_example_runs(run: Run) -> None:
    assert run(str(EXAMPLES / "turned_words.py"), log_path="run", steps="1").code == 0


def test_what_new_writes_runs_as_it_is(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "new", "fresh.py").code == 0
    assert run("fresh.py", log_path="run", steps="1").code == 0
    command(capsys, "new", "fresh.py", code=2)
    assert command(capsys, "new", "fresh.txt").code == 2


def test_runs_on_one_task_are_compared_with_seeds_together(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What is held out by a rule is the same for every seed.
    text = TASK.replace("held_out=0.5", "held_out=lambda item: item['n'] % 2 == 0")
    (tmp_path / "mine.py").write_text(text)
    for folder, changes in (("a0", {"seed": "0"}), ("a1", {"seed": "1"}), ("b0", {"learning_rate": "1e-2"})):
        assert run(log_path=folder, eval_items="6", steps="1", **changes).code == 0
    messages = command(capsys, "report", "a0", "b0", "a1", code=0)
    assert (tmp_path / "compare.html").is_file()
    found = study_of_runs([tmp_path / folder for folder in ("a0", "b0", "a1")])
    assert [one.seeds for one in found.results.arms.values()] == [(0, 1), (0,)]
    assert found.results.arms["arm-1"].arm.label == "learning_rate=0.01"
    rewards = [
        statistics.mean(
            one["total"]
            for one in lines(tmp_path / folder, "rollouts.jsonl")
            if (one["split"], one["step"]) == ("eval", 1)
        )
        for folder in ("a0", "a1", "b0")
    ]
    assert [found.results.after(arm, REWARD).value for arm in ("arm-0", "arm-1")] == pytest.approx(
        [statistics.mean(rewards[:2]), rewards[2]]
    )
    assert f"{statistics.mean(rewards[:2]):.3f}" in messages.out
    assert f"{rewards[2]:.3f}" in messages.out
    assert "none" in messages.out  # the baseline that fails is named, without a figure
    command(capsys, "report", "a0", "a1", "--to", "md", code=0)


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    content = whole(folder, name)
    change(content)
    (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("settings", "identity", "items", "words"),
    [
        ({}, {}, 1, "held-out items"),
        ({"seed": 1, "learning_rate": 0.01}, {}, 1, "the seed draws them"),
        ({}, {"code": {"mine.py": "0" * 64}}, 0, "code.mine.py"),
    ],
)
def test_what_is_not_one_task_or_not_the_same_items_is_not_compared(
    original: Path, tmp_path: Path, settings: dict[str, Any], identity: dict[str, Any], items: int, words: str
) -> None:
    other = Path(shutil.copytree(original, tmp_path / "other", ignore=shutil.ignore_patterns("state")))
    changed(other, "config.json", lambda config: config["settings"].update(settings))
    changed(other, "manifest.json", lambda manifest: manifest["identity"].update(identity))
    changed(other, "task.json", lambda task: task.update(items=task["items"][items:]))
    with pytest.raises(ConfigError, match=words):
        study_of_runs([original, other])
    changed(other, "config.json", lambda config: config["task"].update(name="other"))
    with pytest.raises(ConfigError, match="the task"):
        study_of_runs([original, other])


def test_python_runs_a_task(server: Connection, tmp_path: Path) -> None:
    def vowels(_item: int, text: str) -> float:
        return sum(letter in "aeiou" for letter in text)

    task = tinsmith.Task(items=range(12), prompt="Item {item}:", reward=vowels, keys={"max_tokens": 4})
    where = {"base_url": server.base_url, "model_name": NANO, "log_path": tmp_path / "a"}
    done = tinsmith.run(task, **{**KEYS, "steps": "1"}, **where)
    assert done.metrics["eval/reward/total"] == done.metrics["eval/reward/vowels"]
    assert list(whole(tmp_path / "a", "manifest.json")["identity"]["code"]) == ["python"]


def test_python_is_told_that_a_run_was_lost(server: Connection, tmp_path: Path) -> None:
    def broken(_item: int, _text: str) -> float:
        raise OSError("gone")

    task = tinsmith.Task(items=range(12), prompt="Item {item}:", reward=broken)
    with pytest.raises(LostError, match="OSError: gone"):
        tinsmith.run(task, **KEYS, base_url=server.base_url, model_name=NANO, log_path=tmp_path / "run")
