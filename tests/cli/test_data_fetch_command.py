from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from small_snap import Snap, serving, small_files

from command_line import Run, command
from tinsmith.data.sources.hepth import release


@pytest.fixture
def snap(monkeypatch: pytest.MonkeyPatch) -> Generator[Snap, None, None]:
    with serving(Snap(small_files())) as here:
        monkeypatch.setattr(release, "HEPTH", replace(here.release(), name="hepth"))
        yield here


@pytest.fixture
def fetch(capsys: pytest.CaptureFixture[str], snap: Snap) -> Run:
    assert snap.url  # it stands in for SNAP
    return partial(command, capsys, "data", "fetch")


def test_it_says_what_is_there_and_what_is_next(fetch: Run, tmp_path: Path) -> None:
    first = fetch("hepth", "--out", tmp_path / "c")
    assert (first.code, first.err) == (0, "records read\n")
    assert str(tmp_path / "c" / "papers.jsonl.gz") in first.out
    assert "0" * 16 in first.out  # the digest of the known texts, which these are not
    again = fetch("hepth", "--out", tmp_path / "c")
    assert (again.code, again.out.splitlines()[1:]) == (0, first.out.splitlines()[1:])
    assert again.out.splitlines()[0] != first.out.splitlines()[0]


def test_without_a_folder_it_takes_the_name(fetch: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fetch("hepth").code == 0
    assert (tmp_path / "hepth" / "edges.tsv.gz").is_file()


def test_a_name_that_is_none_is_told(fetch: Run) -> None:
    code, out, err = fetch("hepph")
    assert (code, out, "hepth" in err) == (2, "", True)


def test_a_refusal_is_told_in_five_lines(fetch: Run, snap: Snap, tmp_path: Path) -> None:
    snap.code = 503
    code, out, err = fetch("hepth", "--out", tmp_path / "c")
    assert (code != 0, out, "503" in err) == (True, "", True)
