"""The tokenizer and chat template inside a GGUF file, as a folder that transformers and the SDK load.

transformers converts it; where its reading of the file's splitting rule is not the model's own, that is put right here
or refused: tokens cut at other places are other tokens, and nothing would say so.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.models.gguf.file import GgufFile
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.renderers.tokenizer import save_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_TOKENS: Final = "tokenizer.ggml.tokens"
_MODEL: Final = "tokenizer.ggml.model"
_SPLIT: Final = "tokenizer.ggml.pre"
_TEMPLATE: Final = "tokenizer.chat_template"

_SPECIAL: Final = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}

_BYTE_LEVEL: Final = "gpt2"
_GPT2_SPLITS: Final = ("", "default", "gpt-2")
"""Splitting rules that are GPT-2's own, which transformers assumes where it knows no better."""
_DIGIT_SPLITS: Final = ("smollm", "refact", "starcoder", "command-r", "codeshell")
"""Splitting rules that first make every digit a piece, then are GPT-2's.

Source: `llm_tokenizer_bpe` in llama.cpp's llama-vocab.cpp, and the models' own tokenizer.json.
"""


def tokenizer_folder(file: GgufFile) -> Path:
    """Return a folder with the file's tokenizer, converted once per file below TINSMITH_HOME.

    Raises:
        ConfigError: the file has no tokenizer, or one that cannot be converted faithfully.
    """
    if not isinstance(file.metadata.get(_TOKENS), list):
        raise ConfigError(
            f"{file.path}: this file has no tokenizer",
            field=_TOKENS,
            value=file.metadata.get(_TOKENS),
            allowed="a file with its tokenizer inside, as llama.cpp's conversion script writes it",
            fix="convert the model again with its tokenizer, or serve its folder",
        )
    made_by = {"tinsmith": VERSION, "transformers": importlib.metadata.version("transformers")}
    key = sha256_of({"header": file.header_sha256, **made_by})
    place = home() / "tokenizers" / key[:32]
    if present(place).is_dir():
        return present(place)
    with one_writer(place):
        if not present(place).is_dir():
            tokenizer = _converted(file)
            with staged(place) as folder:
                save_tokenizer(tokenizer, folder)
    return present(place)


def _converted(file: GgufFile) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    # AutoTokenizer would do the same, but first reads the file with `gguf`'s own reader, which takes seconds.
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

    try:
        architecture, stored, _ = get_gguf_tokenizer(str(file.path))
        converted, _ = convert_gguf_tokenizer(architecture, stored)
    except (ValueError, KeyError, IndexError, TypeError, OSError, AttributeError) as error:
        raise CheckpointError(
            f"{file.path}: its tokenizer cannot be converted: {type(error).__name__}",
            field=_MODEL,
            value=file.metadata.get(_MODEL),
            allowed="gpt2 (byte-level BPE) or llama (SentencePiece), whole",
        ) from error
    backend = _without_strangers(converted, _num_tokens(file))
    if file.metadata.get(_MODEL) == _BYTE_LEVEL:
        _split_as_the_model(backend, file)
    template = file.metadata.get(_TEMPLATE)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=False,
        chat_template=template if isinstance(template, str) else None,
        **_special_tokens(file),
    )


def _num_tokens(file: GgufFile) -> int:
    tokens = file.metadata[_TOKENS]
    return len(tokens) if isinstance(tokens, list) else 0


def _without_strangers(backend: Tokenizer, num_tokens: int) -> Tokenizer:
    """Leave out tokens that the file does not have: transformers adds GPT-2's own, past the end of the embedding."""
    from tokenizers import Tokenizer

    whole = json.loads(backend.to_str())
    whole["added_tokens"] = [each for each in whole["added_tokens"] if each["id"] < num_tokens]
    return Tokenizer.from_str(json.dumps(whole))


def _special_tokens(file: GgufFile) -> dict[str, str]:
    tokens = file.metadata[_TOKENS]
    found: dict[str, str] = {}
    for name, key in _SPECIAL.items():
        index = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(tokens, list) and isinstance(index, int) and index < len(tokens):
            found[name] = str(tokens[index])
    return found


def _split_as_the_model(backend: Tokenizer, file: GgufFile) -> None:
    """Keep the splitting that transformers chose, where it chose one; else the file's, if it is known here."""
    from tokenizers import pre_tokenizers

    if not isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        return
    named = file.metadata.get(_SPLIT, "")
    if named in _DIGIT_SPLITS:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif named not in _GPT2_SPLITS:
        raise ConfigError(
            f"{file.path}: the rule by which this tokenizer splits text is not known here",
            field=_SPLIT,
            value=named,
            allowed="those that transformers knows, and " + ", ".join(_DIGIT_SPLITS),
            fix="serve the model's own folder with its tokenizer.json",
        )
