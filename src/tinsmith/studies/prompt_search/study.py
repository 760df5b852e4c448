"""A search for a better prompt for the base, beside RL from the prompt that was written by hand.

    tinsmith run prompt_search [size=smallest | at=small] [proposer=model] [key=value ...]

Each search has the base, questions and right answers of a run of RL; the controls have those of another question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

import tinsmith as ts
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.replay import Reopened, plan_again, reopened
from tinsmith.lab.prompt_search import (
    SEARCH_HEADS,
    STEP_HEADS,
    AskedModel,
    Document,
    Earned,
    Search,
    Searched,
    SearchSettings,
    grammar,
    halves_of,
    placed,
    search_cells,
    step_rows,
)
from tinsmith.lab.rollouts import Sampling, mean_earned, sample_groups
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.asked_policy import Draw
from tinsmith.lab.study.checks import no_gain
from tinsmith.lab.study.files import made_once
from tinsmith.lab.study.keys import StudyKey, count
from tinsmith.lab.study.record import Shown
from tinsmith.lab.study.sizes import Asked
from tinsmith.lab.study.study import UNTRAINED, OnRuns
from tinsmith.lab.user_task.entry import TaskFrame
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.pages.measures import counted, signed
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.stats.gate import CheckName, Verdict
from tinsmith.stats.gate import Finding as Check
from tinsmith.studies.prompt_search import task as handbook
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say

_PROPOSAL_TOKENS = 120


class ProposedBy(StrEnum):
    """Proposers of edits."""

    GRAMMAR = "grammar"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Searching:
    """Settings of searches: each has its run's seed."""

    written: Document  # By hand: the beginning of the task's prompts.
    bank: tuple[str, ...]
    proposer: ProposedBy
    search: SearchSettings
    plan_of: Callable[[str, Mapping[str, str]], Plan]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A search, and its test: means of held-out items' answers under both prompts, by name, as exact fractions."""

    searched: Searched
    start: tuple[dict[str, str], dict[str, str]]  # Sampled, and greedily.
    found: tuple[dict[str, str], dict[str, str]]
    unreadable: int  # Lines of a model's proposals that were no edit.

    def earned(self, *, at_start: bool, greedy: bool) -> dict[str, Fraction]:
        """Return what items earn under the first prompt, or the one that was found."""
        values = (self.start if at_start else self.found)[greedy]
        return {name: Fraction(value) for name, value in values.items()}


def searched_on(asked: Searching, folder: Path, file: Path, say: Say) -> Found:
    """Search on the base of a run, or read what was found of it before with the same settings."""
    with reopened(plan_again(folder, (Kind.TASK,), asked.plan_of), folder, say) as there:
        search = msgspec.structs.replace(asked.search, seed=derive(there.materials.plan.settings.seed, "search"))
        key = (search, asked.proposer, there.materials.model_name, asked.written, asked.bank)
        return made_once(file, key, Found, lambda: _search(asked, search, there))


def _search(asked: Searching, settings: SearchSettings, there: Reopened) -> Found:
    plan = there.materials.plan
    frame = plan.frame
    assert isinstance(frame, TaskFrame)
    data, renderer, base = data_of_task(plan), renderer_for(there.tokenizer()), there.base()
    temperature, stop = plan.settings.temperature, tuple(renderer.stop_sequences())
    test = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
    train, selection = halves_of({one.prompt_id: one.unit for one in data.split.train}, settings.seed)
    subject = UserSubject(task=data.task, split=data.split, renderer=renderer)
    items = {one.prompt_id: one for one in (*data.split.train, *test)}

    def write(prompt: str, seed: int) -> str:
        """Return what the base writes when it is asked for edits."""
        message = (Message(role=Role.USER, content=prompt),)
        draw = Draw(prompt=tuple(renderer.build_generation_prompt(message)), seed=seed, max_tokens=_PROPOSAL_TOKENS)
        (tokens,) = base.drawn([draw], temperature=temperature, stop=stop)
        return renderer.parse_response(tokens).message.content

    def score(document: Document, names: Sequence[str], seed: int, samples: int = 1, *, greedy: bool = False) -> Earned:
        """Return the mean reward of each item's answers; items of which every answer failed are left out."""
        groups = sample_groups(
            base.client,
            subject,
            [_under(document, asked.written, items[name]) for name in names],
            Sampling(
                samples=1 if greedy else samples,
                max_tokens=plan.settings.max_tokens,
                temperature=0.0 if greedy else temperature,
                seed=seed,
            ),
        )
        return mean_earned(groups, lambda one: Fraction(repr(one.answer.total)))

    def examined(document: Document) -> tuple[dict[str, str], dict[str, str]]:
        names, seed = [one.prompt_id for one in test], derive(plan.settings.seed, "evaluation")  # the run's own
        both = (score(document, names, seed, frame.eval_samples, greedy=one) for one in (False, True))
        sampled, greedy = ({name: str(value) for name, value in one.items()} for one in both)
        return sampled, greedy

    model = AskedModel(write)
    searched = Search(
        train=train,
        selection=selection,
        prompts={one.prompt_id: one.prompt for one in data.split.train},
        score=score,
        proposer=grammar(asked.bank) if asked.proposer is ProposedBy.GRAMMAR else model,
        settings=settings,
    ).run(asked.written)
    start = examined(searched.start)
    found = start if searched.found == searched.start else examined(searched.found)
    return Found(searched=searched, start=start, found=found, unreadable=model.unreadable)


def _under(document: Document, start: Document, item: UserItem) -> UserItem:
    """Return an item whose prompt begins with another document."""
    *others, last = item.messages
    return replace(item, messages=(*others, replace(last, content=placed(document, start, last.content))))


RL, RL_SHUFFLED, PROMPT, PROMPT_SHUFFLED = "rl", "rl_shuffled", "prompt", "prompt_shuffled"
SEARCHES: Final = {PROMPT: (RL, "prompt searched"), PROMPT_SHUFFLED: (RL_SHUFFLED, "prompt searched, shuffled answers")}
"""Arm whose base, questions and right answers each search has, and its label."""
WRITTEN: Final = "the prompt written by hand"
SCORE: Final = ts.PerItem("reward", "reward")
INSTRUCTIONS: Final = (
    "Follow every instruction exactly.",
    "Read the whole request before you answer.",
    "Check each instruction once more before you finish.",
    "Write only the answer, and nothing before or after it.",
    "Keep the answer short.",
    "Answer in two or three sentences.",
    "Answer in one sentence.",
    "Use each word that you are asked to use.",
    "If a number of words or lines is given, count them.",
    "Do not use commas.",
    "Write in small letters.",
    "Write plain text without any marks.",
    "Do not repeat the request.",
    "Repeat the request before you answer.",
    "You are a careful assistant.",
    "You are a poet.",
    "Write as much as you can.",
    "Think step by step.",
)
"""Lines that a prompt for following instructions may begin with: some are often written there, some do no good."""
TASKS: Final[dict[str, tuple[Document, tuple[str, ...]]]] = {
    handbook.NAME: (handbook.WRITTEN, handbook.BANK),
    "instructions": ((), INSTRUCTIONS),
}
"""The prompt written by hand, and lines to choose from, by task."""
AMOUNTS: Final = {
    "search_steps": ("steps", "Steps of the search."),
    "batch": ("batch", "Training questions that edits are tried on."),
    "candidates": ("candidates", "Edits that are proposed in a step."),
    "most_edits": ("most_edits", "Made at once in the first step; falls."),
    "gate": ("gate", "Questions of selection that the gate draws."),
}
"""Field of the search's settings by key, with the help of the key."""
SearchOn = Callable[[Searching, Path, Path, Say], Found]


def with_arms(study: ts.Study, asked: Asked, *, search: SearchOn = searched_on) -> ts.Study:
    """Return the study with its searches."""
    task, proposer = asked.own["task"], asked.own["proposer"]
    for key, value, allowed in (("task", task, list(TASKS)), ("proposer", proposer, list(ProposedBy))):
        if value not in allowed:
            raise ConfigError("there is no such choice", field=key, value=value, allowed=", ".join(allowed))
    written, bank = TASKS[task]
    amounts = {name: count(key, asked.own[key], 1) for key, (name, _) in AMOUNTS.items()}
    settings = Searching(
        written=written,
        bank=bank,
        proposer=ProposedBy(proposer),
        search=SearchSettings(**amounts),
        plan_of=asked.plan_of,
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


def is_raised(results: ts.Results) -> ts.Finding:
    """Expect that the gate allows the searched prompt above the one written by hand."""
    claim = results.beats[0]
    return ts.Finding(claim.verdict is Verdict.ALLOWED, f"{signed(claim.value)} over it")


def reaches_rl(results: ts.Results) -> ts.Finding:
    """Expect that RL is not shown to end above the searched prompt."""
    _, over_rl, below_rl = results.beats
    is_below = any(one.name is CheckName.DIFFERENCE and one.finding is Check.PASSED for one in below_rl.checks)
    return ts.Finding(not is_below, f"{signed(over_rl.value)} over RL")


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


def _asked_of_the_gate(results: ts.Results) -> str:
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
        ts.Expectation("a search by shuffled answers raises nothing", no_gain(PROMPT_SHUFFLED)),
        ts.Expectation("no search ends lower on the questions of selection than it began", none_lost),
        ts.Expectation("refused edits are never proposed again", none_again),
        ts.Expectation(
            "the hand-written prompt earns in a search what it earns in the run's first evaluation, item by item",
            same_before,
        ),
    ),
    notes=(_asked_of_the_gate,),
)
