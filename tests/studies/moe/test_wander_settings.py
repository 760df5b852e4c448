"""What `moe/wander` can be told, and what it refuses."""

from __future__ import annotations

import pytest

from tinsmith.studies.moe.settings import MOE_NANO, Dtype, Engine, Side, wander_settings
from tinsmith.types.errors import ConfigError


def test_the_defaults() -> None:
    settings = wander_settings({})
    assert settings.model == MOE_NANO
    assert settings.batches == (8, 32)
    assert settings.sides == tuple(Side(engine, dtype) for engine in Engine for dtype in Dtype)
    assert not settings.dry_run


def test_sides_are_asked_in_their_own_order() -> None:
    assert wander_settings({"sides": "transformers,canonical"}).sides == (
        Side(Engine.CANONICAL, Dtype.FP32),
        Side(Engine.CANONICAL, Dtype.BF16),
        Side(Engine.TRANSFORMERS, Dtype.FP32),
        Side(Engine.TRANSFORMERS, Dtype.BF16),
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batches", "1,4"),
        ("batches", "4,4"),
        ("batches", "four"),
        ("sides", "canonical,vllm"),
        ("sides", ""),
        ("samples", "1"),
        ("tokens", "0"),
        ("base_steps", "-1"),
        ("dry_run", "perhaps"),
        ("promts", "4"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wander_settings({key: value})
    assert caught.value.field == key
    assert len(str(caught.value).splitlines()) <= 5
