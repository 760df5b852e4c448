"""`prompt_search`: a search for a better prompt for the base, beside RL from the prompt that was written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.experiment.reopened import reopened
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws, seconds_in
from tinsmith.lab.study.task_study import OpenSource, minutes_of
from tinsmith.studies.prompt_search.page import prompt_page, prompt_sentences
from tinsmith.studies.prompt_search.results import read_found
from tinsmith.studies.prompt_search.searching import Found, searched_on
from tinsmith.studies.prompt_search.settings import BASE_OF, PromptSettings, prompt_settings

SEARCHES: Final = "searches"
"""The folder of what was found, in the study's own."""
SearchOn = Callable[[PromptSettings, Cell, Path, Say], Found]


def run_prompt_search(
    given: Mapping[str, str],
    say: Say,
    *,
    open_source: OpenSource,
    run: RunCells = run_cells,
    search: SearchOn | None = None,
    draws: Draws = DRAWS,
) -> Path:
    """Run and search what has not been, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        BackendError: a server did not start, or every answer failed.
        LostError: a server was lost; the same call goes on.
    """
    settings = prompt_settings(given, open_source)
    searches = settings.study.out / SEARCHES
    search_on = search or _search_on

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(settings.study, settings.study.arms)
        stages.report(tuned)
        found: dict[str, list[Found]] = {}
        files: list[Path] = []
        for name, of in BASE_OF.items():
            for cell in tuned[of].cells:
                files.append(searches / f"{name}-seed={cell.overrides['seed']}.json")
                found.setdefault(name, []).append(search_on(settings, cell, files[-1], say))
        read, arms = read_found(settings, tuned, found, files, draws)
        sentences = prompt_sentences(read)
        seconds = {one.words: seconds_in([each.run for each in one.reads]) for one in arms.reads.values()}
        return Outcome(
            found=read, sentences=sentences, seconds=seconds, page=prompt_page(read, sentences, seconds, found)
        )

    return conduct_study(settings.study, say, conduct, pace=minutes_of, run=run)


def _search_on(settings: PromptSettings, cell: Cell, file: Path, say: Say) -> Found:
    say(f"{file.stem}: searched")
    with reopened(make_plan(cell.experiment, cell.overrides), cell.folder, say) as there:
        return searched_on(settings, there, file)
