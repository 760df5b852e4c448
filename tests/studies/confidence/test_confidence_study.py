"""`confidence` from made-up runs whose figures are known: what it says first, its ratio, its diagnosis and its cost."""

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
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.stats.estimates import Bootstrap
from tinsmith.studies.confidence.settings import confidence_settings
from tinsmith.studies.confidence.study import run_confidence
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive, random_bits

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
HELD = tuple(f"{split}-{place}" for place in range(40) for split in ("easy", "hard"))


@dataclass(frozen=True)
class MadeArm:
    """How an arm ends; it begins with a fifth of its answers right and rho = -.3."""

    right: float = 0.4
    rho: float = 0.1
    shuffled: float = 0.0
    read: float = 0.0
    watched: bool = True


AS_PUBLISHED = {
    "plain": MadeArm(),
    "shaped": MadeArm(right=0.9, rho=0.8, read=5_120.0),
    "mixed": MadeArm(read=5_120.0),
    "noise": MadeArm(right=0.2, read=5_120.0),
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
            "settings": {"steps": settings.steps, "seed": settings.seed, "group_size": 8, "groups_per_batch": 4},
            "task": {"name": "countdown"},
            "data": {"fingerprint": "f" * 64, "train": 360, "test": len(HELD)},
        }
        task = {
            "terms": ["right"],
            "metrics": ["sound"],
            "items": [{"id": item, "prompt": item, "unit": item} for item in HELD],
            "baselines": [{"name": "only plus signs", "by_item": dict.fromkeys(HELD, 0.125)}],
        }
        told = {"status": "finished", "hashes": {"weights_sha256": name}}
        for file, value in (("config", config), ("manifest", told), ("task", task)):
            (cell.folder / f"{file}.json").write_text(json.dumps(value))
        rows: list[dict[str, Any]] = [
            {"step": step, "optim/unequal_logprob_bits": 0, "train/tokens/answer": 20.0}
            | ({"train/confidence/tokens_sent": arm.read} if arm.read else {})
            | ({"train/confidence/tokens_computed": arm.read / 8} if arm.read else {})
            for step in range(settings.steps)
        ] + [{"step": settings.steps}]
        steps = sorted({*range(0, settings.steps, settings.eval_every), settings.steps})
        for step in steps:
            rows[step] |= _looked(arm, step / settings.steps, settings.seed)
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
                    0.2 + step / settings.steps * (arm.right - 0.2), step, split, count, settings.seed
                )
            ],
        )


def _looked(arm: MadeArm, share: float, seed: int) -> dict[str, float]:
    if not arm.watched:
        return {}
    noise = 0.01 * (seed - 2)
    watch = "watch/confidence"
    found = {
        f"{watch}/rho": -0.3 + share * (arm.rho + 0.3) + noise,
        f"{watch}/rho_shuffled": arm.shuffled + noise,
        f"{watch}/rho_foreign": -0.2 + noise,
        f"{watch}/rho_said": 0.5,
        "eval/reward/right": 0.4,
        "eval/metric/sound": 0.4 * share,
    }
    for place, fraction in enumerate(FRACTIONS):
        for name in ("gold", "said", "certainty"):
            found[f"{watch}/{name}_{fraction:.1f}"] = 0.2 + 0.1 * place * share
    return found


def _rollouts(share: float, step: int, split: str, count: int, seed: int) -> list[object]:
    found: list[object] = []
    for place, item in enumerate(HELD):
        bits = random_bits(derive(seed, split, step, place), count)
        for sample in range(count):
            value = float((bits[sample] >> 11) * 2.0**-53 < share)
            line = {"step": step, "split": split, "prompt_id": item, "sample": sample}
            found.append({**line, "text": "so", "outcome": "ok", "terms": {"right": value}, "total": value})
    return found


def _lines(folder: Path, name: str, rows: Sequence[object]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(text)


def _silent(message: str) -> None:
    del message


def found(out: Path, arms: Mapping[str, MadeArm], **given: str) -> dict[str, Any]:
    keys = {"out": str(out), "seeds": "1,2,3", "steps": "8", **given}
    run_confidence(keys, _silent, run=Maker(arms), draws=DRAWS)
    return json.loads((out / "study.json").read_text())


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found(tmp_path_factory.mktemp("study") / "out", AS_PUBLISHED)


def test_it_says_first_what_the_gate_allows_and_how_many_times(study: dict[str, Any]) -> None:
    first = study["sentences"][0]
    assert "the gate allows" in first
    assert "it reaches 1.3 times" in first
    assert "did not come out" not in first
    assert 1.9 < study["ratio"]["value"] < 2.7


def test_a_penalty_without_effect_is_said_first(tmp_path: Path) -> None:
    arms = {**AS_PUBLISHED, "shaped": MadeArm(right=0.4, read=5_120.0)}
    first = found(tmp_path / "out", arms)["sentences"][0]
    assert "the gate does not allow" in first
    assert "it does not reach 1.3 times" in first
    missed = first.partition("did not come out besides: ")[2]
    assert "a higher rho with the penalty (0.10, without 0.10)" in missed
    assert "an end above the same penalty of shuffled prefixes" in missed
    assert "control" not in missed


def test_gains_are_those_of_each_split(study: dict[str, Any]) -> None:
    assert study["num_items"] == len(HELD) // 2
    hard, easy = study["gains"][1], study["easy"][1]
    assert hard["after"]["value"] == pytest.approx(0.9, abs=0.05)
    assert hard["after"]["value"] != easy["after"]["value"]


def test_rho_is_diagnosed_before_and_after(study: dict[str, Any]) -> None:
    shaped = study["along"]["shaped"]
    assert shaped["rho_before"]["value"] == pytest.approx(-0.3)
    assert shaped["rho"]["value"] == pytest.approx(0.8)
    assert shaped["rho_shuffled"]["low"] < 0.0 < shaped["rho_shuffled"]["high"]
    assert any("GRPO, shaped: rho" in one and "progressive" in one for one in study["sentences"])
    assert any("GRPO: rho" in one and "premature" in one for one in study["sentences"])


def test_a_control_that_is_not_flat_is_said(tmp_path: Path) -> None:
    arms = {
        **AS_PUBLISHED,
        "shaped": MadeArm(right=0.9, rho=0.8, shuffled=0.5, read=5_120.0),
        "noise": MadeArm(right=0.9, read=5_120.0),
    }
    said = found(tmp_path / "out", arms)["sentences"]
    assert any("shuffled rho is 0.50" in one and "which is not none" in one for one in said)
    assert "a rho of 0 with shuffled prefixes and a control that learns nothing" in said[0]


def test_cost_is_told_in_tokens(study: dict[str, Any]) -> None:
    shaped = study["along"]["shaped"]
    assert (shaped["sampled"], shaped["sent"]) == (8 * 32 * 20.0, 8 * 5_120.0)
    assert shaped["computed"] == shaped["sampled"]
    assert study["along"]["plain"]["sent"] == 0.0
    assert any("8.0 times what is sampled" in one for one in study["sentences"])


def test_flawed_reasoning_is_a_share_of_right_answers(study: dict[str, Any]) -> None:
    trace = study["along"]["plain"]["trace"]
    assert [one["flawed"] for one in trace] == pytest.approx([1.0, 0.0])


def test_learning_is_claimed_beside_shuffled_labels(study: dict[str, Any]) -> None:
    allowed = {one["first"] for one in study["learned"] if all(check["finding"] == "passed" for check in one["checks"])}
    assert "GRPO, shaped" in allowed


def test_a_run_that_did_not_watch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="watch"):
        found(tmp_path / "out", {**AS_PUBLISHED, "plain": MadeArm(watched=False)})


def test_sizes_say_what_is_run_and_every_run_watches() -> None:
    for given in ({"size": "smallest"}, {}, {"at": "small"}):
        study = confidence_settings(given).study
        assert study.shared["watch"] == "confidence"
        assert [arm.name for arm in study.arms] == list(AS_PUBLISHED)
    assert STUDIES["confidence"].keys.default("size") == "nano"
