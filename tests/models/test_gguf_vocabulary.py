"""Tokenizers as metadata of a GGUF file: what is written of them, and what is refused by the part that has no name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizer_kinds import SPACE, tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tinsmith.models.gguf.ends import end_tokens
from tinsmith.models.gguf.file import Value
from tinsmith.models.gguf.same_tokens import check_same_tokens
from tinsmith.models.gguf.tokenizer import file_tokenizer
from tinsmith.models.gguf.vocabulary import vocabulary_of
from tinsmith.types.errors import CheckpointError, ConfigError

FOLDER = Path("/a/folder")


def changed(
    kind: str, change: Callable[[dict[str, Any]], object] = lambda _: None, **marks: Any
) -> PreTrainedTokenizerFast:
    """A tokenizer of some kind with its tokenizer.json edited, as it would be loaded."""
    whole = json.loads(tokenizer(kind).backend_tokenizer.to_str())
    change(whole)
    own = {"eos_token": tokenizer(kind).eos_token, "bos_token": tokenizer(kind).bos_token}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(whole)), **{**own, **marks})


def written(which: PreTrainedTokenizerFast, *ends: int, rows: int | None = None) -> dict[str, Value]:
    return vocabulary_of(which, rows or len(which), ends, where=FOLDER)


def test_tokens_without_a_row_are_left_out_with_what_names_them() -> None:
    which = changed("qwen2")
    rows = len(which)
    which.add_special_tokens({"pad_token": "<pad>"})
    keys = written(which, 3, rows, rows + 7, rows=rows)
    numbers = [value for key, value in keys.items() if key.endswith("_token_id")]
    assert all(isinstance(value, int) and value < rows for value in numbers)
    assert "tokenizer.ggml.padding_token_id" not in keys
    tokens = keys["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert len(tokens) == rows
    check_same_tokens(which.backend_tokenizer, file_tokenizer(keys, None).backend_tokenizer, rows=rows, file=FOLDER)


def test_rows_without_a_token_are_named_as_unused() -> None:
    which = changed("qwen2")
    keys = written(which, rows=len(which) + 2)
    tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    assert len(set(tokens)) == len(kinds) == len(which) + 2
    assert kinds[-2:] == [5, 5]


def test_an_ordinary_token_without_a_row_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        written(changed("gpt2"), rows=300)
    assert caught.value.field == "vocab"


def test_six_tokens_that_end_a_reply_are_written_and_read() -> None:
    which = changed("qwen2")
    own = which.eos_token_id
    assert isinstance(own, int)
    keys = written(which, 3, 4, 5, 6, 7)
    assert end_tokens(keys, len(which)) == (own, 3, 4, 5, 6, 7)
    with pytest.raises(ConfigError) as caught:
        written(which, 3, 4, 5, 6, 7, 8)
    assert caught.value.field == "eos_token_id"


def test_a_model_without_an_end_is_refused_because_llama_cpp_would_take_token_11() -> None:
    with pytest.raises(ConfigError) as caught:
        written(changed("qwen2", eos_token=None))
    assert caught.value.field == "eos_token_id"


def test_every_chat_template_is_written_by_its_name() -> None:
    which = changed("gpt2", chat_template={"default": "one", "tool_use": "two", "rag": "three"})
    keys = written(which)
    assert keys["tokenizer.chat_template"] == "one"
    assert keys["tokenizer.chat_template.tool_use"] == "two"
    assert keys["tokenizer.chat_templates"] == ["rag", "tool_use"]
    assert file_tokenizer(keys, None).chat_template == which.chat_template


def test_a_begin_token_without_a_name_is_written() -> None:
    which = changed("qwen2", bos_token=None)
    which.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|user|> $A", special_tokens=[("<|user|>", 702)]
    )
    keys = written(which)
    assert keys["tokenizer.ggml.add_bos_token"] is True
    assert keys["tokenizer.ggml.bos_token_id"] == 702
    assert file_tokenizer(keys, None).encode("ab")[0] == 702


def normalizer(step: normalizers.Normalizer) -> Callable[[dict[str, Any]], None]:
    backend = Tokenizer(models.BPE())
    backend.normalizer = step
    return lambda whole: whole.update(normalizer=json.loads(backend.to_str())["normalizer"])


def splitter(step: pre.PreTokenizer) -> Callable[[dict[str, Any]], None]:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = step
    return lambda whole: whole.update(pre_tokenizer=json.loads(backend.to_str())["pre_tokenizer"])


def model(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda whole: whole["model"].update(values)


def as_metaspace(scheme: str) -> Callable[[dict[str, Any]], None]:
    """The space before a text as transformers writes it: 'always' but before a space, or before the 'first' text."""

    def change(whole: dict[str, Any]) -> None:
        splitter(pre.Metaspace(prepend_scheme=scheme, split=False))(whole)
        whole["normalizer"] = None

    return change


def test_a_sentencepiece_vocabulary_without_a_space_before_texts_is_written_in_either_form() -> None:
    which = changed("gemma", as_metaspace("never"))
    assert written(which) == written(changed("gemma"))
    assert written(which)["tokenizer.ggml.add_space_prefix"] is False


def two_marks(whole: dict[str, Any]) -> None:
    mark = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    whole["post_processor"]["single"] = [mark, mark, *whole["post_processor"]["single"][1:]]


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("gpt2", normalizer(normalizers.Lowercase()), "normalizer"),
        ("gpt2", normalizer(normalizers.NFKC()), "normalizer"),
        ("gpt2", splitter(pre.ByteLevel(add_prefix_space=True)), "pre_tokenizer"),
        ("gpt2", splitter(pre.Sequence([pre.Punctuation(), pre.ByteLevel(add_prefix_space=False)])), "pre_tokenizer"),
        ("gpt2", splitter(pre.ByteLevel(add_prefix_space=False, use_regex=False)), "pre_tokenizer"),
        ("gpt2", model(ignore_merges=True), "ignore_merges"),
        ("tekken", model(ignore_merges=False), "ignore_merges"),
        ("gpt2", model(dropout=0.1), "model"),
        ("llama2", normalizer(normalizers.Prepend(SPACE)), "normalizer"),
        ("llama2", as_metaspace("first"), "pre_tokenizer"),
        ("llama2", as_metaspace("always"), "pre_tokenizer"),
        ("llama2", lambda whole: whole["model"]["merges"].pop(), "merges"),
        ("llama2", model(ignore_merges=True), "ignore_merges"),
        ("llama2", two_marks, "post_processor"),
    ],
)
def test_what_a_file_has_no_name_for_is_refused(
    kind: str, change: Callable[[dict[str, Any]], object], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        written(changed(kind, change))
    assert caught.value.field == field
    assert str(FOLDER) in str(caught.value)


def test_a_mark_that_swallows_spaces_is_refused() -> None:
    which = changed("gpt2")
    which.add_tokens([AddedToken("<mask>", lstrip=True)])
    with pytest.raises(ConfigError) as caught:
        written(which)
    assert caught.value.field == "added_tokens: lstrip"


def test_another_kind_of_model_is_refused() -> None:
    words = Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(ConfigError) as caught:
        written(PreTrainedTokenizerFast(tokenizer_object=words, eos_token="a"))
    assert (caught.value.field, caught.value.value) == ("model", "WordPiece")


def test_a_file_that_gives_other_tokens_is_found_by_its_tokens() -> None:
    which = changed("qwen2")
    keys = {**written(which), "tokenizer.ggml.pre": "gpt-2"}
    with pytest.raises(CheckpointError) as caught:
        check_same_tokens(
            which.backend_tokenizer, file_tokenizer(keys, None).backend_tokenizer, rows=len(which), file=FOLDER
        )
    assert caught.value.field == "tokenizer"
