"""The collapse monitor: when it speaks, what it says, and that a resumed one says the same."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from sentences import missing
from tinsmith.stats.groups import LabelGroups
from tinsmith.stats.intervals import Interval
from tinsmith.stats.monitors import (
    IDLE_STEPS,
    MAX_IDLE,
    Alarm,
    AlarmKind,
    CollapseMonitor,
    ExpertMonitor,
    Limits,
    MonitorState,
    ResponseMonitor,
    Signals,
)
from tinsmith.stats.rates import Confusion
from tinsmith.types.errors import CheckpointError, ConfigError, DataError

LABELS = ("disruptive", "consolidating", "neutral")


def confusion(share: float, *, recall: float = 0.5) -> Confusion:
    """Return 300 items, `share` of them answered disruptive, the others with the given recalls."""
    first = round(100 * share)
    others = 100 - first
    right = round(others * recall)
    return Confusion(
        LABELS, np.array([[first, others, 0, 0], [first, right, others - right, 0], [first, others - right, right, 0]])
    )


def kinds(alarms: tuple[Alarm, ...]) -> list[tuple[AlarmKind, str | None]]:
    """Return what the alarms are about."""
    return [(alarm.kind, alarm.label) for alarm in alarms]


def test_a_ruling_label_is_told_after_three_evaluations_with_its_share() -> None:
    monitor = CollapseMonitor(LABELS)
    words = [monitor.observe_evaluation(Signals(step=10 * i, confusion=confusion(0.9))) for i in range(5)]
    assert [kinds(one) for one in words] == [[], [], [], [(AlarmKind.SHARE, "disruptive")], []]
    alarm = words[3][0]
    assert (alarm.step, alarm.value, alarm.threshold) == (30, 0.9, 0.75)
    assert missing(alarm.message, "disruptive", "90.0%") == []
    assert alarm.key == "alarm/predicted_share/disruptive"
    assert monitor.alarms == (alarm,)


def test_a_balanced_evaluation_ends_the_row_and_the_alarm_can_come_again() -> None:
    monitor = CollapseMonitor(LABELS, Limits(share_evaluations=2))
    shares = [0.9, 0.3, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9]
    answer = [
        monitor.observe_evaluation(Signals(step=i + 1, confusion=confusion(share))) for i, share in enumerate(shares)
    ]
    assert [i + 1 for i, one in enumerate(answer) if one] == [4, 8]


def test_a_lost_label_is_named() -> None:
    monitor = CollapseMonitor(LABELS)
    sentence = monitor.observe_evaluation(Signals(step=5, confusion=confusion(0.02)))
    assert kinds(sentence) == [(AlarmKind.RECALL, "disruptive")]
    assert missing(sentence[0].message, "disruptive", "0.020", "0.05", "2.0%") == []


def test_the_base_model_is_no_collapse() -> None:
    monitor = CollapseMonitor(LABELS)
    first = Signals(step=0, confusion=confusion(1.0), label_information=0.0, balanced_accuracy=Interval(0.3, 0.4, 0.95))
    assert monitor.observe_evaluation(first) == ()
    assert len(monitor.observe_evaluation(replace(first, step=1))) >= 3


def unread(answered: int, asked: int) -> Confusion:
    """Return `asked` items of the first label, of which `answered` are right and no other could be read."""
    counts = np.zeros((3, 4), dtype=np.int64)
    counts[0, 0], counts[0, 3] = answered, asked - answered
    return Confusion(LABELS, counts)


def nothing_read(step: int, answered: int = 0, asked: int = 40) -> Signals:
    """Return an evaluation at which every other alarm would be raised as well."""
    return Signals(
        step=step,
        confusion=unread(answered, asked),
        label_information=0.0,
        balanced_accuracy=Interval(0.0, 0.1, 0.95),
        train_reward=0.1 * step,
    )


def test_answers_that_cannot_be_read_are_the_only_alarm_at_step_0_too() -> None:
    monitor = CollapseMonitor(LABELS)
    (alarm,) = monitor.observe_evaluation(nothing_read(0))
    assert (alarm.kind, alarm.label, alarm.value) == (AlarmKind.UNREAD, None, 0.0)
    assert alarm.key == "alarm/unread"
    assert alarm.threshold == Limits().min_read
    assert all(monitor.observe_evaluation(nothing_read(step)) == () for step in range(1, 6))


def test_once_answers_are_read_the_other_alarms_are_raised_again() -> None:
    monitor = CollapseMonitor(LABELS)
    monitor.observe_evaluation(nothing_read(0))
    read = nothing_read(1, answered=40)
    assert AlarmKind.UNREAD not in {kind for kind, _ in kinds(monitor.observe_evaluation(read))}
    assert AlarmKind.INFORMATION in {alarm.kind for alarm in monitor.alarms}
    assert kinds(monitor.observe_evaluation(nothing_read(2))) == [(AlarmKind.UNREAD, None)]


@pytest.mark.parametrize(("answered", "asked", "told"), [(0, 3, False), (0, 4, True), (1, 40, True), (2, 40, False)])
def test_unread_takes_few_answers_of_enough(answered: int, asked: int, told: bool) -> None:
    monitor = CollapseMonitor(LABELS)
    assert bool(monitor.observe_evaluation(nothing_read(0, answered, asked))) is told


def test_a_training_step_without_a_readable_answer_is_told_once_and_quiets_the_groups() -> None:
    monitor = CollapseMonitor(LABELS, Limits(group_count=1))
    dead = {"neutral": groups(0, 40)}
    assert kinds(monitor.observe_answers(0, 0, 128)) == [(AlarmKind.UNREAD, None)]
    assert monitor.observe_groups(0, dead) == ()
    assert monitor.observe_answers(1, 2, 128) == ()
    assert monitor.observe_answers(2, 100, 128) == ()
    assert kinds(monitor.observe_groups(2, dead)) == [(AlarmKind.GROUPS, "neutral")]


def test_little_information_and_chance_are_told() -> None:
    monitor = CollapseMonitor(LABELS)
    good = Signals(
        step=1, confusion=confusion(0.4), label_information=0.05, balanced_accuracy=Interval(0.34, 0.4, 0.95)
    )
    assert monitor.observe_evaluation(good) == ()
    bad = replace(good, step=2, label_information=0.004, balanced_accuracy=Interval(0.33, 0.4, 0.95))
    said = monitor.observe_evaluation(bad)
    assert kinds(said) == [(AlarmKind.INFORMATION, None), (AlarmKind.CHANCE, None)]
    assert "0.0040 nats" in said[0].message
    assert said[1].key == "alarm/balanced_accuracy"


def test_chance_is_that_of_the_labels_that_occur() -> None:
    monitor = CollapseMonitor(LABELS, Limits(min_recall=0.0))
    counts = np.array([[30, 20, 0, 0], [20, 30, 0, 0], [0, 0, 0, 0]])
    signals = Signals(step=1, confusion=Confusion(LABELS, counts), balanced_accuracy=Interval(0.45, 0.7, 0.95))
    (alarm,) = monitor.observe_evaluation(signals)
    assert (alarm.kind, alarm.threshold) == (AlarmKind.CHANCE, 0.5)
    assert monitor.observe_evaluation(replace(signals, step=2, balanced_accuracy=Interval(0.51, 0.7, 0.95))) == ()


def test_a_rising_reward_with_a_falling_macro_f1_is_told_once_it_lasts() -> None:
    monitor = CollapseMonitor(LABELS, Limits(min_recall=0.0, share_evaluations=9))
    history = [(0.35, 0.8, 0.1), (0.35, 0.3, 0.2), (0.35, 0.3, 0.3), (0.35, 0.3, 0.4)]
    said = [
        monitor.observe_evaluation(Signals(step=i + 1, confusion=confusion(share, recall=recall), train_reward=reward))
        for i, (share, recall, reward) in enumerate(history)
    ]
    assert [kinds(one) for one in said] == [[], [], [(AlarmKind.GOODHART, None)], []]
    assert "since step 1" in said[2][0].message


def test_a_falling_reward_is_no_goodhart() -> None:
    monitor = CollapseMonitor(LABELS, Limits(min_recall=0.0))
    for step, (recall, reward) in enumerate([(0.8, 0.5), (0.3, 0.4), (0.3, 0.3)], start=1):
        signals = Signals(step=step, confusion=confusion(0.35, recall=recall), train_reward=reward)
        assert monitor.observe_evaluation(signals) == ()


def groups(informative: int, total: int) -> LabelGroups:
    """Return groups of two, the uninformative ones all wrong."""
    return LabelGroups(groups=total, informative=informative, all_wrong=total - informative)


def test_a_label_whose_groups_are_dead_is_told_when_enough_were_seen() -> None:
    monitor = CollapseMonitor(LABELS)
    row = {"disruptive": groups(0, 10), "neutral": groups(6, 10)}
    said = [monitor.observe_groups(step, row) for step in range(1, 5)]
    assert [kinds(one) for one in said] == [[], [], [(AlarmKind.GROUPS, "disruptive")], []]
    assert missing(said[2][0].message, "disruptive", "0.0%", "30") == []


def test_groups_leave_the_window() -> None:
    monitor = CollapseMonitor(LABELS, Limits(group_steps=2, group_count=20))
    dead, alive = {"neutral": groups(0, 10)}, {"neutral": groups(9, 10)}
    said = [monitor.observe_groups(i, row) for i, row in enumerate([dead, alive, alive, dead, dead])]
    assert [bool(one) for one in said] == [False, False, False, False, True]
    assert len(monitor.state().steps) == 2


def _fed(monitor: CollapseMonitor, steps: range) -> None:
    for step in steps:
        monitor.observe_groups(step, {"disruptive": groups(step % 2, 9)})
        signals = Signals(step=step, confusion=confusion(0.1 * step), train_reward=0.1 * step, label_information=0.02)
        monitor.observe_evaluation(signals)


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_resumed_monitor_goes_on_with_the_same_alarms(cut: int) -> None:
    whole = CollapseMonitor(LABELS)
    _fed(whole, range(1, 11))
    assert whole.alarms
    before, after = CollapseMonitor(LABELS), CollapseMonitor(LABELS)
    _fed(before, range(1, cut))
    after.restore(msgspec.json.decode(msgspec.json.encode(before.state()), type=MonitorState))
    _fed(after, range(cut, 11))
    assert after.state() == whole.state()


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(CheckpointError, match="another task"):
        CollapseMonitor(LABELS).restore(MonitorState(share_streaks=(0, 0)))
    with pytest.raises(DataError, match="other labels"):
        CollapseMonitor(("a", "b")).observe_evaluation(Signals(step=1, confusion=confusion(0.5)))


@pytest.mark.parametrize("limits", [{"max_share": 75.0}, {"share_evaluations": 0}, {"min_information": -1.0}])
def test_limits_are_checked(limits: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        Limits(**limits)


OVER = MAX_IDLE + 0.1


@pytest.mark.parametrize(
    ("shares", "steps"),
    [
        ([OVER] * 6, [2]),
        ([OVER, OVER, 0.0, OVER, OVER, OVER, OVER], [5]),
        ([OVER] * 3 + [0.1] + [OVER] * 3, [2, 6]),
        ([MAX_IDLE] * 9, []),
        ([OVER, 0.0] * 5, []),
    ],
)
def test_an_alarm_begins_when_many_experts_have_been_idle_for_some_steps(shares: list[float], steps: list[int]) -> None:
    assert IDLE_STEPS == 3
    monitor = ExpertMonitor()
    begun = [alarm for step, share in enumerate(shares) for alarm in monitor.observe(step, share)]
    assert [alarm.step for alarm in begun] == steps
    for alarm in begun:
        assert (alarm.kind, alarm.value, alarm.key) == (AlarmKind.IDLE_EXPERTS, OVER, "alarm/idle_experts")


DOORS = "abcd"


def _drawn(answers: Sequence[Sequence[str]], right_share: float = 0.0) -> list[AlarmKind]:
    """Return the alarms of an evaluation with these responses to each prompt."""
    texts = [(str(prompt), text) for prompt, drawn in enumerate(answers) for text in drawn]
    return [alarm.kind for alarm in ResponseMonitor(right_share).observe(1, texts)]


@pytest.mark.parametrize(
    ("answers", "right_share", "alarmed"),
    [
        ([[DOORS[(prompt + n) % 4] for n in range(8)] for prompt in range(20)], 0.0, False),
        ([[DOORS[prompt % 4]] * 7 + [DOORS[(prompt + 1) % 4]] for prompt in range(20)], 0.25, False),
        ([["ab"[prompt >= 52]] * 2 for prompt in range(100)], 0.52, False),
        ([["a"] * 7 + ["b"] for _ in range(20)], 0.5, True),
        ([["a"] * 8 for _ in range(20)], 0.9, True),
        ([["a"] * 5 + list("bcd") for _ in range(20)], 0.0, True),
    ],
    ids=["even", "right", "right of two", "one of two", "one of ten", "five of eight"],
)
def test_one_text_for_every_prompt_is_told_by_its_share_beyond_what_is_right(
    answers: list[list[str]], right_share: float, alarmed: bool
) -> None:
    assert _drawn(answers, right_share) == [AlarmKind.SAME_TEXT] * alarmed
