"""Packing of a run or study into one file, with its inputs and without private data.

The metadata are RO-Crate 1.2 metadata, a model card that the hub reads, a data card, a citation. Written by hand and
not by `rocrate`, whose metadata has the time of writing in it: equal runs are to give equal bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final, cast

from tinsmith.engine.checkpoint_files import MARKER, marker_without_place
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.lab.bundle.archive import CRATE, Content, write_archive
from tinsmith.lab.experiment.manifest import HERE, Json
from tinsmith.lab.experiment.replay import PlanOf, changes_of
from tinsmith.lab.runs.files import CHECKPOINTS, CONFIG, GROWING, MANIFEST, REPORT, STATE, WHOLE, Kind, holds_run
from tinsmith.lab.runs.folder import RunFolder, best_of, damage
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Config, Manifest, Run
from tinsmith.lab.study.files import STUDY_JSON, holds_study
from tinsmith.lab.user_task.functions import modules_beside
from tinsmith.models.staging import present
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.home import home
from tinsmith.types.source import PACKAGE
from tinsmith.types.version import VERSION


def pack(folder: Path, out: Path, *, which: Checkpoints, statement: Statement, origin_of: OriginOf) -> dict[str, int]:
    """Write a bundle of a run or a study; the same folder and statement give the same bytes.

    Returns:
        Bytes of its files before they were compressed, by name.

    Raises:
        DataError: the folder holds neither, a checkpoint is damaged, or a file holds what is not for others.
    """
    if holds_study(folder):
        record = cast(Json, json.loads((folder / STUDY_JSON).read_text(encoding="utf-8")))
        title, question = str(record.get("title", folder.name)), str(record.get("question", ""))
        identity = file_sha256(folder / STUDY_JSON)
        files, texts = (study_files(folder, which, origin_of), {CARD: f"# {title}\n\n{question}\n\n{_CHECK_STUDY}\n"})
    else:
        run = read_run(folder)
        if run.manifest is None:
            raise DataError(f"{folder} has no readable manifest.json", field="DIR", value=str(folder))
        title, question, identity = run.config.title, run.config.question, run.config.identity_sha256
        last = run.metrics[run.last_step] if run.last_step is not None else {}
        files = run_files(folder, which, origin_of(folder))
        texts = {
            CARD: _model_card(run.config, run.manifest, last, statement),
            DATA_CARD: _data_card(run.config, statement),
        }
    texts[CITATION] = _citation(title, question, statement)
    files |= {name: text.encode() for name, text in texts.items()}
    files.pop(CRATE, None)
    files[CRATE] = crate(title, question, files, identity, statement)
    require_public(files, machine_folders(folder), os.environ)
    write_archive(files, out)
    return {name: len(each) if isinstance(each, bytes) else each.stat().st_size for name, each in files.items()}


SOURCE: Final = "source"
DATA: Final = "data"
_ITEMS: Final = ("items", "held_out", "tested", "base_items")
"""Fields of a task that may name a file."""


def source_of_file(file: Path) -> dict[str, Path]:
    """Return a task's file and the modules beside it that it imports, by their names in a bundle."""
    every = [file, *modules_beside(file, file.read_bytes()).values()]
    return {f"{SOURCE}/{each.relative_to(file.parent).as_posix()}": each for each in every}


def data_of(run: Run, around: Json, plan_of: PlanOf) -> dict[str, Path]:
    """Return a run's data files by their names in a bundle; none where the package or the task's source makes them.

    `around` are its circumstances, with paths in full.
    """
    files: dict[str, Path] = {}
    if isinstance(place := around.get("data_folder"), str):
        if not Path(place).is_dir():
            raise DataError("the run's data are no longer there", field="data", value=place)
        files |= {f"{DATA}/slice/{each.name}": each for each in sorted(Path(place).iterdir()) if each.is_file()}
    for key, value in cast(Json, around.get("files") or {}).items():
        if value:
            files[f"{DATA}/{key}/{Path(str(value)).name}"] = Path(str(value))
    task = str(around.get("task") or "")
    if ".py" in task:
        opened = plan_of(task, changes_of(run, around, None, {})).experiment.subject
        assert opened.source is not None, "it was opened from a file"
        folder = opened.source.folder
        for name in _ITEMS:
            if isinstance(items := getattr(opened.task, name), str | Path):
                file = folder / items
                # Beside the task's source, which looks for it there.
                if file.is_relative_to(folder):
                    files[f"{SOURCE}/{file.relative_to(folder).as_posix()}"] = file
    for name, file in files.items():
        if not file.is_file():
            raise DataError("this file of the run's data is no longer there", field=name, value=str(file))
    return files


_NAMED: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of environment variables that hold secrets."""
_SHORTEST: Final = 8
"""Least length of a secret: a shorter value occurs in texts by chance."""
_SECRETS: Final = {
    "a key of a Tinker server": rb"\btml-[A-Za-z0-9_-]{16,}",
    "a key of an endpoint": rb"\bsk-[A-Za-z0-9_-]{20,}",
    "a token of the hub": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of a code host": rb"\b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{20,}",
    "a key of a cloud": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of a chat": rb"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a password in an address": rb"://[^/\s:@\"']+:[^/\s@\"']+@",
    "an authorization": rb"(?i)\bauthorization\b[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}",
}
_PATTERNS: Final = {name: re.compile(pattern) for name, pattern in _SECRETS.items()}
_TEXT: Final = (".cff", ".csv", ".html", ".json", ".jsonl", ".md", ".py", ".toml", ".txt", ".yaml", ".yml")
_CHUNK: Final = 1 << 20
_FEW_ZEROS: Final = 4096
"""Bytes of a text that a zero byte may stand in. Numbers have more, and make any pattern by chance."""
_LONGEST_HEADER: Final = 100 << 20  # Of safetensors, by their format.


def machine_folders(*others: Path) -> list[str]:
    """Return the folders of this machine that no path in a bundle may begin with, the longest first."""
    known = (Path.home(), Path.cwd(), home(), PACKAGE, Path(sys.prefix), *others)
    folders = {str(form) for each in known for form in (each.absolute(), each.resolve())}
    return sorted(folders - {"/", ""}, key=lambda each: (-len(each), each))


def require_public(files: Mapping[str, Content], folders: list[str], environment: Mapping[str, str]) -> None:
    """Reject files that contain a secret, or a path of this machine; the secret is not printed."""
    values = {
        spelled.encode(): name
        for name, value in sorted(environment.items())
        if _NAMED.search(name) and len(value) >= _SHORTEST and not os.path.exists(value)
        for spelled in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], escape(value))
    }
    exact = re.compile(b"|".join(map(re.escape, values))) if values else None
    # After a folder's name its path goes on, or ends; /home/anna is not in /home/annabel.
    paths = re.compile(b"(?:" + b"|".join(re.escape(each.encode()) for each in folders) + rb")(?![\w-])")
    for name in sorted(files):
        for number, line in _lines(name, files[name]):
            what = None
            if exact is not None and (found := exact.search(line)):
                what = f"the value of {values[found[0]]}"
            elif found := paths.search(line):
                what = f"a path of this machine, {found[0].decode()}"
            elif line.count(0) * _FEW_ZEROS <= len(line):
                what = next((each for each, pattern in _PATTERNS.items() if pattern.search(line)), None)
            if what is not None:
                raise DataError(
                    f"{name}, line {number}: {what} is not for others",
                    field=name,
                    allowed="files without keys, tokens, and paths of the machine they are from",
                    fix="take it out of what the run reads or is made of, and run it again",
                )


def _lines(name: str, content: Content) -> Iterator[tuple[int, bytes]]:
    """Yield a file's lines with their numbers; of a file that is no text pieces that overlap. Gzip is unpacked.

    The names and notes before a file's tensors, whose length stands first, are a line.
    """
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        of_tensors = name.endswith(".safetensors")
        if name.endswith(_TEXT) or (isinstance(content, bytes) and not of_tensors):
            yield from enumerate(stream, start=1)
            return
        if of_tensors:
            yield 1, stream.read(min(_LONGEST_HEADER, int.from_bytes(stream.read(8), "little")))
        before = b""
        while piece := stream.read(_CHUNK):
            yield 1, before + piece
            before = piece[-4096:]


_OF_STUDY: Final = (".html", ".json", ".jsonl", ".md")


class Checkpoints(StrEnum):
    """Checkpoints in a bundle."""

    ALL = "all"
    """All of them, so that any step can be recomputed from a nearby checkpoint."""
    LAST = "last"
    """The final adapter, and the selected one if it differs."""


OriginOf = Callable[[Path], Mapping[str, Path]]
"""Function from a run's folder to its input files elsewhere, by their names in the bundle."""


def study_files(folder: Path, which: Checkpoints, origin_of: OriginOf) -> dict[str, Content]:
    """Return the files of a study and of each of its runs, by their names in a bundle."""
    runs = sorted(each.parent for each in folder.rglob(CONFIG) if holds_run(each.parent))
    runs = [each for each in runs if (each / MANIFEST).is_file()]
    files: dict[str, Content] = {}
    for each in sorted(folder.rglob("*")):
        if each.is_file() and each.suffix in _OF_STUDY and not any(run in each.parents for run in runs):
            files[_name(each, folder)] = _without_places(each, {str(folder.absolute()): "."})
    for run in runs:
        prefix = _name(run, folder)
        files |= {f"{prefix}/{name}": content for name, content in run_files(run, which, origin_of(run)).items()}
    return files


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def run_files(folder: Path, which: Checkpoints, packed: Mapping[str, Path]) -> dict[str, Content]:
    """Return a run's files by their names in a bundle.

    Raises:
        DataError: a checkpoint that is to go along is damaged.
    """
    run = RunFolder(folder)
    files: dict[str, Content] = {name: folder / name for name in (*GROWING, *WHOLE) if (folder / name).is_file()}
    manifest = run.read_json(MANIFEST)
    around = cast(Json, manifest.get("circumstances") or {})
    moved = {str(path.absolute()): name for name, path in packed.items()}
    moved |= {str(Path(here).parent): str(PurePosixPath(name).parent) for here, name in moved.items()}
    now = {name: _placed(value, moved) for name, value in around.items()}
    places = {str(was): str(one) for was, one in zip(_leaves(around), _leaves(now), strict=True) if _is_place(was)}
    if "prices" in now:
        now["prices"] = None  # what a judge costs decides nothing
    if "data_folder" in now and any(name.startswith(f"{DATA}/") for name in packed):
        now["data"] = now["data_folder"]
    files[MANIFEST] = (json.dumps({**manifest, "circumstances": now}, indent=1, ensure_ascii=False) + "\n").encode()
    if REPORT in files:
        files[REPORT] = _without_places(folder / REPORT, {**places, str(folder.absolute()): folder.name})
    selected = run.manifest_of(manifest).selected
    paths = set[str]() if selected is None else {*selected.final_path.split(), *selected.sampler_path.split()}
    marks = [mark for mark in run.marks() if mark.here]
    marks = marks if which is Checkpoints.ALL else marks[-1:] if not paths else []
    files[CHECKPOINTS] = b"".join(run.lines_of(marks))
    paths.update(path for mark in marks for several in (mark.state_path, *best_of(mark)) for path in several.split())
    for path in sorted(paths):
        files |= _checkpoint(folder / STATE, path)
    return {**files, **packed}


def _checkpoint(state: Path, path: str) -> dict[str, Content]:
    """Return the files of a checkpoint; empty for a checkpoint on another server."""
    there = TinkerPath.parse(path).folder(state)
    if not there.exists():
        return {}
    if (fault := damage(state, [path])) is not None:
        raise DataError(fault, field="DIR", value=str(state.parent))
    name, folder = f"{STATE}/{_name(there, state)}", present(there)
    files: dict[str, Content] = {f"{name}/{each.name}": each for each in sorted(folder.iterdir()) if each.is_file()}
    return {**files, f"{name}/{MARKER}": marker_without_place(folder).encode()}


def _is_place(value: object) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        for each in cast(Json, value).values():
            yield from _leaves(each)
    else:
        yield value


def _placed(value: object, moved: Mapping[str, str]) -> object:
    """Return a circumstance without this machine's folders: its path in the bundle, or its name alone."""
    if isinstance(value, Mapping):
        return {name: _placed(each, moved) for name, each in cast(Json, value).items()}
    if not isinstance(value, str) or not Path(value).is_absolute():
        return value
    file, colon, function = value.partition(".py:")
    here = f"{file}.py" if colon else value
    return (f"{HERE}{moved[here]}" if here in moved else Path(here).name) + (f":{function}" if colon else "")


def _without_places(file: Path, places: Mapping[str, str]) -> Content:
    """Return a page without this machine's folders; any other file unchanged."""
    if file.suffix not in (".html", ".md"):
        return file
    text = file.read_text(encoding="utf-8")
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text.encode()


CARD: Final = "README.md"
DATA_CARD: Final = "DATA.md"
CITATION: Final = "CITATION.cff"
_FORMATS: Final = {
    ".cff": "application/yaml",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
    ".safetensors": "application/octet-stream",
}
_FIGURES: Final = 12
"""Metrics of the last step that a model card shows, those of the test and then a run's result first."""
_RESULTS: Final = ("/reward/total", "/macro_f1", "/score", "/pass_rate")
_SUPERVISED: Final = (Kind.SFT, Kind.TASK_SFT)
_HUB: Final = {"tinsmith/smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Hub names of models that are packages of the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Statements of the person who packs a bundle."""

    authors: tuple[str, ...]
    license: str
    """Of the bundle, an SPDX identifier or words."""
    data_license: str | None
    """License of the data; None if they are not included."""
    date: str
    """Of publication, YYYY-MM-DD."""


_CHECK: Final = """## Check it
```
pip install tinsmith
tinsmith audit FILE.zip              # the file against itself, and three steps of your choice computed again
tinsmith replay FILE.zip             # all of it once more
tinsmith unpack FILE.zip DIR         # the run's folder; report.html is its page
tinsmith export DIR --to peft --out ADAPTER     # --base MODEL, where the base lies elsewhere than below
```"""
_CHECK_STUDY: Final = """## Check it
```
pip install tinsmith
tinsmith unpack FILE.zip DIR         # index.html is the study's page; below it lie its runs
tinsmith audit DIR/RUN
```"""


def _model_card(config: Config, manifest: Manifest, metrics: Mapping[str, float | None], statement: Statement) -> str:
    named = str(manifest.circumstances.get("model_name") or config.model_name)
    base = _HUB.get(config.model_name, named)  # as it was served, whichever of its names was given
    kind = "sft" if config.kind in _SUPERVISED else "reinforcement-learning"
    adapter = str(config.settings.get("adapter", "lora"))
    is_full = adapter == AdapterKind.FULL.value
    made = "All weights, trained" if is_full else f"An adapter ({adapter}, rank {config.settings.get('lora_rank')})"
    library = "transformers" if is_full else "peft"
    front = {"license": statement.license, "library_name": library, "tags": ["tinsmith", adapter, kind]}
    if "/" in base and not base.startswith("tinsmith/"):
        front = {"base_model": base, **front}
    shown = {name: value for name, value in metrics.items() if name.startswith(("test", "eval")) and value is not None}
    result = sorted(shown, key=lambda name: (not name.startswith("test"), not name.endswith(_RESULTS), name))
    rows = "\n".join(f"| {name} | {shown[name]:.4g} |" for name in result[:_FIGURES])
    model = manifest.model
    hashes = "\n".join(f"- {name}: `{value}`" for name, value in sorted(manifest.hashes.items()))
    parts = (
        f"---\n{_yaml(front)}---",
        f"# {config.title}",
        config.question,
        f"{made} on `{base}`, made by tinsmith {VERSION}; "
        f"fingerprint of the base's weights: `{model.get('fingerprint')}`.",
        f"## Last figures\n| metric | value |\n|---|---|\n{rows}" if rows else "",
        f"## Identity\nThe same identity gives the same bits: `{manifest.identity_sha256}`.\n\n{hashes}",
        _CHECK.replace("--to peft --out ADAPTER", "--to merged --out MODEL") if is_full else _CHECK,
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _data_card(config: Config, statement: Statement) -> str:
    data = config.data
    counts = {"training": data.train, "validation": data.validation, "test": data.test}
    rows = "\n".join(f"- {name}: {count:,} items" for name, count in counts.items() if count is not None)
    there = (
        f"The data are in this bundle; their licence: {statement.data_license}."
        if statement.data_license
        else "The data are not in this bundle: they come with the package, are made by the task's source, or are named "
        "when it is checked (`data=DIR`). The fingerprint says whether they are the same."
    )
    return f"# Data of {config.title}\n\nFingerprint: `{data.fingerprint}`\n\n{rows}\n\n{there}\n"


def _citation(title: str, abstract: str, statement: Statement) -> str:
    fields = {
        "cff-version": "1.2.0",
        "message": "If you use this run, please cite it as below.",
        "type": "dataset",
        "title": title,
        "abstract": abstract,
        "authors": [{"name": name} for name in statement.authors],
        "date-released": statement.date,
        "keywords": ["tinsmith", "reproducible post-training"],
    }
    # CITATION.cff must name a licence of SPDX's list, or none.
    return _yaml({name: value for name, value in fields.items() if value})


def _yaml(fields: Mapping[str, object]) -> str:
    """Return fields as YAML, whose flow style is JSON."""
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


def crate(title: str, question: str, files: Mapping[str, Content], identity: str, statement: Statement) -> bytes:
    """Return the RO-Crate metadata of these files."""
    listed = [_file(name, files[name]) for name in sorted(files)]
    people = [
        {"@id": f"#author-{number}", "@type": "Person", "name": name}
        for number, name in enumerate(statement.authors, 1)
    ]
    engine = {
        "@id": "#tinsmith",
        "@type": "SoftwareApplication",
        "name": "tinsmith",
        "version": VERSION,
        "url": f"pkg:pypi/tinsmith@{VERSION}",
    }
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": f"Run of {title}",
        "instrument": _ref("#tinsmith"),
        "result": [_ref(each["@id"]) for each in listed],
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": title,
        "description": question or title,
        "identifier": identity,
        "datePublished": statement.date,
        "license": statement.license,
        "author": [_ref(each["@id"]) for each in people],
        "hasPart": [_ref(each["@id"]) for each in listed],
        "mentions": [_ref("#run")],
    }
    described = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": _ref("https://w3id.org/ro/crate/1.2"),
        "about": _ref("./"),
    }
    graph: Sequence[Json] = (described, root, *people, engine, action, *listed)
    value = {"@context": "https://w3id.org/ro/crate/1.2/context", "@graph": graph}
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _ref(name: object) -> dict[str, object]:
    return {"@id": name}


def _file(name: str, content: Content) -> dict[str, object]:
    here = isinstance(content, Path)
    return {
        # A per cent sign of a name is written as such in an IRI.
        "@id": name.replace("%", "%25").replace(" ", "%20"),
        "@type": "File",
        "name": name,
        "encodingFormat": _FORMATS.get(PurePosixPath(name).suffix, "application/octet-stream"),
        "contentSize": str(content.stat().st_size if here else len(content)),
        "sha256": file_sha256(content) if here else hashlib.sha256(content).hexdigest(),
    }
