"""Tokenizers of the presets: byte-level BPE, trained locally, with the same bits for the same texts.

All 256 bytes are in the alphabet and nothing is normalised, so any text is restored exactly. Each digit is a token. A
folder written here loads with `AutoTokenizer`, except beside a `config.json` of type qwen2: transformers then rebuilds
the tokenizer by Qwen2's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from tinsmith.renderers.codec import is_failure
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.types.errors import ConfigError
from tinsmith.types.json_text import read_json

if TYPE_CHECKING:
    from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

END = "<|end|>"
"""End of a turn, and of a text; token 0."""
PAD = "<|pad|>"
"""Padding of a batch; never part of a prompt or a reply; token 1."""
ROLE_MARKS = ("<|system|>", "<|user|>", "<|assistant|>")
"""Starts of turns; tokens 2 to 4."""

PRESET_VOCAB_SIZES: Final[Mapping[str, int]] = MappingProxyType({"nano": 512, "tiny": 4096, "moe-nano": 512})
"""Vocabulary size of every preset's tokenizer."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ['system', 'user', 'assistant'] -%}"
    "{{- raise_exception('roles are system, user and assistant, not ' + message['role']) -}}"
    "{%- endif -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""Role mark, content, end mark."""

_LOADING = Lock()
"""Lock, since two threads that import transformers at once find it half initialised."""

_SPECIAL = (END, PAD, *ROLE_MARKS)
_SMALLEST = 256 + len(_SPECIAL)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with exactly `vocab_size` tokens.

    If the texts have too few pairs to merge, the rest are reserved tokens `<|reserved_i|>`. Equal texts in equal order
    give equal files, in any process.

    Raises:
        ConfigError: if `vocab_size` does not hold the 256 bytes and the special tokens.
    """
    if vocab_size < _SMALLEST:
        raise ConfigError(
            "too small for 256 bytes and the special tokens",
            field="vocab_size",
            value=vocab_size,
            allowed=f">= {_SMALLEST}",
        )
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    num_reserved = vocab_size - backend.get_vocab_size()
    backend.add_special_tokens([f"<|reserved_{i}|>" for i in range(num_reserved)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=list(ROLE_MARKS),
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


@cache
def preset_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of preset `name`, trained on the built-in corpus once per process.

    Raises:
        ConfigError: for a name that is not in `PRESET_VOCAB_SIZES`.
    """
    if name not in PRESET_VOCAB_SIZES:
        raise ConfigError("there is no such preset", field="preset", value=name, allowed=PRESET_VOCAB_SIZES)
    with _LOADING:
        return train_tokenizer(builtin_corpus(), PRESET_VOCAB_SIZES[name])


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))


TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_JSON_FILES = (*TOKENIZER_FILES, "special_tokens_map.json", "added_tokens.json", "chat_template.json")


def has_tokenizer(folder: Path) -> bool:
    """True if a model's folder contains a tokenizer."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model's folder, without access to a hub.

    Raises:
        ConfigError: the folder has no usable tokenizer.
    """
    if not has_tokenizer(folder):
        raise ConfigError(
            "this model's folder has no tokenizer",
            field="model",
            value=str(folder),
            allowed=f"a folder with {' and '.join(TOKENIZER_FILES)}",
        )
    described = _described(folder)
    with _LOADING:
        try:
            tokenizer = _class_for(folder).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            tokenizer.decode(tokenizer.encode("a"))
        except BaseException as error:
            if not is_failure(error):
                raise
            raise ConfigError(
                f"{folder}: this model's tokenizer cannot be read",
                field="tokenizer",
                value=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
                allowed="files that transformers reads without code of the model's own",
                fix="fetch the tokenizer's files again",
            ) from error
    _require_as_described(tokenizer, described, folder / TOKENIZER_FILES[0])
    return tokenizer


def _class_for(folder: Path) -> type[PreTrainedTokenizerFast | AutoTokenizer]:
    """Return the class of a folder's tokenizer: the one that AutoTokenizer would choose.

    AutoTokenizer reads the model's config first, for which it loads half of the library (1.4 s). Its choice is known
    for a llama whose config declares a plain tokenizer.json, as those of the presets do.
    """
    import transformers

    kinds: list[object] = []
    for name, key in (("config.json", "model_type"), (TOKENIZER_FILES[1], "tokenizer_class")):
        try:
            value: object = read_json(folder / name)
        except (OSError, ValueError):
            return transformers.AutoTokenizer
        values = cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
        kinds += [values.get(key), "auto_map" in values]
    plain = kinds == ["llama", False, "TokenizersBackend", False]
    return transformers.PreTrainedTokenizerFast if plain else transformers.AutoTokenizer


def _described(folder: Path) -> Mapping[str, Any]:
    """Parse tokenizer.json; JSON that would crash its readers, or that they would guess at, is rejected."""
    described: object = None
    for name in _JSON_FILES:
        file = folder / name
        if not file.is_file():
            continue
        try:
            value = read_json(file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file}: cannot be read as JSON", field="file", value=str(error)) from None
        described = value if name == TOKENIZER_FILES[0] else described
    return cast("Mapping[str, Any]", described) if isinstance(described, dict) else {}


def _require_as_described(tokenizer: PreTrainedTokenizerBase, described: Mapping[str, Any], file: Path) -> None:
    """Reject a tokenizer with random tokens, or one that differs from its file: the library at most warns.

    Raises:
        ConfigError: naming the setting or the token.
    """
    fix = "fetch the tokenizer's files again, or correct them"
    dropout = described.get("model", {}).get("dropout")
    if dropout:
        raise ConfigError(f"{file}: equal texts would get other tokens", field="dropout", value=dropout, allowed="null")
    vocab = tokenizer.get_vocab()
    token_of: dict[int, str] = {}
    for token, index in vocab.items():
        if token_of.setdefault(index, token) != token:
            both = sorted((token, token_of[index]))
            raise ConfigError(f"{file}: two tokens have one id", field=f"token {index}", value=both, fix=fix)
    for added in described.get("added_tokens", []):
        if vocab.get(added["content"]) != added["id"]:
            raise ConfigError(
                f"{file}: an added token does not get its id",
                field=f"added_tokens: {added['content']}",
                value=added["id"],
                allowed=f"{vocab.get(added['content'])}, as the vocabulary has it",
                fix=fix,
            )
