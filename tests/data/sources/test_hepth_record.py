import pytest
from small_snap import record_text

from tinsmith.data.sources.hepth.record import DateSource, Unreadable, parse_record


def test_a_record_is_read_field_by_field() -> None:
    text = record_text(
        "9201001",
        date="Date: Tue, 31 Dec 91 23:54:17 MET +0100   (46kb)\nDate (revised v2): Wed, 8 Jan 92 10:00 GMT",
        title="Title: Combinatorics of the\n  Modular Group",
        more="Comments: 46 pages, mail to me.too@x-y.edu. Or not:\n  never\nReport-no: SPhT 92\n"
        "Subj-class: Theory; Algebra\nJournal-ref: Int.J.Mod.Phys. A7 (1992) 5661\n",
        abstract="  We study\nNote this: $U(@)$.",
    )
    record = parse_record("9201001", text, in_graph=True)
    assert (record.title, record.authors) == ("Combinatorics of the Modular Group", "A. Person")
    assert record.abstract == "We study Note this: $U(@)$."
    assert record.comments == "46 pages, mail to [email]. Or not: never"
    assert (record.report_no, record.subj_class) == ("SPhT 92", "Theory; Algebra")
    assert record.journal_ref == "Int.J.Mod.Phys. A7 (1992) 5661"
    assert (record.date, record.n_versions, record.in_graph) == ("1991-12-31", 2, True)


def test_what_a_record_has_not_is_missing() -> None:
    record = parse_record("0001002", record_text("0001002"), in_graph=False)
    assert (record.journal_ref, record.comments, record.report_no, record.subj_class) == (None,) * 4
    assert not record.in_graph


@pytest.mark.parametrize(
    ("header", "day", "source"),
    [
        ("Mon, 3 Jan 2000 10:00:00 GMT   (10kb)", "2000-01-03", DateSource.HEADER),
        ("Mon, 3 Jan 2000 23:30:00 -0800", "2000-01-04", DateSource.HEADER),
        ("Mon, 3 Jan 2000 00:30:00 +0900", "2000-01-02", DateSource.HEADER),
        ("Mon, 3 Jan 2000 00:30:00 MET +0100", "2000-01-02", DateSource.HEADER),
        ("Mon, 3 Jan 2000 22:00 EST", "2000-01-04", DateSource.HEADER),
        ("Mon, 3 JAN 00 12:17 N   (6kb)", "2000-01-03", DateSource.HEADER),
        ("Mon, 31 Feb 2000 10:00:00 GMT", "2000-01-01", DateSource.MONTH),
        ("Mon, 3 Jan 1970 10:00:00 GMT", "2000-01-01", DateSource.MONTH),
        ("yesterday", "2000-01-01", DateSource.MONTH),
    ],
)
def test_a_date_is_the_first_header_in_utc(header: str, day: str, source: DateSource) -> None:
    text = record_text("0001001", date=f"Date: {header}")
    record = parse_record("0001001", text, in_graph=True)
    assert (record.date, record.date_source) == (day, source)


def test_a_title_that_swallowed_the_authors_leaves_them_missing() -> None:
    text = record_text("0001001", title="Title: STRINGS Author:\nA. Person").replace("Authors:", "by")
    record = parse_record("0001001", text, in_graph=True)
    assert (record.title, record.authors) == ("STRINGS Author: A. Person by A. Person", None)
    assert parse_record("0001001", record_text("1", abstract=""), in_graph=True).abstract is None


@pytest.mark.parametrize("text", ["", "a page about an error", "\\\\\nTitle: half a record\n"])
def test_half_a_record_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_record("0001001", text, in_graph=True)
