"""Knows which answers were paid for before: a folder with one file for each, found by its content.

An entry's name is the SHA-256 over all that decides an answer: judge, temperature, prompt, schema
version. An entry is written whole or not at all, and a damaged one is as good as none. It holds the
verdicts, or the choice, and nothing of the call: no key, no address, no prompt.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.judge.answers import A, AnswerForm, Question
from tinsmith.lab.judge.verdicts import ParseFailure
from tinsmith.types.fingerprints import sha256_of


def cache_key(identity: str, temperature: float, question: Question[A]) -> str:
    """Return an entry's name; `identity` is the judge's name, or a fingerprint where a name may change its meaning."""
    return sha256_of(
        {
            "schema": question.form.version,
            "model": identity,
            "temperature": float(temperature),
            "system": question.prompt.system,
            "user": question.prompt.user,
        }
    )


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """A folder of answers; it is made when the first entry is written."""

    folder: Path

    def find(self, key: str, form: AnswerForm[A]) -> A | None:
        """Return the answer under a key, or None where there is none that can be read."""
        try:
            text = self._path(key).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        found = form.read(text)
        return None if isinstance(found, ParseFailure) else found

    def keep(self, key: str, text: str) -> None:
        """Write an entry, the text that its form gives: to a file of its own first, then under its name."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(part, path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
