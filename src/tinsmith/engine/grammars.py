"""Grammars that a completion must match: compiled once per base model, followed token by token, by llguidance.

llguidance determines the allowed tokens, and the sampler draws from them. It is imported on first use.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tinsmith.models.config import DecoderConfig
from tinsmith.renderers.model_text import ModelText
from tinsmith.renderers.vocabulary import within_rows
from tinsmith.types.errors import BackendError, InputError
from tinsmith.types.sampling import Grammar, GrammarKind, SampleRequest

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MAX_GRAMMAR_CHARS = 1 << 15
"""Most characters of a schema, pattern or grammar."""
ASCII_CLASSES = "dws"
r"""Flag that makes \d, \w and \s of a pattern ASCII, so that matches do not depend on the edition of Unicode."""
_TEMPERATURE = re.compile(r"\[[^\[\]\n]*\btemperature\b[^\]\n]*\]")
MAX_CACHED = 32
"""Size of the cache per base model, least recently used evicted first: compiled grammars and failures."""
WHITESPACE = r"[ \n]?"
"""Whitespace between the parts of a JSON text: at most one character, so that a bounded schema has a longest text."""
_GREATEST, _LEAST = 2**63 - 1, -(2**63)
"""Integers of llguidance, which computes other numbers as float64; the least one overflows its stack."""
_VALUES = ("const", "enum")
_STEPS = {"maximum": 0, "exclusiveMaximum": -1, "minimum": 0, "exclusiveMinimum": 1}
"""Bounds, and the integer next to each that is the last one within it."""
MAX_MULTIPLE = 100_000
"""Most of what the numbers of `multipleOf` are together, without their factors 2 and 5: states of an automaton."""
MAX_PATTERN_PROPERTIES = 200
"""Most patterns for the keys of one object, each of which is compared with each."""
MAX_FORCED = 256
"""Most repetitions of a pattern with which llguidance looks for all that must follow, which no limit bounds."""
_COUNT = re.compile(r"\{\s*(\d*)\s*(?:,\s*(\d*)\s*)?\}")
_LENGTH = re.compile(r'"(?:min|max)Length": (\d+)')
_BRANCH = re.compile(r"[?*+|&~]")
_TERMINAL = re.compile(r"^\s*_*[A-Z]\w*\s*[:.\[]", re.MULTILINE)
_UNFORCED = '\n%llguidance {"no_forcing": true}\n'
_EMBEDDED = re.compile(r"%json\s*")
"""Beginning of a JSON schema within a Lark grammar."""

ESCAPES = r"nrbtf\""
r"""Letters after a backslash in a JSON text: without `u`, with which a declared key could come once more, respelled."""


@dataclass(slots=True)
class Matcher:
    """Progress of one sample through its grammar."""

    matcher: LLMatcher
    ends: NDArray[np.int64]
    """Tokens that end a completion where the grammar accepts."""
    vocab_size: int

    def allowed(self) -> NDArray[np.bool_]:
        """Return the mask of the tokens that may come next, (vocab_size,).

        Raises:
            InputError: the grammar is too complex at this point.
        """
        bits = np.unpackbits(np.frombuffer(self.matcher.compute_bitmask(), np.uint8), bitorder="little")
        self._refuse_failed()
        allowed = np.zeros(self.vocab_size, np.bool_)
        allowed[: len(bits)] = bits[: self.vocab_size]
        allowed[self.ends] = self.matcher.is_accepting()
        if not allowed.any():
            raise InputError(
                "a completion cannot follow its grammar any further: no token of this model can come next",
                field="grammar",
                allowed="what the model's tokens can spell",
            )
        return allowed

    def take(self, token: int) -> bool:
        """Advance by one allowed token; return True if nothing can follow it.

        Raises:
            InputError: the grammar is too complex at this point.
        """
        if token in self.ends:
            return True
        self.matcher.consume_token(token)
        self._refuse_failed()
        return self.matcher.is_stopped()

    def _refuse_failed(self) -> None:
        if self.matcher.is_error():
            raise InputError(
                f"a completion cannot follow its grammar any further: {_line(self.matcher.get_error())}",
                field="grammar",
                allowed="a grammar within llguidance's limits",
            )


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CompiledGrammar:
    """A grammar before its first token."""

    start: LLMatcher
    tokenizer: LLTokenizer
    config: DecoderConfig

    def matcher(self, stops: Collection[int]) -> Matcher:
        """Return a new sample's matcher; those of `stops` that are not text end a completion too."""
        known = (token for token in stops if 0 <= token < self.config.vocab_size)
        marks = (token for token in known if self.tokenizer.is_special_token(token))
        ends = sorted({*self.config.end_tokens, *marks})
        return Matcher(self.start.deep_copy(), np.array(ends, np.int64), self.config.vocab_size)


@dataclass(slots=True)
class Grammars:
    """Compiler for the grammars of one base model. Thread-safe; a caller waits only for its own grammar."""

    config: DecoderConfig
    load: Callable[[], ModelText]
    _cached: OrderedDict[Grammar, Future[CompiledGrammar]] = field(
        default_factory=OrderedDict[Grammar, "Future[CompiledGrammar]"]
    )
    """Recently used grammars: compiled, in progress, or failed."""
    _alive: WeakValueDictionary[Grammar, CompiledGrammar] = field(
        default_factory=WeakValueDictionary[Grammar, CompiledGrammar]
    )
    """Evicted grammars that are still referenced."""
    _lock: Lock = field(default_factory=Lock)
    """Lock for these two."""
    _making: Lock = field(default_factory=Lock)
    """Lock for the tokenizer."""
    _made: LLTokenizer | None = None

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Return a compiled grammar; the first time may take a second.

        Raises:
            InputError: naming the field, with llguidance's message.
        """
        with self._lock:
            alive = self._alive.get(grammar)
            if alive is not None:
                return alive
            future = self._cached.get(grammar)
            mine = future is None
            if future is None:
                future = self._cached[grammar] = Future()
                if len(self._cached) > MAX_CACHED:
                    self._cached.popitem(last=False)
            self._cached.move_to_end(grammar)
        if mine:
            self._settle(grammar, future)
        try:
            return future.result()
        except InputError as error:
            raise error.with_traceback(None) from None

    def _settle(self, grammar: Grammar, future: Future[CompiledGrammar]) -> None:
        """Compile a grammar once for all callers that wait for it; cache only failures caused by the grammar."""
        try:
            compiled = self._compile(grammar)
        except BaseException as error:
            if not isinstance(error, InputError):
                with self._lock:
                    self._cached.pop(grammar, None)
            future.set_exception(error)
            return
        with self._lock:
            self._alive[grammar] = compiled
        future.set_result(compiled)

    def marks(self, spellings: Collection[str]) -> frozenset[str]:
        """Return the texts that are a single token named by a grammar, `<so>`, and never matched as text.

        llguidance decides that, not the tokenizer: it names added tokens of the form `<so>`, special or not.

        Raises:
            InputError: this tokenizer cannot follow a grammar.
        """
        tokenizer = self._tokenizer()
        vocab = self.load().tokenizer.get_vocab()
        known = (each for each in spellings if vocab.get(each, self.config.vocab_size) < self.config.vocab_size)
        return frozenset(each for each in known if tokenizer.is_special_token(vocab[each]))

    def _compile(self, grammar: Grammar) -> CompiledGrammar:
        from llguidance import LLMatcher, LLParserLimits

        source = _source(grammar)
        limits = LLParserLimits(
            initial_lexer_fuel=500_000,
            max_lexer_states=50_000,
            max_grammar_size=100_000,
            precompute_large_lexemes=False,  # up to ten seconds, for patterns that nobody writes
            verbose_errors=False,
        )
        tokenizer = self._tokenizer()
        start = LLMatcher(tokenizer, source, log_level=0, limits=limits)
        if start.is_error():
            raise _refusal(grammar, start.get_error())
        return CompiledGrammar(start, tokenizer, self.config)

    def _tokenizer(self) -> LLTokenizer:
        with self._making:
            return self._loaded()

    def _loaded(self) -> LLTokenizer:
        if self._made is None:
            from llguidance.hf import from_tokenizer
            from transformers import PreTrainedTokenizerFast

            text = self.load()
            loaded = text.tokenizer
            if isinstance(loaded, PreTrainedTokenizerFast) and text.vocabulary.num_tokens > text.vocabulary.num_rows:
                narrow = within_rows(loaded.backend_tokenizer, text.vocabulary)
                loaded = PreTrainedTokenizerFast(tokenizer_object=narrow)
            if not isinstance(loaded, PreTrainedTokenizerFast):
                raise InputError(
                    "this model's tokenizer cannot follow a grammar",
                    field="grammar",
                    value=type(loaded).__name__,
                    allowed="a tokenizer with a tokenizer.json",
                )
            ends = list(self.config.end_tokens) or None
            try:
                self._made = _spelling_all(
                    from_tokenizer(loaded, n_vocab=self.config.vocab_size, eos_token=ends, slices=[])
                )
            except ValueError as error:
                raise BackendError(
                    f"llguidance cannot read this model's tokenizer: {_line(str(error))}", field="grammar"
                ) from error
        return self._made


class _Speller:
    """Tokenizer that encodes every text as itself: by its longest tokens where the model's tokenizer changes it.

    A model's tokenizer may normalize a text, prepend a space, or read the spelling of a control token as that token.
    """

    def __init__(self, read: LLTokenizer) -> None:
        self.eos_token_id, self.bos_token_id = read.eos_token, None
        self.tokens = [read.decode_bytes([token]) for token in range(read.vocab_size)]
        self.special_token_ids = [token for token in range(read.vocab_size) if read.is_special_token(token)]
        self._read = read

    def __call__(self, text: bytes) -> list[int]:
        spelled = text.decode()
        tokens = self._read.tokenize_str(spelled)
        if self._read.decode_bytes(tokens) == text and not any(map(self._read.is_special_token, tokens)):
            return tokens
        return self._read.greedy_tokenize(spelled)


def _spelling_all(read: LLTokenizer) -> LLTokenizer:
    """Return a tokenizer with which a grammar can demand any text; llguidance refuses its own tokens otherwise."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Speller(read)), n_vocab=read.vocab_size, eos_token=read.eos_tokens)


def compile_grammar(request: SampleRequest, grammars: Grammars | None) -> CompiledGrammar | None:
    """Return the grammar a request asks for; None if it asks for none.

    Raises:
        InputError: it does not compile, or there is no tokenizer.
    """
    adjustments = request.params.adjustments
    if adjustments is None or adjustments.grammar is None:
        return None
    if grammars is None:
        raise InputError(
            "a grammar needs a model with a tokenizer",
            field=field_of(adjustments.grammar),
            allowed="requests without one",
        )
    return grammars.compile(adjustments.grammar)


def field_of(grammar: Grammar) -> str:
    """Field of a request for a grammar of this kind."""
    json_kinds = (GrammarKind.JSON_OBJECT, GrammarKind.JSON_SCHEMA)
    return "response_format" if grammar.kind in json_kinds else "grammar"


def _source(grammar: Grammar) -> str:
    """Return the grammar in llguidance's form.

    Raises:
        InputError: for a text that is too long, not JSON, or uses an unsupported feature.
    """
    from llguidance import LLMatcher, regex_to_lark

    if len(grammar.text) > MAX_GRAMMAR_CHARS:
        raise InputError(
            "a grammar is too long",
            field=field_of(grammar),
            value=f"{len(grammar.text)} characters",
            allowed=f"at most {MAX_GRAMMAR_CHARS}",
        )
    if grammar.kind is GrammarKind.LARK and _TEMPERATURE.search(grammar.text):
        raise _refusal(grammar, "a rule cannot have a temperature of its own")
    text = '{"type": "object"}' if grammar.kind is GrammarKind.JSON_OBJECT else grammar.text
    try:
        if grammar.kind is GrammarKind.LARK:
            schemas = list(_embedded_schemas(text))
            for schema in schemas:
                _check_schema(schema)
            nested = len(_TERMINAL.findall(text)) > 1 or _repeats(text) or any(map(_repeats_pattern, schemas))
            return LLMatcher.grammar_from_lark(text + _UNFORCED if nested else text)
        if grammar.kind is GrammarKind.REGEX:
            repeats = _repeats(text)
            source = LLMatcher.grammar_from_regex(regex_to_lark(text, ASCII_CLASSES))
        else:
            schema = json.loads(text)
            _check_schema(schema)
            repeats = _repeats_pattern(schema)
            source = LLMatcher.grammar_from_json_schema(
                text,
                defaults={"whitespace_pattern": WHITESPACE},
                overrides={"lenient": False, "json_allowed_escapes": ESCAPES},
            )
        if not repeats:
            return source
        (inner,) = json.loads(source)["grammars"]
        return json.dumps({"grammars": [{"lark_grammar": f"start: @{inner['name']}{_UNFORCED}"}, inner]})
    except (ValueError, RecursionError) as error:
        raise _refusal(grammar, str(error)) from error


def _repeats(text: str) -> bool:
    """True if patterns in a text may demand so much that it must not be looked for in one step."""
    counts = math.prod(max([1, *map(int, filter(None, found))]) for found in _COUNT.findall(text))
    return counts * (1 + len(_BRANCH.findall(text))) > MAX_FORCED


def _repeats_pattern(schema: object) -> bool:
    """True if that may be so for the patterns in a schema."""
    text = json.dumps(schema)
    lengths = any(int(found) > MAX_FORCED for found in _LENGTH.findall(text))
    return '"pattern' in text and (lengths or _repeats(text))


def _embedded_schemas(lark: str) -> Iterator[object]:
    """Yield the JSON schemas within a Lark grammar."""
    for begun in _EMBEDDED.finditer(lark):
        try:
            yield json.JSONDecoder().raw_decode(lark, begun.end())[0]
        except (ValueError, RecursionError):
            continue  # text that looks like one, or for llguidance to refuse


def _check_schema(schema: object) -> None:
    """Check that every answer under a schema will be valid. A reference may make a schema of any part of it.

    Raises:
        ValueError: naming the part.
    """
    parts: list[tuple[str, object]] = [("", schema)]
    multiples = 0
    while parts:
        key, part = parts.pop()
        if isinstance(part, dict):
            least, required = part.get("minProperties"), part.get("required")
            if isinstance(least, (int, float)) and least > 1 + len(required if isinstance(required, list) else ()):
                raise ValueError(f'"minProperties" would count a key twice: {least}')
            patterns = part.get("patternProperties")
            if isinstance(patterns, dict) and len(patterns) > MAX_PATTERN_PROPERTIES:
                raise ValueError(f'"patternProperties" has more than {MAX_PATTERN_PROPERTIES} patterns')
            parts += [(key if key in _VALUES else name, value) for name, value in part.items()]
        elif isinstance(part, list):
            parts += [(key, value) for value in part]
        elif isinstance(part, (int, float)):
            if _is_rounded(key, part):
                raise ValueError(f'the number of "{key}" would be rounded: {part}')
            if key == "multipleOf" and 1 <= part < math.inf:
                multiples += _without_factors_of_ten(int(part))
            if multiples > MAX_MULTIPLE:
                raise ValueError(f'"multipleOf" takes too many states: {part}')


def _without_factors_of_ten(number: int) -> int:
    for factor in (2, 5):
        while number % factor == 0:
            number //= factor
    return number


def _is_rounded(key: str, number: float) -> bool:
    """True if llguidance's number admits an invalid answer; a bound may be rounded inward."""
    if abs(number) < 2**53 or (key not in _VALUES and key not in _STEPS):
        return False
    step = _STEPS.get(key, 0)
    try:
        exact, read = int(number) + step, min(int(float(number) + step), _GREATEST)
    except (OverflowError, ValueError):  # beyond float64, or not finite
        return True
    if read <= _LEAST:
        return True
    if key in _VALUES:
        return read != exact
    return read > exact if step < 0 or key == "maximum" else read < exact


def _refusal(grammar: Grammar, message: str) -> InputError:
    return InputError(
        f"this {grammar.kind.value.replace('_', ' ')} cannot be compiled: {_line(message)}",
        field=field_of(grammar),
        value=grammar.text[:80],
        allowed="what llguidance implements",
    )


def _line(message: str) -> str:
    """Collapse a text to one line of at most 300 characters."""
    return " ".join(message.split())[:300]
