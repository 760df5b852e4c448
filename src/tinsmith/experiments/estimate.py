"""What a run would take, before it is run: identity, changes, tokens, time and disk, from a few measured rates."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tinsmith.data.slice_reader import Slice
from tinsmith.data.splits import Split
from tinsmith.experiments.fingerprints import plan_fingerprint
from tinsmith.experiments.keys import At, DebateFrame, RubricFrame
from tinsmith.experiments.own_rates import require_own_rates
from tinsmith.experiments.place_limits import place_limits
from tinsmith.experiments.plan import Plan
from tinsmith.experiments.registry import lineage
from tinsmith.experiments.rubric_matter import rubric_matter
from tinsmith.training.settings import RlSettings, SftSettings

PROMPT_TOKENS = {At.NANO: 150, At.SEED: 440}
"""Of a paper with the nano base's tokenizer and brief prompt; the seeds' own, from their log."""
ANSWER_TOKENS = {At.NANO: 14, At.SEED: 40}
CHARACTERS_PER_TOKEN = 3.75
"""Of titles and abstracts, with the nano base's tokenizer (high energy physics)."""
ASKING_TOKENS = 25
"""What the brief prompt adds to them."""
TOKENS_PER_SECOND = 14_000
"""Of the nano base, trained on two cores; evaluations take a third of it a token."""
_MEGABYTES = 20
"""Of a run's folder."""


def dry_run(plan: Plan) -> list[str]:
    """Return what a person wants to know before starting; nothing is written or built."""
    require_own_rates(plan)
    settings = plan.settings
    changes = ", ".join(
        f"{key}={value}" for one in lineage(plan.experiment) for key, value in one.delta.items()
    )
    lines = [
        f"{plan.title}: {plan.experiment.question}",
        f"identity (without papers and model): {plan_fingerprint(plan)[:16]}",
        f"from the root: {changes}",
    ]
    if plan.overrides:
        changed = ", ".join(f"{key}={value}" for key, value in plan.overrides.items())
        lines.append(f"changed here: {changed}")
    lines += place_limits(plan)
    if isinstance(plan.frame, RubricFrame):
        return [*lines, *rubric_matter(plan).before()]
    trained, looked_at = _tokens(plan)
    lines.append(
        f"{settings.steps} steps; about {trained / 1e6:.1f} M tokens trained on, {looked_at / 1e6:.1f} M evaluated"
    )
    return [*lines, f"time: {time_and_disk(minutes(plan), _MEGABYTES)}"]


def time_and_disk(taken: float | None, megabytes: int) -> str:
    """Say how many minutes something takes, if that is known, and what it leaves on disk."""
    if taken is None:
        return "as long as the server takes; nothing is known of it here"
    digits = 1 if taken < 10.0 else 0
    return f"about {taken:.{digits}f} minutes on two cores; about {megabytes} MB of disk"


def minutes(plan: Plan, prompt_tokens: int | None = None) -> float | None:
    """Return how long a run on papers takes the nano base on two cores; None: nothing is known of another model.

    `prompt_tokens` is said where it is known that a paper is longer or shorter than PROMPT_TOKENS; those of a slice
    that is named are estimated from its text.

    Raises:
        DataError: there is no slice, or it was changed.
    """
    where = plan.circumstances
    if plan.frame.at is not At.NANO or where.model_name is not None or where.base_url is not None:
        return None
    trained, looked_at = _tokens(plan, prompt_tokens)
    return (trained / TOKENS_PER_SECOND + looked_at / (3 * TOKENS_PER_SECOND)) / 60


@lru_cache
def _prompt_tokens(folder: Path) -> int:
    lengths = [
        len(row.title) + len(row.abstract or "") for row in Slice.open(folder).rows(Split.TRAIN)
    ]
    return ASKING_TOKENS + round(sum(lengths) / CHARACTERS_PER_TOKEN / max(1, len(lengths)))


def _tokens(plan: Plan, prompt_tokens: int | None = None) -> tuple[int, int]:
    settings, at = plan.settings, plan.frame.at
    data = plan.circumstances.data
    if prompt_tokens is None and data is not None and at is At.NANO:
        prompt_tokens = _prompt_tokens(data)
    length = (prompt_tokens or PROMPT_TOKENS[at]) + ANSWER_TOKENS[at]
    if isinstance(settings, RlSettings):
        forks = plan.frame.forks if isinstance(plan.frame, DebateFrame) else 1
        a_step = settings.group_size * settings.groups_per_batch * forks
    else:
        assert isinstance(settings, SftSettings)
        a_step = settings.batch_size
    evaluations = settings.steps // settings.eval_every + 1 if settings.eval_every else 1
    looked_at = 2 * evaluations * settings.eval_items + 4 * 500
    return settings.steps * a_step * length, looked_at * length
