"""One search on the base of a finished run, and what the prompt that it found earns on held-out questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

import msgspec

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.reopened import Reopened, plan_again, reopened
from tinsmith.lab.live.progress import Say
from tinsmith.lab.prompt_search.asked_task import AskedTask
from tinsmith.lab.prompt_search.document import AskedModel, Document, Grammar
from tinsmith.lab.prompt_search.search import Search, Searched, SearchSettings, halves_of
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.asked_policy import Draw
from tinsmith.lab.study.files import made_once
from tinsmith.lab.user_task.kinds import TaskFrame
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.seeds import derive

_PROPOSAL_TOKENS = 120


class ProposedBy(StrEnum):
    """Proposers of edits."""

    GRAMMAR = "grammar"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """Settings of searches: each has its run's seed."""

    written: Document
    """By hand: the beginning of the task's prompts."""
    bank: tuple[str, ...]
    proposer: ProposedBy
    search: SearchSettings
    plan_of: Callable[[str, Mapping[str, str]], Plan]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A search, and its test: means of held-out items' answers under both prompts, by name, as exact fractions."""

    searched: Searched
    start: tuple[dict[str, str], dict[str, str]]
    """Sampled, and greedily."""
    found: tuple[dict[str, str], dict[str, str]]
    unreadable: int
    """Lines of a model's proposals that were no edit."""

    def earned(self, *, at_start: bool, greedy: bool) -> dict[str, Fraction]:
        """Return what items earn under the first prompt, or the one that was found."""
        values = (self.start if at_start else self.found)[greedy]
        return {name: Fraction(value) for name, value in values.items()}


def searched_on(asked: Searching, folder: Path, file: Path, say: Say) -> Found:
    """Search on the base of a run, or read what was found of it before with the same settings."""
    with reopened(plan_again(folder, (Kind.TASK,), asked.plan_of), folder, say) as there:
        search = msgspec.structs.replace(asked.search, seed=derive(there.plan.settings.seed, "search"))
        key = (search, asked.proposer, there.materials.model_name, asked.written, asked.bank)
        return made_once(file, key, Found, lambda: _search(asked, search, there))


def _search(asked: Searching, settings: SearchSettings, there: Reopened) -> Found:
    plan, frame = there.plan, there.plan.frame
    assert isinstance(frame, TaskFrame)
    data, renderer, base = data_of_task(plan), renderer_for(there.tokenizer()), there.base()
    temperature, stop = plan.settings.temperature, tuple(renderer.stop_sequences())
    test = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
    train, selection = halves_of({one.prompt_id: one.unit for one in data.split.train}, settings.seed)

    def write(prompt: str, seed: int) -> str:
        """Return what the base writes when it is asked for edits."""
        message = (Message(role=Role.USER, content=prompt),)
        draw = Draw(prompt=tuple(renderer.build_generation_prompt(message)), seed=seed, max_tokens=_PROPOSAL_TOKENS)
        (tokens,) = base.drawn([draw], temperature=temperature, stop=stop)
        return renderer.parse_response(tokens).message.content

    def score(samples: int) -> AskedTask:
        return AskedTask(
            client=base.client,
            task=data.task,
            renderer=renderer,
            start=asked.written,
            items={one.prompt_id: one for one in (*data.split.train, *test)},
            samples=samples,
            temperature=temperature,
            max_tokens=plan.settings.max_tokens,
        )

    model = AskedModel(write)
    searched = Search(
        train=train,
        selection=selection,
        prompts={one.prompt_id: one.prompt for one in data.split.train},
        score=score(1),
        proposer=Grammar(asked.bank) if asked.proposer is ProposedBy.GRAMMAR else model,
        settings=settings,
    ).run(asked.written)
    examine, names = score(frame.eval_samples), [one.prompt_id for one in test]
    seed = derive(plan.settings.seed, "evaluation")  # that of the run's own evaluations

    def examined(document: Document) -> tuple[dict[str, str], dict[str, str]]:
        sampled, greedy = (examine(document, names, seed, greedy=one) for one in (False, True))
        return {name: str(one) for name, one in sampled.items()}, {name: str(one) for name, one in greedy.items()}

    start = examined(searched.start)
    found = start if searched.found == searched.start else examined(searched.found)
    return Found(searched=searched, start=start, found=found, unreadable=model.unreadable)
