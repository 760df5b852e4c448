"""The page of SFT against RL on made-up answers: what the gate allows and refuses, and what is held against truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import LABELS, START, Story, seeds_of, write_run

from tinsmith.analysis.claims import CheckName, Finding, Verdict
from tinsmith.analysis.estimates import Bootstrap
from tinsmith.analysis.rates import Metric
from tinsmith.reports import sft_vs_rl_judging
from tinsmith.reports.arms import Arm, Member
from tinsmith.reports.gathering import gather
from tinsmith.reports.sft_vs_rl_judging import Evidence, greedy, last, scores, selected
from tinsmith.reports.sft_vs_rl_page import report_sft_vs_rl
from tinsmith.reports.sft_vs_rl_results import (
    OFFSET,
    TUNED,
    WORDS,
    ArmRow,
    Known,
    SftVsRl,
    Spent,
    StudyArm,
    Truth,
)
from tinsmith.reports.sft_vs_rl_story import headline, sentences, truth_of_offset
from tinsmith.reports.tried_rates import Tried
from tinsmith.runs.run_reader import read_run

SEEDS = (1, 2, 3, 4, 5)
WEAK = ((0.40, 0.32, 0.28), (0.28, 0.42, 0.30), (0.28, 0.30, 0.42))
STRONG = ((0.66, 0.18, 0.16), (0.16, 0.68, 0.16), (0.16, 0.18, 0.66))
Table = Sequence[Sequence[float]]

ENDS: Mapping[StudyArm, Table] = {
    StudyArm.ZERO: START,
    StudyArm.SFT: WEAK,
    StudyArm.RL: STRONG,
    StudyArm.MORE: WEAK,
    StudyArm.THEN: STRONG,
    StudyArm.SFT_SHUFFLED: START,
    StudyArm.RL_SHUFFLED: START,
}
SPENT = Spent(
    papers=96, updates=6, tokens_read=900, tokens_sampled=80, tokens_trained=7000, flops=1e9
)


def arms(folder: Path, ends: Mapping[StudyArm, Table]) -> dict[StudyArm, Arm]:
    made: dict[StudyArm, Arm] = {}
    for kind, end in ends.items():
        supervised = kind in (
            StudyArm.ZERO,
            StudyArm.SFT,
            StudyArm.MORE,
            StudyArm.SFT_SHUFFLED,
        )
        story = Story(
            name=f"made/{kind}",
            question="?",
            kind="sft" if supervised else "rl",
            end=end,
            steps=6,
            eval_every=3,
            num_eval=30,
            offset=supervised,
        )
        runs = [
            read_run(write_run(folder / f"{kind}-{one.seed}", one))
            for one in seeds_of(story, *SEEDS)
        ]
        members = tuple(Member(run=run, gathered=gather(run)) for run in runs)
        made[kind] = Arm(name=WORDS[kind], members=members)
    return made


def made_study(found: Mapping[StudyArm, Arm], truth: Truth | None = None) -> SftVsRl:
    evidence = Evidence.of(found)
    rows = [
        ArmRow(
            name=arm.name,
            seeds=SEEDS,
            rate=None if kind is StudyArm.ZERO else 2e-3,
            steps=6,
            selected=scores(selected(arm)),
            last=scores(last(arm)),
            greedy=scores(greedy(arm)),
            spent=None if kind is StudyArm.ZERO else SPENT,
        )
        for kind, arm in found.items()
    ]
    sft = next(row for row in rows if row.name == "SFT")
    offset = scores(evidence.systems[OFFSET])
    rows.append(replace(sft, name=OFFSET, selected=offset, last=None, greedy=None))
    tried = tuple(
        Tried(rate=rate, validation=0.4 + rate, tie_break=0.1) for rate in (1e-3, 2e-3, 4e-3)
    )
    return SftVsRl(
        world="data",
        data="f1" * 32,
        labels=LABELS,
        num_items=210,
        seeds=SEEDS,
        tuning_seed=0,
        settings={"steps": 6},
        rows=tuple(rows),
        baselines=(),
        rates={arm: tried for arm in TUNED},
        claims=evidence.judged(),
        controls=evidence.controls(),
        equivalences=evidence.equivalences(),
        standings="",
        truth=truth,
        hashes={},
    )


@pytest.fixture(scope="module", autouse=True)
def _fewer_resamples() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    patch = pytest.MonkeyPatch()
    patch.setattr(sft_vs_rl_judging, "CLAIMS", Bootstrap(draws=1000))
    patch.setattr(sft_vs_rl_judging, "TABLES", Bootstrap(draws=200))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def better(tmp_path_factory: pytest.TempPathFactory) -> dict[StudyArm, Arm]:
    return arms(tmp_path_factory.mktemp("better"), ENDS)


@pytest.fixture(scope="module")
def study(better: dict[StudyArm, Arm]) -> SftVsRl:
    return made_study(better)


def test_the_first_sentence_is_the_gates_and_holds_where_everything_speaks_for_it(
    study: SftVsRl,
) -> None:
    claim = study.claims[0].claim
    assert (claim.first, claim.second, claim.metric) == ("RL from base", OFFSET, Metric.MACRO_F1)
    assert claim.verdict is Verdict.ALLOWED
    assert headline(study) == f"{claim.sentence()}."
    assert sentences(study)[0].startswith("RL from base beats SFT + logit offset on macro_f1: +")
    assert "the method, over 5 and 5 seeds" in headline(study)


def test_claims_for_shuffled_labels_are_refused_and_their_level_is_told(study: SftVsRl) -> None:
    assert {one.claim.verdict for one in study.controls} == {Verdict.REFUSED}
    assert any("On shuffled labels no claim holds: RL" in line for line in sentences(study))


def test_a_control_that_learns_refuses_what_it_controls(tmp_path: Path) -> None:
    leaking = made_study(arms(tmp_path, {**ENDS, StudyArm.RL_SHUFFLED: STRONG}))
    claim = leaking.claims[0].claim
    assert claim.verdict is Verdict.REFUSED
    check = next(one for one in claim.checks if one.name is CheckName.CONTROL)
    assert check.finding is Finding.FAILED
    assert "labels leak" in check.sentence
    assert sentences(leaking)[0].startswith("not claimed: RL from base beats")
    told = " ".join(sentences(leaking))
    assert "Something is wrong: on shuffled labels there is nothing to learn, and yet RL" in told
    assert "On shuffled labels no claim holds" not in told


def test_equal_arms_are_no_claim(tmp_path: Path) -> None:
    equal = made_study(arms(tmp_path, {**ENDS, StudyArm.RL: WEAK}))
    assert equal.claims[0].claim.verdict is Verdict.REFUSED
    assert "may be zero" in " ".join(equal.claims[0].claim.reasons)
    # 210 papers cannot tell two systems of 0.41 apart by one point.
    assert not any(one.shown for one in equal.equivalences)


def test_systems_with_the_same_answers_are_equivalent(better: dict[StudyArm, Arm]) -> None:
    evidence = Evidence.of(better)
    same = replace(evidence.systems[OFFSET], name="RL from base")
    twins = replace(evidence, systems={**evidence.systems, "RL from base": same})
    found = twins.equivalences()[0]
    assert (found.first, found.second) == ("RL from base", OFFSET)
    assert found.value == 0.0


def truth(best: float) -> Truth:
    def known(name: str, macro_f1: float, min_recall: float) -> Known:
        return Known(name=name, label_match=0.5, macro_f1=macro_f1, min_class_recall=min_recall)

    return Truth(
        best=known("best", best, 0.6),
        imitation=known("imitation", 0.42, 0.4),
        others=(known(truth_of_offset(), best, 0.55),),
    )


def test_the_page_is_held_against_what_was_planted(study: SftVsRl) -> None:
    told = sentences(replace(study, truth=truth(0.70)))
    assert any("nothing lies above it" in line for line in told)
    held = [line for line in told if line.startswith('"RL from base beats')]
    # Offsets come as far as RL in such a world: a claim of RL over them is not true, whatever these answers say.
    assert "allowed, WHICH IS NOT TRUE" in next(line for line in held if OFFSET in line)
    assert "allowed, which is true" in next(line for line in held if "SFT on macro_f1" in line)
    assert "allowed, which is true" in next(line for line in held if "min_class_recall" in line)


def test_a_score_above_what_is_possible_is_called_wrong(study: SftVsRl) -> None:
    told = sentences(replace(study, truth=truth(0.45)))
    assert any(line.startswith("Something is wrong: above the best possible") for line in told)


def test_what_limits_a_study_is_said(study: SftVsRl) -> None:
    few = replace(study, seeds=(1, 2))
    assert any("2 seeds an arm speak for these models" in line for line in sentences(few))
    assert any("Fewer than 5 learning rates" in line for line in sentences(study))
    ends = replace(study, rates={arm: study.rates[arm][1:] for arm in TUNED})
    assert any("is an end of what was tried" in line for line in sentences(ends))


def test_the_page_has_every_section_and_keeps_seconds_apart(
    study: SftVsRl, better: dict[StudyArm, Arm], tmp_path: Path
) -> None:
    written: list[str] = []
    for number, place in ((1.5, "a"), (2.5, "b")):
        out = tmp_path / f"{place}.html"
        seconds = {arm: number for arm in StudyArm}
        report_sft_vs_rl(replace(study, truth=truth(0.7)), better, seconds, "Which?", out)
        written.append(out.read_text())
    first, second = written
    for anchor in ("summary", "scores", "spent", "claims", "truth", "rates", "steps", "seconds"):
        assert f'<section id="{anchor}">' in first
    for row in study.rows:
        assert row.name in first
    parts = [page.split('<section id="seconds">') for page in written]
    assert parts[0][0] == parts[1][0]
    assert first != second
    assert "<script" not in first
