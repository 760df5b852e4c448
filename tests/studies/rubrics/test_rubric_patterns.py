"""Patterns: what both engines take means what Python means by it, and no pattern takes long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.lab.judge.rules import Rule, parse_rule
from tinsmith.types.errors import DataError

ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\S", r"\.", r"[\]-]"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0}", "{0,1}"])).map(
            lambda parts: f"({parts[0]}){parts[1]}"
        ),
    ),
    max_leaves=6,
)


def matches(pattern: str) -> Rule:
    quoted = pattern.replace("'", "''")
    rule = parse_rule(f"rule: matches '{quoted}'")
    assert rule is not None
    return rule


@given(PATTERNS, st.booleans(), st.booleans(), st.text(alphabet="abcd1.-]\n", max_size=8))
def test_it_finds_what_python_finds(pattern: str, at_start: bool, at_end: bool, text: str) -> None:
    ours = "^" * at_start + f"({pattern})" + "$" * at_end
    theirs = r"\A" * at_start + f"(?:{pattern})" + r"\Z" * at_end
    assert matches(ours).holds(text) == bool(re.search(theirs, text))


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "*", "a{3,2}", "[", "[]", "[b-a]", r"\1", "(?=a)", "(?<!a)b", "\\", "((a{999}){999}){999}",
     "(" * 999 + ")" * 999],
)  # fmt: skip
def test_what_is_no_pattern_or_cannot_be_linear_is_refused(pattern: str) -> None:
    with pytest.raises(DataError) as caught:
        matches(pattern)
    assert caught.value.field == "pattern"


def test_ends_and_escapes() -> None:
    assert matches("^$").holds("")
    assert not matches("^$").holds("a")
    assert matches(r"\$$").holds("5$")
    assert not matches(r"\$").holds("5")
    assert matches(r"a\\$").holds("a\\")
    assert matches(r"a\nb").holds("a\nb")
    assert not matches("a$").holds("a\n")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "a*a*a*a*a*b", "^(a?){40}a{40}$"])
def test_what_would_take_python_for_ever_takes_no_time(pattern: str) -> None:
    assert not matches(pattern).holds("a" * 20_000 + "!")
