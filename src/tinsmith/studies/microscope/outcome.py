"""What runs and what was seen of them come to: measured, judged, said in sentences, and made into the page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.driver import Outcome
from tinsmith.lab.study.results import Draws, hashes_in, seconds_in
from tinsmith.pages.wording import counted, listed, told
from tinsmith.stats.gate.claim import Training, Verdict
from tinsmith.stats.parity import ParityRecord
from tinsmith.studies.microscope.agreement import Decoding, Writer
from tinsmith.studies.microscope.interventions import Rule
from tinsmith.studies.microscope.looking import Looked
from tinsmith.studies.microscope.page import microscope_page
from tinsmith.studies.microscope.results import (
    Asked,
    MicroscopeFound,
    agreement_rows,
    asked_of,
    intervention_rows,
    judged,
    lowest_of_control,
)
from tinsmith.studies.microscope.settings import MicroscopeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A run, and what was seen of it."""

    run: Run
    looked: Looked
    file: Path
    """Where that is kept."""


def read_outcome(settings: MicroscopeSettings, sights: Sequence[Sight], draws: Draws) -> Outcome:
    """Return all that the study has to show.

    Raises:
        DataError: two runs were not looked at on the same items.
    """
    first = sights[0].run
    looks = [one.looked for one in sights]
    agreements = agreement_rows(looks, draws.tables)
    interventions = intervention_rows(looks, draws.tables)
    control = lowest_of_control(looks)
    trained = Training(first.config.data.fingerprint, _examples(first))
    found = MicroscopeFound(
        data=first.config.data.fingerprint,
        num_items=len(looks[0].agreements[0].items),
        seeds=tuple(one.run.config.seed or 0 for one in sights),
        tuning_seed=settings.study.tuning_seed,
        settings=settings.deciding(),
        rates={},
        hashes=hashes_in([one.run for one in sights]),
        task=first.config.task.name,
        second_is="GRPO" if settings.sides is None else f"{settings.sides[1]}",
        agreements=agreements,
        interventions=interventions,
        control_unshifted=control,
        asked=asked_of(agreements, interventions, control),
        beats=judged(looks, trained, _parity(sights), draws),
        looks={one.run.folder.name: hashlib.sha256(one.file.read_bytes()).hexdigest() for one in sights},
    )
    sentences = sentences_of(found)
    seconds = seconds_in([one.run for one in sights])
    return Outcome(
        found=found,
        sentences=sentences,
        seconds={"training": seconds},
        page=microscope_page(found, sentences, looks, {"training": seconds}),
    )


def sentences_of(found: MicroscopeFound) -> tuple[str, ...]:
    """Return what may be said, what did and did not come out first."""
    return (
        _came_out(found.asked),
        _tokens(found),
        *_recovered(found),
        _directions(found),
        *(f"{claim.sentence()}." for claim in found.beats if claim.verdict is not Verdict.ALLOWED),
        _scope(found),
    )


def _came_out(asked: Sequence[Asked]) -> str:
    yes = [_figure(one) for one in asked if one.came_out]
    no = [_figure(one) for one in asked if not one.came_out]
    if not no:
        return f"All {len(asked)} findings came out: {listed(yes)}."
    came = f"came out: {listed(yes)}" if yes else "none came out"
    return f"Of {len(asked)} findings of the literature {len(no)} did not come out: {listed(no)}; {came}."


def _figure(one: Asked) -> str:
    asked = f"asked {'at least' if one.at_least else 'at most'} {one.bound:g}"
    value = "nothing to measure" if one.value is None else f"{one.value.value:.3f}"
    return f"{one.words} {value} ({asked})"


def _tokens(found: MicroscopeFound) -> str:
    row = found.row(Writer.SECOND, Decoding.GREEDY)
    rank = "" if row.mean_rank is None else f", of mean rank {row.mean_rank:.2f} in the first"
    ratio = (
        ""
        if row.entropy_ratio is None
        else (f"; there the first is {told(row.entropy_ratio)} times as uncertain as elsewhere")
    )
    return (
        f"Of the tokens that {found.second_is} writes greedily the base would write {told(row.unshifted)} itself; "
        f"{told(row.reranked)} it had among its first few{rank}, {told(row.shifted)} it had not{ratio}."
    )


def _recovered(found: MicroscopeFound) -> list[str]:
    said: list[str] = []
    for decoding in Decoding:
        rows = {rule: found.intervention(rule, decoding) for rule in Rule}
        ends = [found.row(writer, decoding).earned for writer in Writer]
        course = f"Answered {decoding.value}, the reward goes from {told(ends[0])} to {told(ends[1])}"
        if rows[Rule.ORACLE].recovered is None:
            said.append(f"{course}: no gain is shown, so that nothing is said of who recovers it.")
            continue
        parts = [
            f"{words} {told(share)} of it with {rows[rule].taken:.3f} of the tokens"
            for rule, words in (
                (Rule.ORACLE, "the oracle recovers"),
                (Rule.RANDOM, "as many drawn places"),
                (Rule.UNCERTAIN, "the places where the first is uncertain"),
            )
            if (share := rows[rule].recovered) is not None
        ]
        said.append(f"{course}: {'; '.join(parts)}.")
    return said


def _directions(found: MicroscopeFound) -> str:
    shares = [
        f"{found.row(writer, decoding).unshifted.value:.3f} ({writer.value} writes, {decoding.value})"
        for writer in Writer
        for decoding in Decoding
    ]
    return (
        f"The share of unshifted tokens hangs on who writes and how: {listed(shares)}; against itself it is "
        f"{found.control_unshifted:.3f} in every answer."
    )


def _scope(found: MicroscopeFound) -> str:
    return (
        f"{counted(found.num_items, 'held-out item')} of {found.task}, {counted(len(found.seeds), 'seed')}; every "
        "share is a mean over answers, so that how long answers are decides how small it can be."
    )


def _examples(run: Run) -> int:
    settings = run.config.settings
    steps, groups = run.config.steps or 0, settings.get("groups_per_batch", 1)
    return steps * (groups if isinstance(groups, int) else 1)


def _parity(sights: Sequence[Sight]) -> ParityRecord | None:
    seen = [
        value
        for one in sights
        for row in one.run.metrics.values()
        if (value := row.get("optim/unequal_logprob_bits")) is not None
    ]
    return ParityRecord(steps=len(seen), unequal_bits=int(sum(seen))) if seen else None
