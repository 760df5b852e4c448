"""The RL loop, on one page: sample groups, reward them, train on what they teach; again.

The first `sft_steps` steps, where there are any, are supervised ones instead.

It talks to a Tinker server and nothing else. Step n samples from the policy that n updates made, so that sampler and
trainer are the same model and `optim/kl_sample_train` is 0.0 where the server keeps that promise.
"""

from __future__ import annotations

from typing import cast

from tinsmith.lab.course import ExactGradient
from tinsmith.lab.grouping import ScoredGroup, score_groups
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.course import LabelCourse
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.policy import update_policy
from tinsmith.lab.rollout_metrics import rollout_metrics
from tinsmith.lab.rollouts import A, I, Sampling, sample_groups
from tinsmith.lab.run import Finished, Run
from tinsmith.lab.schedule import batch, due, saves_after
from tinsmith.lab.settings import RlSettings
from tinsmith.lab.sft import teach
from tinsmith.types.seeds import derive


def train_rl(run: Run[I, A], settings: RlSettings) -> Finished:
    """Train from where the run stands to its last step; evaluate, save, choose and test.

    Raises:
        LostError: the server was lost; the run can be resumed.
    """
    for step in range(run.step, settings.steps):
        metrics = run.examine(step) if due(step, settings.eval_every) else {}
        if step < settings.sft_steps:
            metrics |= _by_example(run, settings, step)
        else:
            metrics |= _by_reward(run, settings, step)
        run.record(step, metrics)
        if saves_after(step, settings.steps, settings.save_every):
            run.checkpoint(step + 1)
    return run.finish()


def _by_example(run: Run[I, A], settings: RlSettings, step: int) -> dict[str, float]:
    """Take a supervised step; Adam's moments go on over the change to RL, as both train one adapter."""
    course: object = run.course
    assert isinstance(course, LabelCourse), "only labels can be taught by example"
    return teach(cast(Run[Item, Answer], run), course, settings.supervised, step)


def _by_reward(run: Run[I, A], settings: RlSettings, step: int) -> dict[str, float]:
    """Sample a step's groups, and train on what they teach."""
    course = run.course
    items = batch(course.train_items, settings.groups_per_batch, step, settings.seed)
    groups, exact = _sampled(run, settings, step, items)
    with run.timed("train_s"):
        base = run.base() if settings.kl_penalty_coef else None
        metrics = update_policy(run.trainer, groups, settings, step, base, exact)
    return {
        **metrics,
        **rollout_metrics(groups),
        **course.train_metrics(groups),
        **course.trace(),
    }


def _sampled(
    run: Run[I, A], settings: RlSettings, step: int, items: list[I]
) -> tuple[list[ScoredGroup[I, A]], ExactGradient[I] | None]:
    """Sample a step's groups and reward them."""
    with run.timed("sample_s"):
        sampling = Sampling(
            samples=settings.group_size,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=derive(settings.seed, "rollout", step),
            forks=run.course.forks,
        )
        rollouts = sample_groups(run.sampler(), run.course.ground, items, sampling)
    with run.timed("score_s"):
        exact = run.course.exact()  # paid by the state before the step enters it
        groups = score_groups(
            rollouts,
            run.course.score,
            advantage=settings.advantage,
            zero_variance_filter=settings.zero_variance_filter,
            compared_by=None if exact is None else exact.besides,
            by_turn=run.course.by_turn,
        )
        run.saw(step, groups)
    return groups, exact
