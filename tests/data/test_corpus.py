import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from building import write

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_writer import check_vacant
from tinsmith.data.paper import Paper
from tinsmith.data.schema import METRIC_COLUMNS
from tinsmith.types.errors import DataError

PAPERS = [Paper(id="a", year=2000, title="A"), Paper(id="b", year=2001, title="B")]


def test_columns_are_read_by_name_and_edges_as_rows(tmp_path: Path) -> None:
    write(tmp_path, PAPERS, [("b", "a")])
    corpus = Corpus.open(tmp_path)
    assert corpus.papers("title", "id").rows() == [("A", "a"), ("B", "b")]
    assert corpus.scan_papers().select("year").collect()["year"].to_list() == [2000, 2001]
    citing, cited = corpus.edges()
    assert (citing.dtype, cited.dtype) == (np.uint32, np.uint32)
    assert (citing.tolist(), cited.tolist()) == ([1], [0])
    with pytest.raises(DataError, match="field: column = 'journal'") as caught:
        corpus.papers("journal")
    assert "venue" in str(caught.value)


def test_metrics_are_an_error_until_they_are_computed_and_fit(tmp_path: Path) -> None:
    write(tmp_path, PAPERS)
    corpus = Corpus.open(tmp_path)
    with pytest.raises(DataError, match="tinsmith data metrics"):
        corpus.metrics("cd")
    frame = pl.DataFrame({"id": ["a"], "cd": [0.5]})
    frame.write_parquet(tmp_path / "metrics.parquet")
    with pytest.raises(DataError, match="1 rows for 2 papers"):
        corpus.metrics("cd")
    pl.DataFrame({"id": ["a", "b"], "cd": [0.5, None]}).cast({"cd": METRIC_COLUMNS["cd"]}).write_parquet(
        tmp_path / "metrics.parquet"
    )
    assert corpus.metrics("cd")["cd"].to_list() == [0.5, None]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "card.json").unlink(), "is not a corpus"),
        (lambda d: (d / "card.json").write_text("{"), "is damaged"),
        (lambda d: (d / "edges.parquet").unlink(), "is incomplete"),
        (lambda d: (d / "papers.parquet").write_bytes(b"PAR1"), "is damaged"),
        (lambda d: (d / "edges.parquet").replace(d / "papers.parquet"), "is incomplete|other columns"),
    ],
)
def test_a_damaged_corpus_says_what_to_do(tmp_path: Path, damage: object, message: str) -> None:
    write(tmp_path, PAPERS, [("b", "a")])
    assert callable(damage)
    damage(tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        Corpus.open(tmp_path)
    assert "do: " in str(caught.value)


def test_rows_and_card_must_agree(tmp_path: Path) -> None:
    write(tmp_path, PAPERS, [("b", "a")])
    card = json.loads((tmp_path / "card.json").read_text())
    (tmp_path / "card.json").write_text(json.dumps(card | {"papers": 3}))
    with pytest.raises(DataError, match=r"papers\.parquet\b.*\b2\b.*\b3\b"):
        Corpus.open(tmp_path)
    (tmp_path / "card.json").write_text(json.dumps(card | {"format": 99}))
    with pytest.raises(DataError, match="another format"):
        Corpus.open(tmp_path)


def test_a_folder_may_have_pattern_characters_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "odd[1]*name"
    write(folder, PAPERS, [("b", "a")])
    assert Corpus.open(folder).papers("id").height == 2


def test_cut_off_metrics_are_told(tmp_path: Path) -> None:
    write(tmp_path, PAPERS)
    corpus = Corpus.open(tmp_path)
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"metrics\.parquet"):
        corpus.metrics()


def test_a_slices_folder_takes_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "slice.json").write_text("{}")
    with pytest.raises(DataError, match="holds a slice"):
        check_vacant(tmp_path, force=True)
