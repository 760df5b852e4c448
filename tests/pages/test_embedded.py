"""A notebook's cell shows a page in a frame that reaches nothing, and a table whose text is text."""

from html import unescape

from tinsmith.pages.page import framed, table


def test_a_page_is_the_source_of_its_frame_whatever_is_in_it() -> None:
    page = "<p title='a'>\"quoted\" & <script>1 < 2</script></p>"
    html = framed(page)
    source = html.split('srcdoc="')[1].split('"')[0]
    assert unescape(source) == page
    assert 'sandbox="allow-scripts allow-downloads"' in html
    assert "allow-same-origin" not in html


def test_a_tables_cells_are_escaped() -> None:
    html = table(("name", "a < b"), [("<b>", "1")])
    assert "<td>&lt;b&gt;</td><td>1</td>" in html
    assert "<th>a &lt; b</th>" in html
