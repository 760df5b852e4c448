"""Tokens as the bytes that they add to a text, for every kind of vocabulary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tokenizers import byte_level, sentence_piece, word_piece
from tokenizers import AddedToken

from tinsmith.renderers.codec import Codec
from tinsmith.renderers.tokenizer import preset_tokenizer

LITERALS = ("straße", "đem", "日本", "<|mark|>", "Ġx")
KINDS = {
    "bytes": byte_level(added=LITERALS),
    "spaces": sentence_piece(["▁Hello", "▁world", "x"]),
    "metaspace": sentence_piece(["▁Hello", "▁world", "x"], metaspace=True),
}
TEXTS = ["Hello world", " Hello", "  x", "é 日本 \U0001f600", "x\n\tworld\x00", " ", "", "world straße Ġx"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_comes_back_from_its_tokens(kind: str, text: str) -> None:
    codec = Codec(KINDS[kind])
    lost = kind == "metaspace" and text.startswith(" ")  # it reads " x" as it reads "x"
    assert codec.decode(codec.encode(text)) == (text[1:] if lost else text)


@pytest.mark.parametrize("literal", LITERALS)
def test_an_added_token_is_its_literal_whatever_letters_it_has(literal: str) -> None:
    codec = Codec(KINDS["bytes"])
    (token,) = codec.encode(literal)
    assert codec.bytes_of(token) == codec.first_bytes(token) == literal.encode()


@pytest.mark.parametrize("kind", ["spaces", "metaspace"])
def test_a_space_is_left_out_at_the_beginning_of_a_text_only(kind: str) -> None:
    codec = Codec(KINDS[kind])
    hello, world = codec.encode("Hello world")
    assert (codec.first_bytes(hello), codec.bytes_of(hello)) == (b"Hello", b" Hello")
    assert codec.decode((world, hello)) == "world Hello"
    assert codec.decode((world, hello), follows=True) == " world Hello"


def test_endings_of_words_stand_right_after_them() -> None:
    codec = Codec(word_piece(["play", "##ing", "chess"]))
    assert [codec.bytes_of(token) for token in codec.encode("Playing chess")] == [b" play", b"ing", b" chess"]
    assert codec.decode(codec.encode("playing chess")) == "playing chess"


@pytest.mark.parametrize("named", [True, False])
def test_a_begin_token_needs_no_name(named: bool) -> None:
    tokenizer = sentence_piece(["▁a"], named=named)
    assert Codec(tokenizer).opening() == (tokenizer.convert_tokens_to_ids("<s>"),)


def test_an_id_that_is_no_token_is_no_text() -> None:
    codec = Codec(KINDS["bytes"])
    assert codec.bytes_of(10_000) == b""
    assert codec.decode((*codec.encode("a"), 10_000, *codec.encode("b"))) == "ab"


@given(st.lists(st.integers(0, 515), max_size=40))
def test_any_tokens_of_a_preset_are_read_as_its_own_tokenizer_reads_them(tokens: list[int]) -> None:
    tokenizer = preset_tokenizer("nano")
    assert Codec(tokenizer).decode(tokens) == tokenizer.decode(tokens, skip_special_tokens=False)


def test_tokens_of_bytes_are_bytes_though_they_are_added_tokens() -> None:
    tokenizer = sentence_piece(["\u2581Hello"])
    tokenizer.add_tokens([AddedToken(f"<0x{byte:02X}>", normalized=False) for byte in range(256)])
    codec = Codec(tokenizer)
    assert codec.decode(codec.encode("Hello\n\U0001f642!")) == "Hello\n\U0001f642!"
