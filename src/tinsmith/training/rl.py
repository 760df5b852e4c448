"""The RL loop, on one page: sample groups, reward them, train on what they teach; again.

It talks to a Tinker server and nothing else. Step n samples from the policy that n updates made, so that sampler and
trainer are the same model and `optim/kl_sample_train` is 0.0 where the server keeps that promise.
"""

from __future__ import annotations

from tinsmith.tasks.paper import Item
from tinsmith.tasks.rewards import Reward
from tinsmith.training.exact import LabelGradient
from tinsmith.training.grouping import score_groups
from tinsmith.training.policy import update_policy
from tinsmith.training.rollout_metrics import rollout_metrics
from tinsmith.training.rollouts import Sampling, sample_groups
from tinsmith.training.run import Finished, Run
from tinsmith.training.schedule import batch, due, saves_after
from tinsmith.training.settings import Gradient, RlSettings
from tinsmith.types.seeds import derive


def train_rl(run: Run, settings: RlSettings, reward: Reward) -> Finished:
    """Train from where the run stands to its last step; evaluate, save, choose and test.

    Raises:
        LostError: the server was lost; the run can be resumed.
    """
    for step in range(run.step, settings.steps):
        metrics = run.evaluate(step) if due(step, settings.eval_every) else {}
        items = batch(run.train_items, settings.groups_per_batch, step, settings.seed)
        metrics |= _step(run, settings, reward, step, items)
        run.record(step, {**metrics, **reward.trace()})
        if saves_after(step, settings.steps, settings.save_every):
            run.checkpoint(step + 1)
    return run.finish()


def _step(
    run: Run, settings: RlSettings, reward: Reward, step: int, items: list[Item]
) -> dict[str, float]:
    with run.timed("sample_s"):
        sampling = Sampling(
            samples=settings.group_size,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=derive(settings.seed, "rollout", step),
        )
        rollouts = sample_groups(run.sampler(), run.study, items, sampling)
    with run.timed("score_s"):
        exact = None
        if settings.gradient is Gradient.EXACT:  # paid by the state before the step enters it
            paid, size = reward.per_label(), settings.group_size
            exact = LabelGradient(study=run.study, paid=paid, group_size=size)
        groups = score_groups(
            rollouts,
            reward,
            advantage=settings.advantage,
            zero_variance_filter=settings.zero_variance_filter,
            without_task=exact is not None,
        )
        run.saw(step, groups)
    with run.timed("train_s"):
        base = run.base() if settings.kl_penalty_coef else None
        trained = update_policy(run.trainer, groups, settings, step, base, exact)
    return {**rollout_metrics(groups, run.study.task.labels), **trained}
