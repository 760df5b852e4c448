"""Every sort of page, checked by axe-core: wide and narrow, light and dark."""

from dataclasses import replace
from pathlib import Path

import pytest
from axe import checked, needs_axe
from fake_rubric_runs import RubricStory, write_rubric_run
from fake_runs import LADDER, write_run
from kept_pages import read_kept
from labelled import labelled_corpus
from pages_of import compared, page_of

from tinsmith.data.labels import Thresholds
from tinsmith.data.slices.cutting import make_slice
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.lab.live.progress import Standing
from tinsmith.lab.page.live_page import with_progress
from tinsmith.lab.study.report import page_of_study
from tinsmith.pages.cards import write_page
from tinsmith.pages.page import document_html

pytestmark = [needs_axe, pytest.mark.whole, pytest.mark.pictures]

VALUES = Path(__file__).parents[3] / "docs" / "results" / "values"
"""Kept values of four studies."""
CUT = SliceSettings(task=Task.DISRUPTION, thresholds=Thresholds(cut=0.001), per_class=60)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Twelve of them: runs and comparisons of both kinds, one that is under way, cards, and studies."""
    made = tmp_path_factory.mktemp("pages")
    few = {"steps": 40, "num_eval": 12, "num_test": 24}  # a rollout more is a dozen elements like others
    runs = [write_run(made / key, replace(LADDER[key], nasty=key == "exp4", **few)) for key in ("exp4", "sft")]
    judged = [write_rubric_run(made / f"judged-{seed}", RubricStory(seed=seed, failed=seed)) for seed in (0, 1)]
    corpus = labelled_corpus(made / "corpus", 800, cut=0.02)
    make_slice(corpus, CUT, made / "slice")
    under_way = with_progress(page_of(judged[1]), Standing(step=2, steps=4, seconds_left=9.0))
    found = [page_of(folder) for folder in (*runs, judged[0])]
    found += [document_html(compared(folders).page) for folders in (runs, judged)]
    found += [under_way, *(write_page(folder).read_text("utf-8") for folder in (corpus.folder, made / "slice"))]
    kept = [read_kept(file.read_text("utf-8")) for file in sorted(VALUES.glob("*.json"))[:4]]
    found += [document_html(page_of_study(one.results, one.seconds)) for one in kept]
    assert len(found) == 12
    return found


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True), (1280, True), (400, False)])
def test_no_page_has_a_serious_finding(pages: list[str], tmp_path: Path, width: int, dark: bool) -> None:
    found = checked(pages, tmp_path, width=width, dark=dark)
    assert {one.width for one in found} == {width}
    assert min(one.passed for one in found) > 10
    assert [(place, one.said) for place, one in enumerate(found) if one.said] == []


def test_this_check_would_see_pale_words_and_a_picture_without_a_name(tmp_path: Path) -> None:
    page = '<html lang="en"><title>a</title><main><p style="color: #aaa">pale</p><img src="data:,"></main></body>'
    (found,) = checked([page], tmp_path, width=400, dark=False)
    assert [one.partition(":")[0] for one in found.said] == ["color-contrast", "image-alt"]
