"""Secrets and paths in files of a bundle: found in any kind of file, in each spelling."""

import gzip
import json
from collections.abc import Callable
from html import escape
from pathlib import Path

import numpy as np
import pytest

from tinsmith.lab.bundle.pack import require_public
from tinsmith.types.errors import DataError


@pytest.mark.parametrize(
    "name", ["a.tsv", "a.jinja", "a.log", "a.ini", "Makefile", "a.safetensors", "a.jsonl.gz", "a.csv"]
)
def test_a_secret_is_found_in_a_file_of_any_kind(tmp_path: Path, name: str) -> None:
    text = b"one\nkey: sk-0123456789abcdef0123456789\n"
    content = gzip.compress(text) if name.endswith(".gz") else text
    (tmp_path / name).write_bytes(content)
    for each in (content, tmp_path / name):
        with pytest.raises(DataError, match="a key of an endpoint"):
            require_public({name: each}, ["/home/anna"], {})
        require_public({name: gzip.compress(b"one") if name.endswith(".gz") else b"one"}, ["/home/anna"], {})


@pytest.mark.parametrize("spell", [str, json.dumps, escape])
def test_a_secret_is_found_however_a_file_spells_it(spell: Callable[[str], str]) -> None:
    secret = 'cor"rect<ho&rse'
    with pytest.raises(DataError, match="the value of MY_PASSWORD"):
        require_public({"a.txt": spell(secret).encode()}, ["/home/anna"], {"MY_PASSWORD": secret})


@pytest.mark.parametrize("end", ["", "/notes", "`", ".", "]", ";", "\\n"])
def test_a_path_is_found_whatever_follows_it(end: str) -> None:
    with pytest.raises(DataError, match="a path of this machine"):
        require_public({"a.txt": f"at /home/anna{end}".encode()}, ["/home/anna"], {})
    require_public({"a.txt": b"at /home/annabel"}, ["/home/anna"], {})


def test_numbers_that_spell_a_password_by_chance_are_none(tmp_path: Path) -> None:
    found = b"://\xe68:jZ:..:@"
    moments = np.random.default_rng(0).normal(0.0, 1e-3, 1 << 19).astype("<f4").tobytes() + found
    header = json.dumps(
        {"m": {"dtype": "F32", "shape": [len(moments) // 4], "data_offsets": [0, len(moments)]}}
    ).encode()
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + moments)
    for each in (tmp_path / "a", (tmp_path / "a").read_bytes()):
        require_public({"optimizer.safetensors": each}, ["/home/anna"], {})
    noted = header.replace(b"F32", b"F32 https://me:secret@host/")
    (tmp_path / "a").write_bytes(len(noted).to_bytes(8, "little") + noted + moments)
    for content in (tmp_path / "a", found + b"\n"):
        with pytest.raises(DataError, match="a password in an address"):
            require_public({"a.tsv" if isinstance(content, bytes) else "optimizer.safetensors": content}, ["/x"], {})
