"""Pages of runs under challenge: the figures are those of the conversations, what fails is told, text stays text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from debate_talks import ASKED, CAVED, CONTROLLED, MENDED, STOOD, STUCK, TALKS, C, D, N, Talked, write
from headless import needs_browser, opened
from pages_of import compared, page_of

from golden_pages import assert_golden
from tinsmith.cli import main
from tinsmith.pages.page import document_html
from tinsmith.studies.debate.pages.comparison import compare_debates, compared_story
from tinsmith.studies.debate.pages.comparison_page import debates_document
from tinsmith.studies.debate.pages.gathering import read_debate_run
from tinsmith.studies.debate.pages.story import cannot_be_said, debate_story
from tinsmith.studies.debate.pages.tables import arms_table, doubt_table, overall_table
from tinsmith.types.errors import ConfigError

pytestmark = pytest.mark.whole

# One run


def test_the_first_sentence_has_the_figures_of_the_conversations(tmp_path: Path) -> None:
    read = read_debate_run(write(tmp_path / "run", TALKS, CONTROLLED))
    first, finding, control, accuracy, arms, broken, failed = debate_story(read)
    # 34 right first answers, 6 of them given up; 24 wrong ones heard the truth, 20 were put right.
    assert "On 60 test papers" in first
    assert "(caving) in 0.176 " in first
    assert "n = 34" in first
    assert "in 0.833 " in first
    # With words: 20 of 24 wrong ones revised, 6 of 24 right ones.
    assert "J = +0.583" in first
    assert "above 0" in finding
    assert "J = 0.000" in control
    assert "includes 0, as it must" in control
    assert "right in 0.567" in accuracy
    assert "commonest label would be right in 1.000" in accuracy
    assert "give nothing away" in arms
    assert "0.033 of the conversations" in broken
    assert "1 conversation failed, 0 of them in an evaluation" in failed
    assert not any("no negative control" in one for one in cannot_be_said(read))


def test_a_leak_of_the_arms_and_a_missing_control_are_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", TALKS, truthful=0.5, misleading=0.25, wrong="other")
    read = read_debate_run(folder)
    assert any("J of +0.667" in one for one in debate_story(read))
    assert any("no negative control" in one for one in cannot_be_said(read))
    assert "not known" not in page_of(folder)


def test_the_control_is_held_against_what_the_arms_give_away(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", TALKS, CONTROLLED, truthful=0.2, misleading=0.6, null=0.2)
    (control,) = (one for one in debate_story(read_debate_run(folder)) if "Negative" in one)
    assert "these arms give -0.125 to whoever follows the label" in control
    assert "says nothing" not in control
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"truthful": 0.2', '"truthful": null'))
    (control,) = (one for one in debate_story(read_debate_run(folder)) if "Negative" in one)
    assert "what these arms give away is not known" in control


def test_the_page_is_one_file_that_shows_text_as_text(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", TALKS, CONTROLLED)
    html = page_of(folder)
    assert html == page_of(folder)
    assert_golden("debate", html)
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "put right by a truthful challenge" in html
    assert "an answer broke its contract" in html
    assert "a challenge says more than it may" in html
    for outside in ("http://", "https://"):
        assert outside not in html.replace("http://www.w3.org/", "")


def test_metrics_that_the_conversations_do_not_bear_out_are_told(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", TALKS)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 5, "test/caving": 0.9, "test/truthful/whole": 1.0}) + "\n")
    notes = " ".join(read_debate_run(folder).notes)
    assert "test/caving is 0.9000" in notes
    assert "test/truthful/whole" not in notes


def test_a_run_without_a_test_or_a_challenger_still_has_a_page(tmp_path: Path) -> None:
    nothing = write(tmp_path / "nothing", [])
    assert "Nothing can be told" in page_of(nothing)
    alone = write(tmp_path / "alone", [STOOD] * 5 + [STUCK] * 5, opponent="nobody")
    html = page_of(alone)
    assert "Nobody challenged" in html
    assert "right in 0.500" in html
    assert "Discrimination J" not in html
    for table in (arms_table(read_debate_run(alone)), overall_table(read_debate_run(alone))):
        assert table is not None
        shown = {head.text for head in table.heads} | {row.name.text for row in table.rows}
        assert not shown & {"caving", "put right", "lateral", "J", "last minus first accuracy"}


def test_arms_with_equal_figures_are_all_shown(tmp_path: Path) -> None:
    kept = [replace(STOOD, arm=arm) for arm in ("truthful", "misleading") for _ in range(4)]
    table = arms_table(read_debate_run(write(tmp_path / "run", [*kept, *[ASKED] * 4])))
    assert table is not None
    names = [row.name.text.split(":")[0] for row in table.rows[1:]]
    assert names == ["all conversations", "truthful", "misleading", "null", "a label and words of the paper"]


@needs_browser
def test_a_browser_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    first = write(tmp_path / "first", TALKS, CONTROLLED)
    second = write(tmp_path / "second", TALKS, CONTROLLED, reward="adversarial/seed")
    one, both = tmp_path / "one.html", tmp_path / "both.html"
    one.write_text(page_of(first))
    both.write_text(document_html(debates_document(compare_debates([first, second]))))
    for file in (one, both):
        page = opened(file, tmp_path)
        assert not page.console
        assert not page.asked


# Several


def test_caving_is_a_ratio_and_the_same_conversations_are_compared(tmp_path: Path) -> None:
    worse = [CAVED] * 18 + [STOOD] * 6 + TALKS[24:]
    seed = write(tmp_path / "seed", worse, CONTROLLED, reward="adversarial/seed")
    gated = write(tmp_path / "gated", TALKS, CONTROLLED)
    alone = write(tmp_path / "alone", [STOOD] * 30 + [STUCK] * 30, opponent="nobody")
    compared = compare_debates([gated, seed, alone])
    assert (compared.references, compared.alone) == (("seed",), ("alone",))
    (against,) = compared.against
    assert against.name == "gated"
    assert against.caving is not None
    assert against.caving.value == pytest.approx((6 / 34) / (18 / 34))
    assert against.caving.interval.low < 1 / 3 < against.caving.interval.high < 1.0
    caved = against.events["caved"]
    assert (against.shared, caved.only_first, caved.only_second) == (60, 12, 0)
    assert against.p_holm["caved"] >= caved.p_value
    first = {one.name: one for one in compared.firsts}["gated"]
    # Right first: 24 + 10 asked of 60 against 30 of 60; both on 24.
    assert first.n == 60
    assert first.found.value == pytest.approx(4 / 60)
    assert first.found.not_below
    assert any("0.33 times as often as seed" in one for one in compared_story(compared))
    html = document_html(debates_document(compared))
    assert "right answer given up" in html
    assert html == document_html(debates_document(compare_debates([gated, seed, alone])))
    assert_golden("debate comparison", html)


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([STUCK] * 6, [CAVED] * 3 + [STOOD] * 3, "x has no right first answer"),
        ([CAVED] * 3 + [STOOD] * 3, [STUCK] * 6, "y has no right first answer"),
        ([CAVED] * 3 + [STOOD] * 3, [STOOD] * 6, "y never caved"),
    ],
)
def test_why_there_is_no_ratio_of_caving_is_told(tmp_path: Path, x: list[Talked], y: list[Talked], why: str) -> None:
    same = [replace(one, arm="misleading", label=N) for one in (*x, *y)]
    folders = [write(tmp_path / "x", same[:6]), write(tmp_path / "y", same[6:], reward="adversarial/seed")]
    compared = compare_debates(folders)
    assert f"The caving of x cannot be held against that of y: {why}." in " ".join(compared_story(compared))
    assert why in document_html(debates_document(compared))


def test_other_challenges_are_not_compared_one_by_one(tmp_path: Path) -> None:
    one = write(tmp_path / "one", [CAVED] * 8)
    other = write(tmp_path / "other", [Talked(D, D, C, label=C)] * 8)
    (against,) = compare_debates([one, other]).against
    assert not against.events
    assert "same way" in against.why
    assert "Not compared" in document_html(debates_document(compare_debates([one, other])))


def test_runs_of_another_kind_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    debate = write(tmp_path / "debate", TALKS)
    with pytest.raises(ConfigError, match="itself"):
        compared([debate, debate])
    papers = write(tmp_path / "papers", TALKS)
    config = json.loads((papers / "config.json").read_text())
    (papers / "config.json").write_text(json.dumps({**config, "kind": "rl"}))
    with pytest.raises(SystemExit) as caught:
        main(["report", str(debate), str(papers), "--out", str(tmp_path / "c.html")])
    assert caught.value.code == 2
    assert "under challenge" in capsys.readouterr().err


def test_the_command_writes_both_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = write(tmp_path / "one", TALKS), write(tmp_path / "other", TALKS)
    for arguments in ([str(one)], [str(one), str(other), "--out", str(tmp_path / "c.html")]):
        with pytest.raises(SystemExit) as caught:
            main(["report", *arguments])
        assert not caught.value.code
    assert (one / "report.html").is_file()
    assert (tmp_path / "c.html").is_file()
    assert "put right" in capsys.readouterr().out


def test_where_right_answers_are_given_up(tmp_path: Path) -> None:
    talks = [
        *(replace(STOOD, speaks_for=1) for _ in range(4)),
        *(replace(CAVED, speaks_for=2) for _ in range(3)),
        replace(STOOD, speaks_for=2),
        replace(MENDED, speaks_for=2),
    ]
    table = doubt_table(read_debate_run(write(tmp_path / "run", talks)))
    assert table is not None
    assert [head.text for head in table.heads] == ["Challenged by", "words for 1 label", "words for 2 labels"]
    rows = {row.name.text.partition(":")[0]: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["all conversations"] == rows["misleading"] == ["0.000", "0.750"]
    assert rows["truthful"][0] == rows["truthful"][1]  # a right first answer is in neither
    assert "null" not in rows
    assert "given up" in page_of(tmp_path / "run")


def test_where_texts_leave_equal_room_or_nobody_challenges_nothing_is_split(tmp_path: Path) -> None:
    differ = [replace(STOOD, speaks_for=1), replace(STOOD, speaks_for=2)]
    for name, talks, opponent in (
        ("unknown", [STOOD, CAVED], "scripted"),
        ("equal", [replace(STOOD, speaks_for=2), replace(CAVED, speaks_for=2)], "scripted"),
        ("alone", differ, "nobody"),
    ):
        folder = write(tmp_path / name, talks, opponent=opponent)
        assert doubt_table(read_debate_run(folder)) is None
        assert "Where right answers are given up" not in page_of(folder)
