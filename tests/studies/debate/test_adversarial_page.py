"""The examples of docs/adversarial.md run as they stand; its table of returns is that of the rewards."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from small_study import PAPERS

from tinsmith.lab.labels.contracts import FOUR_KEY, Confidence
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.runs.files import METRICS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.step_reward import Scored
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.debate.challenge import Arm, Stance
from tinsmith.studies.debate.rewards import DEBATE_REWARDS, Exchange

PAGE = (Path(__file__).parents[3] / "docs" / "adversarial.md").read_text(encoding="utf-8")
TALK, COOKBOOK = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_conversation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(TALK, "adversarial.md", "exec"), names)
    assert names["found"].total == 1.45
    lines = capsys.readouterr().out
    assert "We introduce a new class" in lines
    assert "correctness" in lines


def test_the_cookbooks_example_runs(connection: Connection, tmp_path: Path) -> None:
    made = connection.client.create_lora_training_client(base_model="base", rank=1, seed=0)
    tokenizer = made.result(WAIT_SECONDS).get_tokenizer()
    settings = RlSettings(
        steps=1,
        learning_rate=1e-3,
        lora_rank=2,
        group_size=2,
        groups_per_batch=2,
        eval_every=0,
        save_every=0,
        max_tokens=4,
    )
    names: dict[str, Any] = {
        "papers": PAPERS.train[:2],
        "renderer": renderer_for(tokenizer),
        "tokenizer": tokenizer,
        "settings": settings,
        "service": connection.client,
        "model_name": "base",
        "folder": tmp_path / "run",
    }
    short = COOKBOOK.replace("groups_per_batch=16, group_size=8", "groups_per_batch=2, group_size=2")
    assert short != COOKBOOK
    exec(compile(short, "adversarial.md", "exec"), names)
    assert (tmp_path / "run" / METRICS).is_file()


def returns(reward: str, first: str, last: str, *, grounded: bool | None = None) -> float:
    gold = FOUR_KEY.labels[0]

    def answer(label: str) -> Any:
        return FOUR_KEY.parse(FOUR_KEY.answer_text(label, Confidence.LOW))

    exchange = Exchange(
        item=dataclasses.replace(PAPERS.train[0], golds=(gold,)),
        first=answer(first),
        last=answer(last),
        stance=Stance(
            arm=Arm.TRUTHFUL if grounded else Arm.NULL,
            label=gold if grounded else None,
            with_evidence=bool(grounded),
            grounded=grounded,
        ),
        challenge="Are you sure?",
        reasons=None,
    )
    return Scored(terms=DEBATE_REWARDS[reward].terms(exchange)).total


def test_the_table_of_returns_is_the_rewards() -> None:
    right, wrong, other = FOUR_KEY.labels
    table = {
        "right, right": [(right, right)],
        "wrong, right": [(wrong, right), (other, right)],
        "wrong, wrong": [(wrong, wrong), (wrong, other)],
        "right, wrong": [(right, wrong), (right, other)],
    }
    for name, ways in table.items():
        [row] = re.findall(rf"^\| {name} \| (.*) \| (.*) \|$", PAGE, flags=re.MULTILINE)
        for first, last in ways:
            seeds = {returns("adversarial/seed", first, last, grounded=one) for one in (None, True)}
            assert {row[0]} == {f"{one}" for one in seeds}
            plain, spoken = (returns("adversarial/gated", first, last, grounded=one) for one in (None, True))
            if name == "wrong, wrong":
                messages = f"-0.8 kept where nothing spoke, else {spoken}"
                assert plain == (-0.8 if first == last else spoken)
            elif plain != spoken:
                messages = f"{spoken} after words that speak, else {plain}"
            else:
                messages = f"{spoken}"
            assert row[1] == messages
