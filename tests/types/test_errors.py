"""Errors that list what is allowed say which of it was probably meant; names that are only a little alike are not."""

import copy
import pickle
from dataclasses import dataclass, field, replace

import pytest

from tinsmith.types.arguments import KnownArguments
from tinsmith.types.errors import ConfigError, DataError, near, no_such, perhaps

KEYS = (
    *("batch_size", "check_reward", "group_size", "learning_rate", "lora_rank", "seed", "steps", "temperature"),
    *("threads",),
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("stpes", ["steps"]),
        ("sede", ["seed"]),
        ("group-siz", ["group_size"]),
        ("groupsize", ["group_size"]),
        ("Steps", ["steps"]),
        ("temp", ["temperature"]),
        ("size", []),
        ("reward", []),
        ("out", []),
    ],
)
def test_a_name_is_near_where_a_slip_explains_the_difference(typed: str, meant: list[str]) -> None:
    assert near(typed, KEYS) == meant


def test_a_rung_without_its_family_is_near() -> None:
    for typed in ("exp6", "Exp6"):
        assert near(typed, ["ladder/exp4", "remedy/exp6"])[0] == "remedy/exp6"


def test_an_error_with_a_list_of_names_says_the_nearest() -> None:
    error = ConfigError("there is no such size", field="size", value="smalest", allowed=("smallest", "nano"), fix="x")
    assert (error.allowed, error.fix) == ("smallest, nano", "perhaps smallest")
    assert error.located_at("line 3").fix == error.reworded(str.upper).fix == "perhaps smallest"


def test_the_field_is_what_was_typed_where_there_is_no_value() -> None:
    error = DataError("there is no such field", field="key[0].nam", allowed=("name", "key"))
    assert error.fix == "perhaps name"


@pytest.mark.parametrize("value", ["zzz", "nano", 3, None])
def test_a_value_that_is_like_none_leaves_the_fix_as_it_is(value: object) -> None:
    error = ConfigError("not so", field="size", value=value, allowed=("smallest", "nano"), fix="leave it out")
    assert error.fix == "leave it out"


def test_an_empty_list_of_names_is_said_to_allow_none() -> None:
    assert ConfigError("no such", field="x", value="y", allowed=()).allowed == "none"


def test_many_names_are_not_listed() -> None:
    error = no_such("key", field="x", value="y", name="stpes", known=[*KEYS, *"abcdef"], listed_by="tinsmith run")
    assert (error.allowed, error.fix) == (None, "perhaps steps; tinsmith run lists all 15")
    assert perhaps("zzz", KEYS) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk(KnownArguments):
    steps: int = 1
    away: bool = field(default=True, init=False)


def test_a_mistyped_argument_of_a_class_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        Walk(stpes=3)  # type: ignore[call-arg]
    assert isinstance(caught.value, TypeError)
    assert (caught.value.field, caught.value.value, caught.value.fix) == ("stpes", 3, "perhaps steps")
    with pytest.raises(ConfigError):
        Walk(away=False)  # type: ignore[call-arg]


def test_a_class_that_knows_its_arguments_is_replaced_copied_and_pickled() -> None:
    one = Walk(steps=2)
    assert replace(one, steps=3) == Walk(steps=3)
    assert copy.copy(one) == pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(ConfigError):
        replace(one, stepz=3)
