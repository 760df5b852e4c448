"""`prompt_search`: a search for a better prompt for the base, beside RL from the prompt that was written by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.experiment.reopened import reopened
from tinsmith.lab.live.progress import Say
from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.prompt_search.search_rows import SearchRow, prompt_tables, step_folds
from tinsmith.lab.study.arm_gains import Arms, corrected, gain_of
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Tuned, conduct_study
from tinsmith.lab.study.record import Expected, Panel, StudyRecord
from tinsmith.lab.study.report import page_of_study, sentences
from tinsmith.lab.study.results import DRAWS, Draws, hashes_in, seconds_in
from tinsmith.lab.study.task_arms import parity_of, read_runs
from tinsmith.lab.study.task_study import OpenSource, minutes_of
from tinsmith.pages.document import Document as Page
from tinsmith.pages.document import Section, note
from tinsmith.pages.wording import counted, signed
from tinsmith.stats.gate.claim import CheckName, Claim, Training, Verdict
from tinsmith.stats.gate.claim import Finding as Check
from tinsmith.stats.gate.claims import MeanBeats, MeanLearned, judge_beats, judge_learned
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.prompt_search.searching import Found, searched_on
from tinsmith.studies.prompt_search.settings import (
    BASE_OF,
    LABELS,
    PROMPT,
    PROMPT_SHUFFLED,
    QUESTION,
    RL,
    RL_SHUFFLED,
    PromptSettings,
    prompt_settings,
)

SEARCHES: Final = "searches"
"""The folder of the searches, in the study's own."""
SCORE: Final = "reward"
WRITTEN: Final = "the prompt written by hand"
SearchOn = Callable[[PromptSettings, Cell, Path, Say], Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRecord(StudyRecord):
    """Values of the study."""

    task: str
    written: Document
    searches: tuple[SearchRow, ...]
    controls: tuple[Claim, ...]
    """Claims that something was learned from shuffled answers: none may be allowed."""
    same_before: bool
    """True if the hand-written prompt earns in every search what the run's own first evaluation says, by item."""
    files: Mapping[str, str]
    """SHA-256 of each search's results."""


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
    folder = settings.study.out / SEARCHES
    search_on = search or _search_on

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(settings.study, settings.study.arms)
        stages.report(tuned)
        found: dict[str, list[Found]] = {}
        files: list[Path] = []
        for name, of in BASE_OF.items():
            for cell in tuned[of].cells:
                files.append(folder / f"{name}-seed={cell.overrides['seed']}.json")
                found.setdefault(name, []).append(search_on(settings, cell, files[-1], say))
        hashes = {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}
        measured = _Measured.of(settings, tuned, found, draws)
        record = measured.record(hashes)
        seconds = {one.words: seconds_in([each.run for each in one.reads]) for one in measured.arms.reads.values()}
        page = _with_searches(page_of_study(record, seconds), record, found)
        return Outcome(found=record, sentences=sentences(record), seconds=seconds, page=page)

    return conduct_study(settings.study, say, conduct, pace=minutes_of, run=run)


def _search_on(settings: PromptSettings, cell: Cell, file: Path, say: Say) -> Found:
    say(f"{file.stem}: searched")
    with reopened(make_plan(cell.experiment, cell.overrides), cell.folder, say) as there:
        return searched_on(settings, there, file)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Finished runs, and the searches on their bases by name, one a seed."""

    settings: PromptSettings
    arms: Arms
    searches: Mapping[str, Sequence[Found]]
    ends: Mapping[str, tuple[MeanRuns, MeanRuns]]
    """Rewards of held-out items before and after, by the name of the arm."""
    draws: Draws

    @classmethod
    def of(
        cls, settings: PromptSettings, tuned: Tuned, searches: Mapping[str, Sequence[Found]], draws: Draws
    ) -> _Measured:
        """Read the finished runs.

        Raises:
            DataError: a run was not evaluated, or not on the items that the others were.
        """
        reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
        arms = Arms(reads, settings.task.unit)
        ends = {name: (arms.at(name, 0), arms.at(name, -1)) for name in reads}
        for name, some in searches.items():
            before = MeanRuns.of(WRITTEN, [one.start.by_item() for one in some])
            after = MeanRuns.of(LABELS[name], [one.found.by_item() for one in some])
            ends[name] = (arms.clustered(before), arms.clustered(after))
        return cls(settings, arms, searches, ends, draws)

    def record(self, files: Mapping[str, str]) -> PromptRecord:
        """Return the values that are kept."""
        study, run = self.settings.study, self.arms.reads[RL].reads[0].run
        gains = [
            gain_of((name, LABELS[name]), self.ends[name], _greedy(some), self.draws.tables)
            for name, some in self.searches.items()
        ]
        every = corrected([*gains, *self.arms.gains(self.draws.tables)])
        record = PromptRecord(
            data=run.config.data.fingerprint,
            num_items=self.ends[PROMPT][0].num_items,
            seeds=study.seeds,
            tuning_seed=study.tuning_seed,
            settings=self.settings.deciding(),
            rates={},
            hashes=hashes_in([one.run for each in self.arms.reads.values() for one in each.reads]),
            title="Prompt search",
            question=QUESTION,
            source="",
            score=SCORE,
            arms=tuple(one.words for one in every),
            gains=every,
            more_gains=(),
            expectations=(),
            figures={},
            tables=(),
            panels=(
                Panel(
                    title=f"{SCORE}, held out",
                    before=tuple(one.before for one in every),
                    after=tuple(one.after for one in every),
                ),
            ),
            curves=(),
            beats=self._beats(run.config.data.fingerprint),
            learned=self._learned({PROMPT: PROMPT_SHUFFLED, RL: RL_SHUFFLED}),
            notes=(),
            task=run.config.task.name,
            written=self.settings.task.written,
            searches=tuple(
                SearchRow.of(name, seed, one.searched)
                for name, some in self.searches.items()
                for seed, one in zip(study.seeds, some, strict=True)
            ),
            controls=self._learned({PROMPT_SHUFFLED: PROMPT_SHUFFLED}),
            same_before=all(self.ends[name][0].by_seed == self.ends[of][0].by_seed for name, of in BASE_OF.items()),
            files=files,
        )
        return replace(record, expectations=_expectations(record), notes=_notes(record))

    def _beats(self, data: str) -> tuple[Claim, ...]:
        """Judge the searched prompt against the hand-written one, and against RL, both ways; answers are examples."""
        (before, prompt), rl = self.ends[PROMPT], self.ends[RL][1]
        settings = self.arms.reads[RL].reads[0].run.config.settings
        rewarded = 1
        for key in ("steps", "groups_per_batch", "group_size"):
            value = settings.get(key, 1)
            rewarded *= value if isinstance(value, int) else 1
        mine = Training(data, max(one.searched.answered for one in self.searches[PROMPT]))
        untrained, theirs, parity = Training(data, 0), Training(data, rewarded), parity_of([self.arms.reads[RL]])
        pairs = ((prompt, before, mine, untrained), (prompt, rl, mine, theirs), (rl, prompt, theirs, mine))
        claims = [
            MeanBeats(
                first=first,
                second=second,
                metric=SCORE,
                same_models=second is before,
                training=(own, other),
                parity=parity,
            )
            for first, second, own, other in pairs
        ]
        return judge_beats(claims, self.draws.claims)

    def _learned(self, controls: Mapping[str, str]) -> tuple[Claim, ...]:
        """Judge that something was learned, beside a search or a run by shuffled answers."""
        rl = self.arms.reads[RL]
        known = (rl.baseline(one.name, "total") for one in rl.reads[0].task.baselines)
        baselines = tuple(self.arms.clustered(values) for values in known if values is not None)
        claims = [
            MeanLearned(
                system=self.ends[name][1],
                metric=SCORE,
                before=self.ends[name][0],
                baselines=baselines,
                control=self.ends[control][1],
                parity=parity_of([rl]),
            )
            for name, control in controls.items()
        ]
        return judge_learned(claims, self.draws.claims)


def _greedy(found: Sequence[Found]) -> tuple[float, float]:
    before = MeanRuns.of("greedy", [one.start.by_item(greedy=True) for one in found])
    return before.mean(), MeanRuns.of("greedy", [one.found.by_item(greedy=True) for one in found]).mean()


def _expectations(found: PromptRecord) -> tuple[Expected, ...]:
    """Return what a search should come to, and whether it did."""
    gains = {one.name: one for one in found.gains}
    over_written, over_rl, below_rl = found.beats
    allowed = [one.first for one in found.controls if one.verdict is Verdict.ALLOWED]
    is_below = any(one.name is CheckName.DIFFERENCE and one.finding is Check.PASSED for one in below_rl.checks)
    control = gains[PROMPT_SHUFFLED]
    changed = sum(one.found != found.written for one in found.searches)
    lost = sum(one.after < one.before for one in found.searches)
    again, rejected = sum(one.again for one in found.searches), sum(one.rejected for one in found.searches)
    told = (
        (
            "the search raises what the prompt written by hand earns",
            over_written.verdict is Verdict.ALLOWED,
            f"{signed(over_written.value)} over it",
        ),
        (
            "the searched prompt reaches RL from the prompt written by hand",
            not is_below,
            f"{signed(over_rl.value)} over RL",
        ),
        ("nothing may be claimed from shuffled answers", not allowed, f"{len(allowed)} claims allowed"),
        (
            "a search by shuffled answers raises nothing",
            not (control.holds and control.gain.value > 0.0),
            f"{signed(control.gain.value)} beside {signed(gains[PROMPT].gain.value)}",
        ),
        (
            "no search ends lower on the questions of selection than it began",
            not lost,
            f"{lost} of {counted(len(found.searches), 'search', 'searches')}; {changed} found another prompt",
        ),
        ("refused edits are never proposed again", not again, f"{again} of {rejected}"),
        (
            "the hand-written prompt earns in a search what it earns in the run's first evaluation, item by item",
            found.same_before,
            "in every search" if found.same_before else "not in every search",
        ),
    )
    return tuple(Expected(text=text, met=met, figures=figures) for text, met, figures in told)


def _notes(found: PromptRecord) -> tuple[str, ...]:
    put, accepted = sum(one.put for one in found.searches), sum(one.accepted for one in found.searches)
    return (f"The gate was asked {put} times and let edits through {accepted} times.",)


def _with_searches(page: Page, found: PromptRecord, searches: Mapping[str, Sequence[Found]]) -> Page:
    """Return the page with the prompts and steps of the searches after the gains; `searches` by name, one a seed."""
    caption = (
        "Every search: what the prompt earns on all questions of selection, one answer each. Put: steps in which "
        "something helped on the batch and went to the gate. Answers: how many the search asked for in all."
    )
    steps = note(
        "Each step tries edits on some training questions, takes the best few of those that helped, and asks the gate: "
        "questions of selection, drawn anew each time, the same ones under both prompts. Only what earns strictly more "
        "passes; what does not is never proposed again."
    )
    named = [
        (f"{LABELS[name]}, seed {seed}", one.searched)
        for name, each in searches.items()
        for seed, one in zip(found.seeds, each, strict=True)
    ]
    tables = prompt_tables(found.searches, LABELS, (WRITTEN, found.written), caption=caption)
    own = (Section("prompts", "Prompts", tables), Section("steps", "Steps", (steps, *step_folds(named))))
    place = 1 + [one.anchor for one in page.sections].index("gains")
    sections = (*page.sections[:place], *own, *page.sections[place:])
    return replace(page, facts=(("Task", found.task), *page.facts), sections=sections)
