"""The strict reader: what is JSON, what is not, and that nothing hangs or fails otherwise."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_limit import guarded
from tinsmith.lab.strict_json import MAX_NESTING, JsonNumber, JsonObject, JsonValue, NotJsonError, read_json


def plain(value: JsonValue) -> object:
    match value:
        case JsonObject():
            return {key: plain(one) for key, one in value.pairs}
        case JsonNumber():
            return json.loads(value.literal)
        case list():
            return [plain(one) for one in value]
        case _:
            return value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "NaN",
        "[Infinity]",
        '{"a": -Infinity}',
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1} x',
        '{"a": 1}{"a": 1}',
        '\ufeff{"a": 1}',
        '\u00a0{"a": 1}',
        '"a\nb"',
        "nul",
        "01",
        "+1",
        ".5",
        '"\\ud800"',
        '{"\\udfff": 1}',
        '["\ud800"]',
        "{" * 100_000,
        "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1),
        '{"a":' * 60 + "1" + "}" * 60,
    ],
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(NotJsonError):
        read_json(text)


def test_nesting_up_to_the_limit_is_read_and_brackets_in_strings_do_not_count() -> None:
    deep = "[" * MAX_NESTING + "]" * MAX_NESTING
    assert json.loads(deep) == plain(read_json(deep))
    assert read_json('"' + "[" * 100 + '\\"' + "{" * 100 + '"') == "[" * 100 + '"' + "{" * 100


def test_numbers_stay_as_they_are_written() -> None:
    digits = "9" * 200_000
    assert read_json(digits) == JsonNumber(digits)
    assert read_json("1e999999") == JsonNumber("1e999999")


def test_repeated_keys_stay() -> None:
    value = read_json('{"a": 1, "b": 2, "a": 3}')
    assert value.keys == ("a", "b", "a")


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Surrogates apart, which are no characters.
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_all_json_of_moderate_depth_is_read_as_python_reads_it(value: object) -> None:
    assert plain(read_json(json.dumps(value))) == value


@given(st.text(st.sampled_from('{}[]",:\\ud80e1.-+ \n\tNaIfty')) | st.text())
def test_any_text_is_json_or_not_json(text: str) -> None:
    try:
        value = read_json(text)
    except NotJsonError:
        return
    # What we read, Python's own reader reads as well, and UTF-8 can hold it.
    assert plain(value) == json.loads(text)
    json.dumps(plain(value), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 400_000, "[" * 20 + '"' * 800_000, "{" * 800_000, "[1," * 400_000, " " * 800_000],
    ids=["escapes", "quotes", "braces", "lists", "blanks"],
)
def test_long_texts_take_linear_time(text: str) -> None:
    with guarded(), pytest.raises(NotJsonError):
        read_json(text)
