"""Judge of a plan: rules, an endpoint, or a model of the run's server; its checks and its cost.

What is wrong with the choice is reported before anything is built or written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tinsmith.lab.environment import Failed
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.materials import is_loaded_here
from tinsmith.lab.judge import records
from tinsmith.lab.judge.chat_judge import BlockingJudge, ChatJudge
from tinsmith.lab.judge.endpoint import OPENAI_URL, checked_url
from tinsmith.lab.judge.prompting import JudgeRequest, VerdictCache, cost_of, estimate_spent, load_prices, shown
from tinsmith.lab.judge.rules import Judge, Outcome, RuleJudge, RulesOnly
from tinsmith.lab.runs.files import ROLLOUTS, SERVED_NAME, TASKS
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import model_identity, serves, weights_sha256
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.user_task.calls import required
from tinsmith.lab.user_task.dialogue import METRIC, REWARD
from tinsmith.lab.user_task.entry import Asking, JudgedFrame
from tinsmith.lab.user_task.items import UserItem, UserSplit
from tinsmith.lab.user_task.judged import JUDGE, SCORE, JudgedReward, listed
from tinsmith.lab.user_task.task import Task
from tinsmith.models.published.sources import find_model
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive

_Question = tuple[str, tuple[str, ...]]
_UNKNOWN: Final = "the record has no verdict on this response"


class RecordedJudge:
    """Verdicts by question and response; a response that the record lacks fulfils none, and so shows as a difference.

    A question is the prompt that the judge was shown, with its criteria. Of an answer whose judging or scoring failed a
    record has the question alone: a response to it that has no verdicts fails for the same cause.
    """

    def __init__(self, folder: Path) -> None:
        tasks = map(msgspec.json.Decoder(records.CriteriaRecord).decode, (folder / TASKS).read_bytes().splitlines())
        questions = {one.task_id: (one.judge_prompt or one.prompt, one.criteria) for one in tasks}
        self._outcomes: dict[tuple[_Question, str | None], Outcome] = {}
        with (folder / ROLLOUTS).open("rb") as lines:
            for line in map(msgspec.json.Decoder(TaskRollout).decode, lines):
                question = questions.get(line.prompt_id, ("", ()))
                if line.failure is None and line.verdicts:
                    self._outcomes.setdefault((question, line.text), _recorded(line.verdicts))
                elif line.failure is not None and line.failure.where in (JUDGE, SCORE, REWARD, METRIC):
                    failed: Outcome = Failed(line.failure.where, line.failure.what)
                    if failed.where == JUDGE:
                        cause, _, detail = failed.what.partition(": ")
                        spent = records.Spent()
                        failed = records.JudgeFailure(cause=records.FailureCause(cause), detail=detail, spent=spent)
                    self._outcomes.setdefault((question, line.text or None), failed)

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Outcome]:
        """Return the recorded verdicts and failures."""
        found: list[Outcome] = []
        for one in requests:
            unknown = _recorded((records.Verdict(False, _UNKNOWN),) * len(one.criteria))
            question = (one.task, one.criteria)
            of_question = self._outcomes.get((question, None), unknown)
            found.append(self._outcomes.get((question, one.response), of_question))
        return found

    def close(self) -> None:
        """Do nothing: no resource is held."""


def _recorded(verdicts: tuple[records.Verdict, ...]) -> records.Judged:
    return records.Answered(value=verdicts, spent=records.Spent(), from_cache=True)


JUDGE_NAME: Final = "judge"  # What an embedded server calls a judge that is another model of this machine.
TINKER_PATH: Final = "tinker://"


def parts_of(plan: Plan) -> tuple[JudgedFrame, Asking]:
    """Return a plan's settings, and those of its judge's requests."""
    assert isinstance(plan.frame, JudgedFrame)
    assert isinstance(plan.asking, Asking)
    return plan.frame, plan.asking


def is_own(plan: Plan) -> bool:
    """True if the run's own server loads the judge: a path, or the name of a model here."""
    frame, asking = parts_of(plan)
    named = frame.judge_model
    elsewhere = asking.judge_base_url or os.environ.get("OPENAI_BASE_URL")
    if named == records.RULES or (elsewhere and not Path(named).exists()):
        return False
    return is_loaded_here(named, plan.circumstances)


def require_judge(plan: Plan, task: Task, reward: JudgedReward, split: UserSplit) -> None:
    """Reject a judge that cannot judge these items or is not available, and criteria and prompts that raise."""
    (frame, asking), where = parts_of(plan), plan.circumstances
    named, elsewhere = frame.judge_model, os.environ.get("OPENAI_BASE_URL")
    controls = [one.reward for one in task.controls.values() if isinstance(one.reward, JudgedReward)]
    taught = [(reward, one) for one in (*split.train, *split.held_out)]
    for own, one in (*taught, *((own, one) for own in (reward, *controls) for one in split.tested)):
        criteria = _request(own, one).criteria
        if named == records.RULES and isinstance(reward.rules, RulesOnly):
            _require_rules(one, criteria)
    if named == records.RULES:
        return
    _settings(plan, named, asking.judge_base_url)
    # Never shown where it is wrong, and not written into a manifest: it may hold a secret.
    checked_url(asking.judge_base_url or elsewhere or OPENAI_URL)
    if asking.judge_base_url is None and is_own(plan):
        find_model(named, field="judge_model")
        if where.base_url is not None:
            what = "the server at base_url does not load a judge's folder"
            fix = "serve it there too and give its name, or leave base_url out"
            raise ConfigError(what, field="judge_model", value=named, fix=fix)
    elif asking.judge_base_url is None and where.base_url is None:  # another server alone knows what it serves
        if named.startswith(TINKER_PATH):
            what = "a checkpoint judges where it is served, and this run starts a server of its own"
            fix = "base_url=URL of the server that has it, and model_name=NAME there"
            raise ConfigError(what, field="judge_model", value=named, fix=fix)
        is_keyless = not (os.environ.get("OPENAI_API_KEY") or elsewhere)
        if is_keyless and named not in (SERVED_NAME, where.model_name) and not where.dry_run:
            fix = "set it in the environment; or judge_base_url=URL of another endpoint, or judge_model=rules"
            raise ConfigError("this judge is served by OpenAI and needs a key", field="OPENAI_API_KEY", fix=fix)


def _request(reward: JudgedReward, one: UserItem) -> JudgeRequest:
    criteria = listed(required(reward.criteria, one.item, field="criteria", value=one.prompt_id))
    prompt = required(reward.prompt, one.item, field="prompt", value=one.prompt_id)
    return JudgeRequest(task=prompt, response="", criteria=criteria)


def _require_rules(one: UserItem, criteria: Sequence[str]) -> None:
    try:
        RuleJudge(criteria)
    except DataError as error:
        if error.field == "rule":
            what, fix = f"{one.prompt_id}: {error.what}", "correct the rule"
            raise ConfigError(what, field="rule", value=error.value, allowed=error.allowed, fix=fix) from None
        what = f"{one.prompt_id}, {error.field}: {error.what}"
        allowed = "a judge that reads prose, where criteria are prose"
        fix = "judge_model=gpt-5-mini with OPENAI_API_KEY, or judge_model=FOLDER, FILE.gguf or smollm2"
        raise ConfigError(what, field="judge_model", value=records.RULES, allowed=allowed, fix=fix) from None


def open_judge(plan: Plan, reward: JudgedReward, connection: Connection, recorded: Path | None) -> Judge:
    """Open the judge, to be closed by the caller. With a folder's record, a remote judge is not asked."""
    frame, asking = parts_of(plan)
    named = frame.judge_model
    if named == records.RULES:
        return reward.rules
    is_path = named.startswith(TINKER_PATH)
    if asking.judge_base_url is None and (is_path or is_own(plan) or serves(connection, named)):
        name = JUDGE_NAME if is_own(plan) else named
        # A name at home may mean other weights tomorrow: the cache knows the model by what it is.
        weights = weights_sha256(connection, name) if is_path else None
        identity = sha256_of({"name": name, "model": model_identity(connection, name), "weights": weights})
        settings = _settings(plan, name, f"{connection.base_url}/v1", identity)
        key = connection.key or os.environ.get("TINKER_API_KEY")
    elif recorded is not None:
        return RecordedJudge(recorded)
    else:
        base_url, key = asking.judge_base_url or os.environ.get("OPENAI_BASE_URL"), None
        # A name means one model at one address only: elsewhere the cache must not answer for it.
        settings = _settings(plan, named, asking.judge_base_url, f"{named} at {base_url}" if base_url else None)
    return BlockingJudge(ChatJudge(settings, cache=VerdictCache(home() / "verdicts"), api_key=key))


def _settings(plan: Plan, name: str, base_url: str | None, identity: str | None = None) -> records.ChatSettings:
    frame, asking = parts_of(plan)
    calls: dict[str, Any] = {each.name: getattr(asking, each.name) for each in fields(records.JudgeCalls)}
    calls["judge_base_url"] = base_url
    return records.ChatSettings(
        **calls,
        judge_model=name,
        judge_temperature=frame.judge_temperature,
        judge_max_tokens=frame.judge_max_tokens,
        identity=identity,
        seed=derive(plan.settings.seed, "judge"),
    )


def cost_lines(plan: Plan, task: Task, reward: JudgedReward, split: UserSplit) -> list[str]:
    """Return calls, tokens and money of a whole run in words, for responses of the maximum length."""
    (frame, asking), settings = parts_of(plan), plan.settings
    assert isinstance(settings, RlSettings)
    examined = split.held_out or split.train
    forks, deepest = (1, 0) if task.talk is None else (task.talk.forks if task.talk.most > 1 else 1, task.talk.deepest)
    trained = settings.steps * settings.groups_per_batch * settings.group_size * forks
    evaluations = 1 + (-(-settings.steps // settings.eval_every) if settings.eval_every else 0)
    evaluated = evaluations * min(len(examined), settings.eval_items) * (frame.eval_samples + 1)
    items_tested = subset(split.tested, settings.test_items, lambda one: one.unit)
    tested = len(items_tested) * (frame.eval_samples + 1) * (1 + len(task.controls))
    parts = f"{trained:,} in training, {evaluated:,} in evaluations" + (f", {tested:,} in the test" if tested else "")
    least = "at least " if deepest else ""  # what a tree spawns is judged too
    count = f"{least}{trained + evaluated + tested:,} responses to judge: {parts}"
    if frame.judge_model == records.RULES:
        return [f"{count}; rules judge them: no calls, no cost"]
    spent = records.Spent()
    for items, calls in ((split.train, trained), (examined, evaluated), (items_tested, tested)):  # spread evenly
        requests = (_request(reward, one) for one in items)
        once, share = estimate_spent(requests, response_tokens=settings.max_tokens), calls / max(1, len(items))
        spent += records.Spent(
            calls=calls,
            prompt_tokens=round(once.prompt_tokens * share),
            completion_tokens=round(once.completion_tokens * share),
            estimated=True,
        )
    dollars = cost_of(load_prices(asking.prices), frame.judge_model, spent)
    return [
        count,
        f"{least or 'about '}{spent.calls:,} calls of {frame.judge_model}, {spent.prompt_tokens / 1e6:.2f} M tokens "
        f"read, {spent.completion_tokens / 1e6:.2f} M written: {shown(dollars)} "
        "(prices are in a table that prices=FILE replaces; what is in the cache is free)",
    ]


def asking_circumstances(asking: Asking) -> Mapping[str, object]:
    """Return every setting of the judge's requests, with absolute paths, for a replay.

    An address is written without what may be a secret in it; an endpoint refuses such an address later.
    """
    circumstances: dict[str, object] = {
        name: str(value.absolute()) if isinstance(value, Path) else value for name, value in asdict(asking).items()
    }
    if asking.judge_base_url is not None:
        try:
            parts = urlsplit(asking.judge_base_url)
            bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        except ValueError:
            bare = ""
        circumstances["judge_base_url"] = bare
    return circumstances
