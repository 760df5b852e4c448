"""`rubric_quality` with a judge behind an endpoint: both orders, what is sent, what is left out, the same bytes."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scripted_judge import KEY, Say, ScriptedJudge, completion, judge_server, ratings, refused

from tinsmith.lab.study.keys import measure_of
from tinsmith.studies.rubrics.quality.study import rubric_quality
from tinsmith.types.errors import LostError

pytestmark = pytest.mark.whole

GOOD, BAD = "a good one", "a bad one"


def write_pairs(path: Path, count: int) -> Path:
    rows = [
        {
            "pair_id": f"p{i:02}",
            "prompt": f"Task {i}.",
            "chosen": f"{GOOD} {i}",
            "rejected": f"{BAD} {i}",
            "rubrics": [f"It is good for {i}.", "It is one."],
        }
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fences(request: Any) -> dict[str, str]:
    user = request["messages"][-1]["content"]
    return dict(re.findall(r"<<<([A-Z ]+) DATA-\w+ BEGIN>>>\n(.*?)\n<<<", user, re.DOTALL))


def choose(prefer: Callable[[dict[str, str], str], str]) -> Say:
    """Prefers as told; rates "Yes" what is good, and everything as one."""

    def answer(request: Any) -> str:
        parts, user = fences(request), request["messages"][-1]["content"]
        if "RESPONSE" in parts:
            return completion(ratings("Yes" if GOOD in parts["RESPONSE"] else "No", "Yes"))
        preferred = prefer(parts, user)
        return completion(json.dumps({"preferred": preferred, "rationale": f"{preferred}."}))

    return Say(body=answer)


def by_criteria(parts: dict[str, str], user: str) -> str:
    """Always A without criteria; with those of its own task, the good one."""
    task = re.search(r"Task (\d+)\.", parts["TASK"])
    if f"good for {task[1]}." not in user:
        return "A"
    return "A" if GOOD in parts["RESPONSE A"] else "B"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def run(
    tmp_path: Path, server: ScriptedJudge, *, name: str = "out", count: int = 16, **keys: str
) -> tuple[Path, list[str]]:
    words: list[str] = []
    overrides: Mapping[str, str] = {
        "data_path": str(write_pairs(tmp_path / "pairs.jsonl", count)),
        "judge_model": "weak",
        "judge_base_url": server.url,
        "judge_max_retries": "0",
        "log_path": str(tmp_path / name),
        **keys,
    }
    return measure_of(rubric_quality, overrides)(words.append), words


def quality(folder: Path) -> Any:
    return json.loads((folder / "quality.json").read_text())


def contents(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.name != "spent.json"}


def test_both_orders_are_asked_and_a_judge_of_places_is_found_out(tmp_path: Path) -> None:
    with judge_server(then=choose(by_criteria)) as server:
        folder, text = run(tmp_path, server)
    requests = [fences(request) for request in server.requests]
    choices = [parts for parts in requests if "RESPONSE A" in parts]
    assert (len(choices), len(requests)) == (16 * 3 * 2, 16 * 3 * 2 + 16 * 2)
    assert sum(GOOD in parts["RESPONSE A"] for parts in choices) == len(choices) / 2
    found = quality(folder)
    without, own, other = found["accuracies"]
    assert without["positions"]["always_first"] == other["positions"]["always_first"] == 16
    assert (without["positions"]["first_share"], without["positions"]["right_both"]) == (1.0, 0)
    assert (own["value"], own["positions"]["same"], own["positions"]["first_share"]) == (1, 16, 0.5)
    # By places alone, the judge is right where the seed put the better one first.
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    first = [line["chosen_first"] for line in lines if line["condition"] == "without"]
    assert without["right"] == sum(first)
    assert found["gain"]["helped"] == 16 - sum(first)
    assert found["control"]["gain"] == 0.0
    assert found["idle_criteria"] == ["It is one."]
    assert "128 calls" in text[0]
    page = (folder / "report.html").read_text()
    assert "always A" in page
    assert KEY not in "".join(map(bytes.decode, contents(folder).values()))


def test_the_same_bytes_with_and_without_the_cache(tmp_path: Path) -> None:
    with judge_server(then=choose(by_criteria)) as server:
        first, _ = run(tmp_path, server)
        sent = len(server.requests)
        again, _ = run(tmp_path, server, name="again")
        assert len(server.requests) == sent
    assert contents(first) == contents(again)
    spent = [json.loads((folder / "spent.json").read_text()) for folder in (first, again)]
    assert (spent[0]["calls"], spent[0]["from_cache"]) == (sent, 0)
    assert (spent[1]["calls"], spent[1]["from_cache"]) == (0, sent)
    assert quality(first)["asking_once"]["calls"] == sent


def test_a_pair_without_every_answer_is_left_out_of_all_and_counted(tmp_path: Path) -> None:
    def broken(parts: dict[str, str], user: str) -> str:
        fails = "Task 3." in parts["TASK"] and "good for 3." in user
        return "neither" if fails else by_criteria(parts, user)

    with judge_server(then=choose(broken)) as server:
        folder, _ = run(tmp_path, server)
    found = quality(folder)
    assert (found["pairs"], found["left_out"], found["failures"]) == (15, 1, {"bad_answer": 2})
    assert {each["n"] for each in found["accuracies"]} == {15}
    criteria = {each["criterion"]: each["pairs"] for each in found["criteria"]}
    assert (len(criteria), criteria["It is one."], "It is good for 3." in criteria) == (16, 15, False)
    assert "p03" not in {
        json.loads(line)["pair_id"]
        for line in (folder / "answers.jsonl").read_text().splitlines()
        if json.loads(line)["right"] is None and json.loads(line)["condition"] != "own"
    }
    page = (folder / "report.html").read_text()
    assert "1 pair of 16" in page
    assert "answers that never came: bad answer" in page


# One pair without a control: four choices and two ratings.
@pytest.mark.parametrize(("answer", "calls"), [(refused(401), 2), (refused(503), 6)])
def test_a_judge_that_never_answers_stops_the_run_and_leaves_no_folder(tmp_path: Path, answer: Say, calls: int) -> None:
    with judge_server(then=answer) as server, pytest.raises(LostError) as error:
        run(tmp_path, server, count=1)
    assert len(server.requests) == calls
    assert KEY not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_sends_nothing_and_tells_calls_tokens_and_money(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('[models."weak"]\nprompt = 1000.0\ncompletion = 0.0\n')
    with judge_server(then=refused(500)) as server:
        folder, sentence = run(tmp_path, server, dry_run="true", prices=str(prices))
    assert server.requests == []
    assert not folder.exists()
    [messages, _] = sentence
    assert "128 calls" in messages
    tokens = int(re.findall(r"about ([\d,]+) tokens read", messages)[0].replace(",", ""))
    assert f"${tokens / 1000:.2f}" in messages
