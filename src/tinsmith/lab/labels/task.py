"""Task of labelling papers: prompts, papers with labels, and the leak check.

The check stops a run whose prompt holds what the model is to find out, the gold label or a score behind it. Three
checks on every prompt that is rendered. It consists of the prompt file's words and the paper's own fields, nothing
else. None of the paper's own scores stands in it, as a long number anywhere or as a shorter one behind a caption ("CD
index: 0.31"); another number is no leak, and papers of the field itself speak of such scores. The paper's own label
does not stand behind its key. Label names alone are no leak: the instruction names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeVar

from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.contracts import FOUR_KEY, JOINT, NOVELTY_FOUR_KEY, Answer, Contract, Subject, contract_for
from tinsmith.lab.labels.prompt_files import PROMPTS, Prompt, load_prompt
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import CheckpointError, ConfigError, DataError
from tinsmith.types.fingerprints import LATER

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Task on one subject or several; vary it with `dataclasses.replace(task, prompt="ontology")`."""

    contract: Contract
    prompt: str = "plain"
    with_metadata: bool = True
    """True if the model is told the year and the citations. Both say something about the label that
    nobody knew when the paper came out."""
    prompt_lines: tuple[str, ...] = field(default=(), metadata=LATER)
    """Beginning of the user's message: a document as `lab/prompt_search` finds it."""

    def __post_init__(self) -> None:
        self.loaded_prompt()

    @property
    def name(self) -> str:
        """Its subject, or JOINT; in a run's folder and for `tinsmith data slice --task`."""
        return self.contract.about

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Subjects, in the order of the answer's keys; labels of papers have this order too."""
        return self.contract.subjects

    @property
    def alone(self) -> tuple[Task, ...]:
        """Single-subject tasks in the same order, whose rewards and scores are used."""
        if len(self.subjects) == 1:
            return (self,)
        every = (TASKS[subject.value] for subject in self.subjects)
        return tuple(replace(one, with_metadata=self.with_metadata) for one in every)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of every subject in their fixed order."""
        return self.contract.labels

    @property
    def prompt_sha256(self) -> str:
        """Identity of the task's own texts, without the papers'."""
        return self.loaded_prompt().sha256

    def loaded_prompt(self) -> Prompt:
        """Return the prompt for this contract."""
        return load_prompt(self.prompt, self.contract, with_metadata=self.with_metadata, lines=self.prompt_lines)

    def facts(self, golds: tuple[str, ...], answer: Answer) -> dict[str, object]:
        """Return an answer's fields in a rollout's line."""
        labels = answer.predicted_labels
        return {
            "outcome": answer.outcome.value,
            "gold": self.by_subject(golds),
            "predicted": None if labels is None else self.by_subject(labels),
            "confidence": answer.confidence,
        }

    def by_subject(self, values: Sequence[T]) -> T | dict[str, T]:
        """Return one value per subject in the form of files: a single one as it is, several by subject."""
        if len(self.subjects) == 1:
            return values[0]
        names = [subject.value for subject in self.subjects]
        return dict(zip(names, values, strict=True))

    def one_a_subject(self, value: object) -> list[object]:
        """Return the values in a mapping made by `by_subject`."""
        if len(self.subjects) == 1:
            return [value]
        names = [subject.value for subject in self.subjects]
        if not isinstance(value, Mapping) or set(value) != set(names):
            raise CheckpointError("this is no joint task's state", field="subjects", allowed=names)
        return [value[name] for name in names]

    def under(self, group: str, subject: Subject) -> str:
        """Return the prefix of a subject's metrics: `group`, or `group/SUBJECT` if there are several."""
        return group if len(self.subjects) == 1 else f"{group}/{subject}"


TASKS: Final[Mapping[str, Task]] = MappingProxyType(
    {task.name: task for task in (Task(contract=FOUR_KEY), Task(contract=NOVELTY_FOUR_KEY))}
)
"""Tasks of one subject by name, as in the seeds' reference run: plain prompt, four keys, metadata."""


def make_task(name: str, *, prompt: str = "plain", contract: str = "four_key", with_metadata: bool = True) -> Task:
    """Return a task of one subject by the names used in experiments and on the command line.

    >>> make_task("disruption", contract="two_key").labels
    ('disruptive', 'consolidating', 'neutral')
    """
    if name not in TASKS:
        raise ConfigError("no such task", field="task", value=name, allowed=TASKS)
    return Task(contract=contract_for(name, contract), prompt=prompt, with_metadata=with_metadata)


def make_joint_task(*, prompt: str = "plain", contract: str = "three_key", with_metadata: bool = True) -> Task:
    """Return the task of both labels in one answer.

    >>> make_joint_task().contract.keys
    ('disruption_label', 'novelty_label', 'confidence')
    """
    return Task(contract=contract_for(JOINT, contract), prompt=prompt, with_metadata=with_metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Paper without labels and scores; the only source of a prompt's text."""

    id: str
    title: str
    abstract: str
    year: int | None = None
    citations: int | None = None
    field: str | None = None
    concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Paper with its gold labels. No prompt is made from an item."""

    paper: Paper
    golds: tuple[str, ...]
    """One label per subject of the task, in order."""
    hidden: tuple[float, ...] = ()
    """The row's scores, for the leak check alone."""

    @property
    def gold(self) -> str:
        """Label of a task with one subject."""
        (gold,) = self.golds
        return gold

    @property
    def prompt_id(self) -> str:
        """The paper's id: its name in the files of a run."""
        return self.paper.id


def paper_of(row: PaperRow) -> Paper:
    """Return a slice's row without its labels and scores."""
    return Paper(
        id=row.openalex_id,
        title=row.title,
        abstract=row.abstract,
        year=row.publication_year,
        citations=row.cited_by_count,
        field=row.primary_field,
        concepts=row.concepts,
    )


def scores_of(row: PaperRow) -> tuple[float, ...]:
    """Return the scores behind a row's labels."""
    scores = (row.cd_index, row.novelty_score, row.conventionality_score)
    return tuple(score for score in scores if score is not None)


def items_of(rows: Iterable[PaperRow], task: Task) -> list[Item]:
    """Return one item per row, in order."""
    return [_item(row, task) for row in rows]


def _item(row: PaperRow, task: Task) -> Item:
    golds: list[str] = []
    for subject in task.subjects:
        gold = subject.gold(row)
        if gold is None:
            what = f"paper {row.openalex_id} has no label for the task {task.name}"
            fix = f"cut the slice for this task: tinsmith data slice CORPUS --task {task.name}"
            raise DataError(what, field=subject.label_key, value=None, allowed=subject.labels, fix=fix)
        golds.append(gold)
    return Item(paper=paper_of(row), golds=tuple(golds), hidden=scores_of(row))


MIN_DIGITS: Final = 5
"""Least significant digits of an unannounced score: a p-value of 0.001 is no leak."""

MIN_DECIMALS: Final = 2  # Behind a caption; a number with fewer must be the whole score.

_NUMBER_TEXT: Final = r"(\d{0,3}\.\d{1,30})((?:[eE][+-]?\d{1,3})?)(?!\w)"
_CAPTIONED: Final = re.compile(
    r"\b(?:(?:cd|disruption)[ _-]?(?:index|score)|(?:novelty|conventionality)[ _-]?score)"
    rf"\W{{0,8}}(?:(?:of|is|was)\W{{1,3}})?(?:{_NUMBER_TEXT}|(?<=[=:]) ?\W?(\d)(?![\w.]))",
    re.IGNORECASE,
)
"""Caption of a score and the number after it; a whole number only after = or a colon."""
_LONG_FRACTION: Final = re.compile(r"\.\d{4}")
_NUMBER: Final = re.compile(r"(?<![\w.])(\d?\.\d{4,30})((?:[eE][+-]?\d{1,3})?)(?!\w)")
"""Scores lie in [-1, 1], so five digits need a long fraction."""
_FIX: Final = (
    "write its id into a file, a line each, and cut the slice again: tinsmith data slice CORPUS --leave-out FILE"
)

UNKNOWN: Final = "unknown"  # The words of a prompt where the record has nothing.
_KEY: Final = re.compile(r'["{]')  # Beginning of a line of an answer; nothing of it is wrapped.
_BEGINS: Final = re.compile(rf"- |\d+\. |{_KEY.pattern}")  # The same, or an entry of a list.


def prompt_messages(task: Task, item: Item) -> tuple[Message, ...]:
    """Return the prompt as one text."""
    prompt = messages(task, item.paper)
    check_prompt(task, item, prompt)
    return prompt


def check_prompt(task: Task, item: Item, prompt: Sequence[Message]) -> None:
    """Check a rendered prompt against its item for leaks."""
    _check_words(task, item.paper, prompt)
    golds = dict(zip(task.subjects, item.golds, strict=True))
    for text in shown(item.paper).values():
        if "label" not in text.lower():
            continue
        for subject, gold in golds.items():
            # A slice's row has its label under the label's name.
            named = rf"\b{subject}[ _-]?label\W{{0,8}}(?:(?:of|is|was)\W{{1,3}})?{gold}\b"
            if found := re.search(named, text, re.IGNORECASE):
                raise _leak(item.paper, found[0])
    for message in prompt:
        # The system message is the prompt file's, letter by letter; the paper's words stand here.
        if message.role is not Role.SYSTEM:
            check_text(item, message.content)


def check_text(item: Item, text: str) -> None:
    """Check any text that a model reads about an item, for example a rendered prompt's tokens as text."""
    lowered = text.lower()
    if "index" in lowered or "score" in lowered:
        for found in _CAPTIONED.finditer(text):
            if any(_is_captioned_score(found[1], found[2], found[3], score) for score in item.hidden):
                raise _leak(item.paper, found[0])
    if _LONG_FRACTION.search(text) is None:
        return
    for number in _NUMBER.finditer(text):
        if _significant(number[1]) < MIN_DIGITS:
            continue
        if any(_is_score(number[1], number[2], score) for score in item.hidden):
            raise _leak(item.paper, number[0])


def _check_words(task: Task, paper: Paper, messages: Sequence[Message]) -> None:
    prompt = task.loaded_prompt()
    allowed = {Role.USER: prompt.user.format_map(shown(paper))}
    if prompt.system is not None:
        allowed = {Role.SYSTEM: prompt.system, **allowed}
    if tuple(message.role for message in messages) != tuple(allowed):
        raise _leak(paper, "+".join(message.role for message in messages))
    for message, content in zip(messages, allowed.values(), strict=True):
        if message.content != content:
            raise _leak(paper, _first_difference(message.content, content))


def _is_captioned_score(digits: str | None, exponent: str | None, whole: str | None, score: float) -> bool:
    """True if a number behind a caption is the score: exactly, or rounded to two decimals or more."""
    if digits is None:
        return whole is not None and float(whole) == abs(score)
    if float(digits + (exponent or "")) == abs(score):
        return True
    rounded = len(digits) - digits.index(".") - 1 >= MIN_DECIMALS and _significant(digits) > 0
    return rounded and _is_score(digits, exponent or "", score)


def _significant(digits: str) -> int:
    return len(digits.replace(".", "").strip("0"))


def _is_score(digits: str, exponent: str, score: float) -> bool:
    """True if a number is the score's absolute value, rounded as the number is written."""
    decimals = len(digits) - digits.index(".") - 1
    if not exponent:
        return f"{abs(score):.{decimals}f}" == (f"0{digits}" if digits[0] == "." else digits)
    return float(f"{abs(score):.{decimals}e}") == float(digits + exponent)


def _first_difference(found: str, allowed: str) -> str:
    pairs = zip(found, allowed, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    start = min(len(found), len(allowed)) if same is None else same
    return found[start : start + 60]


def _leak(paper: Paper, marker: str) -> DataError:
    what = "a prompt holds what the model must not see; nothing was sent"
    allowed = "the prompt file's words and the paper's title, abstract, year, citations, field"
    return DataError(what, field=f"paper {paper.id}", value=marker, allowed=allowed, fix=_FIX)


def messages(task: Task, paper: Paper) -> tuple[Message, ...]:
    """Return the messages before the first answer: the system message, if the prompt has one, and the user's."""
    prompt = task.loaded_prompt()
    user = Message(role=Role.USER, content=prompt.user.format_map(shown(paper)))
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
    """Return the lines of a single-subject task's prompt file that the task's own prompt lacks, each once.

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
    lines: list[str] = []
    for paragraph in (text or "").split("\n\n"):
        ended = True
        for part in filter(None, map(str.strip, paragraph.split("\n"))):
            if ended or _BEGINS.match(part) or _KEY.match(lines[-1]):
                lines.append(part)
            else:
                lines[-1] += f" {part}"
            ended = part.endswith((".", ":", "?"))
    return lines
