"""Verdicts on the disk, and the cost of judging."""

from pathlib import Path

import pytest

from tinsmith.lab.judge.chat_judge import backoff
from tinsmith.lab.judge.prompting import (
    JudgeRequest,
    Question,
    VerdictCache,
    cache_key,
    cost_of,
    estimate_spent,
    load_prices,
    ratings_form,
    shown,
)
from tinsmith.lab.judge.records import Spent, Verdict
from tinsmith.types.errors import ConfigError
from tinsmith.types.http_answers import retry_after

VERDICTS = (Verdict(True, "Sí."), Verdict(False, ""))
FORM = ratings_form(2)
TEXT = FORM.text(VERDICTS)
PROMPT = Question("system", "user", FORM)


def test_an_entry_comes_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    cache, key = VerdictCache(tmp_path), cache_key("m", 0, PROMPT)
    assert cache.find(key, FORM) is None
    cache.keep(key, TEXT)
    assert cache.find(key, FORM) == VERDICTS
    assert cache.find(key, ratings_form(3)) is None
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [f"{key}.json"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"ratings": []}', b"\xff\xfe"])
def test_a_damaged_entry_is_none_and_is_replaced(tmp_path: Path, damage: bytes) -> None:
    cache, key = VerdictCache(tmp_path), cache_key("m", 0.0, PROMPT)
    cache.keep(key, TEXT)
    [path] = tmp_path.rglob("*.json")
    path.write_bytes(damage)
    assert cache.find(key, FORM) is None
    cache.keep(key, TEXT)
    assert cache.find(key, FORM) == VERDICTS


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("tinsmith.lab.judge.prompting.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        VerdictCache(tmp_path).keep("ab", TEXT)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_all_that_decides_an_answer_is_in_the_key() -> None:
    keys = {
        cache_key("m", 0.0, PROMPT),
        cache_key("n", 0.0, PROMPT),
        cache_key("m", 0.5, PROMPT),
        cache_key("m", 0.0, Question("system", "other", FORM)),
        cache_key("m", 0.0, Question("other", "user", FORM)),
    }
    assert len(keys) == 5
    assert cache_key("m", 0, PROMPT) in keys


def test_costs_are_computed_and_an_unknown_judge_has_none() -> None:
    prices = load_prices()
    spent = Spent(calls=1, prompt_tokens=2_000_000, completion_tokens=500_000)
    assert cost_of(prices, "gpt-5-mini", spent) == pytest.approx(2 * 0.25 + 0.5 * 2.0)
    assert cost_of(prices, "gpt-5-mini-2025-08-07", spent) == cost_of(prices, "gpt-5-mini", spent)
    assert cost_of(prices, "rules", spent) == 0.0
    assert cost_of(prices, "my-own", spent) is None
    assert [shown(x) for x in (None, 0.0, 0.00005, 0.5, 3.0)] == [
        "unknown", "$0.00", "$0.0001", "$0.5000", "$3.00",
    ]  # fmt: skip


def test_the_users_prices_come_over_the_shipped_ones(tmp_path: Path) -> None:
    mine = tmp_path / "prices.toml"
    mine.write_text('[models.my-own]\nprompt = 1\ncompletion = 0\n[models."gpt-5-mini"]\nprompt = 9\ncompletion = 9\n')
    prices, spent = load_prices(mine), Spent(prompt_tokens=1_000_000)
    assert cost_of(prices, "my-own", spent) == 1.0
    assert cost_of(prices, "gpt-5-mini", spent) == 9.0
    assert cost_of(prices, "gpt-5", spent) == cost_of(load_prices(), "gpt-5", spent)


@pytest.mark.parametrize(
    "text",
    [
        "[models.m]\nprompt = 1",
        '[models.m]\nprompt = "1"\ncompletion = 1',
        "[models.m]\nprompt = -1\ncompletion = 1",
        "[models.m]\nprompt = nan\ncompletion = 1",
        "[models.m]\nprompt = 1e300\ncompletion = 1",
        "[models.m]\nprompt = 1\ncompletion = 1\ncached = 1",
        '[model."m"]\nprompt = 1\ncompletion = 1',
        "m = 1",
        "",
        "models = 3",
        "models = [",
    ],
)
def test_a_wrong_price_table_is_refused_in_few_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load_prices(path)
    with pytest.raises(ConfigError, match="field: prices = "):
        load_prices(tmp_path / "none.toml")


def test_a_price_table_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_bytes(b"\xef\xbb\xbf[models.m]\nprompt = 1\ncompletion = 2\n")
    assert cost_of(load_prices(path), "m", Spent(prompt_tokens=1_000_000)) == 1.0
    path.write_bytes("[models.m]\nprompt = 1\ncompletion = 2\n".encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-8"):
        load_prices(path)


def test_an_estimate_counts_calls_criteria_and_the_response() -> None:
    one = JudgeRequest("Name a bird.", "", ("one", "two"))
    once, longer = (estimate_spent([one], response_tokens=n) for n in (0, 500))
    assert longer.prompt_tokens - once.prompt_tokens == 500
    assert 2 * 40 < once.completion_tokens < 200
    many = estimate_spent([one] * 8, response_tokens=0)
    assert (many.calls, many.prompt_tokens) == (8, 8 * once.prompt_tokens)
    assert many.estimated


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("-3", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:30 -0000", 20.0),
        ("Thu, 01 Jan 1970 00:00:05 GMT", 0.0),
        ("Thu, 99 Jan 1970 00:00:05 GMT", None),
    ],
)
def test_retry_after_is_read(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, None, 10.0) == seconds
    assert retry_after(value, "no date", 10.0) == seconds


def test_waits_double_up_to_a_cap() -> None:
    for attempt, whole in ((0, 0.5), (1, 1.0), (5, 16.0), (6, 30.0), (10_000, 30.0)):
        assert whole / 2 <= backoff(0, "key", attempt) < whole
