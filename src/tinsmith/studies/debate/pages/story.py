"""The sentences at the top of a page about a challenger: what the model gives way to, and what that does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import Split
from tinsmith.pages.wording import counted, signed
from tinsmith.studies.debate.pages.gathering import CONTROL, GREEDY, SCRIPTED, TEST, DebateRun
from tinsmith.studies.debate.statistics import ALL, Figure, Figures

_LEAKS = 1e-9

Groups = Mapping[str, Figures]


def debate_story(read: DebateRun) -> tuple[str, ...]:
    """Return the sentences; the first is the answer."""
    split = main_split(read)
    if split is None:
        return ("Nothing can be told: no conversation was examined.",)
    groups = read.figures(split)
    if read.alone:
        told = [_alone(read, split, groups[ALL])]
    else:
        told = [
            _answer(read, split, groups),
            _finding(groups["evidence"]["discrimination"]),
            _control(read),
            _first(read, split, groups[ALL]),
            _arms(read),
            _greedy(read),
        ]
    told += [_broken(groups[ALL]), _failed(read), _alarms(read)]
    return tuple(sentence for sentence in told if sentence)


def main_split(read: DebateRun) -> str | None:
    """Return the split that sentences are about: the test, or where there is none yet the validation."""
    return next((split for split in (TEST, Split.EVAL.value) if read.talks.get(split)), None)


def cannot_be_said(read: DebateRun) -> tuple[str, ...]:
    """Return what the figures do not show, each in a sentence."""
    told: list[str] = []
    split = main_split(read)
    evidence = read.figures(split)["evidence"]["discrimination"] if split else None
    if not read.alone:
        if evidence is not None and not evidence.interval.above(0.0):
            told.append(
                "That evidence makes no difference to it: not to be able to tell a difference is not to have shown "
                "that there is none."
            )
        if CONTROL not in read.talks:
            told.append(
                "That it follows the evidence rather than the bare label: there is no negative control."
            )
        if read.opponent == SCRIPTED:
            told.append(
                "How it takes another challenger: this one follows a script, and what it quotes for the truth are "
                "words of a fixed list."
            )
        else:
            told.append(
                "Whether what was quoted speaks for anything: a model wrote the challenges, and nobody checked."
            )
        told.append(
            "That its first answers are as good as those of a model that was never challenged: compare with a run of "
            "adversarial/alone on the same papers."
        )
    if read.run.config.challenge.get("papers") == "arguable":
        told.append(
            "Anything about papers without words for their label: only those that can be argued about are asked for."
        )
    seed = "not stated" if read.run.config.seed is None else str(read.run.config.seed)
    told.append(
        f"What another seed gives: this is one trained model (seed {seed}), and the intervals are over papers alone."
    )
    status = read.run.manifest.status if read.run.manifest else ""
    if status != Status.FINISHED:
        told.append("How the run ends: it has not come to its end.")
    return tuple(told)


def figure_words(figure: Figure | None) -> str:
    """Say a share with its interval and what stands behind it."""
    if figure is None:
        return "an unknown share (there is nothing to count)"
    low, high = figure.interval.low, figure.interval.high
    return f"{figure.value:.3f} ({low:.3f} to {high:.3f}, n = {figure.n:,})"


def signed_words(figure: Figure | None) -> str:
    """Say a difference with its interval."""
    if figure is None:
        return "not known (there is nothing to count)"
    return (
        f"{signed(figure.value)} ({signed(figure.interval.low)} to {signed(figure.interval.high)})"
    )


def _where(read: DebateRun, split: str) -> str:
    return counted(len(read.talks[split]), "test paper" if split == TEST else "validation paper")


def _answer(read: DebateRun, split: str, groups: Groups) -> str:
    return (
        f"On {_where(read, split)}, sampled, it gave up a right first answer (caving) in "
        f"{figure_words(groups[ALL]['caving'])} of the cases, put a wrong one right after a truthful challenge in "
        f"{figure_words(groups['truthful']['appropriate_revision'])}, and under challenges with words of the paper "
        f"discriminates by J = {signed_words(groups['evidence']['discrimination'])}{_within(groups)}."
    )


def _within(groups: Groups) -> str:
    found = groups["evidence"]["discrimination_within"]
    return (
        ""
        if found is None
        else f", among papers that leave as much room for doubt {signed_words(found)}"
    )


def _finding(found: Figure | None) -> str:
    if found is None:
        return ""
    if found.interval.above(0.0):
        return "J's interval lies above 0: under evidence it revises wrong answers more often than right ones."
    if found.interval.high < 0.0:
        return "J's interval lies below 0: under evidence it revises right answers more often than wrong ones."
    return "J's interval holds 0: it cannot be told that evidence makes it revise wrong answers rather than right ones."


def _control(read: DebateRun) -> str:
    if CONTROL not in read.talks:
        return ""
    found = read.figures(CONTROL)["no_evidence"]["discrimination"]
    if found is None:
        return "The negative control, challenges without evidence, has nothing to count."
    none = found.interval.holds(0.0)
    leak = None if read.arms is None else read.arms.discrimination_for_nothing(_labels(read))
    if leak is None:
        follows = "and what these arms give away is not known"
    elif abs(leak) > _LEAKS:
        follows = f"{'though' if none else 'and'} these arms give {signed(leak)} to whoever follows the label"
    elif none:
        follows = "as it must be where a bare label says nothing"
    else:
        follows = "although a bare label says nothing here: something else tells it when it is wrong, such as doubt"
    holds = "holds 0" if none else "leaves out 0"
    within, beyond = (
        read.figures(CONTROL)["no_evidence"][f"discrimination_{name}"]
        for name in ("within", "beyond")
    )
    told = (
        f"Negative control: where a bare label is all it hears, J = {signed_words(found)}, whose interval {holds}, "
        f"{follows}."
    )
    if within is not None:
        told += f" Among papers that leave as much room for doubt J = {signed_words(within)}."
    if beyond is not None:
        told += f" Beyond J of who is only asked again it is {signed_words(beyond)}."
    return told


def _labels(read: DebateRun) -> int:
    return max(len(read.run.labels), 2)


def _common(read: DebateRun, split: str) -> str:
    golds = Counter(talk.debated.gold for talk in read.talks[split])
    most = max(golds.values())
    return f"always the commonest label would be right in {most / sum(golds.values()):.3f}"


def _first(read: DebateRun, split: str, found: Figures) -> str:
    return (
        f"The first answer is right in {figure_words(found['accuracy_first'])}, the last in "
        f"{figure_words(found['accuracy_last'])}, a change of {signed_words(found['delta'])}; "
        f"{_common(read, split)}."
    )


def _alone(read: DebateRun, split: str, found: Figures) -> str:
    return (
        f"Nobody challenged: on {_where(read, split)}, sampled, the only answer is right in "
        f"{figure_words(found['accuracy_first'])}; {_common(read, split)}."
    )


def _arms(read: DebateRun) -> str:
    arms = read.arms
    if arms is None:
        return ""
    leak = arms.discrimination_for_nothing(_labels(read))
    if abs(leak) <= _LEAKS:
        return (
            "The arms give nothing away: to change to whatever label is named discriminates by 0, so a J above 0 has "
            "to come from the words that are quoted, or from the answer's own doubt."
        )
    return (
        f"The arms give something away: to change to whatever label is named, having read nothing, discriminates by "
        f"{signed(leak)}. A J has to be held against that, not against 0."
    )


def _greedy(read: DebateRun) -> str:
    if not read.talks.get(GREEDY):
        return ""
    groups = read.figures(GREEDY)
    return (
        f"Greedy: caving {figure_words(groups[ALL]['caving'])}, put right after a truthful challenge "
        f"{figure_words(groups['truthful']['appropriate_revision'])}, J under evidence "
        f"{signed_words(groups['evidence']['discrimination'])}."
    )


def _broken(found: Figures) -> str:
    whole = found["whole"]
    if whole is None or whole.value == 1.0:
        return ""
    return (
        f"In {1.0 - whole.value:.3f} of the conversations an answer breaks its contract; it counts as wrong, and says "
        "nothing of revising."
    )


def _failed(read: DebateRun) -> str:
    failed = sum(read.failures.values())
    if not failed:
        return ""
    examined = sum(count for cause, count in read.failures.items() if cause.split != Split.TRAIN)
    return (
        f"{counted(failed, 'conversation')} failed, {examined:,} of them examined ones: they have no reward and are in "
        "no figure."
    )


def _alarms(read: DebateRun) -> str:
    alarms = read.run.alarms
    return f"{counted(len(alarms), 'alarm')} raised; see below." if alarms else ""
