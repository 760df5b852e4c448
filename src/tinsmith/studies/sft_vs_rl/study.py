"""`study/sft_vs_rl`: does reinforcement on labels teach a model more than being shown them, with nothing else unequal?

RL's own run says how many FLOPs it took, and supervised training with as many is an arm too. RL and SFT are trained on
shuffled labels as well, without which the gate allows no claim. With `prompt_search=true` a prompt that was searched
for the base as it is stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.places import SMALL_MODEL
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.papers.base import PaperBaseRecipe
from tinsmith.lab.papers.compute_spent import Accountant, Cost
from tinsmith.lab.papers.estimate import minutes
from tinsmith.lab.papers.frame import task_asked
from tinsmith.lab.papers.worlds import WorldRecipe, nano_base, open_slice, papers_of, world_slice
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.settings import SftSettings
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Study, Tuned, TunedArm, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.models.base import read_shape
from tinsmith.studies.disruption.experiments import REMEDY_EXP6
from tinsmith.studies.sft_vs_rl.keys import StudyWorld
from tinsmith.studies.sft_vs_rl.outcome import Books, read_outcome
from tinsmith.studies.sft_vs_rl.planted_world import PLANTED_BASE, PLANTED_TOKENS, PlantedRecipe, planted_slice
from tinsmith.studies.sft_vs_rl.searching import FoundPrompt, SearchAsked, search_prompt, with_prompt
from tinsmith.studies.sft_vs_rl.settings import ArmName, SftVsRlSettings, sft_vs_rl_settings

SEARCHES: Final = "searches"
"""The folder of the prompts that were found, in the study's own."""
SearchPrompt = Callable[[SearchAsked, Say], FoundPrompt]


def run_sft_vs_rl(
    overrides: Mapping[str, str],
    say: Say,
    *,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
    search: SearchPrompt = search_prompt,
) -> Path:
    """Run what has not been run, and write values and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = sft_vs_rl_settings(overrides)

    def conduct(stages: Stages) -> Outcome:
        source, base = _materials(settings, say)
        study = _placed(settings.study, data=source.folder, model_name=base)
        books = Books.open(source, base, Accountant(Cost(read_shape(base))))
        tuned = stages.tune(study, study.arms)
        sft, rl = tuned[ArmName.SFT].rate, tuned[ArmName.RL].rate
        assert sft, "it is trained"
        assert rl, "it is trained"
        steps = _more_steps(study, tuned, books, stages)
        tuned |= stages.tune(study, settings.later_arms(more_steps=steps, sft=sft, rl=rl))
        stages.report(tuned)
        searches = _searched(settings, study, books, tuned, say, search)
        under = _under_prompts(settings, study, searches)
        stages.report(under)
        return read_outcome(settings, books, {**tuned, **under}, draws, searches)

    named = _placed(settings.study, data=settings.data, model_name=settings.model_name)
    # An answer is a tenth of its prompt, and a group's prompt is read once: a group costs a little more than it trains.
    steps = round(1.1 * settings.steps * settings.group_size)
    if settings.search is not None:
        say(_search_words(settings, settings.search))
    return conduct_study(
        named,
        say,
        conduct,
        later=(
            *settings.later_arms(more_steps=steps, sft=settings.sft_rates[0], rl=settings.rl_rates[0]),
            *settings.searched_arms(),
        ),
        pace=partial(minutes, prompt_tokens=PLANTED_TOKENS if settings.world is StudyWorld.PLANTED else None),
        run=run,
    )


def _search_words(settings: SftVsRlSettings, search: SearchSettings) -> str:
    """Say beforehand what the searches take: the forecast knows runs, and these are none."""
    searches = len(settings.searched_arms()) * len(settings.study.seeds)
    answers = search.steps * search.batch * (1 + search.candidates) * settings.group_size
    return (
        f"{searches} searches for a prompt, {search.steps} steps and some {answers:,} answers each beside those of "
        "their gates: what they take is not in the forecast"
    )


def _searched(
    settings: SftVsRlSettings, study: Study, books: Books, tuned: Tuned, say: Say, search: SearchPrompt
) -> dict[ArmName, list[tuple[SearchAsked, FoundPrompt]]]:
    """Search a prompt for each run of the base, by true and by shuffled labels."""
    found: dict[ArmName, list[tuple[SearchAsked, FoundPrompt]]] = {}
    if settings.search is None:
        return found
    for arm in settings.searched_arms():
        name = ArmName(arm.name)
        for cell in tuned[ArmName.ZERO].cells:
            asked = SearchAsked(
                settings=settings.search,
                samples=settings.group_size,
                shuffled=name is ArmName.PROMPT_SHUFFLED,
                cell=cell,
                source=books.source,
                tokenizer=books.tokenizer,
                cost=books.accountant.cost,
                file=study.out / SEARCHES / f"{name}-seed={cell.overrides['seed']}.json",
            )
            found.setdefault(name, []).append((asked, search(asked, say)))
    return found


def _under_prompts(
    settings: SftVsRlSettings, study: Study, searches: Mapping[ArmName, Sequence[tuple[SearchAsked, FoundPrompt]]]
) -> dict[str, TunedArm]:
    """Return the arms of the prompts that were found: the base, examined under the one of each seed."""
    return {
        arm.name: TunedArm(
            arm=arm,
            rate=None,
            tried=(),
            cells=[
                with_prompt(cell, found)
                for cell, (_, found) in zip(study.reported(arm, None), searches[ArmName(arm.name)], strict=True)
            ],
        )
        for arm in settings.searched_arms()
    }


def _placed(study: Study, **place: object) -> Study:
    """Return a study whose runs have these papers and this base, where they are known."""
    known = {key: str(value) for key, value in place.items() if value is not None}
    return replace(study, shared={**study.shared, **known})


def _more_steps(study: Study, tuned: Tuned, books: Books, stages: Stages) -> int:
    """Return how many supervised steps take as many FLOPs as one run of RL at its rate."""
    sft, rl = tuned[ArmName.SFT], tuned[ArmName.RL]
    seed = study.tuning_seed if rl.tried else study.seeds[0]
    cell = study.cell(rl.arm, rl.rate, seed)
    stages.run([cell], stages.told)
    course = books.course(study.cell(sft.arm, sft.rate, seed))
    assert isinstance(course.settings, SftSettings)
    a_step = books.accountant.a_step_of_sft(course, course.settings)
    steps = round(books.spent(cell).flops / a_step)
    stages.told(f"RL took as many FLOPs as {steps} supervised steps")
    return steps


def _materials(settings: SftVsRlSettings, say: Say) -> tuple[Slice, str]:
    """Find or build papers and base.

    Raises:
        DataError: the papers cannot be used.
    """
    planted = settings.world is StudyWorld.PLANTED
    if settings.data is not None:
        source = open_slice(settings.data, say)
    else:
        source = planted_slice(PlantedRecipe(), say) if planted else world_slice(WorldRecipe(), say)
    if settings.model_name is not None:
        return source, settings.model_name
    if settings.at is At.SMALL:
        return source, SMALL_MODEL
    task = task_asked(make_plan(REMEDY_EXP6, settings.study.shared))
    recipe = PLANTED_BASE if planted else PaperBaseRecipe()
    base = nano_base(recipe, task, papers_of(source, task, shuffle_seed=None), say)
    return source, str(base)
