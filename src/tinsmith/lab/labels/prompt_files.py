"""The prompt files: Markdown with named sections and `{placeholders}`, read once and fingerprinted.

A file holds sections, each under a line `# name`; blank lines around a section do not count. A
placeholder is a bare name; what may stand in one is checked when the file is read, so that a prompt
cannot ask for anything that is not listed here. A brace is written as `{{` or `}}`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from string import Formatter
from types import MappingProxyType
from typing import Final

from tinsmith.lab.labels.contracts import Confidence, Contract, Subject
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import sha256_of

PROMPTS: Final = ("plain", "ontology", "checklist", "brief", "short")
"""Every prompt by its name; each subject has a file for each."""
JOINT_PROMPTS: Final = ("plain", "brief")  # Every prompt that asks for the labels of all subjects at once.

SHOWN_OF_A_PAPER: Final = frozenset({"title", "abstract", "year", "citations", "field", "concepts"})
"""Placeholders that a paper fills: everything of a paper that a prompt may contain."""


def _sections(sections: frozenset[str]) -> Mapping[str, frozenset[str]]:
    metadata = {"year", "citations"}
    users = {"user": SHOWN_OF_A_PAPER, "user_without_metadata": SHOWN_OF_A_PAPER - metadata}
    return MappingProxyType({"system": sections | {"answer"}, **users, "answer": sections})


_SECTIONS: Final = _sections(frozenset({"labels", "label_key", "confidences", "example"}))
"""Sections by name, with their allowed placeholders; the contract fills those that a paper does not."""
_JOINT_SECTIONS: Final = _sections(
    frozenset({"confidences", *(f"{s}_{k}" for s in Subject for k in ("labels", "key"))})
)
_SECTION: Final = re.compile(r"^# (\w+)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task's messages to a model, the contract's part filled in, the paper's part open."""

    system: str | None
    user: str  # Values for `str.format_map`: they are put in as they are, braces and all.
    sha256: str  # Over the bytes of the files that took part, the sections that are said, and the contract's words.


def load_prompt(name: str, contract: Contract, *, with_metadata: bool, lines: tuple[str, ...] = ()) -> Prompt:
    """Read the prompt for a contract; without metadata it contains neither year nor citations.

    The lines stand before the paper, as they are.
    """
    known = PROMPTS if len(contract.subjects) == 1 else JOINT_PROMPTS
    if name not in known:
        raise ConfigError("no such prompt", field="prompt", value=name, allowed=known)
    loaded = _load(name, contract, with_metadata)
    if not lines:
        return loaded
    head = "".join(f"{line}\n" for line in lines).replace("{", "{{").replace("}", "}}")
    return replace(loaded, user=head + loaded.user, sha256=sha256_of([loaded.sha256, list(lines)]))


@cache
def _load(name: str, contract: Contract, with_metadata: bool) -> Prompt:
    allowed = _SECTIONS if len(contract.subjects) == 1 else _JOINT_SECTIONS
    sections, sha256 = read_sections(f"{contract.about}/{name}.md", allowed)
    part = "user" if with_metadata else "user_without_metadata"
    system = sections.get("system")
    answer_sha256 = None
    filled = None
    if system is not None:
        values = _words_of(contract)
        answers, answer_sha256 = read_sections(f"answers/{contract.form}.md", allowed)
        filled = system.format_map({**values, "answer": answers["answer"].format_map(values)})
    identity = [sha256, answer_sha256, part, contract.name, filled]
    return Prompt(system=filled, user=sections[part], sha256=sha256_of(identity))


def _words_of(contract: Contract) -> dict[str, str]:
    values = {"confidences": _listed(tuple(Confidence))}
    if len(contract.subjects) == 1:
        values["labels"] = _listed(contract.labels)
        values["label_key"] = contract.subjects[0].label_key
        values["example"] = contract.answer_text(contract.labels[-1], Confidence.MEDIUM)
        return values
    for subject in contract.subjects:
        values |= {f"{subject}_labels": _listed(subject.labels), f"{subject}_key": subject.label_key}
    return values


def _listed(words: tuple[str, ...]) -> str:
    quoted = [f'"{word}"' for word in words]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def read_sections(
    path: str, allowed: Mapping[str, frozenset[str]] = _SECTIONS, package: str = "tinsmith.lab.labels"
) -> tuple[dict[str, str], str]:
    """Return the sections of a file of a package's prompts folder, and the SHA-256 of its bytes."""
    content = files(package).joinpath("prompts", *path.split("/")).read_bytes()
    return parse_sections(content.decode(), path, allowed), hashlib.sha256(content).hexdigest()


def parse_sections(text: str, path: str, allowed: Mapping[str, frozenset[str]] = _SECTIONS) -> dict[str, str]:
    """Split a prompt file into its sections; `allowed` has every section with its placeholders."""
    before, *rest = _SECTION.split(text)
    names = rest[::2]
    if before.strip() or len(set(names)) != len(names) or not set(names) <= set(allowed):
        what = f"prompts/{path}: every line stands in one section"
        fix = "begin each section with a line `# name`, each name once"
        raise ConfigError(what, field="sections", value=names, allowed=allowed, fix=fix)
    sections = {name: body.strip("\n") for name, body in zip(names, rest[1::2], strict=True)}
    for name, body in sections.items():
        if unknown := sorted(_placeholders(body, path) - allowed[name]):
            what = f"prompts/{path}: section {name} asks for what it must not have"
            raise ConfigError(what, field="placeholder", value=unknown[0], allowed=sorted(allowed[name]))
    return sections


def _placeholders(body: str, path: str) -> set[str]:
    names: set[str] = set()
    try:
        parsed = list(Formatter().parse(body))
    except ValueError as error:
        raise ConfigError(f"prompts/{path}: {error}", fix="write a brace as {{ or }}") from None
    for _, name, spec, conversion in parsed:
        if name is not None:
            if spec or conversion or not name.isidentifier():
                raise ConfigError(f"prompts/{path}: a placeholder is a bare name", field="placeholder", value=name)
            names.add(name)
    return names
