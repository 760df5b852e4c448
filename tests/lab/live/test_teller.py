"""Account of a run for a person: lines in a pipe, a table redrawn in a terminal, and each alarm once in both."""

import io
from itertools import pairwise
from threading import Event

import pytest

from command_line import Terminal
from tinsmith.lab.live.progress import Standing
from tinsmith.lab.live.teller import Teller
from tinsmith.stats.monitors import Alarm, AlarmKind


def alarm(step: int, label: str = "neutral") -> Alarm:
    return Alarm(AlarmKind.RECALL, label, 0.0, 0.05, step, f"{label} is hardly ever found")


def standing_at(step: int) -> Standing:
    return Standing(step=step, steps=4, seconds_left=4.0 - step)


def tell(out: io.StringIO, *, quiet: bool = False) -> Teller:
    """Tell of four steps, of which every second one was evaluated, and of an alarm in each of these."""
    teller = Teller(name="family/rung", steps=4, out=out, quiet=quiet)
    for step in range(5):
        metrics = {"train/reward/total": 0.25}
        if step % 2 == 0:
            metrics["eval/macro_f1"] = step / 8
        alarms = [alarm(step)] if step % 2 == 0 else []
        teller.step(standing_at(step), metrics, alarms)
    teller.say("a word")
    teller.close()
    return teller


def test_in_a_pipe_an_evaluation_is_a_line_and_an_alarm_is_told_once() -> None:
    out = io.StringIO()
    tell(out)
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines if "macro-F1" in line] == [
        f"family/rung: step {step}/4" for step in (0, 2, 4)
    ]
    assert sum("ALARM" in line for line in lines) == 1
    assert lines[-1] == "family/rung: a word"
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()


def test_an_alarm_on_another_label_is_another_alarm() -> None:
    out = io.StringIO()
    teller = Teller(name="family/rung", steps=4, out=out)
    for step, label in enumerate(("neutral", "disruptive", "neutral")):
        teller.step(standing_at(step), {}, [alarm(step, label)])
    assert sum("ALARM" in line for line in out.getvalue().splitlines()) == 2


def test_in_a_terminal_a_table_is_redrawn_and_its_last_state_has_every_evaluation_and_the_alarm_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    tell(out)
    text = out.getvalue()
    assert "\x1b[1A" in text, "the cursor goes up to draw over what was there"
    last = text[text.rindex("step 4/4") :]
    assert last.count("ALARM") == 1
    figures = [line.split() for line in last.splitlines() if line.strip()[:1].isdigit()]
    assert [(row[0], row[2]) for row in figures] == [("0", "0.000"), ("2", "0.250"), ("4", "0.500")]


def test_quiet_tells_nothing() -> None:
    for out in (io.StringIO(), Terminal()):
        tell(out, quiet=True)
        assert out.getvalue() == ""


def test_in_a_pipe_steps_have_lines_ever_more_seldom_without_evaluations() -> None:
    out, now = io.StringIO(), 0.0
    teller = Teller(name="family/rung", steps=400, out=out, clock=lambda: now)
    for step in range(400):
        now = step / 2
        teller.step(standing_at(step), {"train/reward/total": 0.25}, [])
    seconds = [int(line.split()[2].partition("/")[0]) / 2 for line in out.getvalue().splitlines()]
    gaps = [later - sooner for sooner, later in pairwise(seconds)]
    assert gaps[:5] == [1.0] * 5
    assert all(gap <= max(2.0, sooner / 10) for sooner, gap in zip(seconds, gaps, strict=False)), "no seconds counted"
    assert len(seconds) < 80


def test_in_a_pipe_the_first_step_is_told_of_while_it_lasts_and_a_quiet_one_is_not() -> None:
    written = Event()

    class Pipe(io.StringIO):
        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    out, quiet = Pipe(), io.StringIO()
    with Teller(name="family/rung", steps=4, out=quiet, quiet=True).ticking():
        pass
    with Teller(name="family/rung", steps=4, out=out).ticking():
        assert written.wait(60.0)
    assert out.getvalue().startswith("family/rung: first step, ")
    assert quiet.getvalue() == ""
