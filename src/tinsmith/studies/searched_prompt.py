"""A prompt searched on the training papers for the base as it is, and what was found, on disk.

The lines are those of the disruption task's own prompt files. Every paper is asked about as often as RL asks, and the
search goes on until it has looked at no fewer labelled papers than a run of RL, so that RL can be held against it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec

from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.experiment.reopened import reopened
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.leaks import bank_of
from tinsmith.lab.live.progress import Say
from tinsmith.lab.papers.compute_spent import Cost, Ledger, Spent
from tinsmith.lab.papers.labels import task_asked
from tinsmith.lab.papers.run_data import data_of
from tinsmith.lab.prompt_search.asked_papers import AskedPapers
from tinsmith.lab.prompt_search.document import Document, Grammar
from tinsmith.lab.prompt_search.search import Search, Searched, SearchSettings, halves_of
from tinsmith.lab.runs.files import MANIFEST
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.files import made_once, write_text
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LAST_GATES: Final = 4
"""The last gate draws as many papers as so many others."""


class FoundPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found and took."""

    searched: Searched
    spent: Spent

    @property
    def lines(self) -> Document:
        """What stands before every paper; none where the prompt stays as it is."""
        return self.searched.found


class _Took(msgspec.Struct, frozen=True):
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAsked:
    """One search: on whose base and papers, how, and where what it finds is kept."""

    settings: SearchSettings
    samples: int
    """Answers to each paper."""
    shuffled: bool
    """Whether by shuffled labels: the negative control."""
    cell: Cell
    """A finished run of the base, whose seed is the search's."""
    source: Slice
    tokenizer: PreTrainedTokenizerBase
    cost: Cost
    file: Path

    @property
    def beside(self) -> Path:
        """Where it says how long it took."""
        return self.file.with_suffix(".seconds")

    def seconds(self) -> float:
        """Return how long it took; 0 where that is not known."""
        if not self.beside.is_file():
            return 0.0
        return msgspec.json.decode(self.beside.read_bytes(), type=_Took).seconds


def search_prompt(asked: SearchAsked, say: Say) -> FoundPrompt:
    """Search on the base of a run, or read what was found before with the same settings."""
    shuffle = {"shuffle_labels": "true"} if asked.shuffled else {}
    plan = make_plan(asked.cell.experiment, {**asked.cell.overrides, **shuffle})
    task = task_asked(plan)
    bank = bank_of(task)
    search = msgspec.structs.replace(asked.settings, seed=derive(plan.settings.seed, "search"))
    data = data_of(plan, asked.source)
    base = _base_of(asked.cell)
    wanted = (search, asked.samples, asked.shuffled, base, str(data.data["sha256"]), bank)
    began = time.perf_counter()

    def make() -> FoundPrompt:
        with reopened(plan, asked.cell.folder, say) as there:
            say(f"{asked.file.stem}: a prompt is searched")
            renderer, tokenizer = renderer_for(asked.tokenizer), asked.tokenizer
            study = LabelledPapers(task=task, papers=data.papers, renderer=renderer, tokenizer=tokenizer)
            ledger = Ledger(asked.cost)
            score = AskedPapers(
                client=there.base().client,
                study=study,
                samples=asked.samples,
                temperature=plan.settings.temperature,
                max_tokens=plan.settings.max_tokens,
                positions=asked.cost.config.max_positions,
                ledger=ledger,
            )
            train, selection = halves_of({one.prompt_id: one.prompt_id for one in data.papers.train}, search.seed)
            searched = Search(
                train=train,
                selection=selection,
                prompts=score.prompts,
                score=score,
                proposer=Grammar(bank),
                settings=search,
                last=_LAST_GATES * search.gate,
            ).run(())
        write_text(msgspec.json.encode(_Took(time.perf_counter() - began)).decode(), asked.beside)
        return FoundPrompt(searched=searched, spent=ledger.spent)

    return made_once(asked.file, wanted, FoundPrompt, make)


def _base_of(cell: Cell) -> str:
    """Return the SHA-256 of what the run's server said of its model."""
    identity = RunFolder(cell.folder).read_json(MANIFEST).get("identity") or {}
    return sha256_of(cast("Mapping[str, object]", identity).get("model"))
