"""A search for a better prompt for the base, beside RL from the prompt that was written by hand.

    tinsmith run prompt_search [size=smallest | at=small] [proposer=model] [key=value ...]

Each search has the base, questions and right answers of a run of RL; the controls have those of another question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import tinsmith as ts
from tinsmith.lab.prompt_search import SEARCH_HEADS, STEP_HEADS, Document, SearchSettings, search_cells, step_rows
from tinsmith.lab.study.checks import no_gain
from tinsmith.lab.study.keys import StudyKey, count
from tinsmith.lab.study.record import Shown
from tinsmith.lab.study.sizes import Request
from tinsmith.lab.study.study import UNTRAINED, OnRuns
from tinsmith.pages.measures import counted, signed
from tinsmith.stats.gate import Verdict
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.studies.prompt_search.search import TASKS, Found, ProposedBy, Searching, searched_on
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

RL, RL_SHUFFLED, PROMPT, PROMPT_SHUFFLED = "rl", "rl_shuffled", "prompt", "prompt_shuffled"
SEARCHES: Final = {PROMPT: (RL, "prompt searched"), PROMPT_SHUFFLED: (RL_SHUFFLED, "prompt searched, shuffled answers")}
"""Arm whose base, questions and right answers each search has, and its label."""
WRITTEN: Final = "the prompt written by hand"
SCORE: Final = ts.PerItem("reward", "reward")
AMOUNTS: Final = {
    "search_steps": ("steps", "Steps of the search."),
    "batch": ("batch", "Training questions that edits are tried on."),
    "candidates": ("candidates", "Edits that are proposed in a step."),
    "most_edits": ("most_edits", "Made at once in the first step; falls."),
    "gate": ("gate", "Questions of selection that the gate draws."),
}
"""Field of the search's settings by key, with the help of the key."""
SearchOn = Callable[[Searching, Path, Path, Say], Found]


def with_arms(study: ts.Study, request: Request, *, search: SearchOn = searched_on) -> ts.Study:
    """Return the study with its searches."""
    task, proposer = request.own["task"], request.own["proposer"]
    for key, value, allowed in (("task", task, list(TASKS)), ("proposer", proposer, list(ProposedBy))):
        if value not in allowed:
            raise ConfigError("there is no such choice", field=key, value=value, allowed=allowed)
    written, bank = TASKS[task]
    amounts = {name: count(key, request.own[key], 1) for key, (name, _) in AMOUNTS.items()}
    settings = Searching(
        written=written,
        bank=bank,
        proposer=ProposedBy(proposer),
        search=SearchSettings(**amounts),
        plan_of=request.plan_of,
    )
    keys = {key: value for key, value in msgspec.structs.asdict(settings.search).items() if key != "seed"}
    searched = [
        ts.Arm(
            name,
            label,
            {"proposer": proposer, **keys},
            on=OnRuns(folder="searches", name=name, arm=of, before=WRITTEN, make=partial(search, settings)),
            values=lambda found, at, greedy: found.earned(at_start=at == ts.BEFORE, greedy=greedy),
        )
        for name, (of, label) in SEARCHES.items()
    ]
    return replace(study, arms=[*searched, *study.arms], clusters=partial(_unit, task), tables=_tables(written))


def _unit(task: str, item: str) -> str:
    """Return what is drawn together: all questions about a sign of the handbook."""
    return item.split("-")[0] if task == handbook.NAME else item


def rewarded(arm: ts.ArmRuns) -> int:
    """Return how many answers an arm was rewarded for."""
    if arm.made:
        return max(one.searched.answered for one in arm.made)
    return arm.setting("steps", 1) * arm.setting("groups_per_batch", 1) * arm.setting("group_size", 1)


def searches(results: ts.Results) -> list[tuple[str, Found]]:
    """Return every search with its name on the page."""
    return [
        (f"{label}, seed {read.run.config.seed}", one)
        for name, (_, label) in SEARCHES.items()
        for arm in [results.arms[name]]
        for read, one in zip(arm.reads, arm.made, strict=True)
    ]


def _tables(written: Document) -> tuple[ts.Listing, ...]:
    def rows(results: ts.Results) -> list[list[Shown]]:
        begin: list[Shown] = [WRITTEN, *[None] * (len(SEARCH_HEADS) - 1), " / ".join(written) or "none"]
        return [begin, *([name, *search_cells(one.searched)] for name, one in searches(results))]

    return (
        ts.Listing(
            "Searches",
            "What the prompt earns on all questions of selection, one answer each. Put: steps in which something "
            "helped on the batch and went to the gate. Asked: answers of the search in all. Lines: before each "
            "question.",
            SEARCH_HEADS,
            rows,
            names="Search",
        ),
        ts.Listing(
            "Steps",
            "Each step tries edits on some training questions, takes the best few of those that helped, and asks the "
            "gate: questions of selection, drawn anew each time, the same ones under both prompts. Only what earns "
            "strictly more passes; what does not is never proposed again.",
            STEP_HEADS,
            lambda results: step_rows((name, one.searched) for name, one in searches(results)),
            names="Step",
        ),
    )


REACHED: Final = 0.1  # Of the reward.


def is_raised(results: ts.Results) -> ts.Finding:
    """Expect that the gate allows the searched prompt above the one written by hand."""
    claim = results.beats[0]
    return ts.Finding(claim.verdict is Verdict.ALLOWED, f"{signed(claim.value)} over it")


def reaches_rl(results: ts.Results) -> ts.Finding:
    """Expect that the searched prompt is shown to end less than `REACHED` below RL; wide intervals show nothing."""
    _, over_rl, _ = results.beats
    ends = over_rl.interval
    figures = f"{signed(over_rl.value)} over RL"
    if ends is None:
        return ts.Finding(False, figures)
    return ts.Finding(ends.low > -REACHED, f"{figures}, {signed(ends.low)} to {signed(ends.high)}")


def no_claim_of_control(results: ts.Results) -> ts.Finding:
    """Expect that nothing is claimed from shuffled answers."""
    control = results.arms[PROMPT_SHUFFLED].arm.label
    allowed = [one for one in results.learned if one.first == control and one.verdict is Verdict.ALLOWED]
    return ts.Finding(not allowed, f"{len(allowed)} claims allowed")


def none_lost(results: ts.Results) -> ts.Finding:
    """Expect that no search ends lower on the questions of selection than it began."""
    every = [one.searched for _, one in searches(results)]
    lost, changed = sum(one.after < one.before for one in every), sum(one.found != one.start for one in every)
    return ts.Finding(
        not lost, f"{lost} of {counted(len(every), 'search', 'searches')}; {changed} found another prompt"
    )


def none_again(results: ts.Results) -> ts.Finding:
    """Expect that refused edits are never proposed again."""
    every = [one.searched for _, one in searches(results)]
    again, rejected = sum(one.again for one in every), sum(len(one.rejected) for one in every)
    return ts.Finding(not again, f"{again} of {rejected}")


def same_before(results: ts.Results) -> ts.Finding:
    """Expect that the hand-written prompt earns in every search what the run's first evaluation says, item by item."""
    pairs = [
        [results.arms[one].per_item(SCORE, ts.BEFORE).by_seed for one in (name, of)]
        for name, (of, _) in SEARCHES.items()
    ]
    met = all(mine == other for mine, other in pairs)
    return ts.Finding(met, "in every search" if met else "not in every search")


def _claims_at_the_gate(results: ts.Results) -> str:
    every = [one for _, one in searches(results)]
    accepted = sum(one.searched.accepted for one in every)
    return f"The gate was asked {sum(one.searched.put for one in every)} times and let edits through {accepted} times."


_USUAL: Final = SearchSettings()
study = ts.Study(
    name="prompt_search",
    question="Does a search for a better prompt reach what RL reaches, with the model as it is?",
    task=handbook.NAME,
    arms=(ts.Arm(RL, "RL"), ts.Arm(RL_SHUFFLED, "RL, shuffled answers", shuffle_labels=True)),
    complete=with_arms,
    own=(
        StudyKey("task", handbook.NAME, f"What is asked: {' or '.join(TASKS)} (at=small)."),
        StudyKey("proposer", ProposedBy.GRAMMAR.value, "Who proposes: grammar, or model."),
        *(StudyKey(key, str(getattr(_USUAL, name)), words) for key, (name, words) in AMOUNTS.items()),
    ),
    keys={"save_every": 0},
    sizes={
        "smallest": ts.Size(
            "learning_rate=0.002 steps=4 eval_every=4 eval_items=24 base_steps=200 search_steps=3 batch=8 "
            "candidates=6 gate=16",
            seeds=[1],
        ),
        "nano": ts.Size(learning_rate=2e-3, steps=60, eval_every=20),
        "small": ts.Size(
            {
                **{"task": "instructions", "at": "small", "learning_rate": 3e-4, "watch_forgetting": False},
                **{"steps": 20, "eval_every": 20, "eval_items": 40, "eval_samples": 2},
                **{"search_steps": 8, "batch": 12, "candidates": 5, "gate": 24},
            },
            seeds=[1],
        ),
    },
    score=SCORE,
    effort=rewarded,
    claims=(
        *(ts.Beats(PROMPT, UNTRAINED), ts.Beats(PROMPT, RL), ts.Beats(RL, PROMPT)),
        *(ts.Learned(PROMPT, PROMPT_SHUFFLED), ts.Learned(RL, RL_SHUFFLED)),
        ts.Learned(PROMPT_SHUFFLED, PROMPT_SHUFFLED, family="controls"),
    ),
    expectations=(
        ts.Expectation("the search raises what the prompt written by hand earns", is_raised),
        ts.Expectation("the searched prompt reaches RL from the prompt written by hand", reaches_rl),
        ts.Expectation("nothing may be claimed from shuffled answers", no_claim_of_control),
        ts.Expectation("a search by shuffled answers is not shown to raise anything", no_gain(PROMPT_SHUFFLED)),
        ts.Expectation("no search ends lower on the questions of selection than it began", none_lost),
        ts.Expectation("refused edits are never proposed again", none_again),
        ts.Expectation(
            "the hand-written prompt earns in a search what it earns in the run's first evaluation, item by item",
            same_before,
        ),
    ),
    notes=(_claims_at_the_gate,),
)
