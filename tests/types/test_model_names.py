"""A base model's name says which adapter is asked for: kind and alpha, which the Tinker API has no fields for."""

import pytest

from tinsmith.types.adapters import ALPHA, AdapterKind
from tinsmith.types.errors import ConfigError
from tinsmith.types.model_names import SUFFIXES, ModelName


@pytest.mark.parametrize(
    ("name", "base", "kind", "alpha"),
    [
        ("nano", "nano", AdapterKind.LORA, ALPHA),
        ("a/b:dora", "a/b", AdapterKind.DORA, ALPHA),
        ("a/b:qdora", "a/b", AdapterKind.QDORA, ALPHA),
        ("a/b:full", "a/b", AdapterKind.FULL, ALPHA),
        ("C:/models/x", "C:/models/x", AdapterKind.LORA, ALPHA),
        ("a/b:xyz", "a/b:xyz", AdapterKind.LORA, ALPHA),
        ("a/b:alpha=128", "a/b", AdapterKind.LORA, 128.0),
        ("a/b:qdora:alpha=0.5", "a/b", AdapterKind.QDORA, 0.5),
    ],
)
def test_kind_and_alpha_are_read_and_written(name: str, base: str, kind: AdapterKind, alpha: float) -> None:
    read = ModelName.parse(name)
    assert (read.base, read.kind, read.alpha) == (base, kind, alpha)
    assert str(read) == name


@pytest.mark.parametrize(
    ("name", "base", "kind", "alpha"),
    [
        ("a/b:router", "a/b", AdapterKind.LORA, ALPHA),
        ("a/b:qdora:router", "a/b", AdapterKind.QDORA, ALPHA),
        ("a/b:dora:router:alpha=128", "a/b", AdapterKind.DORA, 128.0),
    ],
)
def test_a_router_that_is_to_be_trained_is_read_and_written(
    name: str, base: str, kind: AdapterKind, alpha: float
) -> None:
    read = ModelName.parse(name)
    assert (read.base, read.kind, read.alpha, read.router) == (base, kind, alpha, True)
    assert str(read) == name
    assert not ModelName.parse(name.replace(":router", "")).router


def test_what_is_the_default_needs_no_ending() -> None:
    assert str(ModelName.parse(f"x:lora:alpha={ALPHA}")) == "x"


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "nan", "inf"])
def test_an_alpha_that_is_no_positive_number_is_refused_with_what_a_name_may_say(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelName.parse(f"x:dora:alpha={text}")
    assert caught.value.field == "base_model"
    assert all(kind.value in SUFFIXES for kind in AdapterKind)
