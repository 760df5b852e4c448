"""`study/sft_vs_rl`: does reinforcement on labels teach a model more than being shown them, with nothing else unequal?

Rates are chosen on one seed by the validation split alone. RL's own run says how many FLOPs it took, and supervised
training with as many is an arm too. Then every arm is trained at its rate with every seed, and tested once; RL and SFT
also on shuffled labels, without which the gate allows no claim. Each run is a `tinsmith run` in a folder below `cells`;
those that came to their end stay as they are, so that the same call goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.data.slice_reader import Slice
from tinsmith.experiments.cell import Cell
from tinsmith.experiments.compute_spent import Accountant, Cost
from tinsmith.experiments.estimate import minutes, time_and_disk
from tinsmith.experiments.kinds import At
from tinsmith.experiments.paper_base import PaperBaseRecipe
from tinsmith.experiments.places import SMALL_MODEL
from tinsmith.experiments.plan import make_plan
from tinsmith.experiments.planted_world import (
    PLANTED_BASE,
    PLANTED_TOKENS,
    PlantedRecipe,
    planted_slice,
)
from tinsmith.experiments.registry import find
from tinsmith.experiments.sft_vs_rl_cells import CELLS, Found, Layout
from tinsmith.experiments.sft_vs_rl_keys import QUESTION, StudyWorld
from tinsmith.experiments.sft_vs_rl_outcome import Books, read_outcome, write_outcome
from tinsmith.experiments.sft_vs_rl_settings import SftVsRlSettings, sft_vs_rl_settings
from tinsmith.experiments.study import run_cells, sole_process
from tinsmith.experiments.worlds import (
    Told,
    WorldRecipe,
    nano_base,
    open_slice,
    papers_of,
    world_slice,
)
from tinsmith.models.base import read_shape
from tinsmith.reports.sft_vs_rl_results import TUNED, WORDS, StudyArm
from tinsmith.reports.sft_vs_rl_story import headline
from tinsmith.reports.tried_rates import Tried, chosen, held_against_chosen, read_tried
from tinsmith.training.settings import SftSettings

RunCells = Callable[[Sequence[Cell], Told], None]

_MEGABYTES: Final = 6
"""Of one run, most of it rollouts and checkpoints."""
_START_MINUTES: Final = 0.15
"""Of one run, to start its server and load what it needs."""


def run_sft_vs_rl(overrides: Mapping[str, str], told: Told, *, run: RunCells = run_cells) -> Path:
    """Run what has not been run, and write values and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = sft_vs_rl_settings(overrides)
    if settings.dry_run:
        for line in _forecast(settings):
            told(line)
        return settings.out
    told(_forecast(settings)[-1])
    with sole_process(settings.out):
        _conduct(settings, told, run)
    return settings.out


def _conduct(settings: SftVsRlSettings, told: Told, run: RunCells) -> None:
    source, base = _materials(settings, told)
    layout = Layout(settings=settings, place={"data": str(source.folder), "model_name": base})
    books = Books.open(source, base, Accountant(Cost(read_shape(base))))
    stages = _Stages(layout, books, run, told)
    rates, tried, found = stages.tuned()
    reported = layout.reported(rates, found)
    run([cell for cells in reported.values() for cell in cells], told)
    outcome = read_outcome(settings, source, books, reported, rates, tried)
    write_outcome(settings.out, outcome, QUESTION)
    told(headline(outcome.study))


@dataclass(frozen=True, slots=True)
class _Stages:
    """Chooses rates stage by stage: what RL took decides how long the supervised arm with its compute is."""

    layout: Layout
    books: Books
    run: RunCells
    told: Told

    def tuned(
        self,
    ) -> tuple[dict[StudyArm, float | None], dict[StudyArm, tuple[Tried, ...]], Found]:
        """Return every arm's rate, the rates that were tried, and what earlier runs decided of later ones."""
        first, second = (StudyArm.SFT, StudyArm.RL), (StudyArm.MORE, StudyArm.THEN)
        tried = self._try(first, Found())
        rates = {arm: _chosen(self.layout.rates(arm), tried.get(arm, ())) for arm in first}
        found = Found(more_steps=self._more_steps(rates), sft_rate=rates[StudyArm.SFT])
        tried |= self._try(second, found)
        rates |= {arm: _chosen(self.layout.rates(arm), tried.get(arm, ())) for arm in second}
        every: dict[StudyArm, float | None] = {
            StudyArm.ZERO: None,
            **{arm: rates[arm] for arm in TUNED},
            StudyArm.SFT_SHUFFLED: rates[StudyArm.SFT],
            StudyArm.RL_SHUFFLED: rates[StudyArm.RL],
        }
        for arm in TUNED:
            self.told(f"{WORDS[arm]}: learning rate {rates[arm]:g}, by validation")
        return every, {arm: tried[arm] for arm in TUNED if arm in tried}, found

    def _try(self, arms: Sequence[StudyArm], found: Found) -> dict[StudyArm, tuple[Tried, ...]]:
        cells = {arm: self.layout.tuning(arm, found) for arm in arms}
        self.run([cell for some in cells.values() for cell in some], self.told)
        return {arm: _tried(self.layout.rates(arm), some) for arm, some in cells.items() if some}

    def _more_steps(self, rates: Mapping[StudyArm, float]) -> int:
        """Return how many supervised steps take as many FLOPs as one run of RL at its rate."""
        settings, rate = self.layout.settings, rates[StudyArm.RL]
        chose = bool(self.layout.tuning(StudyArm.RL, Found()))
        seed = settings.tuning_seed if chose else settings.seeds[0]
        cell = self.layout.cell(StudyArm.RL, rate, seed, Found())
        self.run([cell], self.told)
        sft = self.layout.cell(StudyArm.SFT, rates[StudyArm.SFT], seed, Found())
        course = self.books.course(sft)
        assert isinstance(course.settings, SftSettings)
        a_step = self.books.accountant.a_step_of_sft(course, course.settings)
        steps = round(self.books.spent(cell).flops / a_step)
        self.told(f"RL took as many FLOPs as {steps} supervised steps")
        return steps


def _chosen(rates: Sequence[float], tried: Sequence[Tried]) -> float:
    return chosen(tried).rate if tried else rates[0]


def _tried(rates: Sequence[float], cells: Sequence[Cell]) -> tuple[Tried, ...]:
    folders = {rate: cell.folder for rate, cell in zip(rates, cells, strict=True)}
    return held_against_chosen(read_tried(folders), folders)


def _materials(settings: SftVsRlSettings, told: Told) -> tuple[Slice, str]:
    """Find or build papers and base.

    Raises:
        DataError: the papers cannot be used.
    """
    planted = settings.world is StudyWorld.PLANTED
    if settings.data is not None:
        source = open_slice(settings.data, told)
    else:
        source = (
            planted_slice(PlantedRecipe(), told) if planted else world_slice(WorldRecipe(), told)
        )
    if settings.model_name is not None:
        return source, settings.model_name
    if settings.at is At.SMALL:
        return source, SMALL_MODEL
    task = make_plan(find("remedy/exp6"), settings.shared).task
    recipe = PLANTED_BASE if planted else PaperBaseRecipe()
    base = nano_base(recipe, task, papers_of(source, task, shuffle_seed=None), told)
    return source, str(base)


def _forecast(settings: SftVsRlSettings) -> list[str]:
    """Return what the study would take; nothing is built.

    Raises:
        ConfigError: a run could not begin.
    """
    told = {"data": settings.data, "model_name": settings.model_name}
    named = {key: str(value) for key, value in told.items() if value is not None}
    layout = Layout(settings=settings, place=named)
    # An answer is a tenth of its prompt, and a group's prompt is read once: a group costs a little more than it trains.
    found = Found(
        more_steps=round(1.1 * settings.steps * settings.group_size), sft_rate=settings.sft_rates[0]
    )
    tuning = [cell for arm in TUNED for cell in layout.tuning(arm, found)]
    rates: dict[StudyArm, float | None] = {StudyArm.ZERO: None}
    rates |= {arm: layout.rates(arm)[0] for arm in StudyArm if arm is not StudyArm.ZERO}
    reported = [cell for cells in layout.reported(rates, found).values() for cell in cells]
    cells = [*tuning, *reported]
    short = PLANTED_TOKENS if settings.world is StudyWorld.PLANTED else None
    each = [minutes(make_plan(find(cell.name), cell.overrides), short) for cell in cells]
    known = [one + _START_MINUTES for one in each if one is not None]
    taken = sum(known) if len(known) == len(each) else None
    time = time_and_disk(taken, len(cells) * _MEGABYTES)
    return [
        f"study/sft_vs_rl: {QUESTION}",
        f"{len(tuning)} runs to choose rates on seed {settings.tuning_seed}, {len(reported)} to report",
        f"{len(cells)} runs in {settings.out / CELLS}: {time}",
    ]
