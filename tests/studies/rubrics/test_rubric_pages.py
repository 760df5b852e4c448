"""Pages of runs on rubrics, by a made-up folder whose gains are known: the gain first, and nothing said too much."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fake_rubric_runs import WORDS, RubricStory, write_rubric_run
from fake_runs import LADDER, write_run
from headless import needs_browser, opened
from page_words import Words
from pages_of import compared, page_of, report_of

from golden_pages import assert_golden
from sentences import missing
from tinsmith.cli import main
from tinsmith.lab.difference.runs import Phase, compare_runs
from tinsmith.lab.judge.pages.comparison import compare_rubrics
from tinsmith.lab.judge.pages.comparison_page import rubrics_document
from tinsmith.lab.judge.pages.gains import best_constant, gains_of
from tinsmith.lab.judge.pages.gathering import RubricRun, read_rubric_run
from tinsmith.lab.judge.pages.story import cannot_be_said, cost_words, failed_words, rubric_story
from tinsmith.pages.page import document_html
from tinsmith.types.errors import ConfigError

pytestmark = pytest.mark.whole


def made(folder: Path, **story: Any) -> RubricRun:
    return read_rubric_run(write_rubric_run(folder, RubricStory(**story)))


def told(run: RubricRun) -> tuple[str, ...]:
    constant = best_constant(run)
    return rubric_story(run, gains_of(run, constant), constant)


def unsaid(run: RubricRun) -> str:
    return " ".join(cannot_be_said(run, gains_of(run, None)))


def test_the_page_says_the_gain_first_and_loads_nothing(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory())
    file = report_of(folder)
    assert file == folder / "report.html"
    html = file.read_text()
    page = Words(html)
    assert html == page_of(folder)
    assert_golden("rubrics", html)
    first = page.text[page.text.index("Summary On") :]
    # Before: two of three rubrics hold everywhere; after: all three. All eight gain a third: p = 2 / 2^8.
    assert first.startswith(
        "Summary On 8 held-out prompts the pass rate rose from 0.667 before training to 1.000 after 4 steps: gain "
        "+0.333 (95 % interval +0.333 to +0.333, p = 0.008)"
    )
    assert "The interval excludes 0" in first[:420]
    assert "What could not be read" not in page.text
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"#000[0-2][0-9a-f]{2}", html)
    for words in ("What cannot be said", "Say tin.", "No rollout failed.", "Sampler to trainer"):
        assert words in page.text


def test_half_of_the_prompts_gain_and_the_unit_is_the_prompt(tmp_path: Path) -> None:
    run = made(tmp_path / "run", learned=4, samples=3)
    gains = gains_of(run, None)
    assert gains.sampled is not None
    assert (gains.sampled.n, gains.sampled.risen, gains.sampled.fallen) == (8, 4, 0)
    assert gains.sampled.gain == pytest.approx(1 / 6)
    assert gains.sampled.p_value == 2 / 2**4  # however many samples: 4 prompts moved
    assert not gains.sampled.told_apart
    assert "the test does not, as the prompts are few: nothing is claimed" in told(run)[0]
    assert "may still be there" in unsaid(run)
    assert "only 8 prompts" in unsaid(run)


def test_no_gain_holds_zero(tmp_path: Path) -> None:
    run = made(tmp_path / "run", learned=0)
    assert "went from 0.667" in told(run)[0]
    assert "do not show whether training changed anything" in told(run)[0]


def test_one_examination_or_none_gives_no_gain_but_a_page(tmp_path: Path) -> None:
    run = made(tmp_path / "one", examined=[4], finished=False)
    assert missing(told(run)[0], "step 4") == []
    assert "not come to its end" in unsaid(run)
    none = write_rubric_run(tmp_path / "none", RubricStory(examined=[], tasks=False))
    (none / "manifest.json").unlink()
    (none / "rollouts.jsonl").unlink()
    text = Words(page_of(none)).text
    assert "rollouts.jsonl" in text


def test_the_best_text_for_all_is_found_by_the_rules_alone(tmp_path: Path) -> None:
    run = made(tmp_path / "run", learned=4, held_out=4)
    constant = best_constant(run)
    assert constant is not None
    # A word serves one prompt of four: (1 + 3 * 2/3) / 4, and no text of the run has two words.
    assert constant.mean == pytest.approx(0.75)
    assert constant.text.split()[0] in WORDS[:4]
    assert constant.by_prompt[constant.text.split()[0]] == Fraction(1)
    assert "passes 0.750" in told(run)[2]
    assert best_constant(made(tmp_path / "model", judge="gpt-5-mini")) is None
    silent = made(tmp_path / "silent", tasks=False)
    assert best_constant(silent) is None
    assert "tasks.jsonl" in told(silent)[2]
    assert silent.criterion(("tin", 0)) == "contains word 'tin'"  # from the rationale


def test_cost_counts_every_sitting_and_does_not_guess_a_price(tmp_path: Path) -> None:
    line = {"judged": 30, "failed": 0, "from_cache": 10, "calls": 20}
    line |= {"prompt_tokens": 2000, "completion_tokens": 300}
    killed = {**line, "failed": 10, "calls": 41, "from_cache": 0}
    known = [{**line, "dollars": 0.25}, {**killed, "dollars": 0.5}]
    run = made(tmp_path / "known", judge="gpt-5-mini", ledger=known)
    assert cost_words(run) == ("61 calls, 4,000 tokens read, 600 written, 10 answers from the cache: $0.7500")
    assert failed_words(run) == "10 of 70 responses (14.3 %)"
    assert "14.3 %" in told(run)[4]
    unknown = [{**line, "dollars": None}, known[1]]
    assert "price not known" in cost_words(made(tmp_path / "u", judge="mine", ledger=unknown))
    cached = [{**line, "calls": 0, "dollars": None}, known[1]]
    assert cost_words(made(tmp_path / "c", judge="mine", ledger=cached)).endswith("$0.5000")
    assert "the judge that measures is the judge that rewarded" in unsaid(run)


def test_what_was_left_out_of_training_is_counted(tmp_path: Path) -> None:
    run = made(tmp_path / "run", failed=3)
    # The first group loses both, the second one of its two: neither has anything to compare.
    assert (run.trained.failed, run.trained.responses, run.trained.too_few) == (3, 16, 2)
    assert missing(told(run)[5], "3 of 16", "2 of 8") == []
    page = Words(page_of(run.run.folder)).text
    assert "timed_out: <b>slow</b>" in page


def test_where_the_prompts_come_from_is_said(tmp_path: Path) -> None:
    assert "made in the same way" in unsaid(made(tmp_path / "own"))
    assert "come from the same data" in unsaid(made(tmp_path / "file", data_path="/x.jsonl"))
    all_trained = made(tmp_path / "all", test=0)
    assert "none were held out" in unsaid(all_trained)
    assert missing(told(all_trained)[0], "8 prompts") == []


def test_criteria_that_never_or_always_hold_are_named(tmp_path: Path) -> None:
    text = Words(page_of(write_rubric_run(tmp_path / "run", RubricStory(learned=4)))).text
    # Four words are never said; both shared rules always hold.
    assert re.search(r"Never\b[^.]*\b4 of 10\b", text)
    assert re.search(r"\bevery\b[^.]*\b2 of 10\b", text)
    assert "Criteria that gained most" in text
    assert "Criteria that lost most" not in text


def test_a_line_cut_off_and_one_spoilt_are_left_out_and_told(tmp_path: Path) -> None:
    folder = write_rubric_run(tmp_path / "run", RubricStory())
    for name in ("judge.jsonl", "rollouts.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"judged": "many"}\n{"judged": 5, "step"')
    run = read_rubric_run(folder)
    assert run.ledger.judged == 40 + 24  # as before: 2 * 8 * 3 / 2 examined twice, 16 trained on
    assert sum("unreadable line" in note for note in run.notes) == 2
    assert sum("middle of a line" in note for note in run.notes) == 2


@needs_browser
def test_what_a_prompt_or_a_model_says_is_text_in_a_browser(tmp_path: Path) -> None:
    file = report_of(write_rubric_run(tmp_path / "run", RubricStory(nasty=True)))
    seen = opened(file, tmp_path)
    assert (seen.console, seen.asked) == ((), ())
    assert "<img" not in seen.dom
    assert "<script" not in seen.dom
    assert seen.dom.count("onerror=alert(1)") > 10  # it is there, as text


def test_runs_are_compared_prompt_by_prompt_and_seeds_are_told(tmp_path: Path) -> None:
    for seed, learned in ((0, 0), (1, 8)):
        write_rubric_run(tmp_path / f"seed{seed}", RubricStory(seed=seed, learned=learned))
    other = RubricStory(learned=8, judge="gpt-5-mini")
    write_rubric_run(tmp_path / "other", other)
    folders = [tmp_path / name for name in ("seed0", "seed1", "other")]
    found = compare_rubrics(folders)
    pair = found.pairs[0]
    assert pair.found is not None
    assert (pair.found.n, pair.found.risen, pair.p_holm) == (8, 8, 2 / 2**8)
    assert pair.told_apart
    assert [one.why.startswith("another judge") for one in found.pairs] == [False, True, True]
    assert any("Over 2 seeds of rlvr@1" in each and "0.000 to +0.333" in each for each in found.story)
    assert_golden("rubric comparison", document_html(rubrics_document(found)))
    text = Words(document_html(rubrics_document(found))).text
    assert "Not compared: another judge measured each" in text
    assert document_html(rubrics_document(found)) == document_html(rubrics_document(compare_rubrics(folders)))


def test_a_prompt_with_the_same_name_and_another_text_is_not_the_same(tmp_path: Path) -> None:
    write_rubric_run(tmp_path / "one", RubricStory(held_out=8))
    write_rubric_run(tmp_path / "fewer", RubricStory(held_out=6))
    write_rubric_run(tmp_path / "reworded", RubricStory(held_out=7, prompt="Write {word}."))
    one, fewer, reworded = (tmp_path / name for name in ("one", "fewer", "reworded"))
    pair = compare_rubrics([one, fewer]).pairs[0]
    assert pair.found is not None
    assert pair.found.n == 6
    none = compare_rubrics([one, reworded])
    assert none.pairs[0].why == "they have no held-out prompt in common"
    assert none.story[-1].startswith("No pair is compared prompt by prompt")


def test_the_command_compares_and_refuses_a_mixture_in_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write_rubric_run(tmp_path / "one", RubricStory())
    two = write_rubric_run(tmp_path / "two", RubricStory(seed=1, learned=2))
    papers = write_run(tmp_path / "papers", LADDER["sft"])
    out = tmp_path / "compare.html"
    with pytest.raises(SystemExit) as caught:
        main(["report", str(one), str(two), "--out", str(out)])
    assert not caught.value.code
    printed = capsys.readouterr().out
    assert re.search(r"\btwo minus one\b.* 8 prompts: -0\.250", printed)
    assert "Pass rate on the prompts" in printed
    assert out.exists()
    with pytest.raises(ConfigError, match="no score in common"):
        compared([one, papers])
    with pytest.raises(SystemExit) as caught:
        main(["report", str(one), str(papers), "--out", str(out)])
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 5
    with pytest.raises(ConfigError, match="compared with itself"):
        compared([one, one])


def test_a_judge_that_failed_in_one_run_is_a_difference_of_reward(tmp_path: Path) -> None:
    one = write_rubric_run(tmp_path / "one", RubricStory())
    two = write_rubric_run(tmp_path / "two", RubricStory(failed=1))
    found = compare_runs((one, two)).first
    assert found is not None
    assert found.rollout is not None
    assert (found.step, found.phase, found.rollout.field) == (0, Phase.REWARD, "failure.what")
    assert found.rollout.tokens == 0
    # Another verdict on the same text is one as well.
    lines = (one / "rollouts.jsonl").read_text().splitlines()
    changed = json.loads(lines[0])
    changed["verdicts"][0]["passed"] = not changed["verdicts"][0]["passed"]
    three = write_rubric_run(tmp_path / "three", RubricStory())
    (three / "rollouts.jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]) + "\n")
    found = compare_runs((one, three)).first
    assert found is not None
    assert found.rollout is not None
    assert (found.phase, found.rollout.field) == (Phase.REWARD, "verdicts")
    assert compare_runs((one, one)).equal
