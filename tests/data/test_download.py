import random
from collections.abc import Generator
from pathlib import Path

import pytest
from small_snap import Snap, serving

from tinsmith.data.download import download
from tinsmith.types.errors import BackendError

CONTENT = random.Random(0).randbytes(300_000)


@pytest.fixture
def snap() -> Generator[Snap, None, None]:
    with serving(Snap({"x.gz": CONTENT})) as here:
        yield here


@pytest.fixture
def seen() -> list[tuple[int, int | None]]:
    return []


def get(snap: Snap, folder: Path, seen: list[tuple[int, int | None]] | None = None) -> bool:
    said = [] if seen is None else seen
    return download(f"{snap.url}x.gz", folder / "x.gz", lambda a, b: said.append((a, b)))


def left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_file_arrives_once(snap: Snap, tmp_path: Path, seen: list[tuple[int, int | None]]) -> None:
    assert get(snap, tmp_path, seen)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert (seen[0], seen[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert not get(snap, tmp_path)
    assert snap.asked == [("x.gz", None)]


def test_a_cut_connection_goes_on_where_it_stopped(
    snap: Snap, tmp_path: Path, seen: list[tuple[int, int | None]]
) -> None:
    snap.cuts = [100_000, 50_000]
    assert get(snap, tmp_path, seen)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert [wanted for _, wanted in snap.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_stop_is_told_and_a_second_call_goes_on(snap: Snap, tmp_path: Path) -> None:
    snap.cuts = [100_000, 0]
    with pytest.raises(BackendError, match=r"0\.1 MB"):
        get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz.part": CONTENT[:100_000], "x.gz.part.tag": b'"one"'}
    assert get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}
    assert snap.asked[-1] == ("x.gz", "bytes=100000-")


def test_a_file_that_changed_meanwhile_is_fetched_anew(snap: Snap, tmp_path: Path) -> None:
    snap.cuts = [100_000, 0]
    with pytest.raises(BackendError):
        get(snap, tmp_path)
    snap.tag, snap.files["x.gz"] = '"two"', CONTENT[::-1]
    assert get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT[::-1]}


def test_a_server_without_ranges_begins_again_and_is_given_up(snap: Snap, tmp_path: Path) -> None:
    snap.ranges, snap.cuts = False, [100_000, 60_000]
    with pytest.raises(BackendError):
        get(snap, tmp_path)
    assert len(snap.asked) == 2
    assert get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_that_is_whole_is_taken(snap: Snap, tmp_path: Path, ranges: bool) -> None:
    snap.ranges = ranges
    (tmp_path / "x.gz.part").write_bytes(CONTENT)
    assert get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


def test_a_part_longer_than_the_file_is_dropped(snap: Snap, tmp_path: Path) -> None:
    (tmp_path / "x.gz.part").write_bytes(CONTENT + b"more")
    assert get(snap, tmp_path)
    assert left(tmp_path) == {"x.gz": CONTENT}


@pytest.mark.parametrize("code", [403, 404, 503])
def test_a_refusal_is_told_with_its_code(snap: Snap, tmp_path: Path, code: int) -> None:
    snap.code = code
    with pytest.raises(BackendError, match=str(code)):
        get(snap, tmp_path)
    assert left(tmp_path) == {}


def test_without_a_network_the_address_is_told(snap: Snap, tmp_path: Path) -> None:
    gone = Snap({}, url="http://127.0.0.1:1/")  # no server may listen on port 1
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:1/x\.gz"):
        get(gone, tmp_path)
    assert left(tmp_path) == {}
    assert snap.asked == []


def test_a_full_disk_is_told(snap: Snap, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no disk that is always full")
    (tmp_path / "x.gz.part").symlink_to("/dev/full")
    with pytest.raises(BackendError, match="--out"):
        get(snap, tmp_path)
    assert not (tmp_path / "x.gz").exists()
