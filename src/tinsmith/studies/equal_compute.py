"""Papers, base and compute of SFT against RL: equal FLOPs, what each arm took, and prompts searched beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from transformers import PreTrainedTokenizerBase

from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.key_text import truth
from tinsmith.lab.experiment.places import SMALL_MODEL
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.live.progress import Say
from tinsmith.lab.papers.compute_spent import Accountant, Cost, LabelCourse, Spent, mean_spent
from tinsmith.lab.papers.labels import task_asked
from tinsmith.lab.papers.run_data import data_of, label_course
from tinsmith.lab.papers.worlds import PaperBaseRecipe, WorldRecipe, nano_base, open_slice, papers_of, world_slice
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.prompt_search.search_rows import SEARCH_HEADS, STEP_HEADS, search_cells, step_rows
from tinsmith.lab.settings import SftSettings
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.driver import Stage
from tinsmith.lab.study.keys import count
from tinsmith.lab.study.measures import Results
from tinsmith.lab.study.record import Shown
from tinsmith.lab.study.sizes import Asked
from tinsmith.lab.study.study import Listing
from tinsmith.models.base import read_shape, tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies import searched_prompt
from tinsmith.studies.disruption.experiments import REMEDY_EXP6
from tinsmith.studies.planted_world import PLANTED_BASE, PlantedRecipe, planted_slice
from tinsmith.studies.searched_prompt import FoundPrompt, SearchAsked
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

SEARCHES: Final = "searches"
"""The folder of the prompts that were found, in the study's own."""
_SEARCH_KEYS: Final = ("search_steps", "search_batch", "search_candidates", "search_gate")


def search_asked(asked: Asked, *, papers: int) -> SearchSettings | None:
    """Read how a prompt is to be searched, to look at `papers` or more; None: it is not."""
    given = asked.given
    if not truth("prompt_search", asked.own["prompt_search"]):
        for key in _SEARCH_KEYS:
            if key in given:
                fix = "give prompt_search=true as well"
                raise ConfigError("no prompt is searched", field=key, value=given[key], fix=fix)
        return None
    batch, candidates, gate = (count(key, asked.own[key], 1) for key in _SEARCH_KEYS[1:])
    enough = -(-papers // (batch * (1 + candidates)))
    steps = count("search_steps", given.get("search_steps", str(enough)), 1)
    return SearchSettings(steps=steps, batch=batch, candidates=candidates, gate=gate)


@dataclass(slots=True, kw_only=True)
class Materials:
    """Model, data and searches that the runs of a study stand on, filled in as they are run."""

    world: str
    at: str
    group_size: int
    search: SearchSettings | None
    searches: dict[str, list[tuple[SearchAsked, FoundPrompt]]] = field(default_factory=dict)
    """One a seed, by arm."""
    _source: Slice | None = None
    _tokenizer: PreTrainedTokenizerBase | None = None
    _accountant: Accountant | None = None

    def find(self, asked: Asked, say: Say) -> Mapping[str, str]:
        """Find or build papers and base, and return the keys that say where they are."""
        planted, data = self.world == "planted", asked.given.get("data")
        if data is not None:
            source = open_slice(Path(data), say)
        else:
            source = planted_slice(PlantedRecipe(), say) if planted else world_slice(WorldRecipe(), say)
        model = asked.given.get("model_name") or (SMALL_MODEL if self.at == At.SMALL.value else None)
        if model is None:
            task = task_asked(make_plan(REMEDY_EXP6, asked.shared))
            recipe = PLANTED_BASE if planted else PaperBaseRecipe()
            model = str(nano_base(recipe, task, papers_of(source, task, shuffle_seed=None), say))
        self._source, self._tokenizer = source, tokenizer_of(model)
        self._accountant = Accountant(Cost(read_shape(model)))
        return {"data": str(source.folder), "model_name": model}

    @property
    def source(self) -> Slice:
        """The papers."""
        assert self._source is not None, "they were found"
        return self._source

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Of the base."""
        assert self._tokenizer is not None, "it was found"
        return self._tokenizer

    @property
    def accountant(self) -> Accountant:
        """Counts FLOPs of the base."""
        assert self._accountant is not None, "it was found"
        return self._accountant

    def course(self, cell: Cell) -> LabelCourse:
        """Return what a run trains on."""
        plan = make_plan(cell.experiment, cell.overrides)
        papers = data_of(plan, self.source).papers
        renderer, tokenizer = renderer_for(self.tokenizer), self.tokenizer
        subject = LabelledPapers(task=task_asked(plan), papers=papers, renderer=renderer, tokenizer=tokenizer)
        return label_course(subject, plan.settings)

    def spent(self, cell: Cell) -> Spent:
        """Return what a finished run took."""
        return self.accountant.spent(cell.folder, self.course(cell))

    def equal_steps(self, stage: Stage, sft: str, rl: str) -> int:
        """Return how many supervised steps take as many FLOPs as one run of RL at its rate."""
        cells, tuned = stage.cells, stage.tuned[rl]
        seed = cells.tuning_seed if tuned.tried else cells.seeds[0]
        (cell,) = stage.run([cells.cell(tuned.arm, stage.rate(rl), seed)])
        course = self.course(cells.cell(stage.tuned[sft].arm, stage.rate(sft), seed))
        assert isinstance(course.settings, SftSettings)
        steps = round(self.spent(cell).flops / self.accountant.a_step_of_sft(course, course.settings))
        stage.say(f"RL took as many FLOPs as {steps} supervised steps")
        return steps

    def searched(self, name: str, zero: str, stage: Stage, *, is_shuffled: bool) -> Mapping[str, Mapping[int, str]]:
        """Search a prompt for each run of the base, and return the lines by seed."""
        assert self.search is not None, "prompts are searched"
        lines: dict[int, str] = {}
        for cell in stage.run(stage.tuned[zero].cells):
            seed = int(cell.overrides["seed"])
            asked = SearchAsked(
                settings=self.search,
                samples=self.group_size,
                shuffled=is_shuffled,
                cell=cell,
                source=self.source,
                tokenizer=self.tokenizer,
                cost=self.accountant.cost,
                file=stage.cells.out / SEARCHES / f"{name}-seed={seed}.json",
            )
            found = searched_prompt.search_prompt(asked, stage.say)
            self.searches.setdefault(name, []).append((asked, found))
            if found.lines:
                lines[seed] = "\n".join(found.lines)
        return {"prompt_lines": lines}

    def every_search(self) -> list[tuple[str, SearchAsked, FoundPrompt]]:
        """Return every search, named by its arm and seed."""
        every = [(name, asked, one) for name, some in self.searches.items() for asked, one in some]
        return [(f"{name}, seed {asked.cell.overrides['seed']}", asked, one) for name, asked, one in every]

    def papers_of(self, arm: str) -> int | None:
        """Return how many papers the searches of an arm looked at; None: it has none."""
        found = self.searches.get(arm)
        return None if found is None else min(round(one.spent.papers) for _, one in found)

    def seconds_of(self, arm: str) -> float | None:
        """Return how long a search of an arm took; None: it has none."""
        found = self.searches.get(arm)
        return None if found is None else sum(one.seconds() for one, _ in found) / len(found)

    def warnings(self, seeds: int) -> list[str]:
        """Say beforehand what the searches take: the forecast knows runs, and these are none."""
        if self.search is None:
            return []
        one = self.search
        answers = one.steps * one.batch * (1 + one.candidates) * self.group_size
        return [
            f"{2 * seeds} searches for a prompt, {one.steps} steps and some {answers:,} answers each beside those of "
            "their gates: what they take is not in the forecast"
        ]


def spent_rows(results: Results, made: Materials, reference: str) -> list[list[Shown]]:
    """Return what the training of every arm took, beside a reference."""
    found: dict[str, Spent] = {}
    for name, cells in results.labelled.cells.items():
        if name in made.searches:
            found[name] = mean_spent([one.spent for _, one in made.searches[name]])
        elif results.labelled.rates[name] is not None:
            found[name] = mean_spent([made.spent(cell) for cell in cells])
    base, rows = found[reference], list[list[Shown]]()
    for name, one in found.items():
        counts = (one.papers, one.updates, one.tokens_read, one.tokens_sampled, one.tokens_trained)
        shares = (f"{one.flops / base.flops:.2f}", f"{one.papers / base.papers:.2f}")
        row = [results.labelled.labels[name], *(f"{value:,.0f}" for value in counts), f"{one.flops:.3e}", *shares]
        rows.append(list[Shown](row))
    return rows


def prompt_rows(made: Materials) -> list[list[Shown]]:
    """Return what each search earned and found, and what its file hashes to."""
    rows: list[list[Shown]] = [["as the base is asked", *[None] * (len(SEARCH_HEADS) - 1), "none", ""]]
    for name, asked, one in made.every_search():
        sha256 = file_sha256(asked.file)[:16] if asked.file.is_file() else "missing"
        rows.append([name, *search_cells(one.searched), sha256])
    return rows


def compute_tables(made: Materials, reference: str) -> list[Listing]:
    """Return the tables of compute, beside that of an arm, and of searches."""
    searches = [
        Listing(
            "Prompt",
            "Every search: what the prompt earns at the last gate, before any edit and after. Put: steps in which "
            "something helped on the batch and went to the gate. Asked: papers looked at, again where they came again.",
            (*SEARCH_HEADS, "SHA-256"),
            lambda _: prompt_rows(made),
        ),
        Listing(
            "Search steps",
            "What was tried, step by step.",
            STEP_HEADS,
            lambda _: step_rows((name, one.searched) for name, _, one in made.every_search()),
        ),
    ]
    spent = Listing(
        "Data and compute",
        "What training took, a mean over seeds. FLOPs are 2 a parameter and token read or sampled, 6 a parameter and "
        "token trained, and attention's own; looking at validation and test is left out. SFT and RL see the same "
        "papers with the same labels in the same order, as many in every update.",
        (
            *("papers seen|with labels", "updates", "tokens read|to sample", "tokens sampled", "tokens trained"),
            *("FLOPs", "FLOPs|of RL's", "papers|of RL's"),
        ),
        lambda results: spent_rows(results, made, reference),
    )
    return [spent, *(searches if made.search is not None else [])]
