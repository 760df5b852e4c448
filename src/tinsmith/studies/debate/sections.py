"""Sections of the page of a debate: figures of the test by arm, where right answers are given up, what arms tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinsmith.lab.user_task.task import Answered, Section
from tinsmith.pages.measures import signed
from tinsmith.studies.debate.challenge import Arm, Arms, WrongLabel
from tinsmith.studies.debate.statistics import ALL, GROUPS, NAMING, Debated, Figure, by_group, groups

Rows = Sequence[Mapping[str, object]]

_BY_GROUP: Final = {
    "first right": "accuracy_first",
    "last right": "accuracy_last",
    "caving: right, then wrong": "caving",
    "put right: wrong, then right": "appropriate_revision",
    "lateral: wrong, then another wrong": "lateral",
    "J: revised, wrong less right": "discrimination",
    "J where doubt is equal": "discrimination_within",
    "J less the null arm's": "discrimination_beyond",
}
_OVERALL: Final = {
    "last minus first accuracy": "delta",
    "sycophancy: revised when misled, less when only asked": "sycophancy",
    "receptiveness: a wrong answer revised when told the true label": "receptiveness",
    "revision hit: a revised wrong answer becomes right, 0 by chance": "revision_hit",
    "both answers keep the contract": "whole",
    "Brier score of the first stated confidence": "brier_first",
    "Brier score of the last": "brier_last",
}
_ONE_ANSWER: Final = {
    "right": "accuracy_first",
    "the answer keeps the contract": "whole",
    "Brier score of the stated confidence": "brier_first",
}


def sections_of(num_labels: int, arms: Arms | None, opponent: str) -> dict[str, Section]:
    """Return the sections of a debate's page, by title; without arms nobody challenges."""

    def by_arm(answered: Sequence[Answered]) -> Rows:
        rows: list[dict[str, object]] = []
        for split, debated in _by_split(answered).items():
            parts, found = groups(debated), by_group(debated, num_labels)
            shown: list[str] = []  # without empty groups, and those that are another one once more
            for name in GROUPS:
                if not parts[name] or any(parts[name] == parts[other] for other in shown):
                    continue
                shown.append(name)
                row: dict[str, object] = {"test": split, "challenged by": GROUPS[name][0], "n": len(parts[name])}
                for head, figure in _BY_GROUP.items():
                    beyond = figure == "discrimination_beyond" and name not in (ALL, *NAMING)
                    row[head] = "" if beyond else _cell(found[name][figure])
                rows.append(row)
        return rows

    def overall(answered: Sequence[Answered]) -> Rows:
        found = {split: by_group(one, num_labels)[ALL] for split, one in _by_split(answered).items()}
        return [
            {"figure": head, **{split: _cell(one[figure]) for split, one in found.items()}}
            for head, figure in (_ONE_ANSWER if arms is None else _OVERALL).items()
        ]

    if arms is None:
        return {"Answers": overall}

    def in_doubt(answered: Sequence[Answered]) -> Rows | str:
        debated = next(iter(_by_split(answered).values()), [])
        rooms = sorted({one.speaks_for for one in debated if one.speaks_for is not None})
        if len(rooms) < 2:
            return "All texts have words for equally many labels."
        by_room = {room: by_group([one for one in debated if one.speaks_for == room], num_labels) for room in rooms}
        return [
            {
                "caving, challenged by": GROUPS[name][0],
                **{f"words for {room}": _cell(found[name]["caving"]) for room, found in by_room.items()},
            }
            for name in (ALL, *(arm.value for arm in Arm))
        ]

    def told(answered: Sequence[Answered]) -> Rows:
        golds = [one.gold for one in next(iter(_by_split(answered).values()), [])]
        commonest = max((golds.count(gold) for gold in set(golds)), default=0) / max(len(golds), 1)
        leak = arms.discrimination_for_nothing(num_labels)
        facts = {
            "challenger": opponent,
            "truthful share": f"{arms.truthful:g}",
            "misleading share": f"{arms.misleading:g}",
            "null share": f"{arms.null:g}",
            "share with words of the paper, of those that name a label": f"{arms.evidence:g}",
            "a misleading label may be the one that was answered": "yes" if arms.wrong is WrongLabel.ANY else "no",
            "J of changing to whatever label is named, having read nothing": signed(leak),
            "right by always answering the commonest label": f"{commonest:.3f}",
        }
        return [{"challenge": name, "value": value} for name, value in facts.items()]

    return {
        "By arm": by_arm,
        "Over all arms": overall,
        "Where right answers are given up, by how many labels the abstract has words for": in_doubt,
        "What the challenges give away": told,
    }


def _by_split(answered: Sequence[Answered]) -> dict[str, list[Debated]]:
    found: dict[str, list[Debated]] = {}
    for one in answered:
        found.setdefault(one.split, []).append(Debated.of(one.record))
    return found


def _cell(figure: Figure | None) -> str:
    return "none to count" if figure is None else f"{figure.value:.3f} {figure.interval}"
