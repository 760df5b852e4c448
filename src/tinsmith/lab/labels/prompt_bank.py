"""The lines of a subject's own prompt files, of which a search for a better prompt may make one.

What is wrapped in a file is one line here. A line that the task's prompt says already is left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tinsmith.lab.labels.prompt_files import PROMPTS
from tinsmith.lab.labels.task import Task

_KEY: Final = re.compile(r'["{]')
"""How a line of an answer begins; nothing of it is wrapped."""
_BEGINS: Final = re.compile(rf"- |\d+\. |{_KEY.pattern}")
"""The same, or an entry of a list."""


def bank_of(task: Task) -> tuple[str, ...]:
    """Return every line that a prompt file of a task about one subject says to the model, each once.

    >>> from tinsmith.lab.labels.task import make_task
    >>> bank_of(make_task("disruption", prompt="brief", contract="two_key"))[-1][:18]
    '{"disruption_label'
    """
    own = set(_lines(task.loaded_prompt().system))
    found = dict.fromkeys(
        line for name in PROMPTS for line in _lines(replace(task, prompt=name, prompt_lines=()).loaded_prompt().system)
    )
    return tuple(line for line in found if line not in own)


def _lines(text: str | None) -> list[str]:
    """Undo the wrapping: a line ends with its paragraph, its sentence's or its list's entry."""
    found: list[str] = []
    for paragraph in (text or "").split("\n\n"):
        ended = True
        for part in filter(None, map(str.strip, paragraph.split("\n"))):
            if ended or _BEGINS.match(part) or _KEY.match(found[-1]):
                found.append(part)
            else:
                found[-1] += f" {part}"
            ended = part.endswith((".", ":", "?"))
    return found
