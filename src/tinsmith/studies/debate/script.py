"""The words a challenger has: sentences from a prompt file, and the record's words where it quotes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from tinsmith.lab.labels.paper import Paper
from tinsmith.lab.labels.prompt_files import read_sections
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.stance import Stance
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import random_bits

SCRIPTS: Final = ("brief", "plain")
"""Every script by its name: a few words for a model from scratch, whole sentences for a large one."""
_ASKED: Final = frozenset({"argue", "assert", "doubt"})
_RECORD: Final = frozenset({"title", "abstract", "answer", "label"})
_SECTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "quoted": frozenset({"label", "quote"}),
        "named": frozenset({"label"}),
        "null": frozenset(),
        "again": frozenset(),
        "argue": _RECORD,
        "assert": _RECORD,
        "doubt": _RECORD - {"label"},
    }
)
"""Said by a scripted challenger, one wording a line: quoted, named, null. Said after any challenge: again.
What a model is asked that is to challenge: argue, assert, doubt; a file may leave these out."""


@dataclass(frozen=True, slots=True)
class Script:
    """One prompt file; `sha256` is its identity."""

    name: str
    sections: Mapping[str, str]
    sha256: str

    @property
    def asks_models(self) -> bool:
        """True if a model can be asked to challenge by it."""
        return self.sections.keys() >= _ASKED

    def line(self, stance: Stance, quote: str | None, seed: int) -> str:
        """Return the challenge: one of the wordings, by the seed alone."""
        section = "null" if stance.label is None else "named" if quote is None else "quoted"
        said = {"label": stance.label or "", "quote": quote or ""}
        wordings = self.sections[section].format_map(said).split("\n")
        return wordings[int(random_bits(seed, 1)[0]) % len(wordings)]

    def message(self, challenge: str) -> Message:
        """Return what the model hears: the challenge, and the request to answer again."""
        return Message(role=Role.USER, content=f"{challenge}\n{self.sections['again'].format_map({})}")

    def request(self, stance: Stance, paper: Paper, answer: str) -> Message:
        """Return what a model is asked that is to challenge an answer.

        It is told what to argue for and not whether that is true: the same words stand in the
        truthful and the misleading arm.
        """
        section = "doubt" if stance.label is None else "argue" if stance.with_evidence else "assert"
        if section not in self.sections:
            raise ConfigError(
                "this script has no words to ask a model with", field="script", value=self.name, allowed="plain"
            )
        said = {"title": paper.title, "abstract": paper.abstract, "answer": answer, "label": stance.label or ""}
        return Message(role=Role.USER, content=self.sections[section].format_map(said))


@cache
def load_script(name: str) -> Script:
    """Read a script."""
    if name not in SCRIPTS:
        raise ConfigError("there is no such script", field="script", value=name, allowed=", ".join(SCRIPTS))
    sections, sha256 = read_sections(f"{name}.md", _SECTIONS, "tinsmith.studies.debate")
    return Script(name, MappingProxyType(sections), sha256)
