"""The page of a run with a challenger: what it gives way to first, what cannot be said, and the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tinsmith.lab.results.drawn_metrics import Drawn, drawn_plates
from tinsmith.lab.results.failed_rollouts import failures_table
from tinsmith.lab.results.run_details import failures_section, run_document
from tinsmith.lab.results.run_map import papers_words
from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Block, Document, Example, Heading, Plates, Reply, Section, kept, missing, note
from tinsmith.studies.debate.pages.gathering import DebateRun, Talk, read_debate_run
from tinsmith.studies.debate.pages.story import cannot_be_said, debate_story
from tinsmith.studies.debate.pages.tables import arms_table, challenge_table, doubt_table, overall_table
from tinsmith.studies.debate.stance import Arm
from tinsmith.studies.debate.statistics import EVENTS, Debated
from tinsmith.types.seeds import derive

_EACH: Final = 2
"""Conversations of a way, if there are as many."""
_LONGEST: Final = 2000


def debate_document(run: Run) -> Document:
    """Return the page of a run with a challenger; the same folder, the same bytes."""
    read = read_debate_run(run.folder, run)
    config, chosen = run.config, _examples(read)
    drawn = [one for one in _DRAWN if not (read.alone and one.name in _CHALLENGED)]
    failures = failures_table(read.failures, what="conversation", where="figure")
    none = missing("Missing: no conversation was examined.")
    how = note(
        "Examined conversations, at most two of every way they can go, chosen by a hash of the paper's name and not by "
        "how they look. Prompts are not kept in the run folder; the paper's identifier finds them in the slice."
    )
    return run_document(
        run,
        kind="Report of one run under challenge",
        facts=(
            ("Reward", config.reward_name or "not stated"),
            ("Challenger", read.opponent),
            ("Model", config.model_name or "not stated"),
            ("Papers that are discussed", papers_words(run)),
        ),
        story=debate_story(read),
        limits=cannot_be_said(read),
        notes=read.notes,
        sections=(
            Section("arms", "By arm", _arms(read) if read.shown else [none, *_arms(read)]),
            Section("steps", "Over the steps", [Plates(drawn_plates(run, drawn))]),
            Section("examples", "Conversations", [how, *chosen] if chosen else [none]),
            failures_section(failures, "conversation"),
        ),
        more={"Challenge": read.challenge},
    )


def _arms(read: DebateRun) -> tuple[Block, ...]:
    tables = (
        ("", arms_table(read)),
        ("", overall_table(read)),
        ("Where right answers are given up", doubt_table(read)),
        ("What the challenges give away", challenge_table(read)),
    )
    return kept(
        *(block for title, table in tables if table is not None for block in (Heading(title) if title else None, table))
    )


_WAYS: Final[Sequence[tuple[str, Callable[[Debated], bool], Sequence[Arm]]]] = (
    ("put right by a truthful challenge", EVENTS["mended"], [Arm.TRUTHFUL]),
    ("caved in to a misleading one", EVENTS["caved"], [Arm.MISLEADING]),
    ("stood by a right answer when misled", lambda one: one.first_right and one.last_right, [Arm.MISLEADING]),
    (
        "stayed wrong though told the truth",
        lambda one: one.whole and not one.first_right and not one.last_right,
        [Arm.TRUTHFUL],
    ),
    ("gave up a right answer when only asked", EVENTS["caved"], [Arm.NULL]),
    ("gave up a right answer that was supported", EVENTS["caved"], [Arm.TRUTHFUL]),
    ("put right by something else", EVENTS["mended"], [Arm.MISLEADING, Arm.NULL]),
    ("an answer broke its contract", lambda one: not one.whole, tuple(Arm)),
)
"""Every way that a conversation can go: kept or changed, for the better or the worse, by whose words."""


def _examples(read: DebateRun) -> tuple[Example, ...]:
    """Return conversations of the test, chosen by a hash of the paper's name, some of every way that occurs."""
    talks = sorted(
        read.talks[read.main] if read.main else (), key=lambda talk: derive(0, "shown", talk.record.prompt_id)
    )
    if read.alone:
        return tuple(_example(talk, "nobody challenged") for talk in talks[: 2 * _EACH])
    found: list[Example] = []
    for way, holds, arms in _WAYS:
        of_way = [one for one in talks if holds(one.debated) and one.debated.arm in arms]
        found += [_example(talk, way) for talk in of_way[:_EACH]]
    return tuple(found)


def _example(talk: Talk, way: str) -> Example:
    record, debated = talk.record, talk.debated
    rights = iter((debated.first_right, debated.last_right))
    turns: list[Reply] = []
    for turn in record.turns:
        answer = turn.role == "assistant"
        title = ("Last answer" if turns else "First answer") if answer else "Challenge"
        words = turn.text if len(turn.text) <= _LONGEST else f"{turn.text[:_LONGEST]} [cut]"
        right = next(rights, None) if answer else None
        turns.append(Reply(title=title, text=words, right=right))
    challenged = _challenge(talk)
    title = f"{record.prompt_id}: {debated.gold}; {way}"
    return Example(title, [note(challenged)] if challenged else [], turns)


def _challenge(talk: Talk) -> str:
    challenge = talk.record.challenge
    if challenge is None:
        return ""
    if challenge.label is None:
        return f"{challenge.arm}: no label is named"
    speaks = {True: " that speak for it", False: " that do not speak for it", None: ""}
    words = f"words of the paper{speaks[challenge.grounded]}" if challenge.evidence else "nothing"
    return f"{challenge.arm}: argues for {challenge.label} with {words}"


_DRAWN = (
    Drawn(
        name="accuracy",
        title="Accuracy of both answers",
        note="Validation papers, before and after the challenge.",
        lines=(
            ("eval/accuracy_first", "first"),
            ("eval/accuracy_last", "last"),
            ("eval_greedy/accuracy_first", "first, greedy"),
            ("eval_greedy/accuracy_last", "last, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="caving",
        title="Caving",
        note="Share of the right first answers that are wrong in the end, validation papers.",
        lines=(
            ("eval/caving", "all arms"),
            ("eval/misleading/caving", "misleading"),
            ("eval/null/caving", "null"),
            ("eval_greedy/caving", "all arms, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="mending",
        title="Wrong answers put right",
        note="Share of the wrong first answers that are right in the end, validation papers.",
        lines=(
            ("eval/truthful/appropriate_revision", "truthful"),
            ("eval/appropriate_revision", "all arms"),
            ("eval_greedy/truthful/appropriate_revision", "truthful, greedy"),
        ),
        shares=True,
    ),
    Drawn(
        name="discrimination",
        title="Discrimination J",
        note="Share of wrong first answers that are revised, less that of right ones; 0: whether right or wrong.",
        lines=(
            ("eval/evidence/discrimination", "with words of the paper"),
            ("eval/no_evidence/discrimination", "bare label"),
            ("eval_greedy/evidence/discrimination", "with words, greedy"),
        ),
        unit="J",
    ),
    Drawn(
        name="pressure",
        title="Sycophancy and receptiveness",
        note="Revised when misled less when only asked; a wrong answer revised when told the true label.",
        lines=(("eval/sycophancy", "sycophancy"), ("eval/receptiveness", "receptiveness")),
        unit="share",
    ),
    Drawn(
        name="rewards",
        title="Reward by term",
        note="Mean over the training conversations of a step.",
        lines=(
            ("train/reward/total", "total"),
            ("train/reward/correctness", "correctness"),
            ("train/reward/reasoning", "reasoning"),
            ("train/reward/adaptation", "adaptation"),
        ),
        missing="Missing: no step has a reward.",
        unit="reward",
    ),
    Drawn(
        name="groups",
        title="Informative groups",
        note="Share of the groups whose rewards differ; from the others nothing is learned.",
        lines=(("train/groups/informative", "informative"),),
        missing="Missing: no step says which groups were informative.",
        shares=True,
    ),
    Drawn(
        name="labels",
        title="Last answers by label",
        note="Share of the training conversations of a step that end with the label.",
        told="Share of last answers by label",
        by_class="train/predicted_share",
        missing="Missing: no step says what was answered.",
        shares=True,
    ),
    Drawn(
        name="whole",
        title="Unbroken conversations",
        note="Share in which both answers keep the contract.",
        lines=(("train/whole", "training"), ("eval/whole", "validation")),
        shares=True,
    ),
    Drawn(
        name="kl",
        title="KL divergence",
        note="Estimated on sampled tokens. Sampler to trainer is zero where the two are one model.",
        lines=(
            ("eval/kl_base", "to the base, validation"),
            ("kl/base", "to the base, training"),
            ("optim/kl_sample_train", "sampler to trainer"),
        ),
        missing="Missing: no step has a KL divergence.",
        unit="nats a token",
    ),
    Drawn(
        name="gradient",
        title="Gradient norm",
        note="Before clipping, at every optimizer step.",
        lines=(("optim/grad_norm", "gradient norm"),),
        missing="Missing: no step has a gradient norm.",
        unit="norm",
    ),
)
_CHALLENGED = frozenset({"caving", "mending", "discrimination", "pressure"})
"""Figures that mean nothing where nobody challenges."""
