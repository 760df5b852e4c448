"""Small tokenizers of the kinds that published models have, trained on the spot, and texts on which they differ.

Each is a pipeline as the models' own tokenizer.json describes it; nothing here is taken from what is tested.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, processors, trainers
from tokenizers import pre_tokenizers as pre
from transformers import PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS as SPLITS

from tinsmith.renderers.corpus import builtin_corpus

SPACE = "\u2581"
_LEARNT = 700
_LETTERS = (
    "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e \u0645\u0631\u062d\u0628\u0627 \ud55c\uad6d\uc5b4 \U0001f642 "
    "HELLO WE'LL don't 2024 "
)
_MARKS = ("<|end|>", "<|begin|>", "<|user|>", "<unk>")
_DEEPSEEK_MARKS = (
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    "<\uff5cUser\uff5c>",
    "<unk>",
)
_DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_CODER = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")
_PARTS = (
    *("the", "Then", "HELLO", "it's", "WE'LL", "don't", "camelCase", "snake_case", "begin", "user", "end", "|"),
    *("\uff5c",),
    *("na\u00efve", "nai\u0308ve", "A\u030a", "\u212b", "e\u0301\u0323", "\ufb01", "\u1e9e", "\u0130"),
    *("\u01c5", "\u02b0"),
    *("\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u65e5\u672c\u8a9e", "\u3042\u30a2"),
    *("\ud55c\uad6d\uc5b4", "\u1112\u1161"),
    *("\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e44\u0e17\u0e22", "\U0001f642", "\U0001f468\u200d\U0001f469"),
    *("\U0001f1e9\U0001f1ea",),
    *("0", "7", "42", "123456789", "3.14", "1,000", "\u0663", "\u2460", "\u00bd", "\u2167", "\U00010330"),
    *(" ", " ", " ", "  ", "   ", " " * 33, "\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\u00a0", "\u2003"),
    *("\u3000", SPACE),
    *(".", ",", "!?", "...", "()", "[", "{}", "/", "//", "\\", "<", ">", "$", "`", "\u3002", "\u2019", "'"),
    *('"', "#include"),
    *("\x00", "\x01", "\x1b", "\x7f", "\x85", "\u200b", "\u200e", "\u202e", "\u2066", "\ufeff", "\ufffd", "\U0010ffff"),
    *("<s>", "</s>", "<0x0A>", "[PAD]", "<|", "|>"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of tokenizer."""

    make: Callable[[], Tokenizer]
    model: str
    """As GGUF files call it."""
    split: str
    """The name of its rule there."""
    marks: tuple[str, ...] = _MARKS
    begins: bool = False
    composes: bool = False
    """Its normalizer is NFC."""


def texts(kind: Kind, count: int, seed: int) -> list[str]:
    """Return texts of words, numbers, spaces, control characters, marks and single characters of any block."""
    chosen = random.Random(seed)
    parts = [*_PARTS, *kind.marks, *kind.marks, "<tool>", "</tool>"]

    def part() -> str:
        return (
            chosen.choice(parts)
            if chosen.random() < 0.9
            else chr(chosen.choice((chosen.randrange(0xD800), 0x1F300 + chosen.randrange(0x300))))
        )

    return ["".join(part() for _ in range(chosen.randint(1, 20))) for _ in range(count)]


@cache
def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer as it comes out of a model's folder."""
    kind = KINDS[name]
    backend = kind.make()
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in kind.marks])
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in ("<tool>", "</tool>")])
    end, begin = kind.marks[:2]
    if kind.begins:
        single = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, backend.token_to_id(begin))]
        )
        backend.post_processor = single
    marks = {"eos_token": end, "bos_token": begin, "unk_token": "<unk>" if kind.model == "llama" else None}
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **marks)


def converted(name: str) -> dict[str, object]:
    """Return the metadata that llama.cpp's conversion script writes of a tokenizer."""
    kind, backend = KINDS[name], tokenizer(name).backend_tokenizer
    model = json.loads(backend.to_str())["model"]
    ids = {index: token for token, index in backend.get_vocab().items()}
    tokens = [ids[index] for index in range(len(ids))]
    added = backend.get_added_tokens_decoder()
    kinds = [
        (3 if added[i].special else 4) if i in added else 6 if _is_byte(kind, token) else 1
        for i, token in enumerate(tokens)
    ]
    scores = {"".join(merge): -float(rank) for rank, merge in reversed(list(enumerate(model["merges"])))}
    own = {"merges": [" ".join(merge) for merge in model["merges"]]}
    if kind.model == "llama":
        own = {"scores": [scores.get(token, -1e6) for token in tokens], "add_space_prefix": kind.split == "prefix"}
        own["unknown_token_id"] = tokens.index("<unk>")
    return {
        "tokenizer.ggml.model": kind.model,
        "tokenizer.ggml.pre": "default" if kind.model == "llama" else kind.split,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.eos_token_id": tokens.index(kind.marks[0]),
        "tokenizer.ggml.bos_token_id": tokens.index(kind.marks[1]),
        "tokenizer.ggml.add_bos_token": kind.begins,
        **{f"tokenizer.ggml.{key}": value for key, value in own.items()},
    }


def write_metadata(writer: gguf.GGUFWriter, metadata: dict[str, object]) -> None:
    """Add keys by the `gguf` library."""
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, str(value))


def _is_byte(kind: Kind, token: str) -> bool:
    return kind.model == "llama" and len(token) == 6 and token.startswith("<0x")


def _corpus() -> list[str]:
    return [*builtin_corpus(num_sentences=800), *[_LETTERS * 3] * 20]


def _byte_level(*steps: pre.PreTokenizer, whole_words: tuple[str, ...] = (), nfc: bool = False) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    last = pre.ByteLevel(add_prefix_space=False, use_regex=not any(isinstance(step, pre.Split) for step in steps))
    backend.pre_tokenizer = pre.Sequence([*steps, last])
    alphabet = sorted(pre.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=_LEARNT, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(_corpus(), trainer)
    learnt = json.loads(backend.to_str())["model"]
    vocab = learnt["vocab"] | {word: len(learnt["vocab"]) + at for at, word in enumerate(whole_words)}
    merges = [tuple(merge) for merge in learnt["merges"]]
    backend.model = models.BPE(vocab=vocab, merges=merges, ignore_merges=bool(whole_words))
    backend.decoder = decoders.ByteLevel()
    if nfc:
        backend.normalizer = normalizers.NFC()
    return backend


def _split(*patterns: str) -> list[pre.PreTokenizer]:
    return [pre.Split(Regex(pattern), "isolated") for pattern in patterns]


def _sentencepiece(*, prefix: bool) -> Tokenizer:
    """Learnt within words; then every pair that makes a token is a merge, by the token's rank."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.pre_tokenizer = pre.Metaspace(replacement=SPACE)
    backend.train_from_iterator(_corpus(), trainers.BpeTrainer(vocab_size=_LEARNT, show_progress=False))
    learnt = json.loads(backend.to_str())["model"]["vocab"]
    first = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocab = {
        token: at for at, token in enumerate([*first, *sorted(learnt, key=lambda token: learnt[token]), SPACE * 2])
    }
    merges = [
        (token[:at], token[at:])
        for token in list(vocab)[len(first) :]
        for at in range(len(token) - 1, 0, -1)
        if token[:at] in vocab and token[at:] in vocab
    ]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    steps = [normalizers.Prepend(SPACE)] if prefix else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    back = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*back, *([decoders.Strip(" ", 1, 0)] if prefix else [])])
    return backend


_WORDS = ("\u0120camelCase", "camelCase", "HELLO", "\u0120user", "123456789"[:3])
_SENTENCE_MARKS = ("</s>", "<s>", "<unk>", "[INST]")

KINDS = {
    "gpt2": Kind(_byte_level, "gpt2", "gpt-2"),
    "smollm": Kind(lambda: _byte_level(pre.Digits(individual_digits=True)), "gpt2", "smollm"),
    "llama3": Kind(
        lambda: _byte_level(*_split(SPLITS["llama-bpe"]), whole_words=_WORDS), "gpt2", "llama-bpe", begins=True
    ),
    "llama3_without_words": Kind(lambda: _byte_level(*_split(SPLITS["smaug-bpe"])), "gpt2", "smaug-bpe"),
    "qwen2": Kind(lambda: _byte_level(*_split(SPLITS["qwen2"])), "gpt2", "qwen2"),
    "qwen2_nfc": Kind(lambda: _byte_level(*_split(SPLITS["qwen2"]), nfc=True), "gpt2", "qwen2", composes=True),
    "qwen35": Kind(lambda: _byte_level(*_split(SPLITS["qwen35"])), "gpt2", "qwen35"),
    "deepseek": Kind(lambda: _byte_level(*_split(*_DEEPSEEK)), "gpt2", "deepseek-v3", _DEEPSEEK_MARKS, begins=True),
    "deepseek_coder": Kind(
        lambda: _byte_level(*_split(*_CODER), pre.Digits(individual_digits=True)), "gpt2", "deepseek-coder"
    ),
    "tekken": Kind(lambda: _byte_level(*_split(SPLITS["tekken"]), whole_words=_WORDS), "gpt2", "tekken", begins=True),
    "gpt4o": Kind(lambda: _byte_level(*_split(SPLITS["gpt-4o"])), "gpt2", "gpt-4o"),
    "llama2": Kind(lambda: _sentencepiece(prefix=True), "llama", "prefix", _SENTENCE_MARKS, begins=True),
    "gemma": Kind(lambda: _sentencepiece(prefix=False), "llama", "none", _SENTENCE_MARKS, begins=True),
}
