"""Published pages of studies: values, seconds and what their authors add, as they are kept in docs/results/values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from tinsmith.lab.study.record import Seconds, StudyRecord
from tinsmith.lab.study.report import page_of_study
from tinsmith.pages.markdown import document_markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPage:
    """A published page: values, seconds, and what its author adds."""

    provenance: str
    results: StudyRecord
    seconds: Mapping[str, Seconds]
    remarks: Sequence[str] = ()


def read_kept(text: str) -> KeptPage:
    """Return what a values file holds."""
    return msgspec.json.decode(text.encode(), type=KeptPage)


def kept_text(page: KeptPage) -> str:
    """Return the text of a values file."""
    plain = cast(dict[str, object], msgspec.to_builtins(page))
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def kept_markdown(page: KeptPage) -> str:
    """Return the published page of kept values."""
    closing = "\n".join(page.remarks)
    return document_markdown(page_of_study(page.results, page.seconds)) + (f"\n{closing}\n" if closing else "")
