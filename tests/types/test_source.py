"""The hash of the package's source: every file of it and nothing that a compiler or an editor leaves there."""

from pathlib import Path

from tinsmith.types.source import PACKAGE, tree_sha256


def test_it_covers_code_and_prompts_by_path_and_no_compiled_file(tmp_path: Path) -> None:
    assert (PACKAGE / "types" / "source.py").exists()
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "deep" / "prompt.md").write_text("Is it?\n")
    first = tree_sha256(tmp_path)
    (tmp_path / "deep" / "__pycache__").mkdir()
    for compiled in ("deep/__pycache__/a.cpython-311.pyc", "_native.so", ".a.py.swp"):
        (tmp_path / compiled).write_text("x")
    assert tree_sha256(tmp_path) == first
    (tmp_path / "deep" / "prompt.md").write_text("Is it!\n")
    second = tree_sha256(tmp_path)
    (tmp_path / "deep" / "prompt.md").rename(tmp_path / "deep" / "other.md")
    assert len({first, second, tree_sha256(tmp_path)}) == 3
