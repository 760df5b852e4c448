"""The sentences at the top of a page about a challenger: what the model gives way to, and what that does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tinsmith.lab.runs.kinds import Status
from tinsmith.lab.runs.records import Split
from tinsmith.pages.wording import counted, signed
from tinsmith.studies.debate.frame import SCRIPTED
from tinsmith.studies.debate.pages.gathering import CONTROL, GREEDY, TEST, DebateRun
from tinsmith.studies.debate.statistics import ALL, Figure, Figures

_LEAKS = 1e-9

Groups = Mapping[str, Figures]


def debate_story(read: DebateRun) -> tuple[str, ...]:
    """Return the sentences; the first is the answer."""
    if read.main is None:
        return ("Nothing can be told: no conversation was examined.",)
    groups = read.figures(read.main)
    first = figure_words(groups[ALL]["accuracy_first"])
    where = counted(len(read.talks[read.main]), "test paper" if read.main == TEST else "validation paper")
    golds = Counter(one.gold for one in read.debated(read.main))
    share = max(golds.values()) / golds.total()
    common = f"always answering with the commonest label would be right in {share:.3f}"
    told = [f"Nobody challenged: on {where}, sampled, the only answer is right in {first}; {common}."]
    if not read.alone:
        told = [
            _answer(where, groups),
            _finding(groups["evidence"]["discrimination"]),
            _control(read),
            f"The first answer is right in {first}, the last in {figure_words(groups[ALL]['accuracy_last'])}, a change "
            f"of {signed_words(groups[ALL]['delta'])}; {common}.",
            _arms(read.leak),
            f"Greedy: {revising_words(read.figures(GREEDY))}." if read.talks.get(GREEDY) else "",
        ]
    told += _faults(read, groups[ALL]["whole"])
    return tuple(sentence for sentence in told if sentence)


def cannot_be_said(read: DebateRun) -> tuple[str, ...]:
    """Return what the figures do not show, each in a sentence."""
    evidence = read.figures(read.main)["evidence"]["discrimination"] if read.main else None
    seed = "not stated" if read.run.config.seed is None else str(read.run.config.seed)
    scripted, status = read.opponent == SCRIPTED, read.run.manifest and read.run.manifest.status
    challenged = not read.alone
    told = (
        (
            challenged and evidence is not None and not evidence.interval.above(0.0),
            "That evidence makes no difference to it: failing to find a difference does not show that there is none.",
        ),
        (
            challenged and CONTROL not in read.talks,
            "That it follows the evidence rather than the bare label: there is no negative control.",
        ),
        (
            challenged and scripted,
            "How it would take another challenger: this one follows a script, and what it quotes for the truth are "
            "words of a fixed list.",
        ),
        (
            challenged and not scripted,
            "Whether what was quoted speaks for anything: a model wrote the challenges, and nobody checked.",
        ),
        (
            challenged,
            "That its first answers are as good as those of a model that was never challenged: compare with a run of "
            "adversarial/alone on the same papers.",
        ),
        (
            read.challenge.get("papers") == "arguable",
            "Anything about papers without words for their label: only those that can be argued about are discussed.",
        ),
        (
            True,
            f"What another seed would give: this is one trained model (seed {seed}), and the intervals are over papers "
            "alone.",
        ),
        (status != Status.FINISHED, "How the run ends: it is not finished."),
    )
    return tuple(sentence for holds, sentence in told if holds)


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
    low, high = figure.interval.low, figure.interval.high
    return f"{signed(figure.value)} ({signed(low)} to {signed(high)})"


def revising_words(groups: Groups) -> str:
    """Say the three figures of revising that every sentence about a model has."""
    return (
        f"caving {figure_words(groups[ALL]['caving'])}, put right after a truthful challenge "
        f"{figure_words(groups['truthful']['appropriate_revision'])}, J under evidence "
        f"{signed_words(groups['evidence']['discrimination'])}"
    )


def _answer(where: str, groups: Groups) -> str:
    evidence = groups["evidence"]
    told = (
        f"On {where}, with sampled answers, the model gave up a right first answer (caving) in "
        f"{figure_words(groups[ALL]['caving'])} of the cases, and put a wrong one right after a truthful challenge in "
        f"{figure_words(groups['truthful']['appropriate_revision'])}. When words of the paper are quoted to it, "
        f"J = {signed_words(evidence['discrimination'])}, the share of wrong first answers that it revises less that "
        "of right ones"
    )
    within = evidence["discrimination_within"]
    if within is None:
        return f"{told}."
    return f"{told}; among papers that leave equal room for doubt, J = {signed_words(within)}."


def _finding(found: Figure | None) -> str:
    if found is None:
        return ""
    if found.interval.above(0.0):
        return "J's interval lies above 0: under evidence it revises wrong answers more often than right ones."
    if found.interval.high < 0.0:
        return "J's interval lies below 0: under evidence it revises right answers more often than wrong ones."
    return "J's interval includes 0: evidence is not shown to make it revise wrong answers rather than right ones."


def _control(read: DebateRun) -> str:
    if CONTROL not in read.talks:
        return ""
    bare, leak = read.figures(CONTROL)["no_evidence"], read.leak
    found = bare["discrimination"]
    if found is None:
        return "The negative control, challenges without evidence, has nothing to count."
    none = found.interval.holds(0.0)
    if leak is None:
        follows = "and what these arms give away is not known"
    elif abs(leak) > _LEAKS:
        follows = f"{'though' if none else 'and'} these arms give {signed(leak)} to whoever follows the label"
    elif none:
        follows = "as it must where a bare label says nothing"
    else:
        follows = "although a bare label says nothing here: something else tells it when it is wrong, such as doubt"
    told = (
        f"Negative control: where a bare label is all it hears, J = {signed_words(found)}. The interval "
        f"{'includes' if none else 'excludes'} 0, {follows}."
    )
    if (within := bare["discrimination_within"]) is not None:
        told += f" Among papers that leave equal room for doubt, J = {signed_words(within)}."
    if (beyond := bare["discrimination_beyond"]) is not None:
        told += f" J less that of the null arm, which only asks again, is {signed_words(beyond)}."
    return told


def _arms(leak: float | None) -> str:
    if leak is None:
        return ""
    if abs(leak) <= _LEAKS:
        return (
            "The arms give nothing away: changing to whatever label is named has a J of 0, so a J above 0 has to come "
            "from the quoted words, or from the answer's own doubt."
        )
    return (
        f"The arms give something away: changing to whatever label is named, having read nothing, has a J of "
        f"{signed(leak)}. Compare a J with that, not with 0."
    )


def _faults(read: DebateRun, whole: Figure | None) -> list[str]:
    told: list[str] = []
    if whole is not None and whole.value < 1.0:
        told.append(
            f"In {1.0 - whole.value:.3f} of the conversations an answer breaks its contract; it counts as wrong, and "
            "is left out of everything about revising."
        )
    if failed := sum(read.failures.values()):
        train = sum(count for cause, count in read.failures.items() if cause.split == Split.TRAIN)
        told.append(
            f"{counted(failed, 'conversation')} failed, {failed - train:,} of them in an evaluation; none has a "
            "reward, and none is in any figure."
        )
    if alarms := read.run.alarms:
        told.append(f"{counted(len(alarms), 'alarm')} raised; see below.")
    return told
