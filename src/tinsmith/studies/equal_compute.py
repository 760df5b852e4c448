"""Papers, base and compute of SFT against RL: equal FLOPs, what each arm took, and prompts searched beside them.

A search asks papers under a document. A right answer earns 1 over the number of labels times its label's share of the
papers that are trained on, anything else nothing: what papers earn on average is balanced accuracy, and a label that is
rare is worth as much as others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
import tinker
from transformers import PreTrainedTokenizerBase

from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.experiment.key_text import SMALL_MODEL, At, truth
from tinsmith.lab.experiment.replay import reopened
from tinsmith.lab.labels.labelled_papers import LabelledPapers, PaperRollout
from tinsmith.lab.labels.task import Item, bank_of
from tinsmith.lab.papers.compute_spent import Accountant, LabelCourse, Ledger, Spent, mean_spent
from tinsmith.lab.papers.labels import label_task_of
from tinsmith.lab.papers.run_data import data_of, label_course
from tinsmith.lab.papers.worlds import PaperBaseRecipe, WorldRecipe, nano_base, open_slice, papers_of, world_slice
from tinsmith.lab.prompt_search import (
    SEARCH_HEADS,
    STEP_HEADS,
    Document,
    Search,
    Searched,
    SearchSettings,
    grammar,
    halves_of,
    search_cells,
    step_rows,
)
from tinsmith.lab.results.arms import label_arms
from tinsmith.lab.rollouts import Sampling, mean_earned, sample_groups
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.settings import SftSettings
from tinsmith.lab.study.conduct import Stage
from tinsmith.lab.study.files import made_once, write_text
from tinsmith.lab.study.keys import count
from tinsmith.lab.study.measures import ArmRuns, Results
from tinsmith.lab.study.record import Shown
from tinsmith.lab.study.sizes import Cell, Request
from tinsmith.lab.study.study import Listing
from tinsmith.models.base import read_shape, tokenizer_of
from tinsmith.studies.disruption.experiments import REMEDY_EXP6
from tinsmith.studies.planted_world import PLANTED_BASE, PlantedRecipe, planted_slice
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say


def paid(items: Sequence[Item]) -> dict[str, Fraction]:
    """Return what a right answer earns, by label, where these papers are trained on."""
    counts = Counter(one.gold for one in items)
    return {label: Fraction(len(items), len(counts) * count) for label, count in sorted(counts.items())}


@dataclass(frozen=True, kw_only=True)
class PaperScorer:
    """Scores documents; see Score. Counts the papers and tokens that it takes."""

    client: tinker.SamplingClient
    study: LabelledPapers
    """About one subject; its task has no lines of its own."""
    samples: int
    """Answers to each paper."""
    temperature: float
    max_tokens: int
    positions: int
    """Of the model: a document under which a prompt and its answer do not fit is not asked, and earns nothing."""
    ledger: Ledger
    _under: dict[Document, LabelledPapers] = field(default_factory=dict[Document, LabelledPapers])

    @cached_property
    def items(self) -> Mapping[str, Item]:
        """The training papers."""
        return {one.prompt_id: one for one in self.study.papers.train}

    @cached_property
    def _paid(self) -> Mapping[str, Fraction]:
        return paid(self.study.papers.train)

    def __call__(self, document: Document, items: Sequence[str], seed: int) -> dict[str, Fraction]:
        """Return the mean of what each paper's answers earn; papers of which every answer failed are left out."""
        if document not in self._under:
            task = replace(self.study.task, prompt_lines=document)
            self._under[document] = replace(self.study, task=task, _prompts={})
        papers, study = [self.items[name] for name in items], self._under[document]
        prompts = {one.prompt_id: len(study.prompt(one)) for one in papers}
        if max(prompts.values()) + self.max_tokens > self.positions:
            return dict.fromkeys(items, Fraction())
        sampling = Sampling(samples=self.samples, max_tokens=self.max_tokens, temperature=self.temperature, seed=seed)
        self.ledger.spent.papers += len(papers)
        for prompt in prompts.values():
            self.ledger.read(prompt)

        def worth(one: PaperRollout) -> Fraction:
            self.ledger.sampled(len(one.tokens), prompts[one.item.prompt_id])
            return self._paid[one.item.gold] * (one.answer.predicted == one.item.gold)

        return mean_earned(sample_groups(self.client, study, papers, sampling), worth)


_LAST_GATES: Final = 4  # The last gate draws as many papers as so many others.


class FoundPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a search, and its cost."""

    searched: Searched
    spent: Spent


_SECONDS: Final = ".seconds"  # What a search took, beside the prompt that it found.
SEARCHES: Final = "searches"  # The folder of the prompts that were found, in the study's own.
_SEARCH_KEYS: Final = ("search_steps", "search_batch", "search_candidates", "search_gate")


def search_of(request: Request, *, papers: int) -> SearchSettings | None:
    """Read how a prompt is to be searched, to look at `papers` or more; None: it is not."""
    given = request.given
    if not truth("prompt_search", request.own["prompt_search"]):
        for key in _SEARCH_KEYS:
            if key in given:
                fix = "give prompt_search=true as well"
                raise ConfigError("no prompt is searched", field=key, value=given[key], fix=fix)
        return None
    batch, candidates, gate = (count(key, request.own[key], 1) for key in _SEARCH_KEYS[1:])
    enough = -(-papers // (batch * (1 + candidates)))
    steps = count("search_steps", given.get("search_steps", str(enough)), 1)
    return SearchSettings(steps=steps, batch=batch, candidates=candidates, gate=gate)


def _seconds(file: Path) -> float:
    """Return how long the search took that wrote a file; 0 where that is not known."""
    beside = file.with_suffix(_SECONDS)
    return msgspec.json.decode(beside.read_bytes(), type=dict[str, float])["seconds"] if beside.is_file() else 0.0


@dataclass(slots=True, kw_only=True)
class Materials:
    """Model, data and searches that the runs of a study stand on, filled in as they are run."""

    world: str
    at: str
    group_size: int
    search: SearchSettings | None
    searches: dict[str, dict[int, tuple[Path, FoundPrompt]]] = field(default_factory=dict)  # By arm, then seed.
    source: Slice = field(init=False)  # Papers, tokenizer of the base, and counter of its FLOPs: once they are found.
    tokenizer: PreTrainedTokenizerBase = field(init=False)
    accountant: Accountant = field(init=False)

    def find(self, request: Request, say: Say) -> Mapping[str, str]:
        """Find or build papers and base, and return the keys that say where they are."""
        planted, data = self.world == "planted", request.given.get("data")
        if data is not None:
            source = open_slice(Path(data), say)
        else:
            source = planted_slice(PlantedRecipe(), say) if planted else world_slice(WorldRecipe(), say)
        model = request.given.get("model_name") or (SMALL_MODEL if self.at == At.SMALL.value else None)
        if model is None:
            task = label_task_of(make_plan(REMEDY_EXP6, request.shared))
            recipe = PLANTED_BASE if planted else PaperBaseRecipe()
            model = str(nano_base(recipe, task, papers_of(source, task, shuffle_seed=None), say))
        self.source, self.tokenizer = source, tokenizer_of(model)
        self.accountant = Accountant(read_shape(model))
        return {"data": str(source.folder), "model_name": model}

    def course(self, cell: Cell) -> LabelCourse:
        """Return what a run trains on."""
        plan = make_plan(cell.experiment, cell.overrides)
        return label_course(data_of(plan, self.source).subject(self.tokenizer), plan.settings)

    def spent(self, cell: Cell) -> Spent:
        """Return what a finished run took."""
        return self.accountant.spent(cell.folder, self.course(cell))

    def equal_steps(self, stage: Stage, sft: str, rl: str) -> int:
        """Return how many supervised steps take as many FLOPs as one run of RL at its rate."""
        cells, tuned = stage.cells, stage.tuned[rl]
        seed = cells.tuning_seed if tuned.tried else cells.seeds[0]
        (cell,) = stage.run([cells.cell(tuned, stage.rate(rl), seed)])
        course = self.course(cells.cell(stage.tuned[sft], stage.rate(sft), seed))
        assert isinstance(course.settings, SftSettings)
        steps = round(self.spent(cell).flops / self.accountant.a_step_of_sft(course, course.settings))
        stage.say(f"RL took as many FLOPs as {steps} supervised steps")
        return steps

    def searched(self, name: str, zero: str, stage: Stage, *, is_shuffled: bool) -> Mapping[str, Mapping[int, str]]:
        """Search a prompt for each run of the base, and return the lines by seed."""
        found: dict[int, tuple[Path, FoundPrompt]] = {}
        for cell in stage.run(stage.tuned[zero].cells):
            seed = int(cell.overrides["seed"])
            file = stage.cells.out / SEARCHES / f"{name}-seed={seed}.json"
            found[seed] = file, self.find_prompt(cell, file, stage.say, is_shuffled=is_shuffled)
        self.searches[name] = found
        lines = {seed: one.searched.found for seed, (_, one) in found.items()}
        return {"prompt_lines": {seed: "\n".join(some) for seed, some in lines.items() if some}}

    def find_prompt(self, cell: Cell, file: Path, say: Say, *, is_shuffled: bool) -> FoundPrompt:
        """Search on the base of a finished run, with its seed, or read what was found before with the same settings.

        With shuffled labels it is the negative control. Beside the file lies another one that has its seconds.
        """
        assert self.search is not None, "prompts are searched"
        shuffle = {"shuffle_labels": "true"} if is_shuffled else {}
        plan = make_plan(cell.experiment, {**cell.overrides, **shuffle})
        bank, data = bank_of(label_task_of(plan)), data_of(plan, self.source)
        search = msgspec.structs.replace(self.search, seed=derive(plan.settings.seed, "search"))
        # As the run's server said of its model.
        base = sha256_of(RunFolder(cell.folder).manifest().identity.get("model"))
        wanted = (search, self.group_size, is_shuffled, base, str(data.data["sha256"]), bank)
        began = time.perf_counter()

        def make() -> FoundPrompt:
            with reopened(plan, cell.folder, say) as there:
                say(f"{file.stem}: a prompt is searched")
                score = PaperScorer(
                    client=there.base().client,
                    study=data.subject(self.tokenizer),
                    samples=self.group_size,
                    temperature=plan.settings.temperature,
                    max_tokens=plan.settings.max_tokens,
                    positions=self.accountant.config.max_positions,
                    ledger=Ledger(self.accountant.config),
                )
                train, selection = halves_of({name: name for name in score.items}, search.seed)
                searched = Search(
                    train=train,
                    selection=selection,
                    prompts={name: one.paper.title for name, one in score.items.items()},
                    score=score,
                    proposer=grammar(bank),
                    settings=search,
                    last=_LAST_GATES * search.gate,
                ).run(())
            write_text(
                msgspec.json.encode({"seconds": time.perf_counter() - began}).decode(), file.with_suffix(_SECONDS)
            )
            return FoundPrompt(searched=searched, spent=score.ledger.spent)

        return made_once(file, wanted, FoundPrompt, make)

    def every_search(self) -> list[tuple[str, Path, FoundPrompt]]:
        """Return every search, named by its arm and seed."""
        every = [(name, seed, one) for name, some in self.searches.items() for seed, one in some.items()]
        return [(f"{name}, seed {seed}", *one) for name, seed, one in every]

    def papers_of(self, arm: ArmRuns) -> int | None:
        """Return how many papers an arm looked at: in training, or in its searches."""
        found = self.searches.get(arm.arm.name, {}).values()
        return min((round(one.spent.papers) for _, one in found), default=arm.examples)

    def seconds_of(self, arm: str) -> float | None:
        """Return how long a search of an arm took; None: it has none."""
        found = [_seconds(file) for file, _ in self.searches.get(arm, {}).values()]
        return sum(found) / len(found) if found else None

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
    for name, arm in label_arms(results).items():
        if name in made.searches:
            found[name] = mean_spent([one.spent for _, one in made.searches[name].values()])
        elif arm.tuned is not None and arm.tuned.rate is not None:
            found[name] = mean_spent([made.spent(cell) for cell in arm.tuned.cells])
    base, rows = found[reference], list[list[Shown]]()
    for name, one in found.items():
        counts = (one.papers, one.updates, one.tokens_read, one.tokens_sampled, one.tokens_trained)
        shares = (f"{one.flops / base.flops:.2f}", f"{one.papers / base.papers:.2f}")
        row = [results.arms[name].arm.label, *(f"{value:,.0f}" for value in counts), f"{one.flops:.3e}", *shares]
        rows.append(list[Shown](row))
    return rows


def prompt_rows(made: Materials) -> list[list[Shown]]:
    """Return what each search earned and found, and what its file hashes to."""
    rows: list[list[Shown]] = [["as the base is asked", *[None] * (len(SEARCH_HEADS) - 1), "none", ""]]
    for name, file, one in made.every_search():
        sha256 = file_sha256(file)[:16] if file.is_file() else "missing"
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
