"""Rollouts of a page's browser, as JSON that can stand inside HTML whatever a model wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence

from markupsafe import Markup

from tinsmith.lab.results.gathering import SHOWN, Gathered
from tinsmith.lab.runs.records import SPLIT_WORDS, RolloutRecord, Split
from tinsmith.pages.document import Browser
from tinsmith.pages.palette import class_slot
from tinsmith.pages.wording import counted

LONGEST = 4000
"""Characters of one text; what is longer is cut."""
_BEFORE = ("step", "split", "prompt_id", "sample", "gold", "predicted", "outcome", "confidence", "total", "advantage")
COLUMNS = (*_BEFORE, "terms", "text", "failure")


def browser(gathered: Gathered, labels: Sequence[str]) -> Browser | None:
    """Return the browser's content; None where there is no rollout."""
    if not gathered.shown:
        return None
    payload = {
        "labels": list(labels),
        "slots": [class_slot(label, place) for place, label in enumerate(labels)],
        "splits": {one.value: f"{'test, ' * one.value.startswith('test')}{SPLIT_WORDS[one]}" for one in Split},
        "columns": COLUMNS,
        "rows": [_row(one) for one in gathered.shown],
    }
    rule = f"All {counted(gathered.rollouts, 'rollout')} of the run are here."
    if gathered.rollouts > len(gathered.shown):
        rule = (
            f"{len(gathered.shown):,} of the run's {gathered.rollouts:,} rollouts are here (at most {SHOWN:,}): in "
            "turn one of every split, true label and result, within each by a hash of its place, so that rare "
            "results are complete and frequent ones are a sample. Shares among them are not those of the run."
        )
    return Browser(data=Markup(embedded(payload)), rule=rule, shown=len(gathered.shown))


def embedded(value: object) -> str:
    """Return JSON in which nothing can end a script element or begin a comment, an entity or a line."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Inside JSON these can only stand in strings, where an escape means the same.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _row(one: RolloutRecord) -> list[object]:
    text = one.text if len(one.text) <= LONGEST else one.text[:LONGEST] + " [cut]"
    failure = [one.failure.where, one.failure.what[:LONGEST]] if one.failure else None
    return [*(getattr(one, name) for name in _BEFORE), one.terms, text, failure]
