"""Knows how a judge behind an OpenAI-compatible endpoint is asked: cache, limits, attempts, failures.

::

    settings = ChatSettings(judge_model="gpt-5-mini", judge_rpm=500)
    async with ChatJudge(settings, cache=VerdictCache(folder)) as judge:
        results = await judge.judge_all([JudgeRequest(task, response, criteria), ...])

Every result is a `Judged`, or a `JudgeFailure` where the attempts are used up: a value to be recorded,
never a score. `ask` takes any other `Question` the same way. Code without an event loop uses `BlockingJudge`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Self

from tinsmith.lab.judge.endpoint import OLD_TOKEN_LIMIT, OPENAI_URL, TOKEN_LIMIT, Endpoint, Trouble
from tinsmith.lab.judge.endpoint_answers import Reply, Usage
from tinsmith.lab.judge.limits import CallLimits, Clock, after_asked, backoff
from tinsmith.lab.judge.prompting import (
    A,
    Answered,
    AnswerForm,
    JudgePrompt,
    JudgeRequest,
    Question,
    VerdictCache,
    cache_key,
    rating_question,
    tokens_in,
)
from tinsmith.lab.judge.records import ChatSettings, FailureCause, Judged, JudgeFailure, ParseFailure, Spent

logger = logging.getLogger(__name__)

LONGEST_ASKED_WAIT_S: Final = 600.0
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
            rpm=settings.judge_rpm or None,
            tpm=settings.judge_tpm or None,
        )
        self._without: frozenset[str] = frozenset()
        self._longest_answer = 0
        self._under_way: dict[str, asyncio.Task[Answered[Any] | JudgeFailure]] = {}

    def __repr__(self) -> str:
        return f"ChatJudge({self._endpoint!r})"

    @property
    def left_out(self) -> frozenset[str]:
        """Fields of the call that the endpoint refused and that are no longer sent; see `endpoint.OPTIONAL`."""
        return self._without

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all, as many at once as the limits allow; results in the order of the requests."""
        found = await self.ask_all([rating_question(request) for request in requests])
        return [
            one
            if isinstance(one, JudgeFailure)
            else Judged(verdicts=one.value, spent=one.spent, from_cache=one.from_cache)
            for one in found
        ]

    async def ask_all(self, questions: Sequence[Question[A]]) -> list[Answered[A] | JudgeFailure]:
        """Ask all, as many at once as the limits allow; answers in the order of the questions."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.ask(question)) for question in questions]
        return [task.result() for task in tasks]

    async def ask(self, question: Question[A]) -> Answered[A] | JudgeFailure:
        """Ask one question.

        With a cache, the same question is paid for once, also where it comes again before its answer:
        the others then say `from_cache`, and have spent nothing.
        """
        settings, cache = self._settings, self._cache
        key = cache_key(settings.identity or settings.judge_model, settings.judge_temperature, question)
        if cache is None:
            return await self._called(key, question)
        if (value := cache.find(key, question.form)) is not None:
            return Answered(value=value, spent=Spent(), from_cache=True)
        if (earlier := self._under_way.get(key)) is not None:
            return _free(await asyncio.shield(earlier))
        task = asyncio.ensure_future(self._called(key, question))
        self._under_way[key] = task
        try:
            found = await task
            if isinstance(found, Answered):
                cache.keep(key, question.form.text(found.value))
        finally:
            del self._under_way[key]
        return found

    async def _called(self, key: str, question: Question[A]) -> Answered[A] | JudgeFailure:
        """Call until there is an answer or no attempt is left."""
        settings, spent = self._settings, Spent()
        attempt = 0
        while True:
            without = self._without
            reply, cost = await self._one_call(question, without)
            spent += cost
            if isinstance(reply, Reply):
                value = question.form.read(reply.text)
                if not isinstance(value, ParseFailure):
                    return Answered(value=value, spent=spent, from_cache=False)
                trouble, parse = _unreadable(value, question.form, reply), value
            else:
                trouble, parse = reply, None
            if trouble.drop - without:
                # Not an attempt: the same call without what this endpoint does not know.
                self._say_left_out(trouble.drop - self._without)
                self._without |= trouble.drop
                continue
            failure = JudgeFailure(cause=trouble.cause, detail=trouble.detail, spent=spent, parse=parse)
            asked = trouble.asked_wait
            if not trouble.again or attempt >= settings.judge_max_retries:
                return failure
            if asked is not None and asked > LONGEST_ASKED_WAIT_S:
                return replace(failure, detail=f"{trouble.detail}: asks for {asked:.0f} s of waiting")
            if asked is None:
                wait = backoff(settings.seed, key, attempt)
            else:
                # It holds for every call, not only for this one.
                self._limits.pause(asked)
                wait = after_asked(asked, settings.seed, key, attempt)
            await self._clock.sleep(wait)
            attempt += 1

    def _say_left_out(self, fields: frozenset[str]) -> None:
        for field in sorted(fields):
            instead = f"; {OLD_TOKEN_LIMIT} is sent instead" if field == TOKEN_LIMIT else ", which is no longer sent"
            logger.warning("the judge's endpoint does not take %s%s", field, instead)

    async def _one_call(self, question: Question[A], without: frozenset[str]) -> tuple[Reply | Trouble, Spent]:
        settings, prompt = self._settings, question.prompt
        async with self._limits.call(self._reserved(question)) as slot:
            reply = await self._endpoint.ask(
                prompt,
                response_format=question.form.response_format,
                temperature=settings.judge_temperature,
                max_tokens=settings.judge_max_tokens or None,
                without=without,
                wall=self._clock.wall(),
            )
            spent = _spent(reply, prompt)
            # Where no counts came back, the server may have counted all that was reserved.
            if not spent.estimated:
                slot.tokens = spent.prompt_tokens + spent.completion_tokens
                self._longest_answer = max(self._longest_answer, spent.completion_tokens)
        return reply, spent

    def _reserved(self, question: Question[A]) -> int:
        """Tokens of a call from above: a byte is at most one token."""
        longest = max(self._longest_answer, 3 * question.form.tokens)
        return question.prompt.size + _CHAT_TOKENS + (self._settings.judge_max_tokens or longest)


class BlockingJudge:
    """A judge for code without an event loop; its own loop runs while a call lasts.

    ::

        with BlockingJudge(settings, cache=cache) as judge:
            results = judge.judge_all(requests)
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        cache: VerdictCache | None = None,
        api_key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._judge = ChatJudge(settings, cache=cache, api_key=api_key, clock=clock)
        self._runner = asyncio.Runner()

    def __repr__(self) -> str:
        return f"BlockingJudge({self._judge!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def left_out(self) -> frozenset[str]:
        """See `ChatJudge.left_out`."""
        return self._judge.left_out

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; results in the order of the requests."""
        return self._runner.run(self._judge.judge_all(requests))

    def ask_all(self, questions: Sequence[Question[A]]) -> list[Answered[A] | JudgeFailure]:
        """Ask all; answers in the order of the questions."""
        return self._runner.run(self._judge.ask_all(questions))

    def close(self) -> None:
        """Close the connections and the loop."""
        try:
            self._runner.run(self._judge.close())
        finally:
            self._runner.close()


def _spent(reply: Reply | Trouble, prompt: JudgePrompt) -> Spent:
    """Return what one call took; every answer is billed, also one that nobody can use."""
    usage = reply.usage or Usage()
    read, written = usage.prompt_tokens, usage.completion_tokens
    if isinstance(reply, Trouble) and reply.unbilled:
        return Spent(calls=1, prompt_tokens=read or 0, completion_tokens=written or 0)
    text = reply.text if isinstance(reply, Reply) else ""
    return Spent(
        calls=1,
        prompt_tokens=tokens_in(prompt.size) if read is None else read,
        completion_tokens=tokens_in(len(text.encode("utf-8", "replace"))) if written is None else written,
        estimated=read is None or written is None,
    )


def _unreadable(parse: ParseFailure, form: AnswerForm[A], reply: Reply) -> Trouble:
    if reply.ending is FailureCause.CUT_OFF:
        detail = f"an answer that is no {form.words}: it was cut off at its token limit"
        return Trouble(FailureCause.CUT_OFF, detail, again=True)
    if reply.ending is FailureCause.FILTERED:
        detail = f"an answer that is no {form.words}: the endpoint's content filter ended it"
        return Trouble(FailureCause.FILTERED, detail, again=False)
    return Trouble(FailureCause.BAD_ANSWER, f"an answer that is no {form.words}: {parse}", again=True)


def _free(result: Answered[A] | JudgeFailure) -> Answered[A] | JudgeFailure:
    """The result for who only waited for it."""
    if isinstance(result, Answered):
        return replace(result, spent=Spent(), from_cache=True)
    return replace(result, spent=Spent())
