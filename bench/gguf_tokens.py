"""Tokens over GGUF files against tokens over the tokenizer.json they were made of, both ways: kinds x 10,000 texts."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import gguf

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))

from tokenizer_kinds import KINDS, converted, texts, tokenizer, write_metadata

from tinsmith.models.gguf.file import read_gguf
from tinsmith.models.gguf.tokenizer import file_tokenizer
from tinsmith.models.gguf.vocabulary import vocabulary_of

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


def main() -> int:
    wrong = 0
    for name, kind in KINDS.items():
        wanted = tokenizer(name)
        ours = file_tokenizer(vocabulary_of(wanted, len(wanted), (), where=None), None)
        theirs = file_tokenizer(_converted(name), None)
        told: list[str] = []
        for text in texts(kind, COUNT, 7):
            ids = wanted.backend_tokenizer.encode(text).ids
            same = [ours.backend_tokenizer.encode(text).ids == ids, theirs.backend_tokenizer.encode(text).ids == ids]
            # llama.cpp has no normalizer: a converted file of such a model is another tokenizer, there as here.
            if not same[0] or not (same[1] or kind.composes):
                told.append(repr(text))
        wrong += len(told)
        print(f"{name:22} {COUNT:6} texts, exported and converted: {len(told)} differ {' '.join(told[:1])}")
    print(f"{len(KINDS)} kinds: {wrong} texts differ (goal 0: {'reached' if not wrong else 'NOT reached'})")
    return 1 if wrong else 0


def _converted(name: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        writer = gguf.GGUFWriter(Path(folder) / "one.gguf", "llama")
        write_metadata(writer, converted(name))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return dict(read_gguf(Path(folder) / "one.gguf").metadata)


if __name__ == "__main__":
    sys.exit(main())
