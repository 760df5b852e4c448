import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runs import FEW, LADDER, NASTY, seeds_of, write_run
from kept_answers import keep_answers
from page_words import Words
from pages_of import compared, page_of, report_of, undrawn

from golden_pages import assert_golden
from sentences import missing
from tinsmith.lab.results.arms import label_arms
from tinsmith.lab.results.findings import lost_classes
from tinsmith.lab.results.label_page import compare_labels, page_of_labels
from tinsmith.pages.page import document_html
from tinsmith.types.errors import ConfigError

pytestmark = [pytest.mark.whole, pytest.mark.pictures]

VOID = {"meta", "link", "br", "input", "img", "hr", "wbr"}


class Page(Words):
    """Checks that elements close as they open, and keeps scripts apart from the words a reader sees."""

    def __init__(self, html: str) -> None:
        self.open: list[str] = []
        self.scripts: list[str] = []
        super().__init__(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")], tag
        super().handle_starttag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)


@pytest.fixture(scope="module")
def exp5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "exp5", LADDER["exp5"])


@pytest.fixture(scope="module")
def html(exp5: Path) -> str:
    return report_of(exp5).read_text(encoding="utf-8")


def test_a_page_is_one_whole_file_that_points_nowhere(html: str) -> None:
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(page.ids)
    assert "default-src &#39;none&#39;" in html
    # Every stand-in colour became a CSS variable.
    assert not re.search(r"#000[0-2][0-9a-f]{2}", html)


def test_a_folder_gives_the_bytes_that_were_looked_at(exp5: Path, html: str) -> None:
    assert_golden("run", html)
    assert not [file for file in exp5.iterdir() if file.name.startswith(".")]


def test_a_reward_that_reacts_and_lenient_scores_are_shown(tmp_path: Path) -> None:
    with undrawn():
        text = Page(page_of(write_run(tmp_path / "run", replace(LADDER["exp6"], **FEW)))).text
    assert "Reward of a right answer" in text
    assert "read leniently" in text
    assert "Price of a class" not in text


def test_what_models_and_people_write_cannot_leave_its_place(tmp_path: Path) -> None:
    evil = replace(LADDER["exp4"], nasty=True, question=f"Is {NASTY} a question?", **FEW)
    with undrawn():
        html = page_of(write_run(tmp_path / "run", evil))
    page = Page(html)
    assert html.count("<script") == len(page.scripts) == 1
    assert "<img" not in html
    assert page.words.count(NASTY) >= 4


@pytest.mark.parametrize("left", [0, 1])
def test_a_folder_with_little_in_it_still_has_a_page_that_says_what_is_missing(tmp_path: Path, left: int) -> None:
    folder = write_run(tmp_path / "run", LADDER["exp4"])
    for file in folder.iterdir():
        if file.name != "config.json":
            file.unlink()
    if left:
        (folder / "metrics.jsonl").write_text('{"step": 0, "train/reward/total": 0.5}\n{"step": 1')
    text = Page(page_of(folder)).text
    assert missing(text, "was not evaluated", "manifest.json is missing", "rollouts.jsonl", "validation") == []
    assert missing(text, "baselines.json is missing") == []
    assert ("metrics.jsonl stops in the middle of a line" in text) == bool(left)


def test_an_interrupted_run_is_shown_by_its_validation(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", LADDER["exp4"])
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["selected"], manifest["hashes"]
    (folder / "manifest.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    metrics = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(metrics[:45]))
    rollouts = (folder / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    kept = [line for line in rollouts if json.loads(line)["step"] < 45]
    (folder / "rollouts.jsonl").write_bytes(b"".join(kept))
    os.truncate(folder / "rollouts.jsonl", (folder / "rollouts.jsonl").stat().st_size - 5)
    with undrawn():
        text = Page(page_of(folder)).text
    assert missing(text, "45 of 60 steps", "validation, sampled, 90 papers") == []
    assert "No claim is judged" in text


def test_a_comparison_tells_scores_collapse_control_and_claims(tmp_path: Path) -> None:
    stories = [
        *(LADDER[key] for key in ("exp4", "exp5", "exact", "shuffled")),
        *seeds_of(LADDER["exp6"], 0, 1),
        *seeds_of(LADDER["sft"], 0, 1),
    ]
    folders = [
        write_run(tmp_path / str(i), replace(story, num_test=150, steps=20, eval_every=10))
        for i, story in enumerate(stories)
    ]
    found = compare_labels(folders)
    html = document_html(page_of_labels(found))
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))
    assert len(page.scripts) == 1
    assert "script-src &#39;sha256-" in html
    arms = list(label_arms(found.results).values())
    assert [arm.name for arm in arms] == [
        "RL (accuracy)",
        "RL (weighted)",
        "RL (exact)",
        "RL (macro-F1)",
        "RL (shuffled)",
        "LoRA SFT",
    ]
    assert {one.label for one in lost_classes(arms) if one.arm == "RL (weighted)"} >= {"consolidating"}
    assert missing(page.text, "Comparison of 8 runs", "to the estimate from samples", "not above chance") == []
    for arm in arms:
        for one in arm.systems.values():
            for name, measure in one.measures.items():
                assert f"{measure.value:.3f}" in page.text, (arm.name, name)
    assert_golden("comparison", html)


def test_a_run_is_not_compared_with_itself(exp5: Path) -> None:
    with pytest.raises(ConfigError, match="compared with itself"):
        compared([exp5, exp5 / ".." / exp5.name])


def test_pages_say_how_the_baselines_are_compared(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / key, replace(LADDER[key], **FEW)) for key in ("exp4", "exp6"))
    with undrawn():
        assert "compared unpaired" in page_of(second)
        keep_answers(second, spoilt_every=5)
        assert "Baselines are compared paper by paper." in page_of(second)
    mixed = compare_labels([first, second]).record.notes
    assert any(note.startswith("Where their answers to these papers were not kept") for note in mixed)
