"""A small corpus in SNAP's layout, and a server on loopback that has it, with and without mishaps."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from answering import Quiet, answering

from tinsmith.data.sources.hepth.release import Release

EDGES = "cit-Small.txt.gz"
ABSTRACTS = "cit-Small-abstracts.tar.gz"
EDGE_TEXT = (
    "# Directed graph\r\n# FromNodeId\tToNodeId\r\n9912001\t9201001\r\n1001\t9201001\r\n1001\t9912001\r\n1001\t1001\r\n"
)
EDGE_LINES = "0001001\t0001001\n0001001\t9201001\n0001001\t9912001\n9912001\t9201001\n"
IDS = ("9201001", "9912001", "0001001", "0001002")


def record_text(
    paper: str,
    *,
    date: str = "Date: Mon, 3 Jan 2000 10:00:00 GMT   (10kb)",
    title: str = "Title: Strings",
    more: str = "",
    abstract: str = "  We study strings.",
) -> str:
    """Return a record as arXiv writes it."""
    rule = "-" * 78
    return (
        f"{rule}\n\\\\\nPaper: hep-th/{paper}\nFrom: a.person@an.edu\n{date}\n\n{title}\n"
        f"Authors: A. Person\n{more}\\\\\n{abstract}\n\\\\\n"
    )


def records() -> dict[str, str]:
    """Return member names and texts, in no good order."""
    return {
        "2000/0001002.abs": record_text("0001002"),
        "2000/0001001.abs": record_text("0001001", title="Title: More\n  strings"),
        "1999/9912001.abs": record_text("9912001", date="Date: Sat, 4 Dec 1999 01:00:00 +0200"),
        "1992/9201001.abs": record_text("9201001", date="Date: Tue, 31 Dec 91 23:54:17 MET +0100   (46kb)"),
    }


def archive(files: dict[str, str]) -> bytes:
    """Return a tar of these files, compressed."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, text in files.items():
            content = text.encode("latin-1")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def digest(text: str) -> str:
    """Return its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Snap:
    """Serves `files`; the next answer stops after `cuts[0]` bytes, if there is one."""

    files: dict[str, bytes]
    ranges: bool = True
    tag: str = '"one"'
    code: int = 200
    cuts: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """(file, the Range that was asked for) of each request."""
    url: str = ""

    def release(self) -> Release:
        """Return the corpus that is served here."""
        return Release(
            name="small",
            title="small",
            site=self.url,
            edges=EDGES,
            abstracts=ABSTRACTS,
            edge_count=4,
            paper_count=4,
            edges_sha256=digest(EDGE_LINES),
            ids_sha256=digest("".join(f"{one}\n" for one in IDS)),
            papers_sha256="0" * 64,
        )


def small_files() -> dict[str, bytes]:
    """Return what SNAP would have."""
    return {EDGES: gzip.compress(EDGE_TEXT.encode(), mtime=0), ABSTRACTS: archive(records())}


@contextmanager
def serving(snap: Snap) -> Generator[Snap, None, None]:
    """Run the server; its address is `snap.url`."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/")
            wanted = self.headers.get("Range")
            snap.asked.append((name, wanted))
            body, first, code = snap.files.get(name), 0, snap.code
            if body is None or code != 200:
                self.send_error(404 if body is None else code)
                return
            same = self.headers.get("If-Range", snap.tag) == snap.tag
            if wanted is not None and snap.ranges and same:
                first, code = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if code == 206 and first >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(code)
            if code == 206:
                self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            self.send_header("ETag", snap.tag)
            self.send_header("Content-Length", str(len(body) - first))
            self.end_headers()
            last = first + snap.cuts.pop(0) if snap.cuts else len(body)
            self.wfile.write(body[first:last])
            self.close_connection = True

    with answering(Handler) as url:
        snap.url = f"{url}/"
        yield snap
