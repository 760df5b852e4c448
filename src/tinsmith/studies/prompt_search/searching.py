"""One search on the base of a finished run, and what the prompt that it found earns on held-out questions, on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.lab.experiment.reopened import Reopened
from tinsmith.lab.prompt_search.asked_task import AskedTask
from tinsmith.lab.prompt_search.document import AskedModel, Document, Grammar, Proposer
from tinsmith.lab.prompt_search.search import Search, Searched, SearchSettings
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.asked_policy import AskedPolicy, Draw
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.kinds import TaskFrame
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.studies.prompt_search.settings import PromptSettings, ProposedBy
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

_PROPOSAL_TOKENS = 120


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """Rewards of held-out items under a prompt, by name: means of an item's answers."""

    sampled: dict[str, str]
    greedy: dict[str, str]
    """As exact fractions."""

    def by_item(self, *, greedy: bool = False) -> dict[str, Fraction]:
        """Return them as the records of a run do."""
        found = self.greedy if greedy else self.sampled
        return {name: Fraction(value) for name, value in found.items()}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A search, and its test."""

    searched: Searched
    start: Examined
    found: Examined
    unreadable: int
    """Lines of a model's proposals that were no edit."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    settings: SearchSettings
    proposer: str
    base: str
    start: Document
    bank: tuple[str, ...]


class _Saved(msgspec.Struct, frozen=True):
    asked: _Asked
    result: Found


@dataclass(frozen=True, slots=True)
class _Here:
    """The opened base."""

    base: AskedPolicy
    renderer: Renderer
    stop: Sequence[int]
    temperature: float

    def write(self, prompt: str, seed: int) -> str:
        """Return what the base writes when it is asked for edits."""
        said = (Message(role=Role.USER, content=prompt),)
        asked = Draw(prompt=tuple(self.renderer.build_generation_prompt(said)), seed=seed, max_tokens=_PROPOSAL_TOKENS)
        (tokens,) = self.base.drawn([asked], temperature=self.temperature, stop=self.stop)
        return self.renderer.parse_response(tokens).message.content


def searched_on(settings: PromptSettings, there: Reopened, file: Path) -> Found:
    """Search on the base of a run, or read what was found of it before with the same settings.

    Raises:
        ConfigError: the task has too few items.
        BackendError: every answer failed.
    """
    plan = there.plan
    search = msgspec.structs.replace(settings.search, seed=derive(plan.settings.seed, "search"))
    asked = _Asked(
        settings=search,
        proposer=settings.proposer.value,
        base=there.materials.model_name,
        start=settings.task.written,
        bank=settings.task.bank,
    )
    before = _saved(file, asked)
    if before is not None:
        return before
    entry, frame = plan.experiment.subject, plan.frame
    assert isinstance(entry, UserTaskEntry)
    assert isinstance(frame, TaskFrame)
    data = entry.run_data(plan, print)
    renderer = renderer_for(there.tokenizer())
    here = _Here(there.base(), renderer, tuple(renderer.stop_sequences()), plan.settings.temperature)
    test = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
    train, selection = halves(data.split.train, search.seed)

    def score(samples: int) -> AskedTask:
        return AskedTask(
            client=here.base.client,
            task=data.task,
            renderer=renderer,
            start=settings.task.written,
            items={one.prompt_id: one for one in (*data.split.train, *test)},
            samples=samples,
            temperature=plan.settings.temperature,
            max_tokens=plan.settings.max_tokens,
        )

    model = AskedModel(here.write)
    proposer: Proposer = Grammar(settings.task.bank) if settings.proposer is ProposedBy.GRAMMAR else model
    searched = Search(
        train=train,
        selection=selection,
        prompts={one.prompt_id: one.prompt for one in data.split.train},
        score=score(1),
        proposer=proposer,
        settings=search,
    ).run(settings.task.written)
    examine, names = score(frame.eval_samples), [one.prompt_id for one in test]
    seed = derive(plan.settings.seed, "evaluation")  # that of the run's own evaluations
    start = _examined(examine, searched.start, names, seed)
    found = Found(
        searched=searched,
        start=start,
        found=start if searched.found == searched.start else _examined(examine, searched.found, names, seed),
        unreadable=model.unreadable,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_bytes(msgspec.json.encode(_Saved(asked, found)) + b"\n")
    return found


def halves(items: Sequence[UserItem], seed: int) -> tuple[list[str], list[str]]:
    """Return the names of the items that edits are tried on, and of those that the gate draws of; units stay together.

    Raises:
        ConfigError: there are too few.
    """
    units = sorted({one.unit for one in items}, key=lambda name: derive(seed, "selection", name))
    chosen = set(units[: len(units) // 2])
    parts = [[one.prompt_id for one in items if (one.unit in chosen) is side] for side in (False, True)]
    if not all(parts):
        raise ConfigError(
            "there are too few items to try edits on some and to select by others",
            field="items",
            value=len(items),
            allowed="2 or more",
        )
    return parts[0], parts[1]


def _examined(ask: AskedTask, document: Document, names: Sequence[str], seed: int) -> Examined:
    both = [ask(document, names, seed, greedy=greedy) for greedy in (False, True)]
    sampled, greedy = ({name: str(value) for name, value in one.items()} for one in both)
    return Examined(sampled=sampled, greedy=greedy)


def _saved(file: Path, asked: _Asked) -> Found | None:
    if not file.is_file():
        return None
    try:
        read = msgspec.json.decode(file.read_bytes(), type=_Saved)
    except msgspec.DecodeError:
        return None
    return read.result if read.asked == asked else None
