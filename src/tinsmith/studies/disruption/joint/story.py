"""The first paragraph of the page of a run on two labels, from the figures alone, and what they cannot say."""

from __future__ import annotations

from collections.abc import Sequence

from tinsmith.lab.results.run_story import asked
from tinsmith.lab.runs.records import Split
from tinsmith.pages.measures import BOOTSTRAP, from_estimate
from tinsmith.pages.wording import counted, listed, told
from tinsmith.studies.disruption.joint.gathering import JointRun
from tinsmith.studies.disruption.joint.tables import Both, Constant


def joint_story(
    read: JointRun, models: Sequence[Both], baselines: Sequence[Both], constant: Constant | None
) -> tuple[str, ...]:
    """Return the sentences; what is not known is said to be so."""
    sentences = [asked(read.run)]
    if not models:
        sentences.append("It was not evaluated, so nothing can be said of what it learned.")
        return tuple(sentences)
    sentences += [_reached(read, models), _both_right(models[0], constant)]
    if baselines:
        sentences.append(_beside(models[0], baselines))
    sentences.append(_alarms(read))
    return tuple(sentences)


def _reached(read: JointRun, models: Sequence[Both]) -> str:
    tested = read.last(Split.TEST) is not None
    papers = counted(models[0].evaluation.num_items, "test paper" if tested else "validation paper")
    missed = "" if tested else " (the test split was not reached)"
    sentence = f"On {papers}{missed} its macro-F1 is {_scores(models[0])}, sampled at the training temperature"
    greedy = next((one for one in models if "greedy" in one.name), None)
    return f"{sentence}; greedily it is {_scores(greedy)}." if greedy else f"{sentence}."


def _scores(both: Both) -> str:
    return listed(
        [
            f"{told(from_estimate(one.estimates(BOOTSTRAP)['macro_f1']))} for {name}"
            for name, one in both.evaluation.tasks.items()
        ]
    )


def _both_right(first: Both, constant: Constant | None) -> str:
    found = first.agreement
    gap = found.difference.interval
    if gap is not None and gap.low > 0:
        words = "it tends to be right on both labels of the same papers"
    elif gap is not None and gap.high < 0:
        words = "where it is right on one label it tends to be wrong on the other"
    else:
        words = "being right on one label is not told apart from independent of being right on the other"
    sentence = (
        f"Both labels are right on {told(from_estimate(found.exact_match))} of the papers, where independence would "
        f"give {found.independent.value:.3f} (difference {told(from_estimate(found.difference))}): {words}."
    )
    if constant is None:
        return sentence
    pair = " and ".join(constant.labels)
    above = found.exact_match.interval is not None and (found.exact_match.interval.low > constant.right.value)
    beside = "above" if above else "not above"
    return f"{sentence} That is {beside} the best constant pair, {pair}, with {constant.right.value:.3f}."


def _beside(first: Both, baselines: Sequence[Both]) -> str:
    own = first.agreement.exact_match
    parts = [
        f"{one.name if 'TF-IDF' in one.name else one.name.lower()} {one.agreement.exact_match.value:.3f}"
        for one in baselines
    ]
    return f"Of the slice's baselines, {listed(parts)} have both right (this run: {own.value:.3f})."


def _alarms(read: JointRun) -> str:
    parts = [
        f"{counted(len(member.run.alarms), 'alarm')} for {name}"
        for name, member in read.tasks.items()
        if member.run.alarms
    ]
    if not parts:
        return "No alarm was raised for either label."
    return f"The collapse monitors raised {listed(parts)}; see below."
