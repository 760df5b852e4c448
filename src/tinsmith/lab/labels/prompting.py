"""From a task and a paper to the messages a model reads."""

from __future__ import annotations

from tinsmith.lab.labels.paper import Paper
from tinsmith.lab.labels.task import Task
from tinsmith.renderers.renderer import Message, Role

UNKNOWN = "unknown"
"""What a prompt says where the record has nothing."""


def messages(task: Task, paper: Paper) -> tuple[Message, ...]:
    """Return the conversation before the first answer: a system message, if the prompt has one, and the user's.

    Raises:
        InputError: the paper's text has lone surrogates.
    """
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
