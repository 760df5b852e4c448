"""The presets' tokenizers: exact round trips, exact sizes, the same bits everywhere."""

import json
import operator
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_tokenizers import byte_level, sentence_piece, word_piece
from tokenizers import AddedToken

from tinsmith.renderers.codec import Codec
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.grammar import RULES
from tinsmith.renderers.tokenizer import (
    PRESET_VOCAB_SIZES,
    load_tokenizer,
    preset_tokenizer,
    save_tokenizer,
    train_tokenizer,
)
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256, sha256_of

PRESETS = tuple(PRESET_VOCAB_SIZES)
FILES = ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json")
VOCABULARY_SHA256 = {
    "nano": "d312c550379bd77cf4d9200cc4acbe9d45cfb6f09b1ec375bea577f6618e9cb6",
    "moe-nano": "d312c550379bd77cf4d9200cc4acbe9d45cfb6f09b1ec375bea577f6618e9cb6",
    "tiny": "053132bdb210f607cac2d9c2cef4524e7c7f8a58b514c52ea805fc48059735d8",
}
MESSAGES = [
    {"role": "system", "content": "Answer in JSON."},
    {"role": "user", "content": " caf\u00e9, 2019?\n"},
    {"role": "assistant", "content": '{"label": "neutral"}'},
]
SEEDED = settings(derandomize=True, database=None, deadline=None, max_examples=150)


@pytest.mark.whole
@pytest.mark.parametrize("name", PRESETS)
@SEEDED
@given(text=st.text())
@example(text="")
@example(text=" .  , don't ?  !\r\n\t ")
@example(text="e\u0301 \u00e9 \U0001f468\u200d\U0001f469\u200d\U0001f467 \x00\x1b\x7f\ufeff\ufffd")
@example(text="<|end|><|user|> 1234567890 <|reserved_0|> <|unknown|>")
def test_any_text_comes_back_exactly(name: str, text: str) -> None:
    tokenizer = preset_tokenizer(name)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.whole
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_exactly_its_number_of_tokens(name: str) -> None:
    tokenizer = preset_tokenizer(name)
    assert len(tokenizer) == PRESET_VOCAB_SIZES[name]
    assert sorted(tokenizer.get_vocab().values()) == list(range(PRESET_VOCAB_SIZES[name]))


@pytest.mark.whole
def test_the_special_tokens_come_first() -> None:
    tokenizer = preset_tokenizer("nano")
    marks = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>"]
    assert tokenizer.convert_ids_to_tokens(range(5)) == marks
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 1)


@pytest.mark.whole
def test_the_presets_need_no_reserved_tokens() -> None:
    for name in PRESETS:
        assert not [token for token in preset_tokenizer(name).get_vocab() if "reserved" in token]


@pytest.mark.whole
def test_too_few_texts_are_made_up_for_by_reserved_tokens() -> None:
    tokenizer = train_tokenizer(["abc abc abc"], 300)
    reserved = [token for token in tokenizer.get_vocab() if token.startswith("<|reserved_")]
    assert len(tokenizer) == 300
    assert len(reserved) == 36
    assert tokenizer.decode(tokenizer.encode("abc")) == "abc"


@pytest.mark.whole
def test_every_digit_is_a_token_of_its_own() -> None:
    tokenizer = preset_tokenizer("tiny")
    assert [tokenizer.decode([token]) for token in tokenizer.encode("1987")] == list("1987")


@pytest.mark.whole
def test_a_larger_vocabulary_needs_fewer_tokens() -> None:
    text = " ".join(builtin_corpus(num_sentences=50, seed=7))
    lengths = [len(preset_tokenizer(name).encode(text)) for name in PRESETS]
    assert lengths[1] < 0.6 * lengths[0]


@pytest.mark.whole
def test_two_trainings_write_identical_files(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        save_tokenizer(train_tokenizer(builtin_corpus(num_sentences=500), 512), tmp_path / folder)
    for name in FILES:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.whole
def test_threads_of_a_process_with_another_hash_seed_that_ask_first_at_once_get_one_of_identical_files(
    tmp_path: Path,
) -> None:
    save_tokenizer(preset_tokenizer("nano"), tmp_path / "here")
    program = (
        "import pathlib, sys\n"
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "from threading import Barrier\n"
        "from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer\n"
        "begin = Barrier(4)\n"
        "def ask(_): begin.wait(); return preset_tokenizer('nano')\n"
        "first, *others = Pool(4).map(ask, range(4))\n"
        "save_tokenizer(first, pathlib.Path(sys.argv[1]))\n"
        "print(*map(len, (first, *others)))\n"
    )
    threads = {"PYTHONHASHSEED": "12345", "RAYON_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, str(tmp_path / "there")]
    done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["512"] * 4, done.stderr
    for name in FILES:
        assert file_sha256(tmp_path / "here" / name) == file_sha256(tmp_path / "there" / name)


@pytest.mark.whole
@pytest.mark.golden
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_its_recorded_vocabulary(name: str) -> None:
    assert sha256_of(preset_tokenizer(name).get_vocab()) == VOCABULARY_SHA256[name]


@pytest.mark.whole
@pytest.mark.parametrize("model_type", [None, "llama", "qwen3", "mistral"])
def test_auto_tokenizer_reloads_the_folder(tmp_path: Path, model_type: str | None) -> None:
    from transformers import AutoTokenizer

    tokenizer = preset_tokenizer("tiny")
    save_tokenizer(tokenizer, tmp_path)
    if model_type is not None:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    reloaded = AutoTokenizer.from_pretrained(str(tmp_path))
    text = "e\u0301 caf\u00e9 in 2019, don't <|end|> . \U0001f600"
    assert reloaded.encode(text) == tokenizer.encode(text)
    assert reloaded.decode(reloaded.encode(text)) == text
    assert (len(reloaded), reloaded.eos_token_id, reloaded.pad_token_id) == (4096, 0, 1)
    ours = load_tokenizer(tmp_path)
    assert type(ours) is type(reloaded)
    assert ours.encode(text) == reloaded.encode(text)
    assert ours.special_tokens_map == reloaded.special_tokens_map
    for opened in (False, True):
        assert reloaded.apply_chat_template(MESSAGES, add_generation_prompt=opened) == tokenizer.apply_chat_template(
            MESSAGES, add_generation_prompt=opened
        )


@pytest.mark.whole
def test_the_chat_template_writes_marks_and_contents_and_nothing_else() -> None:
    text = preset_tokenizer("nano").apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert text == (
        "<|system|>Answer in JSON.<|end|><|user|> caf\u00e9, 2019?\n<|end|>"
        '<|assistant|>{"label": "neutral"}<|end|><|assistant|>'
    )


@pytest.mark.whole
def test_a_preset_is_trained_once_per_process() -> None:
    assert preset_tokenizer("nano") is preset_tokenizer("nano")


@pytest.mark.whole
def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="allowed: nano, tiny"):
        preset_tokenizer("huge")


@pytest.mark.whole
def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match="allowed: >= 261"):
        train_tokenizer(["a"], 260)


@pytest.mark.whole
def test_importing_the_renderers_does_not_import_transformers() -> None:
    program = (
        "import sys, tinsmith.renderers, tinsmith.renderers.tokenizer\n"
        "sys.exit('transformers' in sys.modules or 'tokenizers' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


CORPUS_SHA256 = "5913cd692319d60439390ccf2eb034c2a05f6d4557b25c5cbeef2468e6516781"


def test_a_longer_corpus_begins_with_the_shorter_one() -> None:
    assert builtin_corpus(num_sentences=300)[:100] == builtin_corpus(num_sentences=100)


def test_another_seed_gives_another_corpus() -> None:
    assert builtin_corpus(num_sentences=20, seed=1) != builtin_corpus(num_sentences=20)


@pytest.mark.golden
def test_the_corpus_has_its_recorded_hash() -> None:
    assert sha256_of(builtin_corpus()) == CORPUS_SHA256


def test_every_symbol_has_a_rule_and_every_rule_is_reached() -> None:
    used = {
        symbol
        for alternatives in RULES.values()
        for alternative in alternatives
        for symbol in re.findall(r"\{(\w+)\}", alternative)
    }
    spoken_by_code = {"sentence", "label", "because", "topic", "year", "name", "field", "count"}
    assert used <= set(RULES)
    assert set(RULES) <= used | spoken_by_code


def test_no_symbol_is_left_in_a_sentence_and_no_article_is_wrong() -> None:
    prose = [text for text in builtin_corpus(num_sentences=3000) if not text.startswith("{")]
    assert not [text for text in prose if re.search(r"[{}]", text)]
    assert not [text for text in prose if re.search(r"\b[Aa] [aeiou]", text)]


def test_the_stated_results_are_right() -> None:
    operations = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    found = [re.fullmatch(r"(\d+) ([-+*]) (\d+) = (-?\d+)", text) for text in builtin_corpus(num_sentences=3000)]
    sums = [match.groups() for match in found if match]
    assert len(sums) > 50
    assert all(operations[sign](int(a), int(b)) == int(result) for a, sign, b, result in sums)


def test_the_objects_are_json_with_known_labels() -> None:
    texts = [text for text in builtin_corpus(num_sentences=3000) if text.startswith("{")]
    labels = {json.loads(text).get("label") for text in texts}
    assert labels == {"disruptive", "consolidating", "neutral", None}


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="num_sentences = 0"):
        builtin_corpus(num_sentences=0)


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
