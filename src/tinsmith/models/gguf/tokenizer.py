"""Tokenizer and chat templates inside a GGUF file, as a folder that transformers and the SDK load.

A text gives the same tokens as in llama.cpp with marks parsed; a file that would not is rejected.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gguf import TokenType

from tinsmith.models.gguf.file import GgufFile, Value
from tinsmith.models.gguf.splits import pre_tokenizer
from tinsmith.models.gguf.tokens import MARKS, MATCHED, FileTokens, Mark, file_tokens
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.renderers.tokenizer import save_tokenizer
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

TEMPLATE: Final = "tokenizer.chat_template"
TEMPLATES: Final = "tokenizer.chat_templates"
_TEMPLATE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SPACE: Final = "\u2581"
_READING: Final = 2
"""Version of this conversion, incremented whenever it changes."""
_NAMES: Final[dict[Mark, str]] = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
}


def tokenizer_folder(file: GgufFile) -> Path:
    """Return a folder with the file's tokenizer, converted once per file below TINSMITH_HOME.

    Raises:
        ConfigError: the file has no tokenizer, or one that cannot be converted faithfully.
        CheckpointError: its lists do not fit together.
    """
    made_by = {"reading": _READING, "tinsmith": VERSION, "transformers": importlib.metadata.version("transformers")}
    key = sha256_of({"header": file.header_sha256, **made_by})
    place = home() / "tokenizers" / key[:32]
    if present(place).is_dir():
        return present(place)
    tokenizer = file_tokenizer(file.metadata, file.path)
    with one_writer(place):
        if not present(place).is_dir():
            with staged(place) as folder:
                save_tokenizer(tokenizer, folder)
    return present(place)


def file_tokenizer(metadata: Mapping[str, Value], path: Path | None) -> PreTrainedTokenizerFast:
    """Return the tokenizer that metadata describe; `path` names the file in errors.

    Raises:
        ConfigError, CheckpointError: see `tokenizer_folder`.
    """
    from transformers import PreTrainedTokenizerFast

    described = file_tokens(metadata, path)
    return PreTrainedTokenizerFast(
        tokenizer_object=_pipeline(described),
        clean_up_tokenization_spaces=False,
        chat_template=_templates(metadata, path),
        **{_NAMES[mark]: described.tokens[described.marks[mark]] for mark in MARKS if mark in described.marks},
    )


def _pipeline(described: FileTokens) -> Tokenizer:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

    vocab = {token: index for index, token in enumerate(described.tokens)}
    merges, rule = list(described.merges), described.rule
    steps = [normalizers.NFC()] if described.composes else []
    if rule is not None:
        backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=rule.whole_words))
        backend.pre_tokenizer = pre_tokenizer(rule)
        backend.decoder = decoders.ByteLevel()
    else:
        unknown = described.marks.get("unknown")
        token = None if unknown is None else described.tokens[unknown]
        backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token=token, fuse_unk=True, byte_fallback=True))
        steps += [normalizers.Prepend(_SPACE)] if described.prefix_space else []
        steps += [normalizers.Replace(" ", _SPACE)]
        back = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        back += [decoders.Strip(" ", 1, 0)] if described.prefix_space else []
        backend.decoder = decoders.Sequence(back)
    if steps:
        backend.normalizer = normalizers.Sequence(steps)
    backend.add_tokens(
        [
            AddedToken(
                token, special=kind is not TokenType.USER_DEFINED, normalized=False, rstrip=index in described.stripping
            )
            for index, (token, kind) in enumerate(zip(described.tokens, described.kinds, strict=True))
            if kind in MATCHED
        ]
    )
    around = {"bos": described.begins, "eos": described.closes}
    ids = {described.tokens[described.marks[mark]]: described.marks[mark] for mark in MARKS if around.get(mark)}
    if ids:
        first = [described.tokens[described.marks["bos"]]] if described.begins else []
        last = [described.tokens[described.marks["eos"]]] if described.closes else []
        backend.post_processor = processors.TemplateProcessing(
            single=[*first, "$A", *last], special_tokens=list(ids.items())
        )
    return backend


def _templates(metadata: Mapping[str, Value], path: Path | None) -> str | dict[str, str] | None:
    """Return the chat template, or several by name; that of the unnamed key is `default`."""
    templates: dict[str, str] = {}
    for key, value in metadata.items():
        if key != TEMPLATE and not key.startswith(f"{TEMPLATE}."):
            continue
        name = key.removeprefix(TEMPLATE).removeprefix(".") or "default"
        if not isinstance(value, str) or not _TEMPLATE_NAME.fullmatch(name) or templates.get(name, value) != value:
            raise ConfigError(
                f"{path}: a chat template cannot be read",
                field=key,
                value=value,
                allowed="a text, under a name of letters, digits, _ and - that no other has",
            )
        templates[name] = value
    return templates.get("default") if templates.keys() <= {"default"} else templates
