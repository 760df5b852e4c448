"""Keys of a GGUF file on its tokenizer beside tokens and merges: begin and end, marks, ends of replies, templates."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizer_kinds import SPACE, converted, tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from gguf_files import VOCAB, write_gguf
from oracles import LLAMA, random_weights
from tinsmith.models.base import open_base, read_shape
from tinsmith.models.gguf.ends import end_tokens
from tinsmith.models.gguf.file import Value
from tinsmith.models.gguf.same_tokens import check_same_tokens
from tinsmith.models.gguf.tokenizer import file_tokenizer
from tinsmith.models.gguf.vocabulary import vocabulary_of
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError, TinsmithError

pytestmark = pytest.mark.usefixtures("own_home")


_SMALL = replace(LLAMA, vocab_size=VOCAB, intermediate_size=96, end_tokens=(0,))


def keys(kind: str, **changes: Value | None) -> dict[str, Value]:
    """A converted tokenizer's keys, some of them set to something else; None leaves one out."""
    named = {f"tokenizer.{'' if 'template' in key else 'ggml.'}{key}": value for key, value in changes.items()}
    whole: dict[str, object] = {**converted(kind), **named}
    return {key: value for key, value in whole.items() if value is not None}  # pyright: ignore[reportReturnType]


def ids(metadata: dict[str, Value], text: str) -> list[int]:
    return file_tokenizer(metadata, Path("m.gguf")).encode(text)


def token(metadata: dict[str, Value], text: str) -> int:
    tokens = metadata["tokenizer.ggml.tokens"]
    return tokens.index(text)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("kind", "begins"),
    [("llama3", True), ("tekken", True), ("llama2", True), ("qwen2", False), ("gpt2", False), ("smollm", False)],
)
def test_a_file_that_does_not_say_begins_texts_as_llama_cpp_does(kind: str, begins: bool) -> None:
    plain = tokenizer(kind).encode("ab", add_special_tokens=False)
    begin = token(keys(kind), tokenizer(kind).bos_token)
    assert ids(keys(kind, add_bos_token=None), "ab") == [*([begin] if begins else []), *plain]
    assert ids(keys(kind, add_bos_token=True), "ab") == [begin, *plain]
    assert ids(keys(kind, add_bos_token=False), "ab") == plain


def test_texts_are_closed_where_the_file_says_so() -> None:
    metadata = keys("qwen2", add_eos_token=True)
    end = token(metadata, "<|end|>")
    assert ids(metadata, "ab") == [*tokenizer("qwen2").encode("ab"), end]


def test_a_begin_token_that_is_not_named_is_refused() -> None:
    with pytest.raises(TinsmithError, match="add_bos_token"):
        ids(keys("llama3", bos_token_id=None), "ab")
    assert ids(keys("llama2", bos_token_id=None), "ab")[0] == 1


@pytest.mark.parametrize("text", ["<\uff5cUser\uff5c>", "<tool>", "<unk>"])
def test_a_mark_is_one_token_wherever_it_stands(text: str) -> None:
    metadata = keys("deepseek", add_bos_token=False)
    assert ids(metadata, f"a{text}{text} b").count(token(metadata, text)) == 2


def test_marks_of_a_phi_3_model_swallow_the_space_behind_them() -> None:
    metadata = {**keys("llama2"), "general.name": "Phi-3 mini"}
    assert ids(metadata, "[INST]  \n a") == ids(metadata, "[INST]a")
    assert ids(metadata, "<s> a") != ids(metadata, "<s>a")


def test_a_reply_ends_at_every_token_that_the_file_names_or_llama_cpp_knows(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", _SMALL, random_weights(_SMALL, 1))
    assert read_shape(str(tmp_path / "m.gguf")).end_tokens == (0,)
    more: dict[str, int | str | float] = {
        f"tokenizer.ggml.{name}_token_id": at for at, name in enumerate(("eot", "eom"), 5)
    }
    write_gguf(
        tmp_path / "m.gguf", _SMALL, random_weights(_SMALL, 1), more={**more, "tokenizer.ggml.fim_rep_token_id": 9}
    )
    assert read_shape(str(tmp_path / "m.gguf")).end_tokens == (0, 5, 6, 9)


@pytest.mark.parametrize(
    ("texts", "ends"),
    [
        (("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"}),
        (("<|im_end|>", "<|endoftext|>", "<|fim_pad|>"), {"<|im_end|>", "<|endoftext|>", "<|fim_pad|>"}),
        (("<|end|>", "<|return|>", "<|call|>"), {"<|return|>", "<|call|>"}),
        (("<|tool_response>", "</s>", "<turn|>"), {"<|tool_response>", "<turn|>"}),
    ],
)
def test_ends_are_known_by_their_text(texts: tuple[str, ...], ends: set[str]) -> None:
    tokens = ["a", "b", *texts, "c"]
    found = end_tokens({"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eos_token_id": 0}, len(tokens))
    assert {tokens[at] for at in found} == ends | {"a"}
    assert end_tokens({"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eos_token_id": 0}, 1) == (0,)


def test_every_chat_template_is_read_by_its_name(tmp_path: Path) -> None:
    more: dict[str, int | str | float] = {"tokenizer.chat_template.tool_use": "{{ tools }}"}
    write_gguf(tmp_path / "m.gguf", _SMALL, random_weights(_SMALL, 1), more=more)
    folder = open_base(str(tmp_path / "m.gguf")).folder
    assert folder is not None
    templates = load_tokenizer(folder).chat_template
    assert templates["tool_use"] == "{{ tools }}"
    assert "messages" in templates["default"]


def test_the_name_of_a_chat_template_cannot_leave_its_folder() -> None:
    with pytest.raises(ConfigError, match="chat template"):
        file_tokenizer({**keys("gpt2"), "tokenizer.chat_template.../../evil": "x"}, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": "bert"}, "tokenizer.ggml.model"),
        ({"model": "t5"}, "tokenizer.ggml.model"),
        ({"model": "rwkv"}, "tokenizer.ggml.model"),
        ({"model": "gemma4"}, "tokenizer.ggml.model"),
        ({"pre": "kimi-k2"}, "tokenizer.ggml.pre"),
        ({"pre": "made-up"}, "tokenizer.ggml.pre"),
        ({"merges": None}, "tokenizer.ggml.merges"),
        ({"merges": ["a zz"]}, "tokenizer.ggml.merges"),
        ({"tokens": ["a", "b", "a"]}, "tokenizer.ggml.tokens"),
        ({"tokens": None}, "tokenizer.ggml.tokens"),
        ({"token_type": [1]}, "tokenizer.ggml.token_type"),
        ({"add_bos_token": 1}, "tokenizer.ggml.add_bos_token"),
        ({"bos_token_id": True}, "tokenizer.ggml.bos_token_id"),
        ({"eos_token_id": "1"}, "tokenizer.ggml.eos_token_id"),
        ({"token_type": [1.0] * 5000}, "tokenizer.ggml.token_type"),
        ({"chat_template": "a", "chat_template.default": "b"}, "tokenizer.chat_template.default"),
    ],
)
def test_what_cannot_be_read_faithfully_is_refused_by_name(changes: dict[str, Value | None], field: str) -> None:
    with pytest.raises(TinsmithError) as caught:
        file_tokenizer(keys("gpt2", **changes), Path("m.gguf"))
    assert caught.value.field == field


def test_ends_of_another_type_than_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match="eot_token_id"):
        end_tokens({"tokenizer.ggml.eot_token_id": 2.0}, 10)


def test_a_sentencepiece_file_without_a_byte_is_refused() -> None:
    metadata = keys("llama2")
    tokens = metadata["tokenizer.ggml.tokens"]
    metadata["tokenizer.ggml.tokens"] = ["other one" if each == "<0x41>" else str(each) for each in tokens]
    with pytest.raises(TinsmithError, match="0x41"):
        file_tokenizer(metadata, Path("m.gguf"))


def test_a_sentencepiece_file_needs_a_score_for_every_token() -> None:
    for scores in (None, [0.0], [float("nan")] * len(tokenizer("llama2"))):
        with pytest.raises(TinsmithError) as caught:
            file_tokenizer(keys("llama2", scores=scores), None)
        assert caught.value.field == "tokenizer.ggml.scores"


def test_split_rules_are_those_of_transformers_where_it_has_them() -> None:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    from tinsmith.models.gguf.splits import RULES

    for name, pattern in GGUF_PRE_TOKENIZER_SPLITS.items():
        assert RULES[name].patterns == (pattern,), name


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
    assert len(tokens) == rows
    check_same_tokens(which.backend_tokenizer, file_tokenizer(keys, None).backend_tokenizer, rows=rows, file=FOLDER)


def test_rows_without_a_token_are_named_as_unused() -> None:
    which = changed("qwen2")
    keys = written(which, rows=len(which) + 2)
    tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert len(set(tokens)) == len(kinds) == len(which) + 2
    assert kinds[-2:] == [5, 5]


def test_six_tokens_that_end_a_reply_are_written_and_read() -> None:
    which = changed("qwen2")
    own = which.eos_token_id
    assert isinstance(own, int)
    keys = written(which, 3, 4, 5, 6, 7)
    assert end_tokens(keys, len(which)) == (own, 3, 4, 5, 6, 7)
    with pytest.raises(ConfigError) as caught:
        written(which, 3, 4, 5, 6, 7, 8)
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


def swallowing() -> PreTrainedTokenizerFast:
    which = changed("gpt2")
    which.add_tokens([AddedToken("<mask>", lstrip=True)])
    return which


WORDS = Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))


@pytest.mark.parametrize(
    ("make", "rows", "field"),
    [
        (lambda: changed("gpt2"), 300, "vocab"),  # an ordinary token without a row
        (lambda: changed("qwen2", eos_token=None), None, "eos_token_id"),  # llama.cpp would take token 11
        (swallowing, None, "added_tokens: lstrip"),
        (lambda: PreTrainedTokenizerFast(tokenizer_object=WORDS, eos_token="a"), None, "model"),
    ],
)
def test_a_tokenizer_that_no_file_describes_is_refused(
    make: Callable[[], PreTrainedTokenizerFast], rows: int | None, field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        written(make(), rows=rows)
    assert caught.value.field == field


def test_a_file_that_gives_other_tokens_is_found_by_its_tokens() -> None:
    which = changed("qwen2")
    keys = {**written(which), "tokenizer.ggml.pre": "gpt-2"}
    with pytest.raises(CheckpointError) as caught:
        check_same_tokens(
            which.backend_tokenizer, file_tokenizer(keys, None).backend_tokenizer, rows=len(which), file=FOLDER
        )
    assert caught.value.field == "tokenizer"
