"""Messages that a model reads about a paper, and the lines of prompt files that a search may put before it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tinsmith.lab.labels.paper import Paper
from tinsmith.lab.labels.prompt_files import PROMPTS
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role

UNKNOWN: Final = "unknown"
"""What a prompt says where the record has nothing."""
_KEY: Final = re.compile(r'["{]')
"""Beginning of a line of an answer; nothing of it is wrapped."""
_BEGINS: Final = re.compile(rf"- |\d+\. |{_KEY.pattern}")
"""The same, or an entry of a list."""


def messages(task: Task, paper: Paper) -> tuple[Message, ...]:
    """Return the conversation before the first answer: a system message, if the prompt has one, and the user's."""
    prompt = task.loaded_prompt()
    user = Message(role=Role.USER, content=prompt.user.fill(shown(paper)))
    if prompt.system is None:
        return (user,)
    return (Message(role=Role.SYSTEM, content=prompt.system), user)


def shown(paper: Paper) -> dict[str, str]:
    """Return the text of every placeholder that a paper fills."""
    return {
        "title": paper.title,
        "abstract": paper.abstract,
        "year": UNKNOWN if paper.year is None else str(paper.year),
        "citations": UNKNOWN if paper.citations is None else str(paper.citations),
        "field": paper.field or UNKNOWN,
        "concepts": ", ".join(paper.concepts) or UNKNOWN,
    }


def bank_of(task: Task) -> tuple[str, ...]:
    """Return every line that a prompt file of a task about one subject has and the task's own has not, each once.

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
