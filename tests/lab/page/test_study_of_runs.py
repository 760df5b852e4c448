"""Runs beside each other: the statistics of a study, over seeds and items, whoever declared it."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from made_studies import MADE, MadeArm, Maker
from run_files import write_task_run
from scipy.stats import ttest_rel

from tinsmith.lab.page.comparison import RunsCompared, compared_tasks, study_of_runs
from tinsmith.lab.page.run_page import compared
from tinsmith.lab.runs.reader import read_run, read_task_run
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.record import Draws, StudyRecord
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies import dead_groups
from tinsmith.types.waits import unsaid

# Items are drawn together by the task's own units, as a report draws them.
study = replace(dead_groups.study, clusters=None)
FEW = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))


def made(out: Path, **arms: MadeArm) -> tuple[list[Path], StudyRecord]:
    """Make a study's runs, and return their folders with what the study says of them."""
    folder = run_study(
        study, {**MADE["dead_groups"].keys, "out": str(out)}, unsaid, run=Maker(MADE["dead_groups"], arms), draws=FEW
    )
    folders = [one.parent for one in sorted(folder.glob("**/config.json")) if "validation" not in str(one)]
    for one in folders:
        config = json.loads((one / "config.json").read_text())
        arm = one.name.split("-rate")[0].split("-seed")[0]
        (one / "config.json").write_text(json.dumps({**config, "overrides": {"arm": arm}}))
    return folders, msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunsCompared, StudyRecord, list[Path]]:
    folders, declared = made(tmp_path_factory.mktemp("study"))
    # The arm that the study compares others with comes first.
    ordered = sorted(folders, key=lambda one: (not one.name.startswith("always"), one.name))
    return study_of_runs(ordered, FEW), declared, ordered


def test_a_report_and_a_study_give_the_same_runs_the_same_gains(
    both: tuple[RunsCompared, StudyRecord, list[Path]],
) -> None:
    found, declared, _ = both
    by_label = {one.name: one.label for one in study.arms}
    of_study = {one.words: one for one in declared.gains}
    assert len(found.record.gains) == len(declared.gains)
    for one in found.record.gains:
        other = of_study[by_label[one.words.removeprefix("arm=")]]
        assert replace(one, name=other.name, words=other.words) == other


def test_a_report_and_a_study_give_a_pair_of_arms_the_same_interval(
    both: tuple[RunsCompared, StudyRecord, list[Path]],
) -> None:
    found, declared, _ = both
    by_label = {one.name: one.label for one in study.arms}
    claims = {(one.first, one.second): one for one in declared.beats}
    same = [
        (one, claims[pair])
        for one in found.record.beats
        if (pair := (by_label[one.first.removeprefix("arm=")], by_label[one.second.removeprefix("arm=")])) in claims
    ]
    assert same
    for one, other in same:
        assert (one.value, one.p_value) == (other.value, other.p_value)
    table = next(one for one in found.record.tables if one.title == "Against each other")
    for name, cells in table.rows:
        label, against = name.split("|against ")
        if not against.startswith("the baseline"):
            names = {one.label: arm for arm, one in ((a, r.arm) for a, r in found.results.arms.items())}
            assert cells[3] == found.results.gap(names[label], names[against], study.score)


def test_seeds_widen_the_interval_of_two_arms_whose_items_agree(tmp_path: Path) -> None:
    # The same answers to every item under both seeds together, and another mean under each.
    for arm, seeds in (("one", (1.0, 0.0)), ("other", (0.0, 1.0))):
        for seed, value in enumerate(seeds):
            write(tmp_path / f"{arm}-{seed}", arm, seed, {f"item-{n}": value for n in range(8)})
    found = study_of_runs([tmp_path / f"{arm}-{seed}" for arm in ("one", "other") for seed in (0, 1)], FEW)
    gap = found.results.gap("arm-1", "arm-0", study.score)
    assert gap == Measure(0.0, -1.0, 1.0)


@pytest.mark.parametrize(("others", "arms"), [("aa", 1), ("bb", 2)])
def test_runs_on_two_named_models_are_no_seeds_of_one_arm(tmp_path: Path, others: str, arms: int) -> None:
    for seed, fingerprint in enumerate(("aa", others)):
        write(tmp_path / str(seed), "one", seed, {f"item-{n}": 0.5 for n in range(8)})
        manifest = {
            "status": "finished",
            "circumstances": {"model_name": "/base"},
            "identity": {"model": {"fingerprint": fingerprint}},
        }
        (tmp_path / str(seed) / "manifest.json").write_text(json.dumps(manifest))
    found = study_of_runs([tmp_path / "0", tmp_path / "1"], FEW)
    assert len(found.results.arms) == arms
    assert len({one.arm.label for one in found.results.arms.values()}) == arms


def test_where_seeds_draw_the_items_a_seed_is_one_value(tmp_path: Path) -> None:
    for arm, gain in (("one", 0.0), ("other", 0.25)):
        for seed in (0, 1, 2):
            items = {f"item-{seed}-{n}": 0.25 * seed + gain for n in range(4)}
            write(tmp_path / f"{arm}-{seed}", arm, seed, items)
    found = study_of_runs([tmp_path / f"{arm}-{seed}" for arm in ("one", "other") for seed in (0, 1, 2)], FEW)
    assert found.results.arms["arm-0"].seeds_draw_items
    gap = found.results.gap("arm-1", "arm-0", study.score)
    assert gap.value == pytest.approx(0.25, abs=1e-12)
    assert gap.low is None, "seeds that are alike"
    assert found.results.arms["arm-0"].per_item(study.score).num_items == 3


def test_seeds_that_draw_the_items_are_pairs_whose_t_guards_a_claim(tmp_path: Path) -> None:
    seeds, gains = range(6), (0.5, 0.0, 0.25, 0.0, 0.5, 0.25)
    for seed in seeds:
        for arm, gain in (("one", 0.0), ("other", gains[seed])):
            write(tmp_path / f"{arm}-{seed}", arm, seed, {f"item-{seed}-{n}": seed / 16 + gain for n in range(4)})
    found = study_of_runs([tmp_path / f"{arm}-{seed}" for arm in ("one", "other") for seed in seeds], FEW)
    (claim,) = found.record.beats
    test = ttest_rel([seed / 16 + gain for seed, gain in zip(seeds, gains, strict=True)], [s / 16 for s in seeds])
    ends = test.confidence_interval(0.95)
    assert claim.seeds == (6, 6)
    assert claim.p_value >= test.pvalue * (1 - 1e-9)
    assert claim.interval is not None
    assert claim.interval.low <= ends.low + 1e-9
    assert claim.interval.high >= ends.high - 1e-9


def test_runs_of_one_name_in_two_folders_both_keep_their_hashes(tmp_path: Path) -> None:
    for arm in ("one", "other"):
        write(tmp_path / arm / "run", arm, 0, {"item": 0.5, "thing": 0.5})
    found = study_of_runs([tmp_path / arm / "run" for arm in ("one", "other")], FEW)
    assert list(found.record.hashes) == ["one/run", "other/run"]


def test_every_figure_of_a_comparison_is_on_its_page(both: tuple[RunsCompared, StudyRecord, list[Path]]) -> None:
    found, _, folders = both
    shown = document_markdown(compared_tasks(folders).page)
    for name, figures in found.record.figures.items():
        for one in figures.values():
            if isinstance(one, Measure):
                assert f"{one.value:.3f}" in shown or f"{one.value:.0f}" in shown, name
    for folder in folders:
        assert folder.name in shown


def test_runs_evaluated_once_are_compared_without_gains(tmp_path: Path) -> None:
    for arm, value in (("one", 0.25), ("other", 0.75)):
        write(tmp_path / arm, arm, 0, {f"item-{n}": value for n in range(8)}, steps=(3,))
    found = study_of_runs([tmp_path / "one", tmp_path / "other"], FEW)
    assert found.record.gains == ()
    assert found.results.gap("arm-1", "arm-0", study.score) == Measure(0.5)


def test_the_gain_of_one_run_is_a_difference_of_a_study_with_one_seed(tmp_path: Path) -> None:
    items = {f"item-{n}": float(n % 4 < 2) for n in range(8)}
    units = {item: "one" if value else "other" for item, value in items.items()}
    write(tmp_path / "run", "one", 0, items, before=0.0, units=units)
    gain = compared(read_task_run(read_run(tmp_path / "run")))[0]
    assert (gain.row[1], gain.first.mean(), gain.second.mean(), gain.row[6]) == ("8", 0.0, 0.5, "4 / 0")
    assert (gain.delta.low, gain.delta.high) == (0.0, 1.0), "items of one unit are drawn together"
    assert gain.p_value == 1.0
    same = study_of_runs([tmp_path / "run"]).record.gains[0]
    assert (same.before.value, same.after.value, same.gain.value) == (0.0, 0.5, 0.5)
    assert same.gain == gain.delta


def write(
    folder: Path,
    arm: str,
    seed: int,
    items: dict[str, float],
    *,
    steps: tuple[int, ...] = (0, 3),
    before: float | None = None,
    units: dict[str, str] | None = None,
) -> None:
    """Write a run whose answers earn what is given, at all steps, or `before` at step 0."""
    named = units or {}
    task = {
        "terms": ["right"],
        "items": [{"id": item, "prompt": item, "unit": named.get(item, item)} for item in items],
    }
    line = {"sample": 0, "text": "A"}
    rollouts = [
        {**line, "step": step, "split": split, "prompt_id": item, "total": value, "terms": {"right": value}}
        for step in steps
        for split in ("eval", "eval_greedy")
        for item, last in items.items()
        for value in [last if step or before is None else before]
    ]
    write_task_run(folder, task, rollouts, arm=arm, seed=seed)
