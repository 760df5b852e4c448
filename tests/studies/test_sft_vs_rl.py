"""The study of SFT against RL: its smallest setting, stopped and gone on with; what it counts; what it refuses."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from command_line import keys_in
from running import KEY, Running
from tinsmith.cli.registered import find
from tinsmith.lab.experiment.conduct import conduct
from tinsmith.lab.experiment.experiment import make_plan
from tinsmith.lab.labels.task import items_of, make_task
from tinsmith.lab.papers.compute_spent import Ledger, forward_flops, multiplied
from tinsmith.lab.papers.run_data import minutes
from tinsmith.lab.papers.worlds import nano_base, papers_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import PAGE, SECONDS_JSON, STUDY_JSON
from tinsmith.lab.study.record import Draws
from tinsmith.lab.study.sizes import Cell
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.names import expected_tensors
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.rates import Metric
from tinsmith.studies.equal_compute import FoundPrompt, Materials
from tinsmith.studies.planted_world import (
    ATOMS,
    LABELS,
    PLANTED_BASE,
    PlantedRecipe,
    kinds,
    known_policies,
    planted_slice,
    posteriors,
)
from tinsmith.studies.sft_vs_rl import PROMPT, PROMPT_SHUFFLED
from tinsmith.studies.sft_vs_rl import study as sft_vs_rl
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say, unsaid

pytestmark = pytest.mark.whole

SMALLEST = keys_in(
    "seeds=1 sft_rates=2e-3 rl_rates=2e-3 steps=2 sft_steps=1 groups_per_batch=3 group_size=4 lora_rank=4 "
    "max_tokens=20 eval_items=6 test_items=6 with_metadata=false"
)
ARMS = 7
LINE = "Return JSON only."
DRAWS = Draws(claims=Bootstrap(draws=200), tables=Bootstrap(draws=100))


@dataclass(frozen=True)
class Made:
    """Papers, a base that can write most answers, and a server that has it."""

    data: Path
    base: Path
    server: Running


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """One server for all runs: what they find does not depend on who serves them."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TINSMITH_HOME", str(tmp_path_factory.mktemp("home")))
    patch.setenv("TINKER_API_KEY", KEY)
    source = planted_slice(PlantedRecipe(train=120, validation=12, test=12), unsaid)
    task = make_task("disruption", prompt="brief", contract="two_key", with_metadata=False)
    papers = papers_of(source, task, shuffle_seed=None)
    base = nano_base(replace(PLANTED_BASE, num_layers=1, steps=60, batch_size=16), task, papers, unsaid)
    with Running(tmp_path_factory.mktemp("state"), model=f"base={base}") as running:
        yield Made(source.folder, base, running)
    patch.undo()


class Stopped(Exception):
    """The study was killed between two runs."""


def study(
    made: Made,
    out: Path,
    conducted: list[Path],
    stop_after: int | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    where = {"base_url": made.server.url, "model_name": "base"}

    def run(cells: Sequence[Cell], say: Say) -> None:
        for cell in cells:
            if len(conducted) == stop_after:
                raise Stopped
            resumed = {"log_path": str(cell.folder), "behavior_if_log_dir_exists": "resume"}
            done = conduct(make_plan(cell.experiment, {**cell.overrides, **where, **resumed}), say=say)
            if done.connection is not None:
                conducted.append(cell.folder)

    def search(self: Materials, cell: Cell, file: Path, say: Say, *, is_shuffled: bool) -> FoundPrompt:
        served = replace(cell, overrides={**cell.overrides, **where})
        found = find_prompt(self, served, file, say, is_shuffled=is_shuffled)
        if is_shuffled:
            return found
        # On so few papers a search may find nothing: an arm whose prompt is another one whatever it found.
        other = msgspec.structs.replace(found.searched, found=(LINE,))
        return msgspec.structs.replace(found, searched=other)

    find_prompt = Materials.find_prompt
    own = {"data": str(made.data), "model_name": str(made.base), "out": str(out)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Materials, "find_prompt", search)
        return run_study(sft_vs_rl, {**SMALLEST, **own, **more}, unsaid, run=run, draws=DRAWS)


@pytest.fixture(scope="module")
def whole(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was stopped after some of its runs, and went on with those that were missing."""
    folder = tmp_path_factory.mktemp("study") / "a"
    before: list[Path] = []
    after: list[Path] = []
    with pytest.raises(Stopped):
        study(made, folder, before, stop_after=3)
    out = study(made, folder, after)
    assert len(before) == 3
    assert len({*before, *after}) == len(before) + len(after) == ARMS
    return out


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / STUDY_JSON).read_text())


def test_every_run_learns_something_of_its_own(whole: Path) -> None:
    weights = {one["weights_sha256"] for one in read(whole)["hashes"].values()}
    assert len(weights) == ARMS


def table(folder: Path, title: str) -> dict[str, list[Any]]:
    found = next(one for one in read(folder)["tables"] if one["title"] == title)
    return {row[0].split("|")[0]: row[1] for row in found["rows"]}


def spent_of(folder: Path) -> dict[str, list[float]]:
    rows = table(folder, "Data and compute")
    return {name: [float(cell.replace(",", "")) for cell in cells] for name, cells in rows.items()}


def test_arms_see_the_same_papers_and_the_last_one_takes_as_much_compute(whole: Path) -> None:
    spent = spent_of(whole)
    assert "zero-shot" not in spent
    rl, sft, more, then = (spent[name] for name in ("RL from base", "SFT", "SFT with RL's compute", "SFT then RL"))
    assert rl[0] == sft[0] == then[0] == 2 * 3
    assert rl[3] > 0 == sft[3]
    assert sft[5] < then[5] < rl[5]
    # To the nearest step, of prompts that are not equally long.
    assert abs(more[5] - rl[5]) < 0.75 * sft[5]
    assert "SFT with offsets" in table(whole, "Scores")
    seconds = json.loads((whole / SECONDS_JSON).read_text())
    assert seconds["zero-shot"]["training"] == 0.0 < seconds["RL from base"]["training"]


def test_the_page_says_what_the_gate_says_and_loads_nothing(whole: Path) -> None:
    page = (whole / PAGE).read_text()
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    assert sft_vs_rl.question in page
    first = read(whole)["beats"][0]
    assert (first["first"], first["second"], first["metric"]) == ("RL from base", "SFT with offsets", "macro_f1")
    assert len(table(whole, "Equivalence")) == 4


SEARCH = {"search_batch": "4", "search_candidates": "6", "search_gate": "6", "search_steps": "3"}


@pytest.fixture(scope="module")
def prompted(made: Made, whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same study, gone on with: nothing that was trained is trained again."""
    folder, conducted = tmp_path_factory.mktemp("prompted") / "a", list[Path]()
    shutil.copytree(whole, folder)
    out = study(made, folder, conducted, more={"prompt_search": "true", **SEARCH})
    assert sorted(one.name for one in conducted) == [f"{name}-seed=1" for name in (PROMPT, PROMPT_SHUFFLED)]
    return out


def test_a_search_changes_nothing_of_the_other_arms(whole: Path, prompted: Path) -> None:
    plain, more = read(whole), read(prompted)
    assert more["beats"][: len(plain["beats"])] == plain["beats"]
    assert more["learned"][: len(plain["learned"])] == plain["learned"]
    assert table(prompted, "Equivalence") == table(whole, "Equivalence")
    scores = {name: row for name, row in table(prompted, "Scores").items() if not name.startswith("prompt")}
    assert scores == table(whole, "Scores")


def test_a_searched_prompt_is_examined_and_judged_like_any_arm(prompted: Path) -> None:
    found = read(prompted)
    names = [(one["first"], one["second"]) for one in found["beats"][-2:]]
    assert names == [("RL from base", "prompt searched"), ("prompt searched", "zero-shot")]
    spent = spent_of(prompted)
    assert spent["prompt searched"][0] > spent["RL from base"][0]
    assert spent["prompt searched"][4] == spent["prompt searched"][1] == 0 < spent["prompt searched"][3]
    training = next(check for check in found["beats"][-2]["checks"] if check["name"] == "same training")
    assert training["finding"] == "passed"
    searches = {name: cells[8] for name, cells in table(prompted, "Prompt").items() if ", seed" in name}
    assert len(searches) == 2
    for name, lines in searches.items():
        arm, _, seed = name.partition(", seed ")
        cell = prompted / "cells" / f"{arm}-seed={seed}"
        words = json.loads((cell / "config.json").read_text())["task"].get("prompt_lines", [])
        assert " / ".join(words) == ("" if lines == "none" else lines)
        assert words == [LINE] or arm == PROMPT_SHUFFLED
        if not words:  # the base is asked as it was, and answers what it answered
            zero = prompted / "cells" / f"zero_shot-seed={seed}" / "rollouts.jsonl"
            assert (cell / "rollouts.jsonl").read_bytes() == zero.read_bytes()


def test_flops_are_those_of_every_position_on_its_own(made: Made) -> None:
    config = read_config(made.base)
    shapes = expected_tensors(config)
    linear = [shape[0] * shape[1] for name, shape in shapes.items() if len(shape) == 2 and "embed_tokens" not in name]
    head = 0 if any("lm_head" in name for name in shapes) else config.vocab_size * config.hidden_size
    assert multiplied(config) == sum(linear) + head
    # A position multiplies with every weight, and looks at itself and those before it, twice.
    width = config.num_heads * config.head_dim
    each = [2 * multiplied(config) + config.num_layers * 4 * width * seen for seen in range(1, 8)]
    assert forward_flops(config, 7) == sum(each)
    assert forward_flops(config, 3, before=4) == sum(each[4:])
    ledger = Ledger(config)
    ledger.trained(7)
    assert ledger.spent.flops == 3 * sum(each)


def test_the_planted_world_has_the_shares_that_were_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    recipe = PlantedRecipe(train=400, validation=40, test=40)
    made = planted_slice(recipe, unsaid)
    items = items_of(made.rows(next(iter(made.card.splits))), make_task("disruption"))
    for atom, shares in ATOMS.items():
        of_atom = [item.gold for item in items if atom in item.paper.title]
        assert len(of_atom) == 100
        for label, share in zip(LABELS, shares, strict=True):
            assert of_atom.count(label) == round(100 * share)
    assert len(kinds(40, 0)) == 40
    assert posteriors().num_kinds == len(ATOMS)


def test_what_is_known_of_the_planted_world_sets_rl_apart_from_imitation() -> None:
    best, imitation, *others = known_policies().values()
    assert all(known.score(Metric.MACRO_F1) <= best.score(Metric.MACRO_F1) + 1e-9 for known in (imitation, *others))
    for score in (Metric.MACRO_F1, Metric.MIN_CLASS_RECALL):
        assert best.score(score) > imitation.score(score) + 0.05


def test_a_forecast_goes_by_the_papers_that_are_named(made: Made) -> None:
    usual, short = (minutes(make_plan(find("remedy/exp6"), place)) for place in ({}, {"data": str(made.data)}))
    assert short < 0.8 * usual  # a planted paper has some ten words; answers are as long, and as many are asked for


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(tmp_path: Path) -> None:
    text: list[str] = []
    keys = {"world": "planted", "dry_run": "true", "out": str(tmp_path / "out")}
    run_study(sft_vs_rl, keys, text.append)
    labels = ["zero-shot", "SFT", "RL from base", "SFT with RL's compute", "SFT then RL"]
    labels += ["SFT, shuffled labels", "RL, shuffled labels"]
    assert [line.partition(":")[0] for line in text[1:-3]] == labels
    assert "20 runs to choose rates on seed 0, 35 to report" in text
    assert any("55 runs" in line and "minutes" in line and "MB of disk" in line for line in text)
    assert not any(tmp_path.iterdir())
    text.clear()
    run_study(sft_vs_rl, {**keys, "prompt_search": "true"}, text.append)
    # 11 steps of 16 papers, under the prompt of then and 10 others, are no fewer than 60 steps of RL with 32 papers.
    assert text[0].startswith("10 searches for a prompt, 11 steps and some 7,744 answers each")
    assert [line.partition(":")[0] for line in text[2:-3]] == [
        *labels,
        "prompt searched",
        "prompt searched, shuffled labels",
    ]
    assert "20 runs to choose rates on seed 0, 45 to report" in text
    text.clear()
    run_study(sft_vs_rl, {**keys, "model_name": "/models/qwen"}, text.append)
    assert "unknown" in text[-1]
    with pytest.raises(ConfigError, match="no such key"):
        run_study(sft_vs_rl, {**keys, "lora_rnak": "4"}, text.append)
