"""The dialect of patterns: what it takes means what Python means by it, and it never takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.studies.rubrics.rules.regular import check_pattern, found_in
from tinsmith.types.errors import DataError

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\S", r"\.", "[]-]".replace("]-", r"\]-")]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0}", "{0,1}"])
        ).map(lambda parts: f"({parts[0]}){parts[1]}"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.booleans(), st.booleans(), st.text(alphabet="abcd1.-]\n", max_size=8))
def test_it_finds_what_python_finds(pattern: str, at_start: bool, at_end: bool, text: str) -> None:
    ours = "^" * at_start + f"({pattern})" + "$" * at_end
    theirs = r"\A" * at_start + f"(?:{pattern})" + r"\Z" * at_end
    try:
        check_pattern(ours)
    except DataError as error:
        assert "more than 256" in str(error) or "too many" in str(error)  # noqa: PT017
        return
    assert found_in(ours, text) == bool(re.search(theirs, text))


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "*", "a**", "a+?", "a{", "a{2", "a{3,2}", "a{,2}", "a{1000}", "[", "[]", "[b-a]", "a^b",
     "a$b", r"\b", r"\1", "(?:a)", "[[a]", "\\", "((a{99}){99})", "(((){999}){999}){999}", "(" * 99 + ")" * 99,
     "a}"],
)  # fmt: skip
def test_another_dialect_is_refused(pattern: str) -> None:
    with pytest.raises(DataError, match="pattern, character"):
        check_pattern(pattern)


def test_ends_and_escapes() -> None:
    assert found_in("^$", "")
    assert not found_in("^$", "a")
    assert found_in(r"\$$", "5$")
    assert not found_in(r"\$", "5")
    assert found_in(r"a\\$", "a\\")
    assert found_in(r"a\nb", "a\nb")
    assert not found_in("a$", "a\n")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "a*a*a*a*a*b", "^(a?){40}a{40}$"])
def test_what_would_take_python_for_ever_takes_no_time(pattern: str) -> None:
    assert not found_in(pattern, "a" * 20_000 + "!")
