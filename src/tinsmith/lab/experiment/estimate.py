"""What a run would take, before it is run: identity, changes, tokens, time and disk, from a few measured rates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.splits import Split
from tinsmith.lab.study.compute_spent import Cost
from tinsmith.lab.experiment.fingerprints import plan_fingerprint
from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.experiment.keys import (At, DebateFrame, RubricFrame,)
from tinsmith.lab.experiment.model_pace import (Lengths, MEASURED_PARAMETERS, machine_pace, run_seconds,)
from tinsmith.lab.experiment.own_rates import require_own_rates
from tinsmith.lab.experiment.place_limits import place_limits
from tinsmith.lab.experiment.places import SMALL_MODEL
from tinsmith.lab.experiment.plan import Plan
from tinsmith.studies.rubrics.matter import rubric_matter
from tinsmith.models.base import read_shape
from tinsmith.models.published.sources import is_here
from tinsmith.lab.runs.kinds import Kind
from tinsmith.studies.rubrics.splitting import RubricSplit
from tinsmith.lab.settings import (RlSettings, SftSettings,)

PROMPT_TOKENS = {At.NANO: 150, At.SMALL: 237, At.SEED: 440}
"""Of a paper with the nano base's tokenizer and brief prompt, and with SmolLM2's and the short one; the source notes',
from their log."""
ANSWER_TOKENS = {At.NANO: 14, At.SMALL: 19, At.SEED: 40}
CHARACTERS_PER_TOKEN = {At.NANO: 3.75, At.SMALL: 4.3, At.SEED: 4.3}
"""Of titles and abstracts: with the nano base's tokenizer (high energy physics), and with large vocabularies."""
ASKING_TOKENS = {At.NANO: 25, At.SMALL: 80, At.SEED: 250}
"""What the prompt adds to them: brief, short, and a ladder's."""
RUBRIC_TOKENS = (35, 0.7)
"""What a chat template adds to an instruction, and the share of max_tokens that an answer to one takes."""
TEST_ITEMS = 500
"""Papers of a test split, where nothing limits it."""
TOKENS_PER_SECOND = 14_000
"""Of the nano base, trained on two cores; evaluations take a third of it a token."""
_MEGABYTES = 20
"""Of a run's folder."""


def dry_run(plan: Plan) -> list[str]:
    """Return what a person wants to know before starting; nothing is written or built."""
    require_own_rates(plan)
    settings = plan.settings
    lines = [
        f"{plan.title}: {plan.experiment.question}",
        *_descent(plan),
        f"values: {_listed(plan.resolved())}",
        f"identity (without papers and model): {plan_fingerprint(plan)[:16]}",
        *place_limits(plan),
    ]
    if isinstance(plan.frame, RubricFrame):
        matter = rubric_matter(plan)
        asked = _rubric_lengths(plan, plan.frame, matter.split)
        taken = model_minutes(plan, asked)
        time = [] if taken is None else [f"time: {time_and_disk(taken, _MEGABYTES)}"]
        return [*lines, *matter.before(), *time]
    trained, looked_at = _tokens(plan)
    lines.append(
        f"{settings.steps} steps; about {trained / 1e6:.1f} M tokens trained on, {looked_at / 1e6:.1f} M evaluated"
    )
    return [*lines, f"time: {time_and_disk(minutes(plan), _MEGABYTES)}"]


def _descent(plan: Plan) -> list[str]:
    """Say what the experiment changes in its parent, and what was changed of it here."""
    experiment = plan.experiment
    parent = "no parent" if experiment.parent is None else f"parent: {experiment.parent}"
    lines = [f"{parent}; its own: {_listed(experiment.delta)}"]
    if plan.overrides:
        lines.append(f"changed here: {_listed(plan.overrides)}")
    return lines


def _listed(values: Mapping[str, object]) -> str:
    return " ".join(f"{key}={shown_value(value)}" for key, value in values.items())


def time_and_disk(taken: float | None, megabytes: int) -> str:
    """Say how many minutes something takes, if that is known, and what it leaves on disk."""
    if taken is None:
        return "unknown: it depends on the server and its model"
    digits = 1 if taken < 10.0 else 0
    told = f"{taken:.{digits}f} minutes" if taken < 180.0 else f"{taken / 60.0:.0f} hours"
    return f"about {told} on two cores; about {megabytes} MB of disk"


def minutes(plan: Plan, prompt_tokens: int | None = None) -> float | None:
    """Return how long a run on papers takes on two cores; None: nothing is known of the model.

    `prompt_tokens` is said where it is known that a paper is longer or shorter than PROMPT_TOKENS; those of a slice
    that is named are estimated from its text.

    Raises:
        DataError: there is no slice, or it was changed.
    """
    where, at = plan.circumstances, plan.frame.at
    if where.base_url is not None or where.device != "cpu":
        return None
    if at is At.NANO and where.model_name is None:
        trained, looked_at = _tokens(plan, prompt_tokens)
        return (trained / TOKENS_PER_SECOND + looked_at / (3 * TOKENS_PER_SECOND)) / 60
    lengths = Lengths(
        prompt=_prompt_length(plan, prompt_tokens),
        answer=min(ANSWER_TOKENS[at], plan.settings.max_tokens),
        labels=len(plan.task.labels) if plan.frame.kind in (Kind.RL, Kind.SFT) else 0,
        examined=plan.settings.eval_items,
        tested=plan.settings.test_items or TEST_ITEMS,
    )
    return model_minutes(plan, lengths)


def model_minutes(plan: Plan, lengths: Lengths) -> float | None:
    """Return what a run takes with the model that it names; None: how large it is is not known."""
    where = plan.circumstances
    parameters = _parameters(where.model_name)
    if parameters is None or where.base_url is not None or where.device != "cpu":
        return None
    return run_seconds(plan.settings, lengths, machine_pace(parameters)) / 60


def _parameters(model_name: str | None) -> int | None:
    if model_name == SMALL_MODEL:
        return MEASURED_PARAMETERS  # whether or not it was fetched yet
    if model_name is None or not is_here(model_name):
        return None
    return Cost(read_shape(model_name)).parameters


def _rubric_lengths(plan: Plan, frame: RubricFrame, split: RubricSplit) -> Lengths:
    template, share = RUBRIC_TOKENS
    tasks = (*split.train, *split.test)
    characters = sum(len(task.prompt) for task in tasks) / len(tasks)
    return Lengths(
        prompt=template + characters / CHARACTERS_PER_TOKEN[frame.at],
        answer=share * plan.settings.max_tokens,
        examined=min(plan.settings.eval_items, len(split.test or split.train)),
        eval_samples=frame.eval_samples,
    )


@lru_cache
def _prompt_tokens(folder: Path, at: At) -> int:
    lengths = [
        len(row.title) + len(row.abstract or "") for row in Slice.open(folder).rows(Split.TRAIN)
    ]
    read = sum(lengths) / CHARACTERS_PER_TOKEN[at] / max(1, len(lengths))
    return ASKING_TOKENS[at] + round(read)


def _prompt_length(plan: Plan, known: int | None) -> int:
    at, data = plan.frame.at, plan.circumstances.data
    if known is not None:
        return known
    return PROMPT_TOKENS[at] if data is None else _prompt_tokens(data, at)


def _tokens(plan: Plan, prompt_tokens: int | None = None) -> tuple[int, int]:
    settings, at = plan.settings, plan.frame.at
    length = _prompt_length(plan, prompt_tokens) + ANSWER_TOKENS[at]
    if isinstance(settings, RlSettings):
        forks = plan.frame.forks if isinstance(plan.frame, DebateFrame) else 1
        a_step = settings.group_size * settings.groups_per_batch * forks
    else:
        assert isinstance(settings, SftSettings)
        a_step = settings.batch_size
    evaluations = settings.steps // settings.eval_every + 1 if settings.eval_every else 1
    looked_at = 2 * evaluations * settings.eval_items + 4 * (settings.test_items or TEST_ITEMS)
    return settings.steps * a_step * length, looked_at * length
