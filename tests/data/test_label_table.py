"""Tables as CSV: texts that a spreadsheet would run have an apostrophe, and numbers have none."""

from pathlib import Path

import polars as pl

from tinsmith.data.label_table import write_csv


def test_texts_that_begin_as_formulas_are_escaped_and_numbers_are_not(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@a", "\ta", "\ra", "a=1", None]
    table = pl.DataFrame({"text": texts, "number": [-1.5] * len(texts), "flag": [True] * len(texts)})
    write_csv(table, tmp_path / "t.csv")
    back = pl.read_csv(tmp_path / "t.csv", infer_schema=False)
    assert back["text"].to_list() == ["'=1+1", "'+1", "'-1", "'@a", "'\ta", "'\ra", "a=1", None]
    assert set(back["number"]) == {"-1.5"}
    write_csv(table.select("number"), tmp_path / "n.csv")
    assert pl.read_csv(tmp_path / "n.csv").equals(table.select("number"))
