"""What searches and runs came to: gains on held-out questions, claims, and what the gate let through."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.prompt_search.search_rows import SearchRow
from tinsmith.lab.study.arm_gains import Arms, ArmsFound, corrected, gain_of
from tinsmith.lab.study.driver import Tuned
from tinsmith.lab.study.results import Draws, hashes_in
from tinsmith.lab.study.task_arms import parity_of, read_runs
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, MeanLearned, judge_mean_beats, judge_mean_learned
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.prompt_search.searching import Found
from tinsmith.studies.prompt_search.settings import (
    BASE_OF,
    PROMPT,
    PROMPT_SHUFFLED,
    RL,
    RL_SHUFFLED,
    WORDS,
    PromptSettings,
)

SCORE: Final = "reward"
WRITTEN: Final = "the prompt written by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFound(ArmsFound):
    """What the study has found."""

    written: Document
    searches: tuple[SearchRow, ...]
    controls: tuple[Claim, ...]
    """What was learned from shuffled answers: none may be allowed."""
    same_before: bool
    """Whether the hand-written prompt earns in every search what the run's own first evaluation says, item by item."""
    files: Mapping[str, str]
    """SHA-256 of what each search found."""

    @property
    def lost(self) -> int:
        """Searches that end lower on selection than they began."""
        return sum(one.after < one.before for one in self.searches)

    @property
    def again(self) -> int:
        """Rejected edits that were proposed once more."""
        return sum(one.again for one in self.searches)

    def beat(self, second: str) -> Claim:
        """Return the claim that the searched prompt beats something."""
        return next(one for one in self.beats if (one.first, one.second) == (WORDS[PROMPT], second))


def read_found(
    settings: PromptSettings, tuned: Tuned, found: Mapping[str, Sequence[Found]], files: Sequence[Path], draws: Draws
) -> tuple[PromptFound, Arms]:
    """Read the finished runs, and put what the searches found beside them.

    Raises:
        DataError: a run was not evaluated, or not on the items that the others were.
    """
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    arms = Arms(reads, settings.task.unit)
    run = reads[RL].reads[0].run
    ends = {
        name: tuple(
            arms.clustered(MeanRuns.of(words, [one.by_item() for one in each]))
            for words, each in (
                (WRITTEN, [one.start for one in searches]),
                (WORDS[name], [one.found for one in searches]),
            )
        )
        for name, searches in found.items()
    }
    gains = [
        gain_of((name, WORDS[name]), (ends[name][0], ends[name][1]), _greedy(found[name]), draws.tables)
        for name in BASE_OF
    ]
    answered = max(one.searched.answered for one in found[PROMPT])
    judge = _Judge(settings, arms, ends, draws, run.config.data.fingerprint, answered)
    read = PromptFound(
        data=run.config.data.fingerprint,
        num_items=ends[PROMPT][0].num_items,
        seeds=settings.study.seeds,
        tuning_seed=settings.study.tuning_seed,
        settings=settings.deciding(),
        rates={},
        hashes=hashes_in([one.run for each in reads.values() for one in each.reads]),
        task=run.config.task.name,
        gains=corrected([*gains, *arms.gains(draws.tables)]),
        beats=judge.beats(),
        learned=judge.learned({PROMPT: PROMPT_SHUFFLED, RL: RL_SHUFFLED}),
        controls=judge.learned({PROMPT_SHUFFLED: PROMPT_SHUFFLED}),
        written=settings.task.written,
        searches=tuple(
            SearchRow.of(name, seed, one.searched)
            for name, searches in found.items()
            for seed, one in zip(settings.study.seeds, searches, strict=True)
        ),
        same_before=all(ends[name][0].by_seed == arms.at(of, 0).by_seed for name, of in BASE_OF.items()),
        files={file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()},
    )
    return read, arms


@dataclass(frozen=True, slots=True)
class _Judge:
    """Puts claims to the gate; examples are answers that were rewarded."""

    settings: PromptSettings
    arms: Arms
    ends: Mapping[str, tuple[MeanRuns, ...]]
    draws: Draws
    data: str
    answered: int

    def beats(self) -> tuple[Claim, ...]:
        """Judge the searched prompt against the hand-written one, and against RL, both ways."""
        before, prompt = self.ends[PROMPT]
        rl = self.arms.at(RL, -1)
        settings = self.arms.reads[RL].reads[0].run.config.settings
        rewarded = 1
        for key in ("steps", "groups_per_batch", "group_size"):
            value = settings.get(key, 1)
            rewarded *= value if isinstance(value, int) else 1
        mine, theirs = Training(self.data, self.answered), Training(self.data, rewarded)
        parity = parity_of([self.arms.reads[RL]])
        return judge_mean_beats(
            [
                MeanBeats(
                    first=prompt,
                    second=before,
                    metric=SCORE,
                    same_models=True,
                    training=(mine, Training(self.data, 0)),
                    parity=parity,
                ),
                MeanBeats(first=prompt, second=rl, metric=SCORE, training=(mine, theirs), parity=parity),
                MeanBeats(first=rl, second=prompt, metric=SCORE, training=(theirs, mine), parity=parity),
            ],
            self.draws.claims,
        )

    def learned(self, controls: Mapping[str, str]) -> tuple[Claim, ...]:
        """Judge that something was learned, beside what was learned of shuffled answers."""
        return judge_mean_learned(
            [
                MeanLearned(
                    system=self._ends(name)[1],
                    metric=SCORE,
                    before=self._ends(name)[0],
                    baselines=tuple(
                        self.arms.clustered(values)
                        for one in self.arms.reads[RL].reads[0].task.baselines
                        if (values := self.arms.reads[RL].baseline(one.name, "total")) is not None
                    ),
                    control=self._ends(control)[1],
                    parity=parity_of([self.arms.reads[RL]]),
                )
                for name, control in controls.items()
            ],
            self.draws.claims,
        )

    def _ends(self, name: str) -> tuple[MeanRuns, MeanRuns]:
        if name in self.ends:
            before, after = self.ends[name]
            return before, after
        return self.arms.at(name, 0), self.arms.at(name, -1)


def _greedy(found: Sequence[Found]) -> tuple[float, float]:
    means = [
        MeanRuns.of("greedy", [one.by_item(greedy=True) for one in each]).mean()
        for each in ([one.start for one in found], [one.found for one in found])
    ]
    return means[0], means[1]
