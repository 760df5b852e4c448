"""Pages in headless Chromium: nothing is asked of anybody, and rows are filtered, turned and found."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driven import Driven, driven
from fake_runs import FEW, LADDER, write_run
from headless import Opened, needs_browser, opened
from pages_of import report_of

from tinsmith.lab.results.label_page import compare_labels, page_of_labels
from tinsmith.pages.page import document_html

pytestmark = [needs_browser, pytest.mark.pictures]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    story = replace(LADDER["exp4"], nasty=True)
    return report_of(write_run(tmp_path_factory.mktemp("runs") / "exp4", story))


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    """A browser with the page open."""
    with driven(tmp_path_factory.mktemp("browser")) as found:
        found.open(page)
        yield found


def at(browser: Driven, place: str) -> Opened:
    """Go to another place of the page."""
    browser.says(f"location.hash = {json.dumps(place)}; new Promise((done) => setTimeout(done, 50))")
    return Opened(browser.says("document.documentElement.outerHTML"), (), ())


def test_a_page_opens_from_disk_without_an_error_and_asks_nobody_for_anything(page: Path, tmp_path: Path) -> None:
    seen = opened(page, tmp_path)
    assert seen.console == ()
    assert seen.asked == ()
    assert seen.count == "1 to 25 of 1,000 rows"
    assert len(seen.rows) == 25
    # What a model wrote is text: nothing of it became an element.
    assert "<img" not in seen.dom
    assert seen.dom.count("<script") == 1


def without_policy(page: Path, probe: str, file: Path) -> Path:
    """Write the page without its policy, and with a probe at its end."""
    html = page.read_text(encoding="utf-8")
    policy = html.index('<meta http-equiv="Content-Security-Policy"')
    html = html[:policy] + html[html.index(">", policy) + 1 :]
    file.write_text(html.replace("</body>", f"{probe}</body>"), encoding="utf-8")
    return file


def test_this_check_would_see_a_request_and_an_error(page: Path, tmp_path: Path) -> None:
    probe = '<img src="http://nowhere.invalid/probe.png"><script>undefined.x</script>'
    seen = opened(without_policy(page, probe, tmp_path / "open.html"), tmp_path)
    assert seen.asked == ("http://nowhere.invalid/probe.png",)
    assert any("TypeError" in line for line in seen.console)


def test_the_pages_policy_stops_what_is_not_its_own(page: Path, tmp_path: Path) -> None:
    html = page.read_text(encoding="utf-8")
    probe = '<img src="http://nowhere.invalid/probe.png"><script>document.title="taken"</script></main>'
    file = tmp_path / "closed.html"
    file.write_text(html.replace("</main>", probe), encoding="utf-8")
    seen = opened(file, tmp_path)
    assert seen.asked == ()
    assert "<title>taken" not in seen.dom
    assert len([line for line in seen.console if "Content Security Policy" in line]) >= 2


def test_filters_narrow_the_rollouts_and_pages_go_on(browser: Driven) -> None:
    requests = "rollouts?split=test, selected checkpoint, sampled&true-label=disruptive&result=wrong&page=2"
    seen = at(browser, requests)
    assert seen.count.startswith("26 to 50 of ")
    assert len(seen.rows) == 25
    for row in seen.rows:
        assert ">test, selected checkpoint, sampled</td>" in row
        assert 'class="wrong-mark"' in row
        assert ">wrong</td>" in row
        assert ">disruptive</td>" in row


def test_a_reader_can_choose_turn_pages_and_clear(browser: Driven) -> None:
    browser.says("document.querySelector('.filters').reset(); new Promise((done) => setTimeout(done, 50))")
    lines = "document.querySelector('[role=status]').textContent + location.hash"
    browser.says(
        "form = document.querySelector('.filters'); form.elements.split.value = 'test, selected checkpoint, sampled'"
    )
    chosen = browser.says(f"form.elements.split.dispatchEvent(new Event('change')); {lines}")
    turned = browser.says(f"document.querySelector('.pager button:nth-child(2)').click(); {lines}")
    cleared = browser.says(f"form.reset(); new Promise((done) => setTimeout(() => done({lines}), 50))")
    assert [chosen, turned, cleared] == [
        "1 to 25 of 186 rows#rollouts?split=test%2C+selected+checkpoint%2C+sampled",
        "26 to 50 of 186 rows#rollouts?split=test%2C+selected+checkpoint%2C+sampled&page=2",
        "1 to 25 of 1,000 rows#rollouts",
    ]


def test_failures_and_texts_can_be_found_and_what_nothing_matches_is_told(browser: Driven) -> None:
    failed = at(browser, "rollouts?result=failed rollout")
    assert failed.count == "1 to 3 of 3 rows"
    assert all("sample: TimeoutError: no answer within 60 s" in row for row in failed.rows)
    found = at(browser, "rollouts?text=onerror%3Dalert&split=validation, sampled")
    assert found.count == "1 to 3 of 3 rows"
    assert all("&lt;/script&gt;&lt;img src=x" in row for row in found.rows)
    none = at(browser, "rollouts?text=no-such-text")
    assert (none.count, none.rows) == ("No row matches these filters.", [])


def test_a_comparison_opens_without_an_error(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / key, replace(LADDER[key], **FEW)) for key in ("exp4", "sft")]
    file = tmp_path / "compare.html"
    file.write_text(document_html(page_of_labels(compare_labels(folders))), encoding="utf-8")
    seen = opened(file, tmp_path)
    assert seen.console == ()
    assert seen.asked == ()
