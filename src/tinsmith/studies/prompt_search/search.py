"""A search on the base of a finished run, and its test; prompts written by hand, and lines to choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.replay import Reopened, plan_again, reopened
from tinsmith.lab.prompt_search import (
    Document,
    Earned,
    ModelProposer,
    Search,
    Searched,
    SearchSettings,
    grammar,
    halves_of,
    placed,
)
from tinsmith.lab.rollouts import Sampling, mean_earned, sample_groups
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.served_policy import Draw
from tinsmith.lab.study.files import made_once
from tinsmith.lab.user_task.entry import TaskFrame
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say

INSTRUCTIONS: Final = (
    "Follow every instruction exactly.",
    "Read the whole request before you answer.",
    "Check each instruction once more before you finish.",
    "Write only the answer, and nothing before or after it.",
    "Keep the answer short.",
    "Answer in two or three sentences.",
    "Answer in one sentence.",
    "Use each word that you are asked to use.",
    "If a number of words or lines is given, count them.",
    "Do not use commas.",
    "Write in small letters.",
    "Write plain text without any marks.",
    "Do not repeat the request.",
    "Repeat the request before you answer.",
    "You are a careful assistant.",
    "You are a poet.",
    "Write as much as you can.",
    "Think step by step.",
)
"""Lines that a prompt for following instructions may begin with: some are often written there, some do no good."""
TASKS: Final[dict[str, tuple[Document, tuple[str, ...]]]] = {
    handbook.NAME: (handbook.WRITTEN, handbook.BANK),
    "instructions": ((), INSTRUCTIONS),
}
"""The prompt written by hand, and lines to choose from, by task."""
_PROPOSAL_TOKENS = 120


class ProposedBy(StrEnum):
    """Proposers of edits."""

    GRAMMAR = "grammar"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """Settings of searches: each has its run's seed."""

    written: Document  # By hand: the beginning of the task's prompts.
    bank: tuple[str, ...]
    proposer: ProposedBy
    search: SearchSettings
    plan_of: Callable[[str, Mapping[str, str]], Plan]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A search, and its test: means of held-out items' answers under both prompts, by name, as exact fractions."""

    searched: Searched
    start: tuple[dict[str, str], dict[str, str]]  # Sampled, and greedily.
    found: tuple[dict[str, str], dict[str, str]]
    unreadable: int  # Lines of a model's proposals that were no edit.

    def earned(self, *, at_start: bool, greedy: bool) -> dict[str, Fraction]:
        """Return what items earn under the first prompt, or the one that was found."""
        values = (self.start if at_start else self.found)[greedy]
        return {name: Fraction(value) for name, value in values.items()}


def searched_on(searching: Searching, folder: Path, file: Path, say: Say) -> Found:
    """Search on the base of a run, or read what was found of it before with the same settings."""
    with reopened(plan_again(folder, (Kind.TASK,), searching.plan_of), folder, say) as there:
        search = msgspec.structs.replace(searching.search, seed=derive(there.materials.plan.settings.seed, "search"))
        of_run = RunFolder(folder).manifest()  # its plan, and the base that its server served
        on = sha256_of((of_run.identity_sha256, of_run.identity.get("model")))
        key = (search, searching.proposer, on, searching.written, searching.bank)
        return made_once(file, key, Found, lambda: _search(searching, search, there))


def _search(searching: Searching, settings: SearchSettings, there: Reopened) -> Found:
    plan = there.materials.plan
    frame = plan.frame
    assert isinstance(frame, TaskFrame)
    data, renderer, base = data_of_task(plan), renderer_for(there.tokenizer()), there.base()
    temperature, stop = plan.settings.temperature, tuple(renderer.stop_sequences())
    test = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
    train, selection = halves_of({one.prompt_id: one.unit for one in data.split.train}, settings.seed)
    subject = UserSubject(task=data.task, split=data.split, renderer=renderer)
    items = {one.prompt_id: one for one in (*data.split.train, *test)}

    def write(prompt: str, seed: int) -> str:
        message = (Message(role=Role.USER, content=prompt),)
        draw = Draw(prompt=tuple(renderer.build_generation_prompt(message)), seed=seed, max_tokens=_PROPOSAL_TOKENS)
        (tokens,) = base.drawn([draw], temperature=temperature, stop=stop)
        return renderer.parse_response(tokens).message.content

    def score(document: Document, names: Sequence[str], seed: int, samples: int = 1, *, greedy: bool = False) -> Earned:
        """Return the mean reward of each item's answers; items of which every answer failed are left out."""
        groups = sample_groups(
            base.client,
            subject,
            [_under(document, searching.written, items[name]) for name in names],
            Sampling(
                samples=1 if greedy else samples,
                max_tokens=plan.settings.max_tokens,
                temperature=0.0 if greedy else temperature,
                seed=seed,
            ),
        )
        return mean_earned(groups, lambda one: Fraction(repr(one.answer.total)))

    def examined(document: Document) -> tuple[dict[str, str], dict[str, str]]:
        names, seed = [one.prompt_id for one in test], derive(plan.settings.seed, "evaluation")  # the run's own
        both = (score(document, names, seed, frame.eval_samples, greedy=one) for one in (False, True))
        sampled, greedy = ({name: str(value) for name, value in one.items()} for one in both)
        return sampled, greedy

    model = ModelProposer(write)
    searched = Search(
        train=train,
        selection=selection,
        prompts={one.prompt_id: one.prompt for one in data.split.train},
        score=score,
        proposer=grammar(searching.bank) if searching.proposer is ProposedBy.GRAMMAR else model,
        settings=settings,
    ).run(searching.written)
    start = examined(searched.start)
    found = start if searched.found == searched.start else examined(searched.found)
    return Found(searched=searched, start=start, found=found, unreadable=model.unreadable)


def _under(document: Document, start: Document, item: UserItem) -> UserItem:
    *others, last = item.messages
    return replace(item, messages=(*others, replace(last, content=placed(document, start, last.content))))
