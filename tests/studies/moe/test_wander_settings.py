"""Keys of `moe/wander`, and what it refuses."""

from __future__ import annotations

import pytest

from tinsmith.lab.measurement import asked, keys_of
from tinsmith.studies.moe.study import wander
from tinsmith.types.errors import ConfigError


def test_every_key_has_a_default_and_words() -> None:
    keys = {key.name: key.default for key in keys_of(wander).own}
    assert (keys["batches"], keys["sides"]) == ("8,32", "canonical,fast,transformers")
    assert (keys["model"], keys["dry_run"]) == ("tinsmith/moe-nano", "false")
    assert all(key.words for key in keys_of(wander).own)


def test_sides_are_computed_in_their_own_order() -> None:
    said: list[str] = []
    asked(wander, {"sides": "transformers,canonical", "dry_run": "true"})(said.append)
    assert said[0].endswith("by canonical fp32, canonical bf16, transformers fp32, transformers bf16")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batches", "1,4"),
        ("batches", "4,4"),
        ("batches", "four"),
        ("sides", "canonical,vllm"),
        ("sides", ""),
        ("sides", "fast,fast"),
        ("samples", "1"),
        ("tokens", "0"),
        ("base_steps", "-1"),
        ("dry_run", "perhaps"),
        ("promts", "4"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        asked(wander, {key: value})
    assert caught.value.field == key
    assert len(str(caught.value).splitlines()) <= 5
