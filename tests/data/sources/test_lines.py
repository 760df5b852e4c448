import gzip
import random
from pathlib import Path

import pytest
from building import SOURCE

from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.data.sources import delimited, lines, streams
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, read_layout
from tinsmith.data.sources.lines import DamagedFile, read_blocks


def numbered(path: Path) -> list[tuple[int, bytes]]:
    return [line for block in read_blocks(path, path.name) for line in block.lines()]


def test_lines_have_their_numbers_and_no_marks(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n \t\n\xef\xbb\xbffour\nfive\r\nlast")
    expected = [(1, b"one"), (4, b"four"), (5, b"five"), (6, b"last")]
    assert numbered(path) == expected
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert numbered(path) == expected
    path.write_bytes(b"")
    assert numbered(path) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4096])
def test_blocks_and_members_may_be_cut_anywhere(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_COMPRESSED", size)
    monkeypatch.setattr(streams, "_PLAIN", size)
    rng = random.Random(0)
    expected = [(i, b"%d" % rng.getrandbits(8 * (i % 9))) for i in range(1, 200)]
    texts = [b"".join(line + b"\n" for _, line in expected[a : a + 50]) for a in range(0, 200, 50)]
    path = tmp_path / "f"
    path.write_bytes(b"".join(texts))
    assert numbered(path) == expected
    path.write_bytes(b"".join(map(gzip.compress, texts)) + bytes(600))
    assert numbered(path) == expected


def test_a_truncated_or_corrupt_file_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    rng = random.Random(0)
    content = b"".join(b"%d\n" % rng.getrandbits(60) for _ in range(9000))
    packed = gzip.compress(content)
    path = tmp_path / "part.gz"
    for damaged in (packed[:-9], packed[: len(packed) // 2], packed[:5], packed[:100] + packed[120:]):
        path.write_bytes(damaged)
        blocks = read_blocks(path, "works/part.gz")
        found: list[bytes] = []
        with pytest.raises(DamagedFile, match=r"works/part\.gz: .+") as caught:
            found.extend(line for block in blocks for _, line in block.lines())
        assert content.startswith(b"".join(line + b"\n" for line in found))
        assert caught.value.line == len(found) + 1
        assert "--skip-bad" in str(caught.value)


def test_a_line_without_end_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    monkeypatch.setattr(streams, "_PLAIN", 100)
    path = tmp_path / "f"
    path.write_bytes(b"short\n" + b"x" * 2000)
    with pytest.raises(DamagedFile, match=r"(?m)^f: .* 1\)$"):
        numbered(path)


def table(path: Path, out: Path, **choices: bool) -> tuple[list[tuple[object, ...]], list[int], list[object]]:
    with CorpusWriter(out, source=SOURCE, force=True) as writer:
        writer.add([Paper(id="a", year=2000)])
        told: list[object] = []
        writer.quarantine = lambda *entry: told.append(entry)  # type: ignore[method-assign]
        layout = read_layout(path, "t.tsv", (b"#",))
        file = Delimited(path, "t.tsv", ("x", "y"), layout, comments=(b"#",), **({"header": False} | choices))
        rows = [
            (row, n)
            for r in file.rows(Complaints(writer))
            for row, n in zip(r.frame.rows(), r.numbers.tolist(), strict=True)
        ]
    return [row for row, _ in rows], [n for _, n in rows], told


def test_fields_of_a_table_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(
        'x\ty\n"a\t\'b"\r\n# comment\n1\t2\t3\n\t4\nü\t 5 \nbad\xff\t6\n7\n8\t9'.encode("latin-1").replace(
            b"\xfc", b"\xc3\xbc"
        )
    )
    rows, numbers, told = table(path, tmp_path / "out", header=True)
    assert rows == [('"a', "'b\""), (None, "4"), ("ü", " 5 "), ("8", "9")]
    assert numbers == [2, 5, 6, 9]
    assert told == [
        ("t.tsv", 4, "3 fields for 2", "1\t2\t3"),
        ("t.tsv", 7, "not UTF-8", "bad\ufffd\t6"),
        ("t.tsv", 8, "1 field for 2", "7"),
    ]
    _, _, told = table(path, tmp_path / "out", header=True, full=True)
    assert told[1] == ("t.tsv", 5, "an empty field", "\t4")


def test_the_fast_and_the_careful_way_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    content = [b"%d\t%d" % (rng.randrange(99), rng.randrange(99)) for _ in range(3000)]
    for place, odd in ((500, b"1"), (900, b""), (901, b"1\t2\t3"), (1500, b"\t1"), (2000, b"#a\tb")):
        content[place] = odd
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\n".join(content))
    monkeypatch.setattr(streams, "_PLAIN", 512)
    monkeypatch.setattr(delimited, "_MERGED", 1)
    for full in (False, True):
        fast = table(path, tmp_path / "out", full=full)
        with monkeypatch.context() as patch:
            patch.setattr(Delimited, "_is_regular", lambda *_: False)
            assert table(path, tmp_path / "out", full=full) == fast
        assert [entry[1] for entry in fast[2]] == [501, 902] + [1501] * full  # type: ignore[index]
