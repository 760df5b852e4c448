"""What `taste/probe` is asked for: which pairs, which model, and where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.experiment.key_text import truth
from tinsmith.lab.study.keys import DRY_RUN, StudyKey, StudyKeys
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.studies.taste.settings import PairSettings, pair_settings
from tinsmith.studies.taste.task import CARD, pair_keys, require_corpus
from tinsmith.types.errors import ConfigError

PROBE: Final = "taste/probe"
QUESTION: Final = "What does a base model hold of it before any training, read off its hidden states by a line?"
_MOST: Final[Mapping[str, str]] = {"pairs": "2500", "validation_pairs": "800", "test_pairs": "800"}
"""Defaults that are smaller than the task's: every title goes through the model."""


def _default(key: OwnKey) -> str:
    return _MOST.get(key.name, shown_value(key.default))


PROBE_KEYS: Final = StudyKeys(
    own=(
        StudyKey("data", "", "The corpus: a folder of tinsmith data build."),
        StudyKey("model", "smollm2", "Whose hidden states: as for tinsmith serve --model."),
        StudyKey("out", "runs/taste-probe", "The folder that it is written to."),
        *(StudyKey(key.name, _default(key), key.words) for key in pair_keys()),
        DRY_RUN,
    ),
    more="The layer, and how states are pooled, are chosen on the validation pairs.",
)
"""What it can be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """See the module."""

    data: Path
    model: str
    out: Path
    pairs: PairSettings
    dry_run: bool


def probe_settings(given: Mapping[str, str]) -> ProbeSettings:
    """Read `key=value` texts.

    Raises:
        ConfigError: an unknown key, a value that is not allowed, or no corpus.
    """
    PROBE_KEYS.require(given)
    values = {key.name: key.read(PROBE_KEYS.value(given, key.name)) for key in pair_keys()}
    pairs = pair_settings(**values)
    if pairs.validation_pairs < 1:
        raise ConfigError(
            "the layer is chosen on validation pairs",
            field="validation_pairs",
            value=pairs.validation_pairs,
            allowed="1 or more",
        )
    out = Path(PROBE_KEYS.value(given, "out"))
    if (out / CARD).is_file():
        raise ConfigError("this folder holds a corpus", field="out", value=str(out))
    return ProbeSettings(
        data=require_corpus(PROBE_KEYS.value(given, "data")),
        model=PROBE_KEYS.value(given, "model"),
        out=out,
        pairs=pairs,
        dry_run=truth("dry_run", PROBE_KEYS.value(given, "dry_run")),
    )
