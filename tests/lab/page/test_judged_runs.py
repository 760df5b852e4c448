"""Judged runs by made-up folders whose gains are known: their page, what is compared, and nothing said too much."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fake_rubric_runs import WORDS, RubricStory, write_rubric_run
from fake_runs import LADDER, write_run
from page_words import Words
from pages_of import compared as compared_runs
from pages_of import page_of, report_of
from run_files import write_files

from command_line import command
from tinsmith.lab.difference.runs import Phase, compare_runs
from tinsmith.lab.page.comparison import study_of_runs
from tinsmith.lab.page.examples import BestText, cost_words, failed_words, judged_sentences, with_best_text
from tinsmith.lab.page.run_page import compared
from tinsmith.lab.runs.reader import Judging, TaskRunRecords, read_run, read_task_run
from tinsmith.lab.runs.records import ALL_CRITERIA, PASS_RATE
from tinsmith.pages.measures import Measure
from tinsmith.types.errors import ConfigError

pytestmark = pytest.mark.whole


def made(folder: Path, **story: Any) -> TaskRunRecords:
    return read_task_run(read_run(write_rubric_run(folder, RubricStory(**story))))


def judging_of(read: TaskRunRecords) -> Judging:
    assert read.judging is not None
    return read.judging


def best_text(read: TaskRunRecords) -> BestText | None:
    return next((one for one in with_best_text(read).task.baselines if isinstance(one, BestText)), None)


def test_the_page_says_the_gain_first_and_loads_nothing(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory())
    html = report_of(folder).read_text()
    page = Words(html)
    assert html == page_of(folder)
    first = page.text[page.text.index("Summary Better than before training, above the best baseline:") :]
    first = first[: first.index("No alarm")]
    # Before: two of three criteria hold everywhere; after: all three. All eight gain a third: p = 2 / 2^8.
    for words in ("8 held-out items", "0.667 to 1.000", "+0.333", "p = 0.008", "more"):
        assert words in first
    assert "What could not be read" not in page.text
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert len(page.ids) == len(set(page.ids))
    for words in (
        "What cannot be said",
        "Say tin.",
        "No rollout failed.",
        "Sampler to trainer",
        "3 of 3 criteria hold",
    ):
        assert words in page.text


def test_half_of_the_items_gain_and_the_unit_is_the_item(tmp_path: Path) -> None:
    gain = compared(made(tmp_path / "run", learned=4, samples=3))[0]
    assert (gain.row[1], gain.row[6]) == ("8", "4 / 0")
    assert gain.delta.value == pytest.approx(1 / 6)
    assert gain.p_value == 2 / 2**4  # however many samples: 4 items moved
    assert gain.finding == "cannot tell"
    assert compared(made(tmp_path / "none", learned=0))[0].delta == Measure(0.0, 0.0, 0.0)


def test_one_evaluation_or_none_gives_no_gain_but_a_page(tmp_path: Path) -> None:
    one = write_rubric_run(tmp_path / "one", RubricStory(examined=[4], finished=False))
    text = Words(page_of(one)).text
    assert "Above the best baseline: mean pass rate 1.000" in text
    assert "evaluated once, at step 4" in text
    none = write_rubric_run(tmp_path / "none", RubricStory(examined=[], tasks=False))
    (none / "manifest.json").unlink()
    (none / "rollouts.jsonl").unlink()
    assert "rollouts.jsonl" in Words(page_of(none)).text


def test_the_best_text_for_all_is_found_by_the_rules_alone(tmp_path: Path) -> None:
    read = made(tmp_path / "run", learned=4, held_out=4)
    best = best_text(read)
    # A word serves one item of four: (1 + 3 * 2/3) / 4, and no text of the run has two words.
    assert sum(best.rates.values(), Fraction()) / 4 == Fraction(3, 4)
    assert best.text.split()[0] in WORDS[:4]
    assert best.rates[best.text.split()[0]] == Fraction(1)
    against = next(one for one in compared(with_best_text(read)) if "best text" in one.against)
    assert (against.first.mean(), against.second.mean()) == (0.75, 1.0)
    assert best_text(made(tmp_path / "model", judge="gpt-5-mini")) is None
    assert best_text(made(tmp_path / "silent", tasks=False)) is None


def test_cost_counts_every_sitting_and_does_not_guess_a_price(tmp_path: Path) -> None:
    line = {"judged": 30, "failed": 0, "from_cache": 10, "calls": 20}
    line |= {"prompt_tokens": 2000, "completion_tokens": 300}
    killed = {**line, "failed": 10, "calls": 41, "from_cache": 0}
    known = [{**line, "dollars": 0.25}, {**killed, "dollars": 0.5}]
    judging = judging_of(made(tmp_path / "known", judge="gpt-5-mini", ledger=known))
    assert cost_words(judging) == "61 calls, 4,000 tokens read, 600 written, 10 answers from the cache: $0.7500"
    assert failed_words(judging) == "10 of 70 answers (14.3 %)"
    unknown = [{**line, "dollars": None}, known[1]]
    assert "price not known" in cost_words(judging_of(made(tmp_path / "u", judge="mine", ledger=unknown)))
    cached = [{**line, "calls": 0, "dollars": None}, known[1]]
    assert cost_words(judging_of(made(tmp_path / "c", judge="mine", ledger=cached))).endswith("$0.5000")


def test_fields_that_the_endpoint_refused_are_read_from_every_sitting(tmp_path: Path) -> None:
    ledger = [{"judged": 1}, {"judged": 1, "left_out": ["temperature"]}]
    read = made(tmp_path / "run", judge="gpt-5-mini", ledger=ledger)
    assert judging_of(read).ledger.left_out == ("temperature",)
    assert "refused temperature" in judged_sentences(read)[0]


def test_what_was_left_out_of_training_is_counted(tmp_path: Path) -> None:
    read = made(tmp_path / "run", failed=3)
    # The first group loses both, the second one of its two: neither has anything to compare.
    assert [len(one) for one in read.groups][:3] == [0, 1, 2]
    page = Words(page_of(read.run.folder)).text
    assert "3 of 16 training answers have no reward; of 8 groups 2 have fewer than two rewards" in page
    assert "timed_out: <b>slow</b>" in page


def test_criteria_that_never_or_always_hold_are_named(tmp_path: Path) -> None:
    text = Words(page_of(write_rubric_run(tmp_path / "run", RubricStory(learned=4)))).text
    # Four words are never said; both shared rules always hold.
    assert "Never held in sampled answers of evaluations: 4 of 10" in text
    assert "Always held in sampled answers of evaluations: 2 of 10" in text
    assert "Criteria that gained most" in text
    assert "Criteria that lost most" not in text


def test_a_line_cut_off_and_one_spoilt_are_left_out_and_told(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory())
    for name in ("judge.jsonl", "rollouts.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"judged": "many"}\n{"judged": 5, "step"')
    read = read_task_run(read_run(folder))
    assert judging_of(read).ledger.judged == 40 + 24  # as before: 2 * 8 * 3 / 2 evaluated twice, 16 trained on
    assert sum("unreadable line" in note for note in read.notes) == 2
    assert sum("middle of a line" in note for note in read.notes) == 2


def test_runs_are_compared_item_by_item_under_one_judge(tmp_path: Path) -> None:
    # Other steps make them arms of their own.
    for name, story in (
        ("none", RubricStory(learned=0)),
        ("all", RubricStory(learned=8, overrides={"group_size": 4})),
        ("seed", RubricStory(learned=8, overrides={"group_size": 4}, seed=1)),
        ("model", RubricStory(learned=8, judge="gpt-5-mini")),
    ):
        write_rubric_run(tmp_path / name, story)
    found = study_of_runs([tmp_path / name for name in ("none", "all", "seed", "model")])
    assert [one.seeds for one in found.results.arms.values()] == [(0,), (0, 1), (0,)]
    rows = {name: cells for name, cells in next(t for t in found.record.tables if "Against" in t.title).rows}
    first, second, third = (one.arm.label for one in found.results.arms.values())
    assert rows[f"{second}|against {first}"][3] == Measure(
        pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(1 / 3)
    )
    assert rows[f"{second}|against {first}"][5:] == ("8 / 0", "more")
    assert not any(name.startswith(third) for name in rows)  # another judge, and no best text
    assert [one.words for one in found.record.gains] == [first, second, third]
    assert found.record.figures["arm-2"]["judge"] == "gpt-5-mini"
    assert [(one.first, one.second) for one in found.record.beats] == [(second, first)]


def test_the_command_compares_and_refuses_a_mixture_in_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write_rubric_run(tmp_path / "one", RubricStory())
    two = write_rubric_run(tmp_path / "two", RubricStory(overrides={"group_size": 4}, learned=2))
    fewer = write_rubric_run(tmp_path / "fewer", RubricStory(held_out=6))
    reworded = write_rubric_run(tmp_path / "reworded", RubricStory(prompt="Write {word}."))
    papers = write_run(tmp_path / "papers", LADDER["sft"])
    out = tmp_path / "compare.html"
    printed = command(capsys, "report", one, two, "--out", out, code=0).out
    assert "-0.250" in printed
    assert "pass rate" in printed
    assert out.exists()
    for other, words in ((papers, "no score in common"), (fewer, "held-out items"), (reworded, "held-out items")):
        with pytest.raises(ConfigError, match=words):
            compared_runs([one, other])
    assert command(capsys, "report", one, papers, "--out", out).code == 2


def test_a_judge_that_failed_in_one_run_is_a_difference_of_reward(tmp_path: Path) -> None:
    one = write_rubric_run(tmp_path / "one", RubricStory())
    two = write_rubric_run(tmp_path / "two", RubricStory(failed=1))
    found = compare_runs((one, two)).first
    assert (found.step, found.phase, found.rollout.field) == (0, Phase.REWARD, "failure.what")
    assert found.rollout.tokens == 0
    # Another verdict on the same text is one as well.
    lines = (one / "rollouts.jsonl").read_text().splitlines()
    changed = json.loads(lines[0])
    changed["verdicts"][0]["passed"] = not changed["verdicts"][0]["passed"]
    three = write_rubric_run(tmp_path / "three", RubricStory())
    (three / "rollouts.jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]) + "\n")
    found = compare_runs((one, three)).first
    assert (found.phase, found.rollout.field) == (Phase.REWARD, "verdicts")
    assert compare_runs((one, one)).equal


@pytest.mark.parametrize("steps", [0, 3])
def test_rollouts_of_a_step_that_was_not_ended_are_compared(tmp_path: Path, steps: int) -> None:
    def interrupted(name: str, *texts: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        beside: dict[str, Any] = {"split": "train", "prompt_id": "p", "tokens": [1], "logprobs": [-0.5], "total": 1.0}
        rows = [{"step": step, "sample": 0, "text": "same", **beside} for step in range(steps)]
        rows += [{"step": steps, "sample": place, "text": text, **beside} for place, text in enumerate(texts)]
        (folder / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(steps)))
        (folder / "config.json").write_text('{"name": "x", "kind": "task"}')
        (folder / "manifest.json").write_text('{"status": "interrupted"}')
        return folder

    first, other, longer = interrupted("a", "yes"), interrupted("b", "no"), interrupted("c", "yes", "no")
    found = compare_runs((first, other))
    assert not found.equal
    assert found.first is not None
    assert found.first.step == steps
    # Of a step that was cut short, what both have is compared.
    assert compare_runs((first, longer)).equal
    assert compare_runs((first, longer)).steps == steps + 1


def test_where_a_rule_of_the_task_rewards_its_score_is_compared_and_the_pass_rate_stands_beside_it(
    tmp_path: Path,
) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory())
    lines = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]
    lines = [{**one, "total": -one["pass_rate"], "terms": {"rubric": -one["pass_rate"]}} for one in lines]
    read = read_task_run(read_run(write_files(folder, {"rollouts.jsonl": lines})))
    assert (read.score, read.terms) == ("score", (PASS_RATE, ALL_CRITERIA))
    gain = compared(read)[0]
    assert (gain.name, gain.row[6]) == ("score", "0 / 8")
    assert sum(read.sampled[-1].by_item(PASS_RATE).values()) == 8
    assert best_text(read) is None
    assert "Worse than before training" in Words(page_of(folder)).text
