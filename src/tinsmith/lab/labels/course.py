"""The course of papers with labels: they are evaluated, watched for collapse, and tested by what is theirs alone."""

from __future__ import annotations

import tinker

from tinsmith.lab.course import Course, Tested
from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.labels.exact import LabelGradient
from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.offset import tested_with_offset
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.watch import LabelWatch
from tinsmith.lab.schedule import subset
from tinsmith.lab.settings import CommonSettings, Gradient, RlSettings, SftSettings

LabelCourse = Course[Item, Answer]


def label_course(study: LabelledPapers, settings: CommonSettings) -> LabelCourse:
    """Return how a run trains on papers, and tests the chosen policy and the last one."""

    def exact() -> LabelGradient:
        assert isinstance(settings, RlSettings)
        assert study.reward is not None, "nothing is rewarded"
        (reward,) = study.reward.rewards  # both labels in one answer have no exact gradient
        return LabelGradient(study=study, paid=reward.per_label(), group_size=settings.group_size)

    def with_offset(chosen: tinker.SamplingClient, step: int) -> Tested:
        metrics, lines = tested_with_offset(
            chosen,
            study,
            subset(study.papers.validation, settings.eval_items),
            subset(study.papers.test, settings.test_items),
            step=step,
        )
        return Tested(metrics=metrics, lines=lines)

    computed = isinstance(settings, RlSettings) and settings.gradient is Gradient.EXACT
    offset = isinstance(settings, SftSettings) and settings.logit_offset
    return Course(
        subject=study,
        settings=settings,
        watch=LabelWatch(study, settings.select_by),
        exact=exact if computed else None,
        tests_last=True,
        also_tested=with_offset if offset else None,
    )
