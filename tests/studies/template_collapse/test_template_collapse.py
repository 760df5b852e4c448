"""`template_collapse` from made-up runs whose figures are known: what it calls a collapse, what the filter costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Cell
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.template_collapse.settings import collapse_settings
from tinsmith.studies.template_collapse.study import run_template_collapse
from tinsmith.studies.template_collapse.task import WORDS
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive, random_bits

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
HELD = tuple(f"{word}-x-y" for word in WORDS)


@dataclass(frozen=True)
class MadeArm:
    """How an arm ends; it begins with I = 3, H = 4 and half of its answers right."""

    information: float = 3.0
    given: float = 4.0
    right: float = 0.9
    left_out: float = 0.0
    watched: bool = True


AS_PUBLISHED = {
    "plain": MadeArm(),
    "bonus": MadeArm(information=0.5, given=9.0),
    "filtered": MadeArm(left_out=4.0),
    "stopped": MadeArm(),
    "shuffled": MadeArm(right=0.5),
}


@dataclass(frozen=True)
class Maker:
    """Makes a folder for each cell, by the name of its arm."""

    arms: Mapping[str, MadeArm]

    def __call__(self, cells: Sequence[Cell], say: Say) -> None:
        del say
        for cell in cells:
            if not cell.folder.exists():
                self._make(cell)

    def _make(self, cell: Cell) -> None:
        plan, name = make_plan(cell.experiment, cell.overrides), cell.folder.name
        arm, settings = self.arms[name.split("-rate")[0]], plan.settings
        cell.folder.mkdir(parents=True)
        config = {
            "name": plan.experiment.name,
            "kind": plan.frame.kind.value,
            "settings": {"steps": settings.steps, "seed": settings.seed},
            "task": {"name": "reasons"},
            "data": {"fingerprint": "f" * 64, "train": 360, "test": len(HELD)},
        }
        task = {
            "terms": ["right"],
            "items": [{"id": item, "prompt": item, "unit": item} for item in HELD],
            "baselines": [{"name": "one template", "by_item": dict.fromkeys(HELD, 0.25)}],
        }
        told = {"status": "finished", "hashes": {"weights_sha256": name}}
        for file, value in (("config", config), ("manifest", told), ("task", task)):
            (cell.folder / f"{file}.json").write_text(json.dumps(value))
        steps = sorted({*range(0, settings.steps, settings.eval_every), settings.steps})
        rows: list[dict[str, Any]] = [
            {"step": step, "optim/unequal_logprob_bits": 0, "train/groups/left_out": arm.left_out}
            for step in range(settings.steps)
        ] + [{"step": settings.steps}]
        for step in steps:
            share = step / settings.steps
            noise = 0.01 * settings.seed * share
            if arm.watched:
                rows[step] |= {
                    "watch/mutual_information": 3.0 + share * (arm.information - 3.0) + noise,
                    "watch/entropy_given_prompt": 4.0 + share * (arm.given - 4.0) + noise,
                    "watch/retrieval_accuracy": 1.0 - share / 2,
                    "eval/reward/total": 0.5 + share * (arm.right - 0.5),
                }
        _lines(cell.folder, "metrics", rows)
        _lines(cell.folder, "timings", [{"step": 1, "train_s": 2.0, "step_s": 3.0}])
        _lines(
            cell.folder,
            "rollouts",
            [
                line
                for step in steps
                for split, count in (("eval", 4), ("eval_greedy", 1))
                for line in _rollouts(
                    0.5 + step / settings.steps * (arm.right - 0.5), step, split, count, settings.seed
                )
            ],
        )


def _rollouts(share: float, step: int, split: str, count: int, seed: int) -> list[object]:
    found: list[object] = []
    for place, item in enumerate(HELD):
        bits = random_bits(derive(seed, split, step, place), count)
        for sample in range(count):
            value = float((bits[sample] >> 11) * 2.0**-53 < share)
            line = {"step": step, "split": split, "prompt_id": item, "sample": sample}
            found.append({**line, "text": "A", "outcome": "ok", "terms": {"right": value}, "total": value})
    return found


def _lines(folder: Path, name: str, rows: Sequence[object]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(text)


def _silent(message: str) -> None:
    del message


def found(out: Path, arms: Mapping[str, MadeArm], **given: str) -> dict[str, Any]:
    keys = {"out": str(out), "seeds": "1,2,3", "steps": "8", **given}
    run_template_collapse(keys, _silent, run=Maker(arms), draws=DRAWS)
    return json.loads((out / "study.json").read_text())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found(tmp_path_factory.mktemp("study") / "out", AS_PUBLISHED)


def test_it_says_first_that_answers_stop_depending_and_not_with_the_filter(study: dict[str, Any]) -> None:
    first = study["sentences"][0]
    assert "answers stop depending on the question, and with the filter that is not shown" in first


def test_information_moves_by_what_was_made(study: dict[str, Any]) -> None:
    bonus = study["collapse"]["bonus"]
    assert bonus["information"]["value"] == pytest.approx(-2.5 + 0.02)
    assert bonus["information"]["low"] < -2.48 < bonus["information"]["high"] < 0.0
    assert bonus["given"]["value"] == pytest.approx(5.02)
    assert bonus["trace"][-1]["retrieval"] == 0.5


def test_updates_are_the_groups_that_were_trained_on(study: dict[str, Any]) -> None:
    assert study["collapse"]["bonus"]["updates"] == 64.0
    assert study["collapse"]["filtered"]["updates"] == 32.0
    assert any("trains on 0.50 of the groups" in one for one in study["sentences"])


def test_a_filter_that_prevents_nothing_is_said_first(tmp_path: Path) -> None:
    arms = {**AS_PUBLISHED, "filtered": MadeArm(information=1.0, given=8.0)}
    assert "the filter does not prevent it" in found(tmp_path / "out", arms)["sentences"][0]


def test_a_dear_filter_and_a_control_that_moves_are_said_first(study: dict[str, Any], tmp_path: Path) -> None:
    assert "of the groups" not in study["sentences"][0]
    assert "control" not in study["sentences"][0]
    moved = MadeArm(information=1.0, right=0.5)
    arms = {**AS_PUBLISHED, "filtered": MadeArm(left_out=1.0, right=0.1), "shuffled": moved}
    arms["bonus"] = MadeArm(information=0.5, given=9.0, right=0.2)
    assert "outlast" not in study["sentences"][0]
    first = found(tmp_path / "out", arms)["sentences"][0]
    assert "at most 0.75 of the groups with the filter (0.88)" in first
    assert "right answers that outlast the collapse" in first
    assert "as many right answers with the filter" in first
    assert "a control whose information stays" in first


def test_information_that_falls_with_entropy_is_no_template(tmp_path: Path) -> None:
    arms = {**AS_PUBLISHED, "bonus": MadeArm(information=2.0, given=0.5)}
    assert "no answers that stop depending" in found(tmp_path / "out", arms)["sentences"][0]


def test_learning_is_claimed_beside_shuffled_labels(study: dict[str, Any]) -> None:
    allowed = {one["first"] for one in study["learned"] if all(check["finding"] == "passed" for check in one["checks"])}
    assert "RL" in allowed


def test_a_run_that_did_not_watch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="watch"):
        found(tmp_path / "out", {**AS_PUBLISHED, "plain": MadeArm(watched=False)})


def test_sizes_say_what_is_run_and_every_run_watches() -> None:
    for given in ({"size": "smallest"}, {}, {"at": "small"}):
        study = collapse_settings(given).study
        assert study.shared["split_seed"] == "0", "all seeds hold out the same items"
        assert study.shared["watch"] == "mutual_information"
        assert [arm.name for arm in study.arms] == list(AS_PUBLISHED)
    assert STUDIES["template_collapse"].keys.default("size") == "nano"
