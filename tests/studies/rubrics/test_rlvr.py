"""`tinsmith run rlvr` against a judge that answers by a script: what is asked, what is kept, what is survived."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from label_runs import manifest
from own_task import lines
from rlvr_small import (
    EMPTY,
    JUDGING,
    LONG,
    NO_JSON,
    REAL_DATA,
    SHORT,
    SOON,
    Place,
    build,
    every_file,
    judge_server,
    same_bytes,
    verdicts,
    write_prose,
)
from scripted_judge import KEY, InstantClock, Say, refused
from small_study import connect_to

from command_line import command as given
from tinsmith.cli.registered import plan_of
from tinsmith.lab.experiment.conduct import Conducted, conduct
from tinsmith.lab.judge.chat_judge import ChatJudge
from tinsmith.lab.judge.prompting import VerdictCache
from tinsmith.lab.judge.records import ChatSettings
from tinsmith.lab.runs.files import CHECKPOINTS, LEDGER, MANIFEST, METRICS, ROLLOUTS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.user_task import judge_choice
from tinsmith.studies.rubrics.dataset import read_dataset
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    where = tmp_path_factory.mktemp("rlvr")
    base = build(where / "base")
    connection = connect_to(base, where / "state")
    yield Place(base, write_prose(where / "prose.json"), connection)
    connection.close()


@pytest.fixture(autouse=True)
def clock(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstantClock:
    """A home without verdicts, a key for the judge, and a clock on which waiting takes no time."""
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert place.connection.key is not None
    monkeypatch.setenv("TINKER_API_KEY", place.connection.key)
    clock = InstantClock()
    monkeypatch.setattr(judge_choice, "ChatJudge", partial(ChatJudge, clock=clock))
    return clock


def run(keys: dict[str, str]) -> Conducted:
    return conduct(plan_of("rlvr", keys), say=unsaid)


def command(keys: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run as a person does; return the exit code and all that was printed."""
    code, out, err = given(capsys, "run", "rlvr", *(f"{key}={value}" for key, value in keys.items()))
    return code, out + err


@dataclass(frozen=True)
class Judged:
    """A run whose judge never failed, a second one, the home where verdicts lie, and what was asked in both."""

    run: Path
    second: Path
    home: Path
    asked: tuple[int, int]
    authorizations: frozenset[str]


@pytest.fixture(scope="module")
def judged(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    where = tmp_path_factory.mktemp("whole")
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(where / "home"))
    patch.setenv("OPENAI_API_KEY", KEY)
    patch.setenv("TINKER_API_KEY", str(place.connection.key))
    with judge_server() as judge:
        run(place.judged(where / "run", judge))
        first = len(judge.requests)
        run(place.judged(where / "second", judge))
    patch.undo()
    requests = (first, len(judge.requests) - first)
    return Judged(where / "run", where / "second", where / "home", requests, frozenset(judge.authorizations))


@pytest.fixture(scope="module")
def whole(judged: Judged) -> Path:
    return judged.run


# What is asked, and what is made of the answers


@pytest.mark.skipif(not REAL_DATA.exists(), reason="the real tasks are not here")
def test_all_real_tasks_are_judged_by_all_their_rubrics_and_counted_right(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = {task.task_id: task for task in read_dataset(REAL_DATA).tasks}
    folder = tmp_path / "run"
    changes = {"steps": "1", "eval_items": "100", "train_ratio": "1.0", "quiet": "false"}
    with judge_server() as judge:
        keys = place.judged(folder, judge, data_path=str(REAL_DATA), **changes)
        code, words = command(keys, capsys)
    assert code == 0
    assert "100 tasks, 2314 rubrics" in words
    rollouts = lines(folder, ROLLOUTS)
    assert Counter(one["split"] for one in rollouts) == {"train": 12, "eval": 100, "eval_greedy": 100}
    assert {one["prompt_id"] for one in rollouts if one["split"] == "eval"} == set(tasks)
    for one in rollouts:
        found = verdicts(one["text"], len(tasks[one["prompt_id"]].rubrics))
        assert [each["passed"] for each in one["verdicts"]] == found
        assert one["pass_rate"] == sum(found) / len(found)
    question = {request["messages"][-1]["content"] for request in judge.requests}
    for one in rollouts:
        task = tasks[one["prompt_id"]]
        (content,) = [each for each in question if _asks(each, task.prompt, one["text"])]
        assert f"exactly {len(task.rubrics)} rating" in content
        for number, criterion in enumerate(task.criteria, 1):
            assert f"\n{number}. " + "\n   ".join(criterion.strip().splitlines()) in content
    by_task = [
        sum(each["passed"] for each in one["verdicts"]) / len(one["verdicts"])
        for one in rollouts
        if one["split"] == "eval"
    ]
    assert lines(folder, METRICS)[1]["eval/pass_rate"] == pytest.approx(sum(by_task) / 100, abs=1e-12)


def _asks(content: str, prompt: str, response: str) -> bool:
    return f" BEGIN>>>\n{prompt}\n<<<TASK " in content and f" BEGIN>>>\n{response}\n<<<RESP" in content


def test_rewards_are_pass_rates_and_advantages_follow_from_them(whole: Path) -> None:
    metrics = lines(whole, METRICS)
    trained = [one for one in lines(whole, ROLLOUTS) if one["split"] == "train"]
    for step in range(2):
        rates: list[float] = []
        left_out = 0
        of_step = [one for one in trained if one["step"] == step]
        assert len(of_step) == 12
        for start in range(0, 12, 4):
            group = of_step[start : start + 4]
            assert len({one["prompt_id"] for one in group}) == 1
            passed = [sum(verdicts(one["text"], 4)) / 4 for one in group]
            mean = sum(passed) / 4
            constant = len(set(passed)) == 1
            left_out += constant
            for one, rate in zip(group, passed, strict=True):
                assert one["pass_rate"] == one["total"] == one["terms"]["rubric"] == rate
                assert one["advantage"] == (None if constant else rate - mean)
            rates += passed
        line = metrics[step]
        assert line["train/reward/total"] == line["train/pass_rate"] == sum(rates) / 12
        assert line["train/groups/left_out"] == left_out
        assert line["train/judge_failed"] == line["train/rollouts/failed"] == 0.0
    assert any("optim/grad_norm" in line for line in metrics), "nothing was learned"


def test_a_second_run_asks_nothing_and_ends_the_same(judged: Judged) -> None:
    first, second = judged.asked
    assert first > 0 == second
    assert judged.authorizations == {f"Bearer {KEY}"}
    same_bytes(judged.run, judged.second)
    paid, free = (lines(folder, LEDGER) for folder in (judged.run, judged.second))
    assert sum(one["calls"] for one in paid) == first
    assert {one["calls"] for one in free} == {0}
    assert all(one["from_cache"] == one["judged"] for one in free)


def test_the_key_is_in_no_file(place: Place, judged: Judged) -> None:
    secrets = [KEY.encode(), str(place.connection.key).encode()]
    seen = [*every_file(judged.run), *every_file(judged.home)]
    assert {path.name for path, _ in seen} >= {METRICS, ROLLOUTS, MANIFEST, LEDGER}
    for path, content in seen:
        assert not any(secret in content for secret in secrets), path


# Trouble


def test_trouble_is_tried_again_and_leaves_no_trace(
    place: Place, whole: Path, tmp_path: Path, clock: InstantClock
) -> None:
    field = refused(400, "Unsupported value: 'temperature' does not support 0.0", "temperature")
    trouble = [field, refused(429), SOON, Say(hang=True), NO_JSON, SHORT, LONG, Say(drop=True), EMPTY]
    with judge_server(*trouble, refused(503)) as judge:
        changes = {"judge_concurrency": "1", "judge_max_retries": "9", "judge_timeout_s": "2"}
        run(place.judged(tmp_path / "run", judge, **changes))
    same_bytes(tmp_path / "run", whole)
    assert any(7.0 <= wait < 8.0 for wait in clock.slept)
    ledger = lines(tmp_path / "run", LEDGER)
    assert sum(one["calls"] for one in ledger) == len(judge.requests)
    judged = sum(one["judged"] - one["from_cache"] for one in ledger)
    assert len(judge.requests) >= judged + len(trouble) + 1
    assert [one["left_out"] for one in ledger] == [["temperature"]] * len(ledger)


def test_what_cannot_be_judged_is_recorded_and_left_out_and_never_a_zero(place: Place, tmp_path: Path) -> None:
    script = [
        *(refused(429), SOON, Say(hang=True), JUDGING),  # one left: nothing to compare it with
        *(NO_JSON, JUDGING, SHORT, JUDGING),  # two left
        *(LONG, Say(drop=True), refused(500), EMPTY),  # none left
    ]
    folder = tmp_path / "run"
    changes = {"judge_concurrency": "1", "judge_max_retries": "0", "judge_timeout_s": "2"}
    with judge_server(*script) as judge:
        run(place.judged(folder, judge, zero_variance_filter="false", **changes))
    first = _in_order([one for one in lines(folder, ROLLOUTS) if one["step"] == 0])
    left = [number for number, one in enumerate(first) if "failure" not in one]
    assert left == [3, 5, 7]
    assert all(one["failure"]["where"] == "judge" for one in first if "failure" in one)
    causes = {one["failure"]["what"].split(":")[0] for one in first if "failure" in one}
    assert causes == {"rate_limited", "timed_out", "bad_answer", "disconnected", "server_error", "no_content"}
    messages = " ".join(one["failure"]["what"] for one in first if "failure" in one)
    assert all(why in messages for why in ("429", "not_json", "short", "long", "500"))
    failed = [one for one in first if "failure" in one]
    assert len(failed) == 9
    assert not any({"total", "terms", "pass_rate", "advantage"} & set(one) for one in failed)
    judged = [one for one in first if "failure" not in one]
    rates = [sum(verdicts(one["text"], 4)) / 4 for one in judged]
    assert [one["total"] for one in judged] == rates
    alone, one, other = judged
    assert alone["advantage"] is None
    mean = (one["total"] + other["total"]) / 2
    assert [one["advantage"], other["advantage"]] == [one["total"] - mean, other["total"] - mean]
    line = lines(folder, METRICS)[0]
    assert line["train/groups/left_out"] == 2.0
    assert line["train/rollouts/failed"] == 9.0
    assert line["train/judge_failed"] == 9 / 12
    assert line["train/reward/total"] == line["train/pass_rate"] == sum(rates) / 3
    assert manifest(folder)["status"] == "finished"


def _in_order(rollouts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a step's rollouts as the judge was asked: by group, then by place in it."""
    groups = list(dict.fromkeys(one["prompt_id"] for one in rollouts))
    return sorted(rollouts, key=lambda one: (groups.index(one["prompt_id"]), one["sample"]))


@pytest.mark.parametrize(
    ("always", "calls", "told"),
    [
        (refused(429, "slow down", None, "Retry-After: 20"), 24, "status 429"),
        (refused(429, "quota", None, "Retry-After: 90000"), 12, "90000 s of waiting"),
        (NO_JSON, 24, "no list of 4 ratings: not_json"),
        (refused(401, f"wrong key {KEY}"), 12, "does not take the key"),
    ],
)
def test_a_judge_that_never_answers_stops_the_run(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], always: Say, calls: int, told: str
) -> None:
    folder = tmp_path / "run"
    with judge_server(then=always) as judge:
        code, text = command(place.judged(folder, judge, judge_max_retries="1"), capsys)
    assert code == 3
    assert len(judge.requests) == calls
    assert told in text
    assert "at step 0" in text
    assert "goes on" in text
    assert KEY not in text
    assert manifest(folder)["status"] == "lost"
    assert lines(folder, ROLLOUTS) == []


def test_a_run_whose_judge_was_lost_goes_on_with_a_healthy_one_to_the_same_bytes(
    place: Place, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with judge_server(*[JUDGING] * 12, then=refused(400, f"no credit for {KEY}")) as judge:
        code, answer = command(place.judged(folder, judge), capsys)
    assert code == 3
    assert "at step 1: the judge gave no verdicts: status 400: no credit for ***" in answer
    assert not any(KEY.encode() in content for _, content in every_file(tmp_path))
    assert manifest(folder)["status"] == "lost"
    assert [mark["step"] for mark in lines(folder, CHECKPOINTS)] == [1]
    with judge_server() as judge:
        again = place.judged(folder, judge, behavior_if_log_dir_exists="resume")
        code, answer = command(again, capsys)
    assert code == 0, answer
    same_bytes(folder, whole)
    # What was paid before is told as well.
    assert [one["failed"] for one in lines(folder, LEDGER)][:3] == [0, 12, 0]


# Judges at home, and rules


@pytest.mark.parametrize("named", ["a name", "a path", "a folder"])
def test_a_judge_at_home_is_asked_at_home_and_with_the_homes_key(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    made: list[tuple[str | None, str | None, str]] = []

    def spied(settings: ChatSettings, *, cache: VerdictCache, api_key: str | None) -> ChatJudge:
        made.append((settings.judge_base_url, api_key, settings.judge_model))
        return ChatJudge(settings, cache=cache, api_key=api_key)

    monkeypatch.setattr(judge_choice, "ChatJudge", spied)
    asked = {"data_path": str(place.prose), "judge_max_tokens": "8", "judge_max_retries": "0"}
    small = {"group_size": "2", "groups_per_batch": "1", "judge_concurrency": "1"}
    keys = place.keys(tmp_path / "run", **asked, **small)
    if named == "a folder":
        keys |= {"judge_model": str(place.base), "model_name": str(place.base)}
        del keys["base_url"]
    else:
        keys["judge_model"] = "base" if named == "a name" else _saved(place.connection)
    with judge_server() as openai:
        monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
        code, sentence = command(keys, capsys)
    assert openai.requests == []
    # It was asked at home, and cannot judge: it writes no list of ratings in 8 tokens, or what it is asked about spells
    # one of its own control tokens, as a base that can hardly write does.
    assert code == 3
    assert "the judge gave no verdicts: " in sentence
    assert "an answer that is no list of 4 ratings: it was cut off" in sentence or "a message spells" in sentence
    ((url, key, model),) = made
    if named == "a folder":
        assert url.startswith("http://127.0.0.1:")
        assert model == "judge"
        assert key.startswith("tml-")
    else:
        assert url == f"{place.connection.base_url}/v1"
        assert model == keys["judge_model"]
        assert key == place.connection.key
    assert key != KEY


def _saved(connection: Connection) -> str:
    client = connection.client.create_lora_training_client(base_model="base", rank=4, seed=3)
    path = client.result().save_weights_for_sampler("judge").result().path
    assert path.startswith("tinker://")
    return path


def test_rules_need_no_key_and_go_on_to_the_same_bytes(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setattr(judge_choice, "ChatJudge", None)  # nobody may ask for one
    first, stopped = tmp_path / "first", tmp_path / "stopped"
    code, said = command(place.keys(first), capsys)
    assert code == 0, said
    keys = place.keys(stopped, behavior_if_log_dir_exists="resume")
    code, said = command({**keys, "stop_after": "1"}, capsys)
    assert code == 0, said
    assert [mark["step"] for mark in lines(stopped, CHECKPOINTS)] == [1]
    code, said = command(keys, capsys)
    assert code == 0, said
    same_bytes(stopped, first)
    assert not (tmp_path / "home" / "verdicts").exists()
