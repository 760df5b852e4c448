"""Reads the finished runs of the study of SFT against RL: scores, claims, what each arm spent, and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tinsmith.data.slices.reader import Slice
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.labels.course import LabelCourse, label_course
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.papers.compute_spent import Accountant, mean_spent
from tinsmith.lab.papers.frame import task_asked
from tinsmith.lab.papers.run_data import data_of
from tinsmith.lab.prompt_search.search import Searched
from tinsmith.lab.prompt_search.search_rows import SearchRow
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.standings import standing_words, standings
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.driver import Outcome, Tuned, TunedArm
from tinsmith.lab.study.results import ArmRow, Draws, Spent, arm_row, baselines_of, hashes_of, scores, seconds_of
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.sft_vs_rl.judging import Evidence
from tinsmith.studies.sft_vs_rl.keys import StudyWorld
from tinsmith.studies.sft_vs_rl.page import sft_vs_rl_page
from tinsmith.studies.sft_vs_rl.results import PromptSide, SftVsRl, WithPrompt, known_truth
from tinsmith.studies.sft_vs_rl.searching import FoundPrompt, SearchAsked
from tinsmith.studies.sft_vs_rl.settings import OFFSET, WORDS, ArmName, SftVsRlSettings
from tinsmith.studies.sft_vs_rl.story import sentences
from tinsmith.types.fingerprints import file_sha256

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TUNED = (ArmName.SFT, ArmName.RL, ArmName.MORE, ArmName.THEN)
"""Arms whose learning rate is chosen; the shuffled ones take that of the arm they control."""


@dataclass(frozen=True, slots=True)
class Books:
    """What runs took, counted on the study's papers and base."""

    source: Slice
    tokenizer: PreTrainedTokenizerBase
    accountant: Accountant

    @classmethod
    def open(cls, source: Slice, base: str, accountant: Accountant) -> Books:
        """Load the base's tokenizer."""
        return cls(source, tokenizer_of(base), accountant)

    def course(self, cell: Cell) -> LabelCourse:
        """Return what a run trains on."""
        plan = make_plan(cell.experiment, cell.overrides)
        study = LabelledPapers(
            task=task_asked(plan),
            papers=data_of(plan, self.source).papers,
            renderer=renderer_for(self.tokenizer),
            tokenizer=self.tokenizer,
        )
        return label_course(study, plan.settings)

    def spent(self, cell: Cell) -> Spent:
        """Return what a finished run took."""
        return self.accountant.spent(cell.folder, self.course(cell))

    def mean(self, arm: TunedArm) -> Spent | None:
        """Return what an arm's reported runs took; None where nothing was trained."""
        return None if arm.rate is None else mean_spent([self.spent(cell) for cell in arm.cells])


Searches = Mapping[ArmName, Sequence[tuple[SearchAsked, FoundPrompt]]]
"""Of each arm of a searched prompt, one a seed."""
_NONE: Final[Searches] = MappingProxyType({})


def read_outcome(
    settings: SftVsRlSettings, books: Books, tuned: Tuned, draws: Draws, searches: Searches = _NONE
) -> Outcome:
    """Read every arm's runs, score them and judge the claims.

    Raises:
        DataError: a folder holds no finished run, or the runs are not of the same papers.
    """
    arms = {ArmName(name): one.read() for name, one in tuned.items()}
    seen = {name: min(round(one.spent.papers) for _, one in each) for name, each in searches.items()}
    evidence = Evidence.of(arms, draws.claims, seen)
    first = arms[ArmName.RL].first
    found = SftVsRl(
        world=settings.world.value,
        data=books.source.card.sha256,
        labels=first.labels,
        num_items=evidence.systems[WORDS[ArmName.RL]].num_items,
        seeds=settings.study.seeds,
        tuning_seed=settings.study.tuning_seed,
        settings=settings.deciding(),
        rows=_rows(arms, evidence, books, tuned, draws, searches),
        baselines=baselines_of(first),
        rates={WORDS[name]: tuned[name].tried for name in TUNED if tuned[name].tried},
        claims=evidence.judged(),
        learned=evidence.learned(),
        controls=evidence.controls(),
        equivalences=evidence.equivalences(),
        standings=standing_words(standings([arms[name] for name in TUNED], draws.claims)),
        truth=known_truth() if settings.world is StudyWorld.PLANTED else None,
        hashes=hashes_of(list(arms.values())),
    )
    if searches:
        found = _with_prompt(found, settings, evidence, searches)
    seconds = {name: seconds_of(arm) for name, arm in arms.items()}
    for name, each in searches.items():
        taken = sum(one.seconds() for one, _ in each) / len(each)
        seconds[name] = replace(seconds[name], training=taken)
    return Outcome(
        found=found,
        sentences=sentences(found),
        seconds={name.value: each for name, each in seconds.items()},
        page=sft_vs_rl_page(found, arms, seconds, _told(searches)),
    )


def _rows(
    arms: Mapping[ArmName, Arm], evidence: Evidence, books: Books, tuned: Tuned, draws: Draws, searches: Searches
) -> tuple[ArmRow, ...]:
    found: list[ArmRow] = []
    for name, arm in arms.items():
        one = tuned[name]
        spent = mean_spent([each.spent for _, each in searches[name]]) if name in searches else books.mean(one)
        row = arm_row(arm, one.rate, draws, spent=spent)
        found.append(row)
        if name is ArmName.SFT:
            decided = scores(evidence.systems[OFFSET], draws.tables)
            found.append(replace(row, name=OFFSET, selected=decided, last=None, greedy=None))
    return tuple(found)


def _with_prompt(found: SftVsRl, settings: SftVsRlSettings, evidence: Evidence, searches: Searches) -> WithPrompt:
    side = PromptSide(
        claims=evidence.prompt_judged(),
        learned=evidence.prompt_learned(),
        controls=evidence.prompt_controls(),
        searches=tuple(
            SearchRow.of(name.value, seed, one.searched)
            for name, each in searches.items()
            for seed, (_, one) in zip(settings.study.seeds, each, strict=True)
        ),
        files={
            asked.file.stem: file_sha256(asked.file)
            for each in searches.values()
            for asked, _ in each
            if asked.file.is_file()
        },
    )
    known = {each.name: getattr(found, each.name) for each in fields(found)}
    return WithPrompt(**known, prompt=side)


def _told(searches: Searches) -> list[tuple[str, Searched]]:
    return [
        (f"{WORDS[name]}, seed {asked.cell.overrides['seed']}", one.searched)
        for name, each in searches.items()
        for asked, one in each
    ]
