"""Rules by which byte-level vocabularies split text before merging, by their names in GGUF files.

Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in llama.cpp's llama-vocab.cpp; for expressions that it adapts
to its own matcher, the models' own tokenizer.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import PreTokenizer

_SHORT: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST: Final = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_DIGIT: Final = r"\p{N}"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3: Final = _SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST
_QWEN2: Final = _SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST
_QWEN35: Final = (
    _SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LOWER: Final = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER: Final = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_SLASH: Final = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_TEKKEN: Final = rf"{_LOWER}|{_UPPER}|\p{{N}}{_SLASH}"
_GPT4O: Final = rf"{_LOWER}{_SHORT}?|{_UPPER}{_SHORT}?|\p{{N}}{{1,3}}{_SLASH}"
_DEEPSEEK3: Final = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
)
_DEEPSEEK_CODER: Final = (
    *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
    *("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", _DIGIT),
)
_SEED_CODER: Final = _SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_UNNAMED: Final = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """Rule that splits text into the pieces to be merged."""

    patterns: tuple[str, ...]
    """Regular expressions, each applied to the pieces of the one before it."""
    whole_words: bool = False
    """True if a piece that is a token stays whole, whatever its merges are (`ignore_merges`)."""
    begins: bool = False
    """True if a text begins with the begin token, unless the file specifies it."""


_NAMES: Final[Mapping[SplitRule, tuple[str, ...]]] = {
    SplitRule(patterns=(_GPT2,)): (
        *("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "gigachat", "a.x-4.0", "mellum"),
        "granite-docling",
    ),
    SplitRule(patterns=(_DIGIT, _GPT2)): (
        *("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
    ),
    SplitRule(patterns=(_LLAMA3,), whole_words=True, begins=True): (
        *("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
    ),
    SplitRule(patterns=(_LLAMA3,)): ("smaug-bpe", "dbrx", "chatglm-bpe", "glm4"),
    SplitRule(patterns=(_QWEN2,)): (
        *("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"),
    ),
    SplitRule(patterns=(_QWEN35,)): ("qwen35",),
    SplitRule(patterns=(_TEKKEN,), whole_words=True, begins=True): ("tekken",),
    SplitRule(patterns=(_GPT4O,)): ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
    SplitRule(patterns=_DEEPSEEK3): ("deepseek-v3", "hunyuan-dense", "joyai-llm"),
    SplitRule(patterns=_DEEPSEEK_CODER): ("deepseek-coder",),
    SplitRule(patterns=(_SEED_CODER,)): ("seed-coder",),
    SplitRule(patterns=_UNNAMED): ("default", ""),
}
"""Rules with their names; the first name is the one that is written."""

RULES: Final[Mapping[str, SplitRule]] = {name: rule for rule, names in _NAMES.items() for name in names}
"""Rules by name."""

_SPELLINGS: Final = {
    _GPT2.replace("'s|'t|'re|'ve|'m|'ll|'d", "'(?:[sdmt]|ll|ve|re)"): _GPT2,
    _GPT2.removesuffix(r"|\s+"): _GPT2,
    _SEED_CODER.replace("{1}", ""): _SEED_CODER,
}
"""Other spellings of an expression above."""


def name_of(patterns: tuple[str, ...], *, whole_words: bool) -> str | None:
    """Return the name of a rule, or None."""
    for rule, names in _NAMES.items():
        if rule.patterns == patterns and rule.whole_words is whole_words:
            return names[0]
    return None


def pre_tokenizer(rule: SplitRule) -> PreTokenizer:
    """Return the step of a `tokenizers` pipeline that splits text by a rule, and spells bytes as letters."""
    from tokenizers import Regex, pre_tokenizers

    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def patterns_of(step: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    """Return the expressions of a pre-tokenizer in tokenizer.json's form, or None if it is of another kind."""
    steps: list[Mapping[str, Any]] = [] if step is None else step.get("pretokenizers", [step])
    if not steps or steps[-1]["type"] != "ByteLevel" or steps[-1]["add_prefix_space"]:
        return None
    patterns: list[str] = []
    for each in steps[:-1]:
        if each["type"] == "Digits" and each["individual_digits"]:
            patterns.append(_DIGIT)
        elif each["type"] == "Split" and each["behavior"] == "Isolated" and "Regex" in each["pattern"]:
            spelled = str(each["pattern"]["Regex"]).replace("\r", r"\r").replace("\n", r"\n")
            patterns.append(_SPELLINGS.get(spelled, spelled))
        else:
            return None
    return (*patterns, _GPT2) if steps[-1]["use_regex"] else tuple(patterns)
