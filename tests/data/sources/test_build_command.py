from functools import partial
from pathlib import Path

import pytest
from building import files_of, gzip_lines
from fake_openalex import KEY, FakeOpenAlex, Mishap, serving
from openalex_works import work

from command_line import Run, command


@pytest.fixture
def build(capsys: pytest.CaptureFixture[str]) -> Run:
    return partial(command, capsys, "data", "build")


@pytest.fixture
def two_files(tmp_path: Path) -> tuple[object, ...]:
    papers = gzip_lines(tmp_path / "p.jsonl.gz", [{"id": f"{n}", "year": 2000 + n} for n in range(3)])
    (tmp_path / "e.tsv").write_text("1\t0\n2\t0\n2\t2\n")
    return ("--source", "files", "--papers", papers, "--edges", tmp_path / "e.tsv")


def test_a_build_tells_what_it_made(build: Run, tmp_path: Path, two_files: tuple[object, ...]) -> None:
    code, out, stages = build(*two_files, "--out", tmp_path / "c")
    assert (code, stages) == (0, "papers read\nedges read\nrows\nedges\npapers\n")
    lines = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in out.splitlines()}
    assert (lines["papers"], lines["edges"], lines["dropped: self loops"]) == ("3", "2", "1")
    code, _, err = build(*two_files, "--out", tmp_path / "c")
    assert (code, len(err.splitlines())) == (2, 3)
    assert "--force" in err
    before = files_of(tmp_path / "c")
    code, _, _ = build(*two_files, "--out", tmp_path / "c", "--force")
    assert code == 0
    assert files_of(tmp_path / "c") == before


def test_forward_edges_are_dropped_if_asked(build: Run, tmp_path: Path, two_files: tuple[object, ...]) -> None:
    (tmp_path / "e.tsv").write_text("1\t0\n0\t2\n")
    assert "forward edges" in build(*two_files, "--out", tmp_path / "a")[1]
    out = build(*two_files, "--out", tmp_path / "b", "--drop-forward")[1]
    assert "dropped: forward edges" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "files", "--seed", "1"], "--seed belongs to --source synthetic, not to files"),
        (["--source", "files", "--keep", "xpac"], "--keep belongs to --source openalex or sciscinet"),
        (["--source", "files", "--graph-only"], "--graph-only belongs to --source openalex"),
        (["--source", "files", "--papers", "p"], "--source files needs --edges"),
        (["--source", "synthetic", "--preset", "tiny", "--strict"], "--strict belongs to --source"),
        (["--source", "synthetic"], "--source synthetic needs --preset"),
        (["--source", "sciscinet"], "--source sciscinet needs --tables"),
        (["--source", "sciscinet", "--tables", "t", "--keep", "xpac"], "retracted, paratext"),
        (["--source", "openalex"], "one of --snapshot, --pages, --api and --works"),
        (["--source", "openalex", "--api", "--snapshot", "d"], "one of --snapshot, --pages, --api and --works"),
        (["--source", "openalex", "--snapshot", "d", "--filter", "x"], "--filter belongs to --api"),
        (["--source", "openalex", "--api"], "--api needs --filter"),
        (["--source", "openalex", "--api", "--filter", "x", "--api-key-env", "NO_KEY"], "needs a key"),
        (["--source", "openalex", "--snapshot", "d", "--keep", "books"], "keep = 'books'"),
        (["--source", "openalex", "--snapshot", "d", "--strict", "--skip-bad"], "contradict each other"),
        (["--source", "openalex", "--snapshot", "nowhere"], "no OpenAlex works in nowhere"),
        (["--source", "files", "--papers", "nowhere", "--edges", "e"], "nowhere: No such file"),
        (["--source", "files", "extra"], "--pages belongs to --source openalex"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(
    build: Run, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENALEX_API_KEY", raising=False)
    code, out, err = build(*arguments, "--out", tmp_path / "c")
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "c").exists()


def test_pages_take_many_files(build: Run, tmp_path: Path) -> None:
    paths = [gzip_lines(tmp_path / f"{n}.json", [work(n)]) for n in (1, 2, 3)]
    code, out, _ = build("--source", "openalex", "--out", tmp_path / "c", "--pages", *paths)
    assert code == 0
    assert out.split()[3] == "3"


def test_the_api_is_resumed_by_the_same_command(build: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENALEX_API_KEY", KEY)
    with serving(FakeOpenAlex([work(n) for n in range(1, 26)])) as fake:
        fake.script = [None, Mishap(429, {"Retry-After": "40000"})]
        command = ("--source", "openalex", "--api", "--filter", "type:article", "--api-url", fake.url)
        code, _, err = build(*command, "--out", tmp_path / "c")
        assert code == 2
        assert "budget" in err
        code, out, _ = build(*command, "--out", tmp_path / "c")
        assert code == 0
        assert out.split()[3] == "25"
        assert len(fake.asked) == 4
        assert KEY not in out + err


def test_a_synthetic_world_is_built_byte_for_byte_the_same(build: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        code, _, _ = build("--source", "synthetic", "--preset", "tiny", "--seed", 3, "--out", tmp_path / name)
        assert code == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
