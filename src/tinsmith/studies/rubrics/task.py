"""A rubric task, and how one record of a data set becomes one.

A record gives its rubrics in wide form (`rubric - 3. criterion`, with gaps), as a list of texts or
objects (`rubrics`), or as a rubric tree (`rubric_tree`), which is read strictly: what is wrong is said with its place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast, get_origin

from tinsmith.lab.judge.tree import Branch, Leaf, Node, Strategy, criteria_of, evaluate, weighted_rate
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of

T = TypeVar("T")
_WIDE: Final = re.compile(r"rubric - ([0-9]{1,9})\. ?(.+)", re.DOTALL)
_CRITERION: Final = "criterion"
_WEIGHT: Final = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """One thing a good response does."""

    criterion: str
    number: int  # Its N in the wide form, its place from 1 in a list; numbers may have gaps.
    weight: float | None = None  # As the data give it, for the score; None counts as 1.
    extras: tuple[tuple[str, str], ...] = ()
    """Whatever else the data say about it, sorted by name; what is no text stands as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricTask:
    """An instruction and what its response is measured by."""

    task_id: str
    prompt: str
    rubrics: tuple[Rubric, ...]
    tree: Node | None = None
    """Given by the data: its leaves are the rubrics, in order. None: the rubrics' weights count."""

    @property
    def prompt_id(self) -> str:
        """Its id: its name in the files of a run."""
        return self.task_id

    @property
    def criteria(self) -> tuple[str, ...]:
        """The criteria in order: what a judge is asked."""
        return tuple(rubric.criterion for rubric in self.rubrics)

    @property
    def weights(self) -> tuple[float, ...]:
        """The rubrics' weights, in order."""
        return tuple(1.0 if rubric.weight is None else rubric.weight for rubric in self.rubrics)

    @property
    def is_weighted(self) -> bool:
        """True if the score is not the pass rate because of the weights."""
        return len(set(self.weights)) > 1

    def score(self, verdicts: Sequence[bool]) -> float:
        """Return a response's score in [0, 1]: by the tree where there is one, else by the weights."""
        if self.tree is not None:
            return evaluate(self.tree, verdicts)
        return weighted_rate(verdicts, self.weights)


def task_of(record: Mapping[str, object]) -> RubricTask | None:
    """Return the task of one record; None where it has no rubric at all.

    Rubrics without text are skipped. A record without `task_id` is named by a hash of its content.
    """
    prompt = _text(record.get("prompt"), "prompt")
    if not prompt.strip():
        raise DataError("a task needs a prompt", field="prompt", value=prompt)
    tree_value = record.get("rubric_tree")
    tree = None if tree_value is None else tree_of(_parsed(tree_value, "rubric_tree"))
    rubrics = _rubrics(record)
    if tree is not None:
        leaves = criteria_of(tree)
        if rubrics and tuple(one.criterion for one in rubrics) != leaves:
            raise DataError("the tree's leaves are not the rubrics, in order", field="rubric_tree")
        rubrics = rubrics or tuple(Rubric(criterion=leaf, number=number) for number, leaf in enumerate(leaves, 1))
    if not rubrics:
        return None
    task_id = _task_id(record.get("task_id"), prompt, rubrics)
    task = RubricTask(task_id=task_id, prompt=prompt, rubrics=rubrics, tree=tree)
    _require_weights(task)
    return task


def _require_weights(task: RubricTask) -> None:
    """Refuse weights that no score can be made of."""
    if not any(weight > 0 for weight in task.weights):
        what = "no rubric has a weight above 0, so no response can score"
        allowed = "numbers, at least one above 0; a negative one is a penalty"
        raise DataError(what, field=_WEIGHT, value=list(task.weights), allowed=allowed)
    if task.tree is not None and task.is_weighted:
        raise DataError("a rubric tree takes no weights", field=_WEIGHT, fix="leave out the weights, or the tree")


def _task_id(value: object, prompt: str, rubrics: tuple[Rubric, ...]) -> str:
    if value is None or value == "":
        return sha256_of((prompt, rubrics))[:16]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _text(value, "task_id")


def _rubrics(record: Mapping[str, object]) -> tuple[Rubric, ...]:
    wide = _wide(record)
    listed = record.get("rubrics")
    if listed is None or listed == "":
        return wide
    if wide:
        raise DataError("rubrics are given twice, wide and as a list", field="rubrics")
    return _listed(_parsed(listed, "rubrics"))


def _wide(record: Mapping[str, object]) -> tuple[Rubric, ...]:
    parts: dict[int, dict[str, object]] = {}
    for key, value in record.items():
        if (found := _WIDE.fullmatch(key)) is None:
            continue
        of_number = parts.setdefault(int(found[1]), {})
        if found[2] in of_number:
            raise DataError("a rubric's number occurs twice", field=key)
        of_number[found[2]] = value
    made = (_rubric(parts[number], number, f"rubric - {number}.") for number in sorted(parts))
    return tuple(rubric for rubric in made if rubric is not None)


def _listed(value: object) -> tuple[Rubric, ...]:
    made: list[Rubric] = []
    for number, one in enumerate(_typed(value, list[object], "rubrics must be a list", "rubrics"), 1):
        parts = cast("Mapping[str, object]", one) if isinstance(one, Mapping) else {_CRITERION: one}
        if _CRITERION not in parts:
            allowed = f"a text, or an object with {_CRITERION!r}"
            raise DataError("no rubric", field=f"rubrics[{number - 1}]", allowed=allowed)
        rubric = _rubric(parts, number, f"rubrics[{number - 1}]")
        if rubric is not None:
            made.append(rubric)
    return tuple(made)


def _rubric(parts: Mapping[str, object], number: int, where: str) -> Rubric | None:
    value = parts.get(_CRITERION)
    criterion = "" if value is None else _text(value, where).strip()
    if not criterion:
        return None
    extras = {
        name: said if isinstance(said, str) else json.dumps(said, sort_keys=True, default=str)
        for name, said in parts.items()
        if name not in (_CRITERION, _WEIGHT) and said is not None and said != ""
    }
    return Rubric(
        criterion=criterion,
        number=number,
        weight=_weight(parts.get(_WEIGHT), where),
        extras=tuple(sorted(extras.items())),
    )


def _weight(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        weight = float(cast("float | str", value)) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError("a weight must be a finite number", field=f"{where} {_WEIGHT}", value=value)
    return weight


def _typed(value: object, kind: type[T], what: str, field: str) -> T:
    """Return a value that is of a type; `what` is the error where it is of another."""
    if not isinstance(value, get_origin(kind) or kind):
        raise DataError(what, field=field, value=value)
    return cast("T", value)


def _text(value: object, field: str) -> str:
    text = _typed(value, str, "a text is needed", field)
    if not is_text(text):
        raise DataError("a lone surrogate is not a character", field=field)
    return text


def _parsed(value: object, field: str) -> object:
    """The value itself; read from JSON where a table's cell has it as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise DataError("a text here must be JSON", field=field, value=value) from None


def is_text(value: str) -> bool:
    """Return true if UTF-8 can hold it."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


MAX_DEPTH: Final = 32  # Levels of a tree, the root included.

_BRANCH_KEYS: Final = ("name", "strategy", "critical", "children")


def tree_of(value: object) -> Node:
    """Return the tree that a JSON value describes.

    >>> tree_of({"children": [{"criterion": "is short", "critical": True}]}).children[0].critical
    True
    """
    return _node(value, "rubric_tree", 1)


def _node(value: object, where: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise DataError(f"a tree has at most {MAX_DEPTH} levels", field=where)
    parts = _typed(value, dict[str, object], "a node is an object", where)
    known = ("criterion", "critical") if "criterion" in parts else _BRANCH_KEYS
    for key in parts:
        if key not in known:
            raise DataError(f"unknown key {key!r}", field=where, allowed=known)
    critical = _typed(parts.get("critical", False), bool, "true or false", f"{where}.critical")
    if "criterion" in parts:
        criterion = parts["criterion"]
        if not isinstance(criterion, str) or not criterion.strip() or not is_text(criterion):
            raise DataError("a leaf needs a text", field=f"{where}.criterion", value=criterion)
        return Leaf(criterion=criterion.strip(), critical=critical)
    name = _typed(parts.get("name", ""), str, "a name is a text", f"{where}.name")
    strategy = parts.get("strategy", Strategy.PARALLEL)
    if not isinstance(strategy, str) or strategy not in set(Strategy):
        raise DataError("unknown strategy", field=f"{where}.strategy", value=strategy, allowed=Strategy)
    listed = _typed(parts.get("children") or None, list[object], "a branch needs children", f"{where}.children")
    children = tuple(_node(child, f"{where}.children[{i}]", depth + 1) for i, child in enumerate(listed))
    for i, child in enumerate(children):
        if critical and not child.critical:
            raise DataError("the children of a critical node are critical", field=f"{where}.children[{i}]")
    return Branch(name=name, children=children, strategy=Strategy(strategy), critical=critical)
