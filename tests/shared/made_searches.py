"""Made-up runs of `prompt_search`, and real searches on a made-up base that follows every handbook to the letter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import msgspec
from made_cells import made_folder

from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.prompt_search import Document, Search, grammar
from tinsmith.lab.study.sizes import Cell
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.studies.prompt_search.search import Found, Searching
from tinsmith.studies.prompt_search.task import WRITTEN, done_under, held_out, right
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say

ITEMS = {item["id"]: item for item in handbook.items()}
TRAIN = [name for name, item in ITEMS.items() if not held_out(item)]
HELD = [name for name, item in ITEMS.items() if held_out(item)]


@dataclass(frozen=True)
class Base:
    """Answers as a handbook says; rewarded with each item's own answer, or with another one's."""

    shuffled: bool
    samples: int = 1

    def __call__(self, document: Document, items: Sequence[str], seed: int) -> dict[str, Fraction]:
        found: dict[str, Fraction] = {}
        for name in items:
            item = ITEMS[name]
            other = TRAIN[derive(3, name) % len(TRAIN)] if self.shuffled else name
            texts = [
                done_under(document, item["sign"], Random(derive(seed, name, sample))) for sample in range(self.samples)
            ]
            rights = [int(right(ITEMS[other], text)) for text in texts]
            found[name] = Fraction(sum(rights), self.samples)
        return found


def searched(asked: Searching, folder: Path, file: Path, say: Say, *, shuffled: bool | None = None) -> Found:
    """Search on the made-up base."""
    del say
    seed = int(folder.name.rpartition("=")[2])
    if shuffled is None:
        shuffled = folder.name.startswith("rl_shuffled")
    one = Search(
        train=TRAIN[::2],
        selection=TRAIN[1::2],
        prompts={name: name for name in TRAIN},
        score=Base(shuffled),
        proposer=grammar(asked.bank),
        settings=msgspec.structs.replace(asked.search, seed=seed),
    ).run(asked.written)
    ask = Base(shuffled=False, samples=4)

    def examined(document: Document) -> tuple[dict[str, str], dict[str, str]]:
        values = {name: str(value) for name, value in ask(document, HELD, seed).items()}
        return values, values

    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(one.found))
    return Found(searched=one, start=examined(one.start), found=examined(one.found), unreadable=0)


@dataclass(frozen=True)
class Maker:
    """Makes a folder for each cell: how often an arm is right after RL, by its name."""

    after: Mapping[str, float]

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            if not cell.folder.exists():
                self._make(cell)

    def _make(self, cell: Cell) -> None:
        settings, name = make_plan(cell.experiment, cell.overrides).settings, cell.folder.name
        task = {
            "terms": ["right"],
            "items": [{"id": item, "prompt": item, "unit": item} for item in HELD],
            "baselines": [{"name": "always A", "by_item": dict.fromkeys(HELD, 0.25)}],
        }
        chance = self.after[name.split("-rate")[0]]
        after = {
            item: [derive(settings.seed, item, sample) % 1000 < 1000 * chance for sample in range(4)] for item in HELD
        }
        rollouts = [
            line
            for step, rights in ((0, searched_before(settings.seed)), (settings.steps, after))
            for split, count in (("eval", 4), ("eval_greedy", 1))
            for line in _rollouts(step, split, count, rights)
        ]
        metrics = [{"step": step, "optim/unequal_logprob_bits": 0} for step in range(settings.steps)]
        made_folder(cell, task, rollouts, metrics, {"groups_per_batch": 8, "group_size": 8})


def searched_before(seed: int) -> dict[str, list[bool]]:
    """Return what each held-out item's answers under the hand-written handbook are, as a search asks for them."""
    found = Base(shuffled=False, samples=4)(WRITTEN, HELD, seed)
    return {name: [place < 4 * value for place in range(4)] for name, value in found.items()}


def _rollouts(step: int, split: str, count: int, rights: Mapping[str, Sequence[bool]]) -> list[object]:
    return [
        {
            "step": step,
            "split": split,
            "prompt_id": item,
            "sample": sample,
            "text": "A",
            "outcome": "ok",
            "terms": {"right": float(rights[item][sample])},
            "total": float(rights[item][sample]),
        }
        for item in HELD
        for sample in range(count)
    ]
