"""The page of a run that goes on: a bar and a reload on top of it, both gone at its end; no trouble ends a run."""

from pathlib import Path

from tinsmith.lab.live.progress import Standing
from tinsmith.lab.page.live_page import draw_page, settle_page, with_progress

POLICY = '<meta content="script-src &#39;sha256-abc=&#39;; base-uri &#39;none&#39;">'
PAGE = f"<html><head>{POLICY}<title>x</title>\n</head>\n<body class='run'>\n<main>story</main>\n</body></html>\n"
FAR = Standing(step=12, steps=100, seconds_left=180.0, later=" & more")


def test_a_page_gets_a_bar_and_reloads_itself() -> None:
    html = with_progress(PAGE, FAR)
    assert html.count("<script>") == 1
    assert html.count("&#39;sha256-") == 2
    assert 'value="12" max="100"' in html
    assert "3.0 min left &amp; more" in html
    assert html.index("</head>") < html.index("<progress")
    assert html.index("<progress") < html.index("story")


def test_a_stopped_runs_page_is_what_it_was_without_them(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(with_progress(PAGE, FAR), encoding="utf-8")
    settle_page(tmp_path)
    assert file.read_text(encoding="utf-8") == PAGE
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_where_there_is_no_page_there_is_nothing_to_settle(tmp_path: Path) -> None:
    settle_page(tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_page_that_cannot_be_drawn_is_told_in_a_line_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    drawn = draw_page(tmp_path, FAR)
    assert drawn.page is None
    assert drawn.trouble is not None
    assert "\n" not in drawn.trouble
    assert not (tmp_path / "report.html").exists()
