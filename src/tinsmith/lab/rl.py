"""RL loop on one page: sample groups, reward them, train, repeat.

A step that learns by example is supervised instead (see sft.py, also for the base's own rollouts as examples):
all of SFT's, and the first `sft_steps` of RL.

It talks to a Tinker server and nothing else. Step n samples from the policy that n updates made, so that sampler and
trainer are the same model and `optim/kl_sample_train` is 0.0 where the server keeps that promise. Rollouts drawn at a
temperature other than 1 are of another distribution: a few of them are scored at 1 and compared there.
"""

from __future__ import annotations

from tinsmith.lab.confidence import shaped_groups
from tinsmith.lab.grouping import ScoredGroup, left_out_by_spread, rollout_metrics, score_groups
from tinsmith.lab.policy import ExactGradient, update_agents, update_policy
from tinsmith.lab.rollouts import A, I, Sampling, sample_groups
from tinsmith.lab.run import Run
from tinsmith.lab.runs.records import Selected
from tinsmith.lab.schedule import Turn, batch, due, ratio_of, saves_after
from tinsmith.lab.settings import RlSettings, SparseSettings
from tinsmith.lab.sft import select, teach
from tinsmith.lab.subject import force_options
from tinsmith.types.seeds import derive


def train(run: Run[I, A]) -> Selected | None:
    """Train from the run's current step to its last; evaluate, save, select and test.

    Returns None if the run stopped before its end, at `stop_after` or interrupted; it can be resumed from there.
    """
    with run.interrupts.put_off():
        for step in range(run.step, run.settings.steps):
            if run.stops_here:
                return None
            if run.spent:
                break
            take_step(run, step)
            stops = run.stops_here or run.interrupts.number is not None
            last = step + 1 if run.spent else run.settings.steps
            if stops or saves_after(step, last, run.settings.save_every):
                run.checkpoint(step + 1)
            if stops:
                return None
    run.interrupts.end()
    return run.finish()


def take_step(run: Run[I, A], step: int) -> None:
    """Take one step, and write its metrics."""
    settings = run.settings
    metrics = run.examine(step) if due(step, settings.eval_every) else {}
    # Adam's moments go on over a change from examples to rewards, as both train one adapter.
    examples = settings.by_example(step)
    if isinstance(examples, SparseSettings):
        metrics |= select(run, examples, step)
    else:
        metrics |= _by_reward(run, step) if examples is None else teach(run, examples, step)
    run.record(step, metrics)


def _by_reward(run: Run[I, A], step: int) -> dict[str, float]:
    course, settings = run.course, run.settings
    assert isinstance(settings, RlSettings), "other settings teach by example"
    ratio = ratio_of(settings.interleave)
    turn = Turn(aside=False, before=step) if ratio is None else ratio.turn(step)
    pool = course.aside_items if turn.aside else course.train_items
    items = batch(pool, settings.groups_per_batch, turn.before, settings.seed, course.subject.unit)
    groups, exact, shaping = _sampled(run, settings, step, items)
    with run.timed("train_s"):
        base = run.base() if settings.kl_penalty_coef else None
        if run.agents.several:
            metrics = update_agents(run.trainers, groups, settings, step, base, run.samplers())
        else:
            metrics = update_policy(run.trainer, groups, settings, step, base, exact, run.sampler())
    drawn = [one.drawn(settings.group_size) for one in groups] if settings.force_options else groups
    return {
        **metrics,
        **({} if ratio is None else {"train/aside": float(turn.aside)}),
        **shaping,
        **rollout_metrics(drawn),
        **course.subject.train_figures(drawn),
        **course.subject.trace(),
    }


def _sampled(
    run: Run[I, A], settings: RlSettings, step: int, items: list[I]
) -> tuple[list[ScoredGroup[I, A]], ExactGradient[I] | None, dict[str, float]]:
    """Sample a step's groups and reward them; return metrics of terms added to their advantages too."""
    course = run.course
    with run.timed("sample_s"):
        sampling = Sampling(
            samples=settings.group_size,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            seed=derive(settings.seed, "rollout", step),
            forks=course.forks,
            observes=settings.env_loss_coef > 0.0,
        )
        if settings.force_options:
            rollouts = force_options(run.sampler(), course.subject, items, sampling)
        else:
            rollouts = sample_groups(run.policy(), course.subject, items, sampling)
    with run.timed("score_s"):
        # Paid by the rewards' state before the step enters it.
        exact = None if course.exact is None else course.exact()
        groups = score_groups(
            rollouts,
            course.subject.score,
            advantage=settings.advantage,
            zero_variance_filter=settings.zero_variance_filter,
            compared_by=None if exact is None else exact.besides,
            forks=course.forks,
        )
        if settings.snr_filter:
            groups = left_out_by_spread(groups, settings.snr_filter)
        shaping: dict[str, float] = {}
        if settings.confidence_penalty:
            groups, shaping = shaped_groups(
                run.trainer,
                course.subject,
                groups,
                penalty=settings.confidence_penalty,
                prefixes=settings.confidence_prefixes,
                seed=derive(settings.seed, "confidence", step),
            )
        run.observe(step, groups)
    return groups, exact, shaping
