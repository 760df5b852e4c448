"""Which judge a plan names: rules, an endpoint, or a model of the server that the run is trained on.

What is wrong with the choice is told before anything is built or written.
"""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import SERVED_NAME, is_loaded_here
from tinsmith.lab.judge.answers import VerdictCache
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.endpoint import OPENAI_URL, checked_url
from tinsmith.lab.judge.recorded import RecordedJudge
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.rules.rule_text import Judge, RuleJudge, RulesOnly
from tinsmith.lab.judge.settings import ChatSettings, JudgeCalls
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import model_identity, serves, weights_sha256
from tinsmith.lab.user_task.items import UserSplit
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.kinds import Asking, JudgedFrame
from tinsmith.models.published.sources import find_model
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive

JUDGE_NAME: Final = "judge"
"""What an embedded server calls a judge that is another model of this machine."""
TINKER_PATH: Final = "tinker://"


def parts_of(plan: Plan) -> tuple[JudgedFrame, Asking]:
    """Return a plan's frame and how its judge is asked."""
    assert isinstance(plan.frame, JudgedFrame)
    assert isinstance(plan.asking, Asking)
    return plan.frame, plan.asking


def is_own(plan: Plan) -> bool:
    """True if the judge is a model that the run's own server loads for it: a path, or the name of one here."""
    frame, asking = parts_of(plan)
    named = frame.judge_model
    elsewhere = asking.judge_base_url or os.environ.get("OPENAI_BASE_URL")
    if named == RULES or (elsewhere and not Path(named).exists()):
        return False
    return is_loaded_here(named, plan.circumstances)


def require_judge(plan: Plan, reward: JudgedReward, split: UserSplit) -> None:
    """Refuse a judge that cannot judge these items, or cannot be asked."""
    frame, asking = parts_of(plan)
    if frame.judge_model == RULES:
        if isinstance(reward.rules, RulesOnly):
            _require_rules(reward, split)
        return
    _settings(plan, frame.judge_model, asking.judge_base_url)
    # Never shown where it is wrong, and not written into a manifest: it may hold a secret.
    checked_url(asking.judge_base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    _require_server(plan)


def open_judge(plan: Plan, reward: JudgedReward, connection: Connection, recorded: Path | None) -> Judge:
    """Return the judge; whoever opened it closes it. One elsewhere is not asked where a folder's record answers."""
    frame, asking = parts_of(plan)
    named = frame.judge_model
    if named == RULES:
        return reward.rules
    cache, key = VerdictCache(home() / "verdicts"), None
    if _served(plan, connection):
        name = JUDGE_NAME if is_own(plan) else named
        settings = _settings(plan, name, f"{connection.base_url}/v1", _identity(connection, name))
        key = connection.key or os.environ.get("TINKER_API_KEY")
    elif recorded is not None:
        return RecordedJudge(recorded)
    else:
        base_url = asking.judge_base_url or os.environ.get("OPENAI_BASE_URL")
        # A name means one model at one address only: elsewhere the cache must not answer for it.
        identity = f"{named} at {base_url}" if base_url else None
        settings = _settings(plan, named, asking.judge_base_url, identity)
    return BlockingJudge(settings, cache=cache, api_key=key)


def _settings(plan: Plan, name: str, base_url: str | None, identity: str | None = None) -> ChatSettings:
    frame, asking = parts_of(plan)
    calls: dict[str, Any] = {each.name: getattr(asking, each.name) for each in fields(JudgeCalls)}
    calls["judge_base_url"] = base_url
    return ChatSettings(
        **calls,
        judge_model=name,
        judge_temperature=frame.judge_temperature,
        judge_max_tokens=frame.judge_max_tokens,
        identity=identity,
        seed=derive(plan.settings.seed, "judge"),
    )


def _require_rules(reward: JudgedReward, split: UserSplit) -> None:
    for one in (*split.train, *split.held_out):
        try:
            RuleJudge(tuple(reward.criteria(one.item)))
        except DataError as error:
            if error.field == "rule":
                raise ConfigError(
                    f"{one.prompt_id}: {error.what}",
                    field="rule",
                    value=error.value,
                    allowed=error.allowed,
                    fix="correct the rule",
                ) from None
            raise ConfigError(
                f"{one.prompt_id}, {error.field}: {error.what}",
                field="judge_model",
                value=RULES,
                allowed="a judge that reads prose, where criteria are prose",
                fix="judge_model=gpt-5-mini with OPENAI_API_KEY, or judge_model=FOLDER, FILE.gguf or smollm2",
            ) from None


def _require_server(plan: Plan) -> None:
    """Refuse a judge that no server of this run can serve, and OpenAI's without a key."""
    frame, asking = parts_of(plan)
    named, where = frame.judge_model, plan.circumstances
    if asking.judge_base_url is not None:
        return
    if is_own(plan):
        find_model(named, field="judge_model")
        if where.base_url is not None:
            raise ConfigError(
                "the server at base_url does not load a judge's folder",
                field="judge_model",
                value=named,
                fix="serve it there too and give its name, or leave base_url out",
            )
        return
    if where.base_url is not None:
        return  # only that server knows what it serves
    if named.startswith(TINKER_PATH):
        raise ConfigError(
            "a checkpoint judges where it is served, and this run starts a server of its own",
            field="judge_model",
            value=named,
            fix="base_url=URL of the server that has it, and model_name=NAME there",
        )
    known = named in (SERVED_NAME, where.model_name)
    keyless = not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"))
    if keyless and not known and not where.dry_run:
        raise ConfigError(
            "this judge is served by OpenAI and needs a key",
            field="OPENAI_API_KEY",
            fix="set it in the environment; or judge_base_url=URL of another endpoint, or judge_model=rules",
        )


def _served(plan: Plan, connection: Connection) -> bool:
    """True if the judge is a model of the server that the run is trained on."""
    frame, asking = parts_of(plan)
    named = frame.judge_model
    if asking.judge_base_url is not None:
        return False
    return named.startswith(TINKER_PATH) or is_own(plan) or serves(connection, named)


def _identity(connection: Connection, name: str) -> str:
    """Return what a served judge is called in the cache: a name at home may mean other weights tomorrow."""
    weights = weights_sha256(connection, name) if name.startswith(TINKER_PATH) else None
    model = model_identity(connection, name)
    return sha256_of({"name": name, "model": model, "weights": weights})
