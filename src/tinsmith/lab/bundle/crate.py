"""The metadata of a bundle: RO-Crate 1.2 metadata, a model card that the hub reads, a data card, a citation.

Written by hand and not by `rocrate`, whose metadata has the time of writing in it: equal runs are to give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, cast

from tinsmith.lab.bundle.archive import CRATE, Content
from tinsmith.lab.experiment.manifest import Json
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.records import Config, Manifest
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.version import VERSION

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
"""Metrics of the last step that a model card shows."""
_SUPERVISED: Final = (Kind.SFT, Kind.TASK_SFT)
_HUB: Final = {"tinsmith/smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Names on the hub of models that come in packages of the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The statements of whoever packs a bundle."""

    authors: tuple[str, ...]
    license: str
    """Of the bundle, an SPDX identifier or words."""
    data_license: str | None
    """Of the data; None: they are not in it."""
    date: str
    """Of publication, YYYY-MM-DD."""


def texts_of_run(
    config: Config, manifest: Manifest, metrics: Mapping[str, float | None], said: Statement
) -> dict[str, bytes]:
    """Return the model card, the data card and the citation of a run."""
    texts = {
        CARD: _model_card(config, manifest, metrics, said),
        DATA_CARD: _data_card(config, said),
        CITATION: _citation(config.title, config.question, said),
    }
    return {name: text.encode() for name, text in texts.items()}


def texts_of_study(title: str, question: str, said: Statement) -> dict[str, bytes]:
    """Return the card and the citation of a study."""
    card = f"# {title}\n\n{question}\n\n{_CHECK_STUDY}\n"
    return {CARD: card.encode(), CITATION: _citation(title, question, said).encode()}


_CHECK: Final = """## Check it
```
pip install tinsmith
tinsmith audit FILE.zip              # the file against itself, and three steps of your choice computed again
tinsmith replay FILE.zip             # all of it once more
tinsmith unpack FILE.zip DIR         # the run's folder; report.html is its page
tinsmith export DIR --to peft --out ADAPTER
```"""
_CHECK_STUDY: Final = """## Check it
```
pip install tinsmith
tinsmith unpack FILE.zip DIR         # index.html is the study's page; below it lie its runs
tinsmith audit DIR/RUN
```"""


def _model_card(config: Config, manifest: Manifest, metrics: Mapping[str, float | None], said: Statement) -> str:
    named = str(manifest.circumstances.get("model_name") or config.model_name)
    base = _HUB.get(config.model_name, named)  # as it was served, whichever of its names was given
    kind = "sft" if config.kind in _SUPERVISED else "reinforcement-learning"
    adapter = str(config.settings.get("adapter", "lora"))
    front = {"license": said.license, "library_name": "peft", "tags": ["tinsmith", adapter, kind]}
    if "/" in base and not base.startswith("tinsmith/"):
        front = {"base_model": base, **front}
    shown = {name: value for name, value in metrics.items() if name.startswith(("test", "eval")) and value is not None}
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in sorted(shown.items())[:_FIGURES])
    model = cast(Json, manifest.identity.get("model") or {})
    hashes = "\n".join(f"- {name}: `{value}`" for name, value in sorted(manifest.hashes.items()))
    parts = (
        f"---\n{_yaml(front)}---",
        f"# {config.title}",
        config.question,
        f"An adapter ({adapter}, rank {config.settings.get('lora_rank')}) on `{base}`, made by tinsmith {VERSION}; "
        f"fingerprint of the base's weights: `{model.get('fingerprint')}`.",
        f"## Last figures\n| metric | value |\n|---|---|\n{rows}" if rows else "",
        f"## Identity\nThe same identity gives the same bits: `{manifest.identity_sha256}`.\n\n{hashes}",
        _CHECK,
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _data_card(config: Config, said: Statement) -> str:
    data = config.data
    counts = {"training": data.train, "validation": data.validation, "test": data.test}
    rows = "\n".join(f"- {name}: {count:,} items" for name, count in counts.items() if count is not None)
    there = (
        f"The data are in this bundle; their licence: {said.data_license}."
        if said.data_license
        else "The data are not in this bundle: they come with the package, are made by the task's source, or are named "
        "when it is checked (`data=DIR`). The fingerprint says whether they are the same."
    )
    return f"# Data of {config.title}\n\nFingerprint: `{data.fingerprint}`\n\n{rows}\n\n{there}\n"


def _citation(title: str, abstract: str, said: Statement) -> str:
    fields = {
        "cff-version": "1.2.0",
        "message": "If you use this run, please cite it as below.",
        "type": "dataset",
        "title": title,
        "abstract": abstract,
        "authors": [{"name": name} for name in said.authors],
        "date-released": said.date,
        "keywords": ["tinsmith", "reproducible post-training"],
    }
    # CITATION.cff must name a licence of SPDX's list, or none.
    return _yaml({name: value for name, value in fields.items() if value})


def _yaml(fields: Mapping[str, object]) -> str:
    """Return fields as YAML, whose flow style is JSON."""
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


def crate(title: str, question: str, files: Mapping[str, Content], identity: str, said: Statement) -> bytes:
    """Return the RO-Crate metadata of these files."""
    listed = [_file(name, files[name]) for name in sorted(files)]
    people = [
        {"@id": f"#author-{number}", "@type": "Person", "name": name} for number, name in enumerate(said.authors, 1)
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
        "datePublished": said.date,
        "license": said.license,
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
