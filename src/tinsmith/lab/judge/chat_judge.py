"""Knows how a judge behind an OpenAI-compatible endpoint is asked: cache, limits, attempts, failures.

::

    settings = ChatSettings(judge_model="gpt-5-mini", judge_rpm=500)
    async with ChatJudge(settings, cache=VerdictCache(folder)) as judge:
        results = await judge.judge_all([JudgeRequest(task, response, criteria), ...])

Every result is an `Answered`, or a `JudgeFailure` where the attempts are used up: a value to be recorded,
never a score. `ask` takes any other `Question` the same way. Code that awaits nothing uses `BlockingJudge`.

The window of the limits slides. A call counts from the moment it is sent until a minute after its answer, because
nobody here knows when in between the server counts it; so no minute of the server's holds more than the limit either.
A call's tokens are reserved from above before it is sent and corrected to what the server reports.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tinsmith.lab.judge.endpoint import OLD_TOKEN_LIMIT, OPENAI_URL, TOKEN_LIMIT, Endpoint, Reply, Trouble, Usage
from tinsmith.lab.judge.prompting import (
    A,
    AnswerForm,
    JudgeRequest,
    Question,
    VerdictCache,
    cache_key,
    rating_question,
    tokens_in,
)
from tinsmith.lab.judge.records import Answered, ChatSettings, FailureCause, Judged, JudgeFailure, ParseFailure, Spent
from tinsmith.types.loops import BlockingLoop
from tinsmith.types.seeds import derive

logger = logging.getLogger(__name__)

LONGEST_RETRY_AFTER_S: Final = 600.0
"""A server that asks for a longer wait (a used-up quota) is not waited for: the run can be resumed."""
_CHAT_TOKENS: Final = 64  # What a chat template may add to the texts, from above.


class ChatJudge:
    """Judges responses; to be used as `async with`, on one event loop.

    `api_key` is by default OPENAI_API_KEY; it is sent to the endpoint and kept out of everything else.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        cache: VerdictCache | None = None,
        api_key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._clock = clock or Clock()
        self._endpoint = Endpoint(
            base_url=settings.judge_base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL,
            api_key=api_key or os.environ.get("OPENAI_API_KEY") or None,
            model=settings.judge_model,
            timeout_s=settings.judge_timeout_s,
            most=settings.judge_concurrency,
        )
        self._limits = CallLimits(
            self._clock,
            concurrency=settings.judge_concurrency,
            rpm=settings.judge_rpm or math.inf,
            tpm=settings.judge_tpm or math.inf,
        )
        self._without: frozenset[str] = frozenset()
        self._longest_answer = 0  # In tokens, as reported or else estimated; 0: there was none yet.
        self._warned = False
        self.spent = Spent()
        """Cost of the calls since the last `ask_all` began: what one that is interrupted has paid for."""
        self._under_way: dict[str, asyncio.Task[Answered[Any] | JudgeFailure]] = {}

    def __repr__(self) -> str:
        return f"ChatJudge({self._endpoint!r})"

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of the call that the endpoint refused and that are no longer sent; see `endpoint.OPTIONAL`.

        A limit on tokens is none of them: it is sent under its old name.
        """
        return self._without - {TOKEN_LIMIT}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all, as many at once as the limits allow; results in the order of the requests."""
        return await self.ask_all([rating_question(request) for request in requests])

    async def ask_all(self, questions: Sequence[Question[A]]) -> list[Answered[A] | JudgeFailure]:
        """Ask all, as many at once as the limits allow; answers in the order of the questions."""
        self.spent = Spent()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.ask(question)) for question in questions]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def ask(self, question: Question[A]) -> Answered[A] | JudgeFailure:
        """Ask one question.

        With a cache, the same question is paid for once, also where it comes again before its answer:
        the others then say `from_cache`, and have spent nothing.
        """
        if self._cache is None:
            return await self._called(question)
        key = self._key(question)
        if (earlier := self._under_way.get(key)) is not None:
            found = replace(await asyncio.shield(earlier), spent=Spent())
            return replace(found, from_cache=True) if isinstance(found, Answered) else found
        task = asyncio.ensure_future(self._called(question))
        self._under_way[key] = task
        try:
            return await task
        finally:
            del self._under_way[key]

    def _key(self, question: Question[Any]) -> str:
        """Return the question's name in the cache, as the endpoint takes it by now."""
        settings = self._settings
        identity = settings.identity or settings.judge_model
        return cache_key(identity, settings.judge_temperature, question, self.left_out)

    async def _called(self, question: Question[A]) -> Answered[A] | JudgeFailure:
        """Call until there is an answer, in the cache or of the endpoint, or no attempt is left."""
        settings, cache, spent = self._settings, self._cache, Spent()
        attempt, key = 0, ""
        while True:
            without = self._without
            if key != (now := self._key(question)):
                key = now
                if cache is not None and (value := cache.find(key, question.form)) is not None:
                    return Answered(value=value, spent=spent, from_cache=True)
            reply, cost = await self._one_call(question, without)
            spent += cost
            trouble, parse = reply, None
            if isinstance(trouble, Reply):
                value = question.form.read(trouble.text)
                if not isinstance(value, ParseFailure):
                    if cache is not None:
                        self._save(cache, key, question.form.text(value))
                    return Answered(value=value, spent=spent, from_cache=False)
                trouble, parse = _unreadable(value, question.form, trouble), value
            if trouble.drop - without:
                # Not an attempt: the same call without what this endpoint does not know.
                for field in sorted(trouble.drop - self._without):
                    instead = f"{OLD_TOKEN_LIMIT} is sent instead" if field == TOKEN_LIMIT else "it is no longer sent"
                    logger.warning("the judge's endpoint does not take %s; %s", field, instead)
                self._without |= trouble.drop
                continue
            failure = JudgeFailure(cause=trouble.cause, detail=trouble.detail, spent=spent, parse=parse)
            wait = trouble.retry_after
            if not trouble.again or attempt >= settings.judge_max_retries:
                return failure
            if wait is not None and wait > LONGEST_RETRY_AFTER_S:
                return replace(failure, detail=f"{trouble.detail}: asks for {wait:.0f} s of waiting")
            if wait is not None:
                self._limits.pause(wait)  # It holds for every call, not only for this one.
            await self._clock.sleep(backoff(settings.seed, key, attempt, wait))
            attempt += 1

    def _save(self, cache: VerdictCache, key: str, text: str) -> None:
        """Cache an answer; one that cannot be cached is paid for all the same, and is an answer."""
        try:
            cache.keep(key, text)
        except OSError as error:
            if not self._warned:
                logger.warning("answers are not cached, and would be paid for again: %s", error)
            self._warned = True

    async def _one_call(self, question: Question[A], without: frozenset[str]) -> tuple[Reply | Trouble, Spent]:
        settings = self._settings

        def reserved() -> int:
            if not (settings.judge_max_tokens or self._longest_answer):
                return settings.judge_tpm  # Alone: nobody knows yet how long this judge thinks.
            longest = settings.judge_max_tokens or max(self._longest_answer, 3 * question.form.tokens)
            return question.size + _CHAT_TOKENS + longest  # From above: a byte is at most one token.

        async with self._limits.call(reserved) as slot:
            reply: Reply | Trouble = Trouble(FailureCause.DISCONNECTED, "interrupted", again=False)
            try:
                reply = await self._endpoint.ask(
                    question,
                    temperature=settings.judge_temperature,
                    max_tokens=settings.judge_max_tokens or None,
                    without=without,
                    wall=self._clock.wall(),
                )
            finally:
                spent = _spent(reply, question.size)
                self.spent += spent
            # Where no counts came back, the server may have counted all that was reserved.
            if not spent.estimated:
                slot.tokens = spent.prompt_tokens + spent.completion_tokens
            if isinstance(reply, Reply) or not reply.unbilled:
                self._longest_answer = max(self._longest_answer, spent.completion_tokens, 1)
        return reply, spent


class BlockingJudge:
    """A judge for code that awaits nothing; its own loop runs while a call lasts.

    ::

        with BlockingJudge(ChatJudge(settings, cache=cache)) as judge:
            results = judge.judge_all(requests)
    """

    def __init__(self, judge: ChatJudge) -> None:
        self._judge = judge
        self._loop = BlockingLoop()

    def __repr__(self) -> str:
        return f"BlockingJudge({self._judge!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def left_out(self) -> frozenset[str]:
        """As `ChatJudge.left_out`."""
        return self._judge.left_out

    @property
    def spent(self) -> Spent:
        """As `ChatJudge.spent`."""
        return self._judge.spent

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; results in the order of the requests."""
        return self._loop.run(self._judge.judge_all(requests))

    def ask_all(self, questions: Sequence[Question[A]]) -> list[Answered[A] | JudgeFailure]:
        """Ask all; answers in the order of the questions."""
        return self._loop.run(self._judge.ask_all(questions))

    def close(self) -> None:
        """Close the connections and the loop; nothing is lost where that fails, and no error is hidden by it."""
        try:
            with self._loop as loop:
                loop.run(self._judge.close())
        except (OSError, RuntimeError) as error:
            logger.warning("the judge's connections were not closed: %s", error)


def _spent(reply: Reply | Trouble, size: int) -> Spent:
    usage = reply.usage or Usage()
    read, written = usage.prompt_tokens, usage.completion_tokens
    if isinstance(reply, Trouble) and reply.unbilled:
        return Spent(calls=1, prompt_tokens=read or 0, completion_tokens=written or 0)
    text = reply.text if isinstance(reply, Reply) else ""
    return Spent(
        calls=1,
        prompt_tokens=tokens_in(size) if read is None else read,
        completion_tokens=tokens_in(len(text.encode("utf-8", "replace"))) if written is None else written,
        estimated=read is None or written is None,
    )


def _unreadable(parse: ParseFailure, form: AnswerForm[A], reply: Reply) -> Trouble:
    cause, why = reply.ending or FailureCause.BAD_ANSWER, str(parse)
    if cause is FailureCause.CUT_OFF:
        why = "it was cut off at its token limit"
    elif cause is FailureCause.FILTERED:
        why = "the endpoint's content filter ended it"
    return Trouble(cause, f"an answer that is no {form.words}: {why}", again=cause is not FailureCause.FILTERED)


FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0  # Of a wait that nobody asked for; doubled from FIRST_WAIT_S with each attempt.


class Clock:
    """The machine's clock; a test has its own."""

    def now(self) -> float:
        """Return seconds from any fixed moment, never going back."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since 1970, to compare with a date."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `now`; other calls go on."""
        await asyncio.sleep(seconds)


def backoff(seed: int, key: str, attempt: int, retry_after: float | None = None) -> float:
    """Return the seconds before attempt `attempt + 1`: doubling, capped, and spread from half to whole.

    Where the server asked for some: never fewer, and spread a little. The spread is drawn from (seed, key, attempt), so
    that calls that failed together do not come back together, and the same run waits the same again.
    """
    unit = (derive(seed, "judge", "backoff", key, attempt) >> 11) * 2.0**-53
    if retry_after is not None:
        return retry_after + 0.5 * FIRST_WAIT_S * unit
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt, 32)) * (0.5 + 0.5 * unit)


WINDOW_S: Final = 60.0
_SLACK_S: Final = 1e-6  # Added to a wait, so that rounding does not wake it just before its moment.


@dataclass(slots=True)
class Slot:
    """One call's place in the window."""

    tokens: int  # What it counts for: reserved, then as reported.
    ended: float | None = None


class CallLimits:
    """Lets calls through, first come first served."""

    def __init__(self, clock: Clock, *, concurrency: int, rpm: float = math.inf, tpm: float = math.inf) -> None:
        self._clock = clock
        self._rpm = rpm
        self._tpm = tpm
        self._at_once = asyncio.Semaphore(concurrency)
        self._turn = asyncio.Lock()
        self._slots: deque[Slot] = deque()
        self._not_before = 0.0
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def call(self, tokens: Callable[[], int]) -> AsyncGenerator[Slot]:
        """Wait until a call of at most so many tokens, as is known by then, may be sent; it lasts as long as the block.

        Set the slot's `tokens` where the answer tells them. A call that alone is above the limit is
        sent when nothing else is in the window.
        """
        async with self._at_once:
            async with self._turn:
                slot = await self._admitted(tokens)
            try:
                yield slot
            finally:
                slot.ended = self._clock.now()
                self._ended.set()

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the server asked for it."""
        self._not_before = max(self._not_before, self._clock.now() + seconds)

    async def _admitted(self, tokens: Callable[[], int]) -> Slot:
        while (wait := self._wait(tokens())) != 0.0:
            if wait is not None:
                await self._clock.sleep(wait + _SLACK_S)
                continue
            # The window is full of calls that have no answer yet: the next answer starts a minute.
            self._ended.clear()
            await self._ended.wait()
        slot = Slot(tokens())
        if min(self._rpm, self._tpm) < math.inf:
            self._slots.append(slot)
        return slot

    def _wait(self, tokens: int) -> float | None:
        """Seconds until it is worth asking again, 0 for now, None for after the next answer."""
        now = self._clock.now()
        if now < self._not_before:
            return self._not_before - now
        self._slots = deque(s for s in self._slots if s.ended is None or now < s.ended + WINDOW_S)
        taken = sum(slot.tokens for slot in self._slots)
        if not self._slots or (len(self._slots) < self._rpm and taken + tokens <= self._tpm):
            return 0.0
        ended = [slot.ended for slot in self._slots if slot.ended is not None]
        return min(ended) + WINDOW_S - now if ended else None
