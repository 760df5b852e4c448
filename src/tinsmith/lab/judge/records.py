"""A judge's answers and verdicts, and records of judging.

Every field of a record has a default: a run that was killed leaves files that stop anywhere, and its report still
opens.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

import msgspec

from tinsmith.lab.strict_json import JsonObject, JsonValue, NotJsonError, read_json
from tinsmith.types.errors import ConfigError, DataError, JudgeError

SCHEMA_VERSION: Final = 1  # Of the answer and of the prompt that asks for it; another version, another cache entry.

_RATINGS: Final[Mapping[str, bool]] = MappingProxyType({"Yes": True, "No": False})


class ParseFailure(enum.StrEnum):
    """Reason why an answer holds no verdicts, or no choice."""

    NOT_JSON = "not_json"
    BAD_SHAPE = "bad_shape"
    SHORT = "short"
    LONG = "long"
    BAD_RATING = "bad_rating"
    BAD_CHOICE = "bad_choice"


class FailureCause(enum.StrEnum):
    """Cause of giving a judging up: the last attempt's."""

    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    TIMED_OUT = "timed_out"
    DISCONNECTED = "disconnected"
    REFUSED = "refused"  # A status that another attempt would not change: a wrong key, no such model, a bad request.
    NO_CONTENT = "no_content"  # The body is no chat completion with a text in it.
    DECLINED = "declined"  # The judge's model refused to answer.
    FILTERED = "filtered"  # The endpoint's content filter kept the answer back.
    CUT_OFF = "cut_off"  # The answer reached its token limit before it was complete.
    BAD_ANSWER = "bad_answer"  # The text holds no verdicts; `JudgeFailure.parse` says why.


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's finding about one criterion."""

    passed: bool
    rationale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Cost of judging: calls sent, failed ones too, and their tokens; `a + b` is both."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    """True if a call that may be billed came without token counts, so that they were estimated from the texts."""

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated or other.estimated,
        )


A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[A]):
    """A judge's answer, and what it took."""

    value: A
    spent: Spent
    from_cache: bool


Judged = Answered[tuple[Verdict, ...]]
"""A response's verdicts, one for each criterion, in the criteria's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFailure:
    """A response without verdicts: to be recorded and left out, never to be scored."""

    cause: FailureCause
    detail: str  # In a line; holds no key and not the response.
    spent: Spent
    parse: ParseFailure | None = None

    def error(self) -> JudgeError:
        """Return the failure as an error, for who cannot go on without verdicts."""
        cut = self.cause is FailureCause.CUT_OFF
        fix = f"{'raise judge_max_tokens' if cut else 'check judge_model, judge_base_url and the key'}, then resume"
        return JudgeError(f"the judge gave no verdicts: {self.detail}", field="cause", value=str(self.cause), fix=fix)


def parse_verdicts(text: str, criteria: int) -> tuple[Verdict, ...] | ParseFailure:
    """Read `{"ratings": [{"rating": "Yes" | "No", "rationale": "..."}]}`, exactly one rating a criterion.

    Strict: no other keys, none twice, no text around it. A short list is not padded.

    >>> parse_verdicts('{"ratings": [{"rating": "Yes", "rationale": "It does."}]}', 1)
    (Verdict(passed=True, rationale='It does.'),)
    >>> parse_verdicts('{"ratings": []}', 1)
    <ParseFailure.SHORT: 'short'>
    """
    try:
        answer = read_json(text)
    except NotJsonError:
        return ParseFailure.NOT_JSON
    fields = fields_of(answer, {"ratings"})
    ratings = None if fields is None else fields["ratings"]
    if not isinstance(ratings, list):
        return ParseFailure.BAD_SHAPE
    if len(ratings) != criteria:
        return ParseFailure.SHORT if len(ratings) < criteria else ParseFailure.LONG
    verdicts: list[Verdict] = []
    for one in ratings:
        verdict = _verdict(one)
        if isinstance(verdict, ParseFailure):
            return verdict
        verdicts.append(verdict)
    return tuple(verdicts)


def _verdict(value: JsonValue) -> Verdict | ParseFailure:
    fields = fields_of(value, {"rating", "rationale"})
    if fields is None:
        return ParseFailure.BAD_SHAPE
    rating, rationale = fields["rating"], fields["rationale"]
    if not isinstance(rationale, str):
        return ParseFailure.BAD_SHAPE
    if not isinstance(rating, str) or rating not in _RATINGS:
        return ParseFailure.BAD_RATING
    return Verdict(_RATINGS[rating], rationale)


def fields_of(value: JsonValue, names: set[str]) -> dict[str, JsonValue] | None:
    """Return an object's fields where they are these, each once; None for anything else."""
    if not isinstance(value, JsonObject) or sorted(value.keys) != sorted(names):
        return None
    return dict(value.pairs)


def check_criteria(criteria: Sequence[str]) -> None:
    """Check the criteria of a response."""
    if not criteria or not all(criterion.strip() for criterion in criteria):
        what = "a response is judged by at least one criterion, and none is empty"
        raise DataError(what, field="criteria", value=list(criteria))


RULES: Final = "rules"
"""The name of the judge that knows surfaces and rules."""


class CriteriaRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `tasks.jsonl`."""

    task_id: str
    split: str = ""
    prompt: str = ""
    criteria: tuple[str, ...] = ()
    judge_prompt: str = ""  # As the judge is shown it, where that is another text than the prompt.


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of the judge: responses judged, and what that took."""

    judged: int = 0
    failed: int = 0
    from_cache: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    dollars: float | None = None
    left_out: tuple[str, ...] = ()
    """Fields of the calls that the endpoint refused, so that they were not sent; see `endpoint.OPTIONAL`."""


def summed(lines: Sequence[LedgerRecord]) -> LedgerRecord:
    """Return the sum of all askings."""
    counts = ("judged", "failed", "from_cache", "calls", "prompt_tokens", "completion_tokens")
    # Answers from the cache alone cost nothing, whatever the judge's price.
    dollars = [line.dollars if line.calls else 0.0 for line in lines]
    known = [each for each in dollars if each is not None]
    return LedgerRecord(
        **{name: sum(getattr(line, name) for line in lines) for name in counts},
        estimated=any(line.estimated for line in lines),
        dollars=sum(known) if len(known) == len(dollars) else None,
        left_out=tuple(sorted({field for line in lines for field in line.left_out})),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCalls:
    """Settings of calls; they decide nothing that a judge answers."""

    judge_base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; empty: OPENAI_BASE_URL, or else OpenAI's own."""
    judge_max_retries: int = 3
    """Maximum retries of a call."""
    judge_timeout_s: float = 60.0
    """Timeout of one attempt, in seconds."""
    judge_concurrency: int = 64
    """Maximum concurrent calls."""
    judge_rpm: int = 0
    """Maximum calls per minute; 0: no limit."""
    judge_tpm: int = 0
    """Maximum tokens per minute; 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(JudgeCalls):
    """Which judge, and how it is asked."""

    judge_model: str
    """As the endpoint names it."""
    judge_temperature: float = 0.0
    """Sampling temperature of the judge."""
    judge_max_tokens: int = 0
    """Maximum tokens of an answer of the judge; 0: the endpoint's default."""
    identity: str | None = None
    """Stands in the cache for the model's name, where that may change its meaning (own weights)."""
    seed: int = 0
    """Of the waits' spread; nothing else is drawn."""

    def __post_init__(self) -> None:
        if not self.judge_model:
            raise ConfigError("no judge model is named", field="judge_model", value=self.judge_model)
        least = {"judge_concurrency": 1, "judge_max_retries": 0, "judge_temperature": 0}
        least |= {"judge_rpm": 0, "judge_tpm": 0, "judge_max_tokens": 0}
        for name, lowest in least.items():
            value: float = getattr(self, name)
            if not (math.isfinite(value) and value >= lowest):
                raise ConfigError("too small", field=name, value=value, allowed=f">= {lowest}")
        if not (math.isfinite(self.judge_timeout_s) and self.judge_timeout_s > 0):
            raise ConfigError("no time", field="judge_timeout_s", value=self.judge_timeout_s, allowed="> 0")
