"""Rewards that see all answers of a step: a judge in a user's own file, and one that remembers; the page's examples."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from own_task import lines

from command_line import command
from tinsmith import Conversation, Failed, Scored, StepReward, Task, judged
from tinsmith.lab.judge.records import FailureCause, JudgeFailure, Spent
from tinsmith.lab.rollouts import Failure, Rollout, Turn
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.user_task.dialogue import Earned, score_step
from tinsmith.lab.user_task.entry import open_task, task_help
from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.items import split_items
from tinsmith.lab.user_task.run_data import TaskBaseRecipe, task_data
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.lab.user_task.task import Base, Turns
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.renderer import Renderer
from tinsmith.renderers.tokenizer import train_tokenizer
from tinsmith.types.errors import ConfigError, DataError, JudgeError, TinsmithError

NO_CONNECTION = cast(Connection, None)  # A reward that is a function opens nothing on a server.
PAGE = Path(__file__).parents[3] / "docs" / "your-task.md"
KEYS = ("steps=2", "group_size=2", "groups_per_batch=1", "lora_rank=4", "learning_rate=2e-3", "eval_samples=1")
MORE = ("eval_every=1", "save_every=1", "max_tokens=4", "quiet=true", "model_name=tinsmith/nano")


def example(word: str) -> str:
    """Return the page's example that has a word in it."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [each for each in blocks if word in each]
    return str(block)


def defined(word: str) -> Task:
    names: dict[str, Any] = {}
    exec(compile(example(word), str(PAGE), "exec"), names)
    task = names["task"]
    assert isinstance(task, Task)
    return task


def asked(text: str, item: object = None) -> Conversation:
    return Conversation(item=item, replies=(text,), text=text)


def test_the_pages_judge_rewards_the_share_of_criteria_that_hold() -> None:
    task = defined("judged(")
    assert task.terms == ("rubric",)
    (sea, _) = task.items
    found = score_step(task, [asked("The sea is wide.", sea), asked("Tea.", sea), asked("sea " * 13, sea)])
    assert [one.total for one in found if isinstance(one, Earned)] == [1.0, 0.5, 0.5]


def test_the_pages_novelty_remembers_earlier_steps_and_restores_its_state() -> None:
    task = defined("Novelty")
    reward = task.reward
    first = score_step(task, [asked("a"), asked(""), asked("b")])
    assert [one.total if isinstance(one, Earned) else one.where for one in first] == [1.0, "reward", 1.0]
    state = reward.state()
    assert [one.total for one in score_step(task, [asked("a")]) if isinstance(one, Earned)] == [0.5]
    reward.restore(state)
    assert reward.trace() == {"texts": 3}


def test_a_line_has_the_score_where_it_is_not_the_pass_rate() -> None:
    rules = ["rule: contains 'good'", "rule: contains 'bad'"]
    by_score = judged(lambda _: rules, str, lambda _, passed: float(passed[0] - passed[1]))
    for reward, more in ((judged(lambda _: rules, str), {}), (by_score, {"terms": {"rubric": -1.0}, "total": -1.0})):
        (found,) = reward([asked("bad")])
        assert isinstance(found, Scored)
        line = dict(reward.line(found))
        assert line.pop("verdicts")
        assert line == {"pass_rate": 0.5, **more}


class Odd(StepReward):
    """Gives what it is told to."""

    def __init__(self, *given: object) -> None:
        self.given = given

    def __call__(self, answers: Sequence[Conversation]) -> Any:
        del answers
        return self.given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("one",), "str"),
        ((Scored(terms={"other": 1.0}),), "other"),
        ((Scored(terms={"reward": float("nan")}),), "nan"),
        ((Scored(terms={"reward": 1.0}),) * 2, "2 rewards for 1"),
        ((Failed("checker", "not there"),), "not there"),
    ],
)
def test_what_is_no_reward_is_a_failure_and_no_zero(given: tuple[object, ...], words: str) -> None:
    (found,) = score_step(Task(items=["x"], prompt="{item}", reward=Odd(*given)), [asked("a")])
    assert words in found.what


def test_baselines_beside_a_reward_of_a_step_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        Task(items=["x"], prompt="{item}", reward=Odd(), baselines={"none": lambda _: ""})
    assert refused.value.field == "baselines"


def test_a_judged_task_has_the_judges_keys_and_others_do_not() -> None:
    task = Task(items=["x", "y"], prompt="{item}", reward=judged(lambda _: ["It is kind."], str))
    assert open_task(task_value(task), {"judge_model": "judge-1"}).resolved()["judge_model"] == "judge-1"
    plain = Task(items=["x", "y"], prompt="{item}", reward=lambda _item, _text: 1.0)
    with pytest.raises(ConfigError) as refused:
        open_task(task_value(plain), {"judge_model": "judge-1"})
    assert refused.value.field == "judge_model"


def _judged_task(criteria: Any = lambda _: ["rule: contains 'good'"], prompt: Any = str, **more: Any) -> Task:
    return Task(items=list("abcdef"), prompt="{item}", reward=judged(criteria, prompt), **more)


def _refused(task: Task) -> TinsmithError:
    with pytest.raises(TinsmithError) as refused:
        task_data(open_task(task_value(task), {}))
    return refused.value


def test_prose_among_tested_items_or_of_a_control_is_refused_where_rules_judge() -> None:
    prose = judged(lambda _: ["It is kind."], str)
    own = _judged_task(lambda item: ["rule: contains 'good'"] if item in "abcdef" else ["It is kind."], tested=["t"])
    rules = _judged_task(tested=["t"])
    controlled = replace(rules, controls={"test_other": replace(rules, tested=(), reward=prose)})
    assert [_refused(task).field for task in (own, controlled)] == ["judge_model", "judge_model"]


def test_a_mistake_in_criteria_prompt_or_conversations_is_refused_under_its_name() -> None:
    def raises(*_: Any) -> Any:
        raise KeyError("oops")

    assert _refused(_judged_task(criteria=raises)).field == "criteria"
    assert _refused(_judged_task(prompt=raises)).field == "prompt"
    task = replace(_judged_task(), base=Base(TaskBaseRecipe(), raises))
    with pytest.raises(DataError) as refused:
        task_data(open_task(task_value(task), {})).missing_base()
    assert refused.value.field == "conversations"


@pytest.mark.parametrize("criteria", ["polite", None, [1]])
def test_criteria_that_are_no_list_of_texts_are_refused(criteria: Any) -> None:
    task = _judged_task(criteria=lambda _: criteria)
    with pytest.raises(DataError) as refused:
        score_step(task, [asked("good", "a")])
    for error in (refused.value, _refused(task)):
        assert (error.field, error.value) == ("criteria", criteria)
        assert error.allowed


def test_the_price_of_a_judge_has_its_test_of_which_test_items_may_take_a_part() -> None:
    task = _judged_task(tested=list("tuvwxyz"))
    keys = {"steps": "1", "group_size": "2", "groups_per_batch": "1", "eval_every": "0", "eval_samples": "2"}
    evaluated = 3 * len(task_data(open_task(task_value(task), keys)).split.held_out)
    for more, count in (({}, 7), ({"test_items": "4"}, 4)):
        line = task_data(open_task(task_value(task), {**keys, **more})).before()[1]
        assert int(line.split()[0]) == 2 + evaluated + 3 * count


@pytest.mark.parametrize(
    ("turns", "trained", "begins"),
    [
        (Turns(lambda *_: None, most=2, forks=4), 3 * 2 * 4, ""),
        (Turns(lambda *_: None, most=1, forks=4), 3 * 2, ""),
        (Turns(lambda *_: None, most=2, deepest=1), 3 * 2, "at least "),
    ],
)
def test_the_price_of_a_judge_has_every_fork(turns: Turns, trained: int, begins: str) -> None:
    keys = {"steps": "3", "group_size": "2", "groups_per_batch": "1", "eval_every": "0", "eval_samples": "1"}
    data = task_data(open_task(task_value(_judged_task(turns=turns)), keys))
    evaluated = 2 * len(data.split.held_out)
    line = data.before()[1]
    assert line.startswith(f"{begins}{trained + evaluated} responses to judge: {trained} in training")


def test_help_lists_the_keys_of_the_kind_that_is_named_and_the_kinds() -> None:
    source = task_value(Task(items=["x", "y"], prompt="{item}", reward=lambda _item, _text: 1.0))
    keys = {kind: {key.name: key for key in task_help(source, {"kind": kind})[1]} for kind in ("task", "task_sft")}
    assert ("group_size" in keys["task"], "group_size" in keys["task_sft"]) == (True, False)
    assert set(keys["task_sft"]["kind"].values.values()) == {"task_sft"}
    assert "task, task_sparse, task_sft" in keys["task"]["kind"].words


def test_numbers_by_size_of_model_are_the_sizes_alone() -> None:
    keys = {"max_tokens": 9, "small": {"steps": 7}, "nano": {"steps": 5}}
    task = Task(items=["x", "y"], prompt="{item}", reward=lambda _item, _text: 1.0, keys=keys)
    assert {at: open_task(task_value(task), {"at": at}).settings.steps for at in ("nano", "small")} == {
        "nano": 5,
        "small": 7,
    }
    assert open_task(task_value(task), {"at": "seed"}).settings.max_tokens == 9


def test_what_an_interrupted_step_has_paid_for_is_in_the_ledger() -> None:
    class Interrupted:
        spent = Spent(calls=8)

        def judge_all(self, requests: Sequence[object]) -> list[Any]:
            raise KeyboardInterrupt(len(requests))

        def close(self) -> None: ...

    ledger: list[tuple[Mapping[str, int], Spent]] = []
    opened = defined("judged(").reward.opened(Interrupted(), lambda *line: ledger.append(line))
    with pytest.raises(KeyboardInterrupt):
        opened([asked("a", {"rubric": ["rule: contains 'a'"], "ask": ""})])
    assert ledger == [({}, Spent(calls=8))]


def test_a_judge_that_fails_on_everything_ends_the_step() -> None:
    reward = defined("judged(").reward

    class Lost:
        def judge_all(self, requests: Sequence[object]) -> list[Any]:
            return [JudgeFailure(cause=FailureCause.TIMED_OUT, detail="no answer", spent=Spent()) for _ in requests]

        def close(self) -> None: ...

    messages: list[int] = []
    opened = reward.opened(Lost(), lambda counts, _: messages.append(counts["failed"]))
    with pytest.raises(JudgeError):
        opened([asked("a", {"rubric": ["rule: contains 'a'"], "ask": ""})] * 2)
    assert messages == [2]


@pytest.mark.whole
def test_runs_on_the_pages_examples_keep_verdicts_and_go_on_to_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, word in (("kind", "judged("), ("novel", "Novelty")):
        (tmp_path / f"{name}.py").write_text(example(word))
    command(capsys, "run", "kind.py", *KEYS, *MORE, "log_path=kind", code=0)
    verdicts = [one["verdicts"] for one in lines(tmp_path / "kind", "rollouts.jsonl")]
    assert {len(each) for each in verdicts} == {2}
    assert len(lines(tmp_path / "kind", "judge.jsonl")) >= 4
    assert "Criteria" in (tmp_path / "kind" / "report.html").read_text()

    command(capsys, "run", "novel.py", *KEYS, *MORE, "log_path=whole", code=0)
    command(capsys, "run", "novel.py", *KEYS, *MORE, "log_path=parts", "stop_after=1", code=0)
    command(capsys, "run", "novel.py", *KEYS, *MORE, "log_path=parts", code=0)
    for file in ("rollouts.jsonl", "metrics.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()
    trained = [one for one in lines(tmp_path / "whole", "rollouts.jsonl") if one["split"] == "train"]
    assert [one["before"] for one in trained[:2]] == [0, 0], "an evaluation does not enter the state"
    assert lines(tmp_path / "whole", "metrics.jsonl")[1]["reward/texts"] >= 1


def test_an_answer_whose_score_raises_fails_alone() -> None:
    def inverse(item: Any, passed: Sequence[bool]) -> float:
        del passed
        return 1.0 / item

    reward = judged(lambda _: ["rule: has at most 12 words"], str, score=inverse)
    task = Task(items=[1, 2], prompt="{item}", reward=reward)
    found = score_step(task, [asked("a", 1), asked("b", 0), asked("c", 2)])
    assert [one.total if isinstance(one, Earned) else one.where for one in found] == [1.0, "score", 0.5]


def test_an_item_counts_once_in_every_figure_of_a_judge() -> None:
    passed, lost = (Scored(terms={"rubric": rate}, record={"pass_rate": rate}) for rate in (1.0, 0.0))
    found = judged(lambda _: [], str).figures([[passed, *[Failed("judge", "x")] * 3], [lost] * 4])
    assert (found["pass_rate"], found["score"], found["all_passed"]) == (0.5, 0.5, 0.5)


def test_answers_that_a_judged_task_lost_are_told_beside_what_the_judge_lost(renderer: Renderer) -> None:
    def strict(_item: str, passed: Sequence[bool]) -> float:
        if not passed[0]:
            raise ValueError("no score")
        return 1.0

    reward = judged(lambda _: ["rule: contains 'a'"], str, score=strict)
    found = figures_of(reward, renderer)
    assert found("aaba")["eval/failed"] == 0.25
    assert "eval/failed" not in found("aa")


class Counting(StepReward):
    """Reward that states its own share of failures, or leaves that to the task."""

    def __init__(self, states: bool) -> None:
        self.states = states

    def __call__(self, answers: Sequence[Conversation]) -> Sequence[Scored | Failed]:
        return [Scored(terms={"reward": 1.0}) if one.text == "a" else Failed("reward", "lost") for one in answers]

    def figures(self, groups: Sequence[Sequence[Scored | Failed]]) -> dict[str, float] | None:
        return {"failed": len(groups) / 8} if self.states else None


def test_a_share_of_failures_has_the_bits_of_published_runs_and_a_rewards_own_stays(renderer: Renderer) -> None:
    assert figures_of(Counting(states=False), renderer)("aab")["eval/failed"] == 1.0 - 2 / 3 != 1 / 3
    assert figures_of(Counting(states=True), renderer)("aab")["eval/failed"] == 0.125


def figures_of(reward: StepReward, renderer: Renderer) -> Callable[[str], dict[str, float]]:
    """Return the figures of one group of one-letter answers that a reward scores."""
    task = Task(items=["q"], prompt="{item}", held_out=0.0, reward=reward)
    subject = UserSubject(task=task, split=split_items(task, Path(), 0), renderer=renderer)
    (item,) = subject.split.train

    def group(texts: str) -> list[Rollout[Any, Earned] | Failure[Any]]:
        turn = Turn(observation=(1,), tokens=(2,), logprobs=(-0.1,), text="")
        answers = score_step(task, [asked(text, "q") for text in texts])
        return [
            Rollout(item=item, sample=n, turns=(turn,), answer=answer)
            if isinstance(answer, Earned)
            else Failure(item=item, sample=n, where=answer.where, what=answer.what)
            for n, answer in enumerate(answers)
        ]

    return lambda texts: subject.figures([group(texts)], "eval")


def test_one_text_is_held_against_the_right_answers_of_the_items_that_are_evaluated(tmp_path: Path) -> None:
    evaluated, tokenizer = set[str](), train_tokenizer(builtin_corpus(num_sentences=200), 400)
    task = Task(
        items=[str(n) for n in range(40)],
        prompt="{item}",
        held_out=0.5,
        reward=lambda _item, _text: 1.0,
        answer=lambda item: "left" if item in evaluated else "right",
    )
    data = task_data(open_task(task_value(task), {"eval_items": "4"}))
    evaluated |= {one.item for one in data.course(tokenizer, RunFolder(tmp_path), NO_CONNECTION).validation_items}
    course = data.course(tokenizer, RunFolder(tmp_path), NO_CONNECTION)
    assert len(evaluated) == 4
    assert course.watch.monitor is not None
    assert not course.watch.monitor.observe(1, [(one.prompt_id, "left") for one in course.validation_items])
