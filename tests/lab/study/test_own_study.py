"""A study in a file of a user's: dry run, keys, mistakes, runs that are read again, and a page."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from made_studies import MadeArm, MadeStudy, Maker

from command_line import command
from tinsmith import Arm, Beats, Curve, Expectation, Finding, Listing, Measure, PerItem, Size, Study, Table, checks, run
from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.cells import RunCells
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON, load_study
from tinsmith.lab.study.measures import ArmRuns, Results
from tinsmith.lab.study.record import Draws, StudyRecord
from tinsmith.lab.study.report import drawn_anew, sentences
from tinsmith.lab.study.sizes import Cell, cells_of, planned
from tinsmith.lab.study.study import ArmValue, Reading, Tuned, Value
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.page import ending
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import CheckName
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.waits import Say, unsaid

EXAMPLE = Path(__file__).parents[3] / "examples" / "turned_words_study.py"
ITEMS = tuple(f"{a}-{b}" for a in ("apple", "bread", "cloud", "dance") for b in ("earth", "flame"))
MADE = MadeStudy(
    items=ITEMS,
    keys={},
    arms={
        "plain": MadeArm(right=(0.2, 0.9)),
        "bonus": MadeArm(right=(0.2, 0.5)),
        "shuffled": MadeArm(right=(0.2, 0.2)),
    },
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


FEW = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))


def values_of(folder: Path) -> StudyRecord:
    return msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)


def replace_size(study: Study, *, without: Sequence[str] = (), **keys: Value) -> Study:
    size = study.sizes["nano"]
    return replace(study, sizes={"nano": Size({**size.keys, **keys}, without=without)})


def example_score() -> PerItem:
    score = example().score
    assert isinstance(score, PerItem)
    return score


def example() -> Study:
    found = load_study(EXAMPLE)
    assert isinstance(found, Study)
    return found


def test_the_example_is_short_and_its_runs_open_its_task_again() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    cells = cells_of(example(), {})
    cell, *_ = cells.reported(cells.arms[1], 2e-3)
    assert cell.command[0] == f"{EXAMPLE}:turn"
    assert {"entropy_bonus=0.05", "steps=20", "seed=1"} <= set(cell.command)


def test_the_commands_forecast_it_and_tell_its_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    forecast = command(capsys, "run", str(EXAMPLE), "dry_run=true")
    assert (forecast.code, "15 to report" in forecast.out) == (0, True)
    assert not (tmp_path / "runs").exists()
    assert "tuning_seed" in command(capsys, "run", str(EXAMPLE), "--help").out
    task = command(capsys, "run", f"{EXAMPLE}:turn", "--help")
    assert "How long the small base is trained." in task.out


def test_a_study_asks_a_question_of_a_packaged_task(capsys: pytest.CaptureFixture[str]) -> None:
    forecast = command(capsys, "run", str(EXAMPLE.with_name("rubric_rewards.py")), "dry_run=true", code=0)
    assert "10 to report" in forecast.out


@pytest.mark.parametrize("key", ["stepz", "seed", "size"])
def test_a_mistake_in_a_key_takes_five_lines_at_most(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = command(capsys, "run", str(EXAMPLE), f"{key}=1", code=2)
    assert key in refused.err


PLAIN, SIZES, AGAINST = 'Arm("plain", "RL")', "Size(learning_rate=2e-3", 'against="plain"'


@pytest.mark.parametrize(
    ("text", "wrong", "key", "meant"),
    [
        (PLAIN, 'Arm("plain", "RL", learning_rte=1e-3)', "learning_rte", "perhaps learning_rate"),
        (PLAIN, 'Arm("plain", "RL", "stepz=3")', "stepz", "perhaps steps"),
        (PLAIN, 'Arm("plain", "RL", base_stpes=9)', "base_stpes", "perhaps base_steps"),
        (PLAIN, 'Arm("plain", "RL", steps={"nan": 3})', "steps", "perhaps nano"),
        (SIZES, "Size(learning_rte=2e-3", "learning_rte", "perhaps learning_rate"),
        (SIZES, "Size(seds=(1, 2)", "seds", "seeds"),
        (SIZES, "Size(seed=3", "seed", "Size(seeds="),
        ('{"nano"', '{"small": Size(stepz=3), "nano"', "stepz", "perhaps steps"),
        ("task=turn,", 'task=turn, keys={"learning_rte": 1e-3},', "learning_rte", "perhaps learning_rate"),
        ('Arm("bonus",', 'Arm("plain",', "arms.name", "plain"),
        ('"RL, shuffled labels"', '"RL"', "arms.label", "RL"),
        (AGAINST, 'against="plian"', "against", "perhaps plain"),
        ('control="shuffled"', 'control="shufled"', "control", "perhaps shuffled"),
        (AGAINST, 'untrained="plian"', "untrained", "perhaps plain"),
        (AGAINST, 'claims=[Beats("bonus", "plian")]', "claims", "perhaps plain"),
        (AGAINST, 'claims=[Learned("bonus", "shufled")]', "claims", "perhaps shuffled"),
        (SIZES, 'Size(without=["bonsu"], learning_rate=2e-3', "without", "perhaps bonus"),
        (SIZES, 'Size(without=["plain", "bonus", "shuffled"], learning_rate=2e-3', "arms", "one or more"),
        (PLAIN, 'Arm("plain", "RL", learning_rate=tuned("bonsu"))', "arms", "perhaps bonus"),
        (PLAIN, 'Arm("plain", "RL", learning_rate=tuned("plain"))', "arms", "bonus"),
        (PLAIN, 'Arm("plain", "RL", "learning_rate=1e-3,two")', "learning_rate", "numbers with commas"),
        (PLAIN, 'Arm("plain", "RL", learning_rate=())', "learning_rate", "one or more"),
        (PLAIN, 'Arm("plain", "RL", "temperature")', "keys", "KEY=VALUE"),
        (PLAIN, 'Arm("plain", "RL", kind="sft")', "kind", "task_sft"),
        (PLAIN, 'Arm("../plain", "RL")', "arms.name", "a plain name"),
        (SIZES, "Size(seeds=3, learning_rate=2e-3", "seeds", "(1, 2, 3)"),
        (SIZES, "Size(before=-1, learning_rate=2e-3", "before", "0 or more"),
        ("split_seed=0, ", "", "split_seed", "split_seed=0"),
        ("(BOTH,)", 'tuple(Measure("m", "m", lambda _: place) for place in range(2))', "measures.name", "another name"),
    ],
)
@pytest.mark.parametrize("more", [(), ("dry_run=true",)])
def test_a_mistyped_key_of_the_file_is_refused_before_any_run(
    text: str, wrong: str, key: str, meant: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    source = EXAMPLE.read_text()
    assert text in source
    wanted = "from tinsmith import Beats, Learned, Measure, tuned\n"
    Path("mine.py").write_text(source.replace(text, wrong, 1).replace("\n\n", f"\n\n{wanted}", 1))
    refused = command(capsys, "run", "mine.py", *more, code=2)
    assert f"field: {key} = " in refused.err
    assert meant in refused.err
    assert len(refused.err.strip().splitlines()) <= 5
    assert not Path("runs").exists()


def test_a_mistyped_key_beside_a_packaged_task_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    source = EXAMPLE.with_name("rubric_rewards.py").read_text()
    Path("mine.py").write_text(source.replace("Size(", "Size(group_sise=4, ", 1))
    assert "perhaps group_size" in command(capsys, "run", "mine.py", "dry_run=true", code=2).err


def test_a_mistyped_key_of_an_arm_on_labels_is_refused_by_the_forecast() -> None:
    packaged = STUDIES["study/sft_vs_rl"].value()
    assert isinstance(packaged, Study)
    study = replace(planned(packaged, {})[0], shared=None)
    arm, *others = study.arms
    wrong = Arm(arm.name, arm.label, {**arm.keys, "learning_rte": 1e-3}, experiment=arm.experiment)
    with pytest.raises(ConfigError) as refused:
        run_study(replace(study, arms=[wrong, *others]), {"dry_run": "true"}, unsaid)
    assert refused.value.field == "learning_rte"


def test_a_new_study_runs_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "new", "--study", "mine.py").code == 0
    assert command(capsys, "run", "mine.py", "dry_run=true", "size=smallest").code == 0


def test_what_is_no_study_is_told(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text("study = 3\n")
    with pytest.raises(ConfigError) as refused:
        load_study(file)
    assert refused.value.field == "study"
    file.write_text("task = 3\n")
    assert load_study(file) is None


def test_the_console_of_a_study_ends_with_its_result_and_what_may_be_claimed(tmp_path: Path) -> None:
    lines: list[str] = []
    given = {"out": str(tmp_path / "out"), "seeds": "1,2"}
    page = drawn_anew(run_study(example(), given, lines.append, run=Maker(MADE)))
    assert lines[-2:] == ending(page)
    assert "The gate allows" in "".join(lines[:-2])


def test_runs_that_are_there_are_read_again_to_the_same_bytes(tmp_path: Path) -> None:
    given = {"out": str(tmp_path / "out"), "seeds": "1,2"}

    def files() -> dict[str, bytes]:
        folder = run_study(example(), given, unsaid, run=Maker(MADE))
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    first = files()
    assert files() == first
    assert "RL, entropy bonus" in first["study.md"].decode()


def test_a_study_whose_task_is_no_function_of_a_file_is_refused() -> None:
    whole = example()
    with pytest.raises(ConfigError) as refused:
        run(Study(name="x", question="?", task=lambda: whole.task(), arms=whole.arms))
    assert refused.value.field == "task"


def test_a_study_has_arms() -> None:
    with pytest.raises(ConfigError) as refused:
        planned(replace(example(), arms=(), against="", control=""), {})
    assert refused.value.field == "arms"


def test_claims_computed_from_runs_name_arms_that_there_are_and_those_a_size_leaves_out_are_dropped(
    tmp_path: Path,
) -> None:
    size = replace_size(example(), without=("bonus",))

    def beats(second: str) -> Path:
        claims = [Beats("shuffled", "plain"), Beats("bonus", second)]
        given = {"out": str(tmp_path / "out"), "seeds": "1,2"}
        return run_study(replace(size, claims=lambda _: claims), given, unsaid, run=Maker(MADE), draws=FEW)

    assert len(values_of(beats("plain")).beats) == 1
    with pytest.raises(ConfigError) as refused:
        beats("plian")
    assert (refused.value.field, refused.value.value, refused.value.fix) == ("claims", "plian", "perhaps plain")


@pytest.mark.parametrize(
    ("arm", "control", "same"),
    [
        ("pays=right", "pays=right shuffle_labels=true", True),
        ({"pays": "right"}, {"pays": "right", "shuffle_labels": True}, True),
        ({"learning_rate": (1e-3, 2e-3)}, {"learning_rate": Tuned("mine"), "shuffle_labels": True}, True),
        ({"learning_rate": (1e-3, 2e-3)}, {"learning_rate": Tuned("other"), "shuffle_labels": True}, False),
        ("pays=all", "pays=right shuffle_labels=true", False),
        ("", "penalty=1 shuffle_labels=true", False),
        ("pays=right", "pays=right shuffle_labels=false", False),
        ("pays=right", "pays=right", False),
        ({"learning_rate": 2e-3}, "learning_rate=2e-3 shuffle_labels=true", True),
        ("pays=right shuffle_labels=true", "pays=right shuffle_labels=true", False),
    ],
)
def test_a_control_is_the_same_method_only_where_its_keys_differ_by_shuffled_labels_alone(
    arm: dict[str, ArmValue] | str, control: dict[str, ArmValue] | str, same: bool
) -> None:
    assert Arm("mine", "mine", arm).shuffled_is(Arm("control", "control", control)) is same


def test_a_control_of_another_method_has_its_own_name_in_claims(tmp_path: Path) -> None:
    plain, bonus = values_of(finished(example(), tmp_path / "out")).learned
    control = [next(one.sentence for one in claim.checks if one.name is CheckName.CONTROL) for claim in (plain, bonus)]
    for sentence, name in zip(
        control, ("same method trained on shuffled labels", "control 'RL, shuffled labels'"), strict=True
    ):
        assert f"beat the {name}: " in sentence


def finished(study: Study, out: Path, made: MadeStudy = MADE, run: RunCells | None = None) -> Path:
    given = {"out": str(out), "seeds": "1,2"}
    return run_study(study, given, unsaid, run=run or Maker(made), draws=FEW)


def test_what_is_no_number_is_shown_as_missing(tmp_path: Path) -> None:
    reads: list[Reading] = [math.nan, math.inf, [], [math.nan, 1.0], Figure(math.nan), None]
    measures = [Measure(f"m{place}", "m", lambda _, read=read: read) for place, read in enumerate(reads)]
    listing = Listing("l", "c", ["x"], lambda _: [["row", Figure(math.nan)]])
    curve = Curve(name="c", label="c", read=lambda _: {0: math.nan, 1: 0.5})
    some = PerItem("right", "right", of=lambda values: 1.0 if max(values) else math.nan)
    study = replace(example(), tables=(Table("t", "c", (*measures, some)), listing), pictures=(curve,))
    record = values_of(finished(study, tmp_path / "out"))
    assert set(record.figures["plain"].values()) == {None}
    assert record.tables[1].rows == (("row", (None,)),)
    assert record.tables[0].rows[0][1][-2] == Figure(1.0)
    assert record.curves[0].lines[0][1:] == ((1,), (Figure(0.5),))


def test_an_expectation_whose_values_are_missing_is_not_met_and_says_why(tmp_path: Path) -> None:
    every = (
        checks.rises("bonus"),
        checks.allowed("plain", over="bonus"),
        checks.higher("plain", "bonus", example_score()),
        checks.rises("plain"),
        checks.near_zero("plain", "m"),
    )
    expectations = tuple(Expectation(f"{place}", check) for place, check in enumerate(every))
    study = replace(example(), tables=(Table("t", "c", (Measure("m", "m", lambda _: None),)),))
    study = replace_size(replace(study, expectations=expectations), without=("bonus",), eval_every=0)
    found = values_of(finished(study, tmp_path / "out")).expectations
    assert [one.met for one in found] == [False] * len(every)
    assert all("bonus" in one.figures for one in found[:3])
    assert all("plain" in one.figures for one in found[3:])


@pytest.mark.parametrize(
    ("check", "value", "fix"),
    [
        (checks.rises("plian"), "plian", "perhaps plain"),
        (checks.allowed("bonsu", over="plain"), "bonsu", "perhaps bonus"),
        (lambda results: Finding(1 // len(results.more_gains) > 0, ""), None, None),
    ],
)
def test_an_expectation_that_cannot_be_computed_is_named_in_five_lines_at_most(
    check: Callable[[Results], Finding], value: str | None, fix: str | None, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        finished(replace(example(), expectations=(Expectation("it is so", check),)), tmp_path / "out")
    assert (refused.value.field, refused.value.value, refused.value.fix) == ("expectations", value, fix)
    assert "it is so" in refused.value.what
    assert len(str(refused.value).splitlines()) <= 5


@dataclass(frozen=True)
class Failing:
    """Makes runs in which the answers to some items fail after training."""

    arm: str
    fails: Callable[[str], bool]

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        Maker(MADE)(cells, say)
        for file in (cell.folder / "rollouts.jsonl" for cell in cells if cell.folder.name.startswith(self.arm)):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            for row in rows:
                if row["split"].startswith("eval") and row["step"] == 20 and self.fails(row["prompt_id"]):
                    row["failure"] = {"where": "reward", "what": "broken"}
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_before_and_after_of_a_gain_are_on_the_items_that_did_not_fail(tmp_path: Path) -> None:
    whole, broken = (
        values_of(finished(example(), tmp_path / name, run=maker))
        for name, maker in (("whole", Maker(MADE)), ("broken", Failing("plain", lambda item: item.endswith("flame"))))
    )
    gain = broken.gains[0]
    assert gain.gain.value == pytest.approx(gain.after.value - gain.before.value)
    assert gain.before != whole.gains[0].before
    assert broken.gains[1].before == whole.gains[1].before
    assert (len(whole.notes), len(broken.notes)) == (0, 1)
    assert "RL failed; its means are over 4 of 8 items" in broken.notes[0]
    assert broken.notes[0] in sentences(broken)


def test_items_that_the_score_is_not_of_are_not_counted_as_lost(tmp_path: Path) -> None:
    ending = replace(example_score(), where=lambda item: item.endswith("flame"))
    cases = {"apple-flame": "failed; its means are over 3 of 4 items.", "apple-earth": "failed."}
    for lost, words in cases.items():
        maker = Failing("plain", lambda item, lost=lost: item == lost)
        note = values_of(finished(replace(example(), score=ending), tmp_path / lost, run=maker)).notes[0]
        assert note.endswith(words)


def test_few_items_meet_no_expectation_of_a_difference(tmp_path: Path) -> None:
    arms = {name: MadeArm(right=(0.0, float(name == "plain"))) for name in MADE.arms}
    score = example_score()
    expectations = (
        Expectation("higher", checks.higher("plain", "bonus", score)),
        Expectation("lower", checks.lower("bonus", "plain", score)),
        Expectation("equivalent", checks.equivalent("bonus", "shuffled", score, margin=0.05)),
        Expectation("not lower", checks.not_lower("bonus", "shuffled", score, margin=0.05)),
    )
    study = replace(example(), clusters=None, expectations=expectations)

    def met(items: tuple[str, ...]) -> list[bool]:
        made = MadeStudy(items=items, keys={}, arms=arms)
        return [one.met for one in values_of(finished(study, tmp_path / f"{len(items)}", made)).expectations]

    assert met(("apple-earth", "bread-flame")) == [False] * 4
    assert met(tuple(f"{a}-{b}" for a in "abcdefgh" for b in "abcdefgh")) == [True] * 4


@pytest.mark.parametrize(
    ("score", "known"),
    [
        (PerItem("right", "right"), 0.25),
        (PerItem("half", "half", of=lambda values: max(values) / 2), 0.125),
        (PerItem("letters", "letters", answers=lambda some: Fraction(len(some))), None),
        (PerItem("letters", "letters", "metric/right", answers=lambda some: Fraction(len(some))), 0.25),
    ],
    ids=["reward", "of it", "answers", "answers beside a metric"],
)
def test_a_baseline_is_measured_in_the_score_that_it_stands_beside(score: PerItem, known: float | None) -> None:
    values = {item: Fraction(item == "a") for item in "abcd"}
    guess = SimpleNamespace(name="a guess", exact=lambda _: values)
    read = cast("Any", SimpleNamespace(task=SimpleNamespace(baselines=[guess], items=values), units={}))
    runs = ArmRuns(Arm("one", "one"), (read,))
    found = runs.baseline("a guess", score)
    assert (None if found is None else float(found.mean())) == known


def test_a_study_has_sizes() -> None:
    with pytest.raises(ConfigError) as refused:
        planned(replace(example(), sizes={}), {})
    assert refused.value.field == "sizes"


def test_rates_are_apart_ascending_and_those_of_the_size_where_an_arm_has_none_at_it() -> None:
    first, *others = example().arms
    rates: list[ArmValue] = [(3e-3, 1e-3, 3e-3), "3e-3,1e-3", {"other": 5e-3}]
    sizes = {**example().sizes, "other": Size()}
    found = [
        cells_of(replace(example(), sizes=sizes, arms=[Arm("plain", "RL", learning_rate=one), *others]), {}).arms[0]
        for one in rates
    ]
    assert first.name == "plain"
    assert [one.rates for one in found] == [(1e-3, 3e-3), (1e-3, 3e-3), (2e-3,)]


def test_a_score_of_answers_may_be_a_float_and_is_read_greedily_from_greedy_answers(tmp_path: Path) -> None:
    def lengthen(cells: Sequence[Cell], say: Say) -> None:
        Maker(MADE)(cells, say)
        for file in (cell.folder / "rollouts.jsonl" for cell in cells):
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            rows = [{**row, "text": "long"} if row["split"] == "eval_greedy" else row for row in rows]
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    letters = PerItem("letters", "letters", answers=lambda some: float(len(some[0].text)))
    gain = values_of(finished(replace(example(), score=letters), tmp_path / "out", run=lengthen)).gains[0]
    assert (gain.after.value, gain.greedy_after) == (1.0, 4.0)


def test_runs_that_were_evaluated_at_their_end_only_have_nothing_before(tmp_path: Path) -> None:
    learned = replace_size(example(), eval_every=0)
    record = values_of(finished(learned, tmp_path / "out"))
    (table,) = record.tables
    assert record.gains == ()
    assert [cells[0] for _, cells in table.rows] == [None] * 3
    assert all(any(one.name is CheckName.BEFORE and not one.passed for one in claim.checks) for claim in record.learned)
    late = replace(learned, sizes={"nano": Size(learned.sizes["nano"].keys, before=5)})
    with pytest.raises(DataError) as refused:
        finished(late, tmp_path / "late")
    assert refused.value.field == "before"


def test_an_arm_with_one_rate_beside_others_that_tried_five_is_said(tmp_path: Path) -> None:
    plain, *others = example().arms
    five = Arm("plain", "RL", learning_rate=(1e-3, 2e-3, 3e-3, 4e-3, 5e-3))
    tuned = [Arm(one.name, one.label, {**one.keys, "learning_rate": Tuned("plain")}) for one in others]
    later = [Arm(one.name, one.label, {**one.keys, **five.keys}, after=lambda _: {}) for one in others]
    few = "Fewer than 5 learning rates"
    for place, (more, is_said, tried) in enumerate(((others, True, 1), (tuned, False, 1), (later, False, 3))):
        record = values_of(finished(replace(example(), arms=(five, *more)), tmp_path / str(place)))
        assert any(one.startswith(few) for one in sentences(record)) is is_said
        assert sum(len(some) == 5 for some in record.rates.values()) == tried
    assert plain.name == five.name


def test_curves_of_two_axes_are_listed_apart(tmp_path: Path) -> None:
    pictures = [
        Curve(name=axis, label=f"of {axis}", axis=axis, read=lambda _, places=places: dict.fromkeys(places, 0.5))
        for axis, places in (("step", (1, 2)), ("tokens", (7,)))
    ]
    tables = values_of(finished(replace(example(), pictures=pictures, tables=()), tmp_path / "out")).tables
    assert [[cells[0] for _, cells in one.rows][:2] for one in tables] == [["1", "2"], ["7", "7"]]


def test_the_means_beside_a_gap_are_of_its_items(tmp_path: Path) -> None:
    score = example_score()
    check = Expectation("higher", checks.higher("plain", "bonus", score))
    fails = Failing("plain", lambda item: item.endswith("flame"))
    found = finished(replace(example(), expectations=(check,)), tmp_path / "out", run=fails)
    words = values_of(found).expectations[0].figures
    mine, other, gap = (float(one) for one in re.findall(r"[-+]?\d\.\d{3}", words)[:3])
    assert gap == pytest.approx(mine - other, abs=1.1e-3)


def test_several_values_are_of_a_learning_rate_alone() -> None:
    arms = (*example().arms, Arm("hot", "hot", temperature=(3.0, 2.0)))
    with pytest.raises(ConfigError) as refused:
        planned(replace(example(), arms=arms), {})
    assert refused.value.field == "temperature"
