"""Supervised fine-tuning through the Tinker API: the contract's answer with the gold label, its tokens only.

The loss is the mean over the batch's answers of their token sums, so that a step does not depend on how long answers
are. It writes the same run folder as the RL loop, and is evaluated and selected in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import tinker

from tinsmith.lab.datums import answer_datum
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.course import LabelCourse
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.policy import adam, step_metrics
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.run import Finished, Run
from tinsmith.lab.schedule import batch, due, saves_after
from tinsmith.lab.settings import SftSettings


def train_sft(run: Run[Item, Answer], course: LabelCourse, settings: SftSettings) -> Finished:
    """Train from where the run stands to its last step; evaluate, save, choose and test.

    Raises:
        LostError: the server was lost; the run can be resumed.
    """
    for step in range(run.step, settings.steps):
        metrics = run.examine(step) if due(step, settings.eval_every) else {}
        metrics |= teach(run, course, settings, step)
        run.record(step, metrics)
        if saves_after(step, settings.steps, settings.save_every):
            run.checkpoint(step + 1)
    return run.finish()


def teach(
    run: Run[Item, Answer], course: LabelCourse, settings: SftSettings, step: int
) -> dict[str, float]:
    """Take one supervised step; return its metrics."""
    with run.timed("train_s"):
        items = batch(course.train_items, settings.batch_size, step, settings.seed)
        return _update(run.trainer, [course.example(item) for item in items], settings, step)


def _update(
    trainer: tinker.TrainingClient,
    examples: Sequence[tuple[tuple[int, ...], int]],
    settings: SftSettings,
    step: int,
) -> dict[str, float]:
    weight = 1.0 / len(examples)
    datums: list[tinker.Datum] = [
        answer_datum(tokens, prompt_length, weight) for tokens, prompt_length in examples
    ]
    forward_backward = trainer.forward_backward(datums, "cross_entropy")
    stepped = trainer.optim_step(adam(settings, step))
    loss = forward_backward.result(WAIT_SECONDS).metrics["loss:sum"]
    answered = sum(len(tokens) - prompt_length for tokens, prompt_length in examples)
    told = step_metrics(settings, step, loss, stepped.result(WAIT_SECONDS))
    return {"train/nll": loss * len(examples) / answered, **told}
