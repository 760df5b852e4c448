"""How the study of SFT against RL is asked to search a prompt as well, and how far that search goes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tinsmith.lab.experiment.key_text import truth
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.study.keys import count
from tinsmith.studies.sft_vs_rl.keys import PROMPT_SEARCH, SFT_VS_RL_KEYS
from tinsmith.types.errors import ConfigError

_OWN: Final = ("search_steps", "search_batch", "search_candidates", "search_gate")


def asked_search(given: Mapping[str, str], *, papers: int) -> SearchSettings | None:
    """Read how a prompt is to be searched, to look at `papers` or more; None: it is not.

    Raises:
        ConfigError: a value cannot be read, or says how to search where nothing is searched.
    """
    if not truth(PROMPT_SEARCH, SFT_VS_RL_KEYS.value(given, PROMPT_SEARCH)):
        for key in _OWN:
            if key in given:
                raise ConfigError(
                    "no prompt is searched", field=key, value=given[key], fix=f"give {PROMPT_SEARCH}=true as well"
                )
        return None
    batch, candidates, gate = (count(key, SFT_VS_RL_KEYS.value(given, key), 1) for key in _OWN[1:])
    enough = -(-papers // (batch * (1 + candidates)))
    return SearchSettings(
        steps=count(_OWN[0], given.get(_OWN[0], str(enough)), 1), batch=batch, candidates=candidates, gate=gate
    )


def told_search(search: SearchSettings) -> dict[str, object]:
    """Return what of a search decides results, beside its seed."""
    names = [name for name in search.__struct_fields__ if name != "seed"]
    return {f"search/{name}": getattr(search, name) for name in names}
