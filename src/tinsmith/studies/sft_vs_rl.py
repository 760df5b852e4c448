"""Does reinforcement on labels teach a model more than being shown them, with nothing else unequal?

    tinsmith run study/sft_vs_rl [world=planted] [at=small] [prompt_search=true] [key=value ...]

Equal base, papers, rank and effort: SFT takes as many steps as RL with as many papers in each, the same ones; every
trained arm tries as many learning rates. RL's own run says how many FLOPs it took, and SFT with as many is an arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import tinsmith as ts
from tinsmith.lab.experiment.key_text import At
from tinsmith.lab.papers.labels import LABEL_KINDS
from tinsmith.lab.prompt_search import SearchSettings
from tinsmith.lab.results.arms import OFFSETS
from tinsmith.lab.results.label_tables import CAPTION, PICTURE, progress_of, scores_of, standings_of
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.checks import first_claim, no_label_learned
from tinsmith.lab.study.keys import StudyKey, count, learning_rates, require_a_score
from tinsmith.lab.study.record import Column, Shown
from tinsmith.lab.study.sizes import Request
from tinsmith.pages.measures import within
from tinsmith.stats.mean_runs import gap_of
from tinsmith.stats.rates import Metric
from tinsmith.studies.disruption.experiments import (
    CONTROL,
    CONTROL_ZERO_SHOT,
    REMEDY_EXP6,
    REMEDY_SFT_THEN_RL,
    SFT_LORA_OFFSET,
)
from tinsmith.types.errors import ConfigError

ZERO, SFT, RL, MORE, THEN = "zero_shot", "sft", "rl", "sft_compute", "sft_then_rl"
SFT_SHUFFLED, RL_SHUFFLED, OFFSET = "sft_shuffled", "rl_shuffled", "offset"
PROMPT, PROMPT_SHUFFLED = "prompt", "prompt_shuffled"
PRIMARY, RECALL = Metric.MACRO_F1, Metric.MIN_CLASS_RECALL
"""The first is what the first claim is about: named before any run."""
MARGIN: Final = 0.01  # Two scores that differ by less than this are as good as equal.
LOOKS: Final = 3  # Evaluations on the validation split in a run, beside that of its end.
_REWARD: Final = "reward."
UNLEARNED: Final = (SFT_SHUFFLED, RL_SHUFFLED, PROMPT_SHUFFLED)
FAMILY: Final = (
    *(ts.Beats(RL, OFFSET), ts.Beats(RL, SFT), ts.Beats(RL, SFT, RECALL), ts.Beats(RL, MORE), ts.Beats(RL, ZERO)),
    *(ts.Beats(SFT, ZERO), ts.Beats(THEN, OFFSET), ts.Beats(THEN, SFT, RECALL), ts.Beats(THEN, RL)),
)
"""The primary claim first: RL against the honest comparator."""
CONTROL_OF: Final = {RL: RL_SHUFFLED, THEN: RL_SHUFFLED, SFT: SFT_SHUFFLED}
CLAIMS: Final = (
    *FAMILY,
    *(ts.Learned(*pair) for pair in dict.fromkeys((one.first, CONTROL_OF[one.first], one.on) for one in FAMILY)),
    *(ts.Learned(name, name, family="controls") for name in (RL_SHUFFLED, SFT_SHUFFLED)),
)
PROMPT_CLAIMS: Final = (
    *(ts.Beats(RL, PROMPT, family="prompt"), ts.Beats(PROMPT, ZERO, family="prompt")),
    *(
        ts.Learned(PROMPT, PROMPT_SHUFFLED, family="prompt"),
        ts.Learned(PROMPT_SHUFFLED, PROMPT_SHUFFLED, family="no prompt"),
    ),
)
EQUIVALENT: Final = tuple(
    (first, second, metric)
    for first, second in ((RL, OFFSET), (RL, SFT), (RL, MORE), (THEN, OFFSET))
    for metric in (Metric.LABEL_MATCH, Metric.MACRO_F1)
)
PAPERS: Final = {
    "steps": "100", "groups_per_batch": "16", "group_size": "8", "sft_rates": "5e-4,1e-3,2e-3,4e-3,8e-3",
    "rl_rates": "5e-4,1e-3,1.5e-3,2e-3,3e-3", "lora_rank": "16", "eval_items": "200",
}  # fmt: skip
_FOR_PLANTED: Final = {
    "steps": "60", "groups_per_batch": "32", "group_size": "4", "eval_items": "120", "max_tokens": "32",
}  # fmt: skip
PLANTED: Final = {**PAPERS, **_FOR_PLANTED, "rl_rates": "1e-3,2e-3,3e-3,4e-3,6e-3", "with_metadata": "false"}
_FOR_SMALL: Final = {"sft_rates": "1e-4,2e-4,4e-4,8e-4,1.6e-3", "rl_rates": "5e-5,1e-4,2e-4,4e-4,8e-4"}
SMALL: Final = {**PAPERS, **_FOR_SMALL, "steps": "30", "eval_items": "48", "test_items": "150"}
_SET: Final = frozenset(
    [
        *("learning_rate", "seed", "batch_size", "eval_every", "save_every", "sft_learning_rate", "sft_batch_size"),
        *("shuffle_labels", "logit_offset", "base_url", "kind", "task", "prompt", "prompt_lines", "contract"),
        *("reward", "log_path", "stop_after", "behavior_if_log_dir_exists"),
    ]
)
"""Keys of a run that the study sets itself, or that would make its arms unequal."""


def by_world(name: str) -> str:
    """Return a key's values by world and size of the model."""
    papers, planted, small = (each[name] for each in (PAPERS, PLANTED, SMALL))
    shown = papers if papers == planted else f"{papers}; planted: {planted}"
    return shown if small in (papers, planted) else f"{shown}; at=small: {small}"


def numbers(request: Request) -> dict[str, str]:
    """Return keys with the numbers of the world that is asked for; what is given goes before them."""
    given, at = request.given, request.own["at"]
    if ("world" in given and given["world"] not in ("planted", "quickstart")) or {"world", "data"} <= given.keys():
        what, allowed = "give a world's name, or data=FOLDER of a slice", "planted, quickstart; or data=DIR without it"
        raise ConfigError(what, field="world", value=given["world"], allowed=allowed)
    if at not in (At.NANO.value, At.SMALL.value):
        raise ConfigError("the study has no settings for such a model", field="at", value=at, allowed="nano, small")
    usual = SMALL if at == At.SMALL.value else PLANTED if given.get("world") == "planted" else PAPERS
    return {**usual, **given}


def shared(request: Request) -> Mapping[str, str]:
    """Return keys of every run."""
    found = {
        key: value for key, value in numbers(request).items() if key not in request.own or key in ("data", "model_name")
    }
    small = {"at": At.SMALL.value} if request.own["at"] == At.SMALL.value else {}
    return {**{key: value for key, value in found.items() if not key.startswith(_REWARD)}, **small}


def looks(steps: int) -> dict[str, int]:
    """Return steps with the evaluations among them, as many in every arm."""
    every = max(1, -(-steps // LOOKS))
    return {"steps": steps, "eval_every": every, "save_every": every}


def with_arms(study: ts.Study, request: Request) -> ts.Study:
    """Return the study on the world that is asked for."""
    from tinsmith.lab.papers.run_data import minutes  # not above: mistakes in keys are told without these
    from tinsmith.studies.equal_compute import Materials, compute_tables, search_of
    from tinsmith.studies.planted_world import CEILING, PLANTED_TOKENS, below_the_best, truth_tables

    require_a_score(request.given)
    options = numbers(request)
    rates = {name: learning_rates(f"{name}_rates", options[f"{name}_rates"]) for name in (SFT, RL)}
    if len(rates[SFT]) != len(rates[RL]):
        what, allowed = "SFT and RL must try equally many learning rates", f"{len(rates[SFT])}, as sft_rates has"
        raise ConfigError(what, field="rl_rates", value=len(rates[RL]), allowed=allowed)
    steps, group = count("steps", options["steps"], 2), count("group_size", options["group_size"], 2)
    papers = count("groups_per_batch", options["groups_per_batch"], 1)
    first = count("sft_steps", options.get("sft_steps", str(steps // 2)), 1)
    if first >= steps:
        raise ConfigError("no step is left for RL", field="sft_steps", value=first, allowed=f"1 to {steps - 1}")
    search = search_of(request, papers=steps * papers)
    world = options.get("world", "data" if "data" in options else "quickstart")
    is_planted = world == "planted"
    made = Materials(world=world, at=request.own["at"], group_size=group, search=search)
    by_example = {"batch_size": papers}
    by_reward = {
        **looks(steps),
        **{key: value for key, value in options.items() if key.startswith(_REWARD)},
        **{"groups_per_batch": papers, "group_size": group},
    }
    before = {"sft_steps": first, "sft_learning_rate": ts.tuned(SFT), "sft_batch_size": papers}
    # An answer is a tenth of its prompt, and a group's prompt is read once: a group costs a little more than it trains.
    more = looks(round(1.1 * steps * group))
    shuffled = {"shuffle_labels": True}
    taught, offset, unlearned = {**looks(steps), **by_example}, SFT_LORA_OFFSET, CONTROL
    by_others = ", shuffled labels"
    arms = [
        ts.Arm(ZERO, "zero-shot", experiment=CONTROL_ZERO_SHOT),
        ts.Arm(SFT, "SFT", {**taught, "learning_rate": rates[SFT]}, experiment=offset),
        ts.Arm(RL, "RL from base", {**by_reward, "learning_rate": rates[RL]}, experiment=REMEDY_EXP6),
        ts.Arm(
            MORE,
            "SFT with RL's compute",
            {**more, **by_example, "learning_rate": rates[SFT]},
            experiment=offset,
            after=lambda stage: looks(made.equal_steps(stage, SFT, RL)),
        ),
        ts.Arm(THEN, "SFT then RL", {**by_reward, **before, "learning_rate": rates[RL]}, experiment=REMEDY_SFT_THEN_RL),
        ts.Arm(
            SFT_SHUFFLED, f"SFT{by_others}", {**taught, **shuffled, "learning_rate": ts.tuned(SFT)}, experiment=offset
        ),
        ts.Arm(RL_SHUFFLED, f"RL{by_others}", {**by_reward, "learning_rate": ts.tuned(RL)}, experiment=unlearned),
    ]
    if search is not None:
        for name, label, keys in ((PROMPT, "", {}), (PROMPT_SHUFFLED, by_others, shuffled)):
            after = partial(made.searched, name, ZERO, is_shuffled=bool(keys))
            arms.append(ts.Arm(name, f"prompt searched{label}", keys, experiment=CONTROL_ZERO_SHOT, after=after))
    return replace(
        study,
        arms=arms,
        claims=CLAIMS if search is None else (*CLAIMS, *PROMPT_CLAIMS),
        materials=made.find,
        effort=made.papers_of,
        took=made.seconds_of,
        warnings=made.warnings(len(request.own["seeds"].split(","))),
        pace=partial(minutes, prompt_tokens=PLANTED_TOKENS if is_planted else None),
        tables=[*study.tables, *compute_tables(made, RL), *(truth_tables(RL, SFT, OFFSET) if is_planted else [])],
        expectations=[*study.expectations, *([ts.Expectation(CEILING, below_the_best)] if is_planted else [])],
    )


def equivalences(results: ts.Results) -> list[list[Shown]]:
    """Return which systems are as good as each other: the 90 % interval, two one-sided tests, within the margin."""
    rows: list[list[Shown]] = []
    for first, second, metric in EQUIVALENT:
        one, other = (results.arms[name] for name in (first, second))
        gap = gap_of(one.system(metric), other.system(metric), metric, results.draws.claims)
        interval = gap.at(0.9)
        assert interval is not None, "a share and a macro-F1 are defined in every resample"
        is_met = interval.low > -MARGIN and interval.high < MARGIN
        name = f"{one.arm.label} and {other.arm.label}|{metric}"
        rows.append([name, within(gap.value, interval), "equivalent" if is_met else "not shown"])
    return rows


study = ts.Study(
    name="study/sft_vs_rl",
    title="SFT against RL",
    question="Does RL teach a small model to tell labels better than SFT does, with nothing else unequal?",
    task=None,
    arms=(),
    complete=with_arms,
    shared=shared,
    own=(
        StudyKey("out", "runs/study-sft_vs_rl", "Folder of the study."),
        StudyKey("world", "quickstart", "Papers, without data: planted, whose best scores are known, or quickstart."),
        StudyKey("data", "", "Folder of a slice; empty: the papers of `world`."),
        StudyKey("at", At.NANO.value, "Settings by size of model: nano, or small (SmolLM2-135M)."),
        StudyKey("model_name", "", "Folder, FILE.gguf, smollm2 or ORG/NAME; else the nano base of these papers."),
        StudyKey("sft_rates", by_world("sft_rates"), "Learning rates that supervised arms try; five make a claim."),
        StudyKey("rl_rates", by_world("rl_rates"), "Learning rates that RL tries, as many as sft_rates."),
        StudyKey("steps", by_world("steps"), "Steps of RL and of SFT."),
        StudyKey("sft_steps", "half of steps", "SFT then RL: number of its first steps that are supervised."),
        StudyKey("groups_per_batch", by_world("groups_per_batch"), "Papers per step, for SFT too."),
        StudyKey("group_size", by_world("group_size"), "Rollouts per paper."),
        StudyKey("prompt_search", "false", "Add the base with a searched prompt as an arm, with its control."),
        StudyKey("search_steps", "as many as look at no fewer papers than RL", "Steps of the search for a prompt."),
        StudyKey("search_batch", str(SearchSettings().batch), "Training papers that edits are tried on."),
        StudyKey("search_candidates", str(SearchSettings().candidates), "Edits proposed in a step."),
        StudyKey("search_gate", str(SearchSettings().gate), "Training papers that the gate draws."),
    ),
    passes=(LABEL_KINDS[Kind.RL].known & LABEL_KINDS[Kind.SFT].known) - {*_SET, "quiet"},
    prefixes=(_REWARD,),
    fixed=_SET,
    sizes={"nano": ts.Size()},
    score=PRIMARY,
    ways={OFFSET: (f"SFT{OFFSETS}", SFT, Split.TEST_OFFSET)},
    expectations=(
        ts.Expectation("RL from base beats SFT with logit offsets", first_claim),
        ts.Expectation("on shuffled labels nothing is shown to be learned", no_label_learned(*UNLEARNED)),
    ),
    tables=(
        scores_of(f"{CAPTION} A decision with offsets is neither sampled nor greedy."),
        standings_of(SFT, RL, MORE, THEN),
        ts.Listing(
            "Equivalence",
            "Two one-sided tests at 0.05 with a margin of one point: the 90 % interval must lie within it.",
            (Column(head="difference", form="+.3f"), "within one point"),
            equivalences,
        ),
    ),
    pictures=(PICTURE, progress_of(SFT, RL, THEN)),
    notes=(
        "SFT samples nothing while it trains: that sampler and trainer are one model was seen in the RL runs, on the "
        "same base and engine.",
        "None of what was learned from shuffled labels may be allowed; SFT then RL is held against RL's control.",
        "SFT then RL takes SFT's chosen rate in its supervised steps, and tries RL's in the others; what was trained "
        "on shuffled labels takes the rate of the arm it controls.",
    ),
)
