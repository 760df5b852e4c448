"""Tokenizers of served models in the hub's local cache, where the official SDK looks for them by served name.

`SamplingClient.get_tokenizer()` calls transformers with the served name. Without network transformers uses the cache,
where an entry of tokenizer files alone is enough. Entries of other programs are never touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tinsmith.models.staging import staged
from tinsmith.renderers.tokenizer import TOKENIZER_FILES
from tinsmith.types.fingerprints import file_sha256, sha256_of

_MARKER: Final = ".tinsmith"
"""File in an entry of ours that identifies its source."""
_COPIED: Final = (
    *TOKENIZER_FILES,
    *("config.json", "chat_template.jinja", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "chat_template.json"),
)
_TEMPLATES: Final = "additional_chat_templates"
"""Folder of named chat templates."""
_REQUESTED: Final = (*_COPIED, _TEMPLATES)
"""Files that transformers requests; missing ones must be marked as such, or it contacts the hub."""


def tokenizer_key(folder: Path) -> str:
    """Return a key that identifies a folder's tokenizer."""
    return sha256_of({name: file_sha256(folder / name) for name in _there(folder)})


def offer_tokenizer(name: str, key: str, made: Callable[[], Path]) -> bool:
    """Create the cache's entry for ORG/NAME from the folder that `made` returns; False if an entry is not ours.

    An entry with the same `key` is left as it is.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    entry = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model")
    marker = entry / _MARKER
    if entry.exists() and not marker.is_file():
        return False
    if marker.is_file() and marker.read_text(encoding="utf-8") == key:
        return True
    folder, commit = made(), sha256_of(key)[:40]
    snapshot = entry / "snapshots" / commit
    entry.mkdir(parents=True, exist_ok=True)
    _write(marker, "")
    if not snapshot.is_dir():
        with staged(snapshot) as whole:
            for file in _there(folder):
                (whole / file).parent.mkdir(exist_ok=True)
                shutil.copyfile(folder / file, whole / file)
    absent = entry / ".no_exist" / commit
    absent.mkdir(parents=True, exist_ok=True)
    for file in set(_REQUESTED) - {Path(name).parts[0] for name in _there(folder)}:
        (absent / file).touch()
    (entry / "refs").mkdir(exist_ok=True)
    _write(entry / "refs" / "main", commit)
    _write(marker, key)
    return True


def _there(folder: Path) -> list[str]:
    named = sorted(file.name for file in (folder / _TEMPLATES).glob("*.jinja"))
    return [name for name in _COPIED if (folder / name).is_file()] + [f"{_TEMPLATES}/{name}" for name in named]


def _write(file: Path, text: str) -> None:
    """Write a small file atomically: other servers may write the same one."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as out:
        out.write(text)
    os.replace(out.name, file)
