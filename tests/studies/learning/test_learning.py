"""The study of what is learned of a task: equal effort, who takes which rate, refusals, and figures of made-up runs."""

from pathlib import Path

import msgspec
import pytest
from made_runs import TASK, Maker, Shares

from command_line import command
from tinsmith.cli.registered import source_of
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.settings import SftSettings
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import PAGE, STUDY_JSON, TABLES
from tinsmith.lab.study.record import Draws, Shown, StudyRecord
from tinsmith.lab.study.sizes import Cell, StudyArm, StudyCells, cells_of, later_arms, planned
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import CheckName, Claim, Finding
from tinsmith.studies.effort import CONTROLS, LABELS, Effort, method_of
from tinsmith.studies.learning import study as learning
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=200))
SHARES = {"sft-": 0.6, "sft_then_rl-": 1.0, "rl-": 1.0, "shuffled-": 0.25, "shuffled_sft-": 0.25}
ALL = ",".join(LABELS)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)
    Path("bare.py").write_text(TASK.replace('        answer=lambda item: item["says"],\n', ""))


def cells(**given: str) -> StudyCells:
    requests = {"task": "made.py", **given}
    return cells_of(learning, requests, source_of)


def every_arm(**given: str) -> dict[str, StudyArm]:
    keys = {"task": "made.py", **given}
    whole, request = planned(learning, keys, source_of)
    later = later_arms(whole, request, {"sft": 4e-3, "rl": 8e-3}, {})
    return {arm.name: arm for arm in (*cells(**given).arms, *later)}


def every_cell(**given: str) -> dict[str, Cell]:
    made = cells(**given)
    return {name: made.reported(arm, arm.rates[0])[0] for name, arm in every_arm(**given).items()}


def ran(out: str, shares: Shares = SHARES, *, general: bool = True, **keys: str) -> tuple[StudyRecord, Maker]:
    maker = Maker(shares, [], general=general)
    given = {"task": "made.py", "out": out, "score": "right", **keys}
    folder = run_study(learning, given, unsaid, open_source=source_of, run=maker, draws=DRAWS)
    return msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord), maker


def table(found: StudyRecord, title: str) -> list[tuple[str, tuple[Shown, ...]]]:
    return list(next(one for one in found.tables if one.title == title).rows)


def claim(found: tuple[Claim, ...], first: str, second: str = "") -> Claim:
    return next(one for one in found if one.first == first and second in one.second)


def refused(one: Claim) -> dict[str, Finding]:
    return {check.name: check.finding for check in one.checks if check.finding is not Finding.PASSED}


def test_every_arm_looks_at_as_many_items_by_hand_count() -> None:
    seen: dict[str, int] = {}
    for name, cell in every_cell(arms=ALL, steps="6", groups_per_batch="8", batch_size="4").items():
        loop = make_plan(cell.experiment, cell.overrides).settings
        if isinstance(loop, SftSettings):
            assert (loop.steps, loop.batch_size) == (12, 4)
            seen[name] = loop.steps * loop.batch_size
        else:
            by_example = loop.sft_steps * loop.sft_batch_size
            by_reward = (loop.steps - loop.sft_steps) * loop.groups_per_batch
            assert (loop.sft_steps, by_reward) == ((6, 24) if method_of(name) == "sft_then_rl" else (0, 48))
            seen[name] = by_example * bool(loop.sft_steps) + by_reward
    assert seen == dict.fromkeys(LABELS, 48)


def test_items_are_counted_through_both_halves() -> None:
    effort = Effort(supervised=24, batch_size=4, rewarded=24, groups_per_batch=8)
    assert [effort.seen(step) for step in (0, 1, 6, 7, 9)] == [0, 4, 24, 32, 48]
    assert (effort.sft_steps, effort.steps, effort.items) == (6, 9, 48)


def test_a_control_is_trained_as_what_it_controls_but_for_its_answers() -> None:
    made = every_cell(arms=ALL)
    for name, control in CONTROLS.items():
        mine, theirs = (dict(made[one].overrides) for one in (name, control))
        assert theirs.pop("shuffle_labels") == "true"
        for one in (mine, theirs):
            for key in ("learning_rate", "sft_learning_rate"):
                one.pop(key, None)
        assert mine == theirs


def test_later_arms_take_the_rates_that_were_chosen() -> None:
    later = every_arm(arms=ALL, sft_rates="1e-3,4e-3", rl_rates="2e-3,8e-3")
    assert later["sft_then_rl"].rates == later["shuffled"].rates == (8e-3,)
    assert later["sft_then_rl"].keys["sft_learning_rate"] == "0.004"
    assert later["shuffled_sft"].rates == (4e-3,)


def test_rates_are_tried_on_a_validation_part_and_no_held_out_item_is_seen() -> None:
    made = cells(arms="sft,rl", sft_rates="1e-3,4e-3")
    sft, rl = made.arms
    assert made.tuning(rl) == {}
    tried, reported = made.tuning(sft), made.reported(sft, 1e-3)[0]
    assert list(tried) == [1e-3, 4e-3]
    data = [
        cell.experiment.subject.run_data(make_plan(cell.experiment, cell.overrides), print)
        for cell in (tried[1e-3], reported)
    ]
    held = {one.prompt_id for one in data[1].split.held_out}
    looked_at = {one.prompt_id for one in (*data[0].split.train, *data[0].split.held_out)}
    assert not held & looked_at
    assert len(looked_at) == 12
    assert tried[1e-3].overrides["seed"] == "0"
    assert tried[1e-3].folder != reported.folder


def test_the_tasks_own_keys_reach_its_runs_and_their_command() -> None:
    cell = every_cell(level="3", eval_samples="2")["sft"]
    assert cell.command[0].endswith("made.py")
    assert {"level=3", "eval_samples=2"} <= set(cell.command)
    assert "level" not in cell.overrides


def test_a_task_without_right_answers_has_the_arms_of_rl_alone() -> None:
    assert list(every_arm(task="bare.py")) == ["rl", "shuffled"]
    with pytest.raises(ConfigError) as caught:
        cells(task="bare.py", arms="rl,sft_then_rl")
    assert caught.value.field == "kind"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("task", "none"), ("generator", "chain_sum"), ("arms", "zero_shot"), ("arms", "shuffled")],
        *[("arms", "sft,ppo"), ("score", "wrong"), ("seeds", "1,1"), ("steps", "7")],
        *[("batch_size", "3"), ("batch_size", "0"), ("sizes", "4,4"), ("sizes", "0"), ("looks", "0")],
        *[("sft_rates", "0"), ("learning_rate", "1"), ("train_items", "4"), ("examined", "validation")],
        *[("shuffle_labels", "true"), ("sft_steps", "2"), ("levle", "2")],
    ],
)
def test_what_would_compare_unequal_efforts_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cells(**{key: value})
    assert caught.value.field == key


def test_several_rates_need_the_arm_that_chooses() -> None:
    with pytest.raises(ConfigError) as caught:
        cells(arms="sft_then_rl", sft_rates="1e-3,2e-3")
    assert caught.value.field == "sft_rates"


def test_gains_are_told_of_every_arm_and_measure() -> None:
    found, _ = ran("one", seeds="1,2,3,4,5")
    gains = {one.name: one for one in found.gains}
    assert list(gains) == ["sft", "rl", "sft_then_rl", "shuffled"]
    rl = gains["rl"]
    assert rl.after.value == 1.0
    assert rl.gain.value == pytest.approx(1.0 - rl.before.value)
    # Of four arms, two rise to 1; the others' p are larger. Greedy answers are another family.
    assert rl.p_holm == pytest.approx(4 * rl.p_value)
    assert gains["shuffled"].gain.value == 0.0
    rows = table(found, "All measures")
    # Reward, a term, and a metric that is the other term too, sampled and greedy, of four arms.
    assert len(rows) == 4 * 2 * 3
    total = next(cells for name, cells in rows if (name, cells[0]) == ("RL", "reward, sampled"))
    assert total[2].value == pytest.approx(1.1)
    assert dict(table(found, "Baselines"))["always a"] == (Measure(0.5, *_ends(found)),)
    curve = {name: (places, figures) for name, places, figures in found.curves[0].lines}
    assert curve["RL"][0] == (0, 8, 16, 24, 32)
    assert dict(table(found, "Effort"))["SFT"][:2] == ("32", "32")
    assert [one.met for one in found.expectations] == [True]


def _ends(found: StudyRecord) -> tuple[float | None, float | None]:
    (shown,) = dict(table(found, "Baselines"))["always a"]
    return shown.low, shown.high


def test_the_gate_asks_for_equal_effort_a_control_and_pairs() -> None:
    found, _ = ran("one", seeds="1,2,3,4,5")
    # Six pairs, every one of which rises: two of 2^6 flips, corrected over the family.
    over_base = claim(found.beats, "RL", "the base")
    assert over_base.p_value >= 2 / 2**6
    assert over_base.p_holm > over_base.p_value
    beaten = {one.second for one in found.beats if one.first == "SFT then RL"}
    assert beaten == {"the base", "the baseline always a", "SFT", "RL"}
    for one in found.beats:
        assert not {CheckName.TRAINING, CheckName.PARITY} & refused(one).keys()
    assert refused(claim(found.learned, "SFT"))[CheckName.CONTROL] is Finding.MISSING
    assert refused(claim(found.learned, "RL")).get(CheckName.CONTROL) is not Finding.MISSING


def test_with_a_control_of_its_own_sft_is_held_against_it() -> None:
    found, _ = ran("one", arms="sft,shuffled_sft")
    (learned,) = found.learned
    assert refused(learned).get(CheckName.CONTROL) is not Finding.MISSING
    assert {one.second for one in found.beats} == {"the base", "the baseline always a"}


def test_what_is_forgotten_is_told_or_missing() -> None:
    for general, texts in ((True, "5"), (False, "no general text was read")):
        found, _ = ran(f"general-{general}", general=general)
        rows = dict(table(found, "Forgetting"))
        assert {cells[0] for cells in rows.values()} == {texts}
        if general:
            values = {name: cells[1] for name, cells in rows.items()}
            assert [round(one.value, 6) for one in values.values() if isinstance(one, Measure)][:2] == [-0.5, -0.1]


def test_the_rate_is_chosen_on_validation_and_taken_by_the_arms_after_it() -> None:
    shares = {"sft-validation-rate=0.004": 0.9, "sft-validation": 0.3, **SHARES}
    found, made = ran("one", shares, sft_rates="1e-3,4e-3", seeds="1")
    assert made.asked[:2] == ["sft-validation-rate=0.001-seed=0", "sft-validation-rate=0.004-seed=0"]
    assert found.chosen == {"SFT": 4e-3}
    assert found.settings["sft_then_rl.sft_learning_rate"] == "0.004"
    first, second = found.rates["SFT"]
    assert (first.rate, second.rate, second.behind) == (1e-3, 4e-3, None)
    assert first.behind.value > 0.0


def test_numbers_of_items_are_swept_at_the_chosen_rates_and_no_claim_is_made_of_them() -> None:
    found, made = ran("one", arms="sft,rl", sizes="4,8", seeds="1,2")
    assert len([name for name in made.asked if "items=" in name]) == 2 * 2 * 2
    rows = [(name, cells[0]) for name, cells in table(found, "Over the items there are")]
    assert rows == [(name, size) for size in ("4", "8", "12") for name in ("SFT", "RL")]
    assert [one.name for one in found.gains] == ["sft", "rl"]
    assert not [one for one in (*found.beats, *found.learned) if "items" in one.first]


def test_the_same_runs_give_the_same_bytes_and_a_page_with_answers() -> None:
    for out in ("one", "two"):
        ran(out)
    for name in (STUDY_JSON, PAGE, TABLES):
        assert (Path("one") / name).read_bytes() == (Path("two") / name).read_bytes()
    page = (Path("one") / PAGE).read_text()
    assert "://" not in page.replace("http://www.w3.org", "")
    for lines in ("Which? 6", "rl-rate", "SFT then RL, after", "always a"):
        assert lines in page


def test_a_report_of_the_study_is_its_page_in_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = ran("one")
    drawn = {name: (Path("one") / name).read_bytes() for name in (PAGE, TABLES)}
    (Path("one") / PAGE).write_text("of an earlier version")
    messages = command(capsys, "report", "one", "--to", "md", code=0)
    assert {name: (Path("one") / name).read_bytes() for name in (PAGE, TABLES)} == drawn, "drawn anew from its values"
    text = (Path("one") / "study.md").read_text()
    assert f"{found.gains[1].gain.value:+.3f}" in text
    assert "rl-rate=0.0006-seed=1" in text
    assert "result: " in messages.out
    assert "study.md" in messages.out
