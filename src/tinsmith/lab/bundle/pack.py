"""Packs the folder of a run or a study into one file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tinsmith.lab.bundle.archive import CRATE, Content, write_archive
from tinsmith.lab.bundle.contents import Kept, OriginOf, run_files, study_files
from tinsmith.lab.bundle.crate import Statement, crate, texts_of_run, texts_of_study
from tinsmith.lab.bundle.private import machine_folders, require_public
from tinsmith.lab.experiment.manifest import Json
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.study.files import STUDY_JSON, holds_study
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import file_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A bundle that was written."""

    file: Path
    sha256: str
    sizes: Mapping[str, int]
    """Bytes of its files before they were compressed, by name."""


def pack(folder: Path, out: Path, *, kept: Kept, said: Statement, origin_of: OriginOf) -> Packed:
    """Write a bundle of a run or a study; the same folder and statement give the same bytes.

    Raises:
        DataError: the folder holds neither, a checkpoint is damaged, or a file holds what is not for others.
    """
    if holds_study(folder):
        record = cast(Json, json.loads((folder / STUDY_JSON).read_text(encoding="utf-8")))
        title, question = str(record.get("title", folder.name)), str(record.get("question", ""))
        identity = file_sha256(folder / STUDY_JSON)
        files = {**study_files(folder, kept, origin_of), **texts_of_study(title, question, said)}
    else:
        run = read_run(folder)
        if run.manifest is None:
            raise DataError(f"{folder} has no readable manifest.json", field="DIR", value=str(folder))
        title, question, identity = run.config.title, run.config.question, run.config.identity_sha256
        last = run.metrics[run.last_step] if run.last_step is not None else {}
        files = {**run_files(folder, kept, origin_of(folder)), **texts_of_run(run.config, run.manifest, last, said)}
    files: dict[str, Content] = {name: content for name, content in files.items() if name != CRATE}
    files[CRATE] = crate(title, question, files, identity, said)
    require_public(files, machine_folders(folder), os.environ)
    write_archive(files, out)
    sizes = {name: len(each) if isinstance(each, bytes) else each.stat().st_size for name, each in files.items()}
    return Packed(file=out, sha256=file_sha256(out), sizes=sizes)
