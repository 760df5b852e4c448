"""Clients that are taken for gone, by their last sign of life."""

from pathlib import Path

import pytest

from tinsmith.server.presence import Presence
from tinsmith.server.serve import ServeSettings
from tinsmith.types.errors import ConfigError

NANO = "tinsmith/nano"


@pytest.mark.parametrize("hours", [-1.0, float("nan")])
def test_hours_that_are_none_are_refused(hours: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--session-timeout"):
        ServeSettings(models={NANO: NANO}, state=tmp_path, session_timeout=hours)


def test_never_is_never() -> None:
    now = [0.0]
    presence = Presence(silent_seconds=0.0, clock=lambda: now[0])
    presence.began("s000001")
    now[0] = 1e12
    assert presence.silent() == presence.silent() == ()


def test_the_one_that_was_silent_longest_goes_first() -> None:
    now = [0.0]
    presence = Presence(silent_seconds=10.0, clock=lambda: now[0])
    for when, session in ((0.0, "a"), (1.0, "b.s1"), (2.0, "c")):
        now[0] = when
        presence.began(session)
    now[0] = 3.0
    presence.note("a:sample:1:0:sample")
    presence.ended("c")
    now[0] = 12.0
    assert presence.silent() == ()
    assert presence.silent() == ("b.s1",)
    now[0] = 13.0
    assert presence.silent() == ("b.s1",)
    assert presence.silent() == ("b.s1", "a")
    presence.ended("b.s1")
    presence.note("a")
    assert presence.silent() == ()


def test_a_result_of_an_ended_session_is_no_sign_of_its_life() -> None:
    now = [0.0]
    presence = Presence(silent_seconds=10.0, clock=lambda: now[0])
    presence.began("s1")
    presence.ended("s1")
    presence.note("s1:sample:1:0:sample")
    now[0] = 10.0
    assert presence.silent() == presence.silent() == ()
