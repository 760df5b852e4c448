"""The page of the study of SFT against RL: what each arm spent, claims with their controls, and what is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from markupsafe import Markup

from tinsmith.lab.prompt_search.search import Searched
from tinsmith.lab.prompt_search.search_rows import prompt_tables, step_folds
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.claim_tables import claim_blocks, claims_table
from tinsmith.lab.results.comparison_figures import progress_plates
from tinsmith.lab.results.judging import Judged, of_claim
from tinsmith.lab.study.page import (
    rates_section,
    scores_section,
    seconds_section,
    settings_section,
    study_document,
    study_facts,
)
from tinsmith.lab.study.results import Seconds, Spent
from tinsmith.pages.document import Block, Document, Heading, Plates, Section, Words
from tinsmith.pages.tables import Cell, Table, number, table_of, text
from tinsmith.stats.gate.claim import Verdict
from tinsmith.studies.sft_vs_rl.keys import QUESTION
from tinsmith.studies.sft_vs_rl.results import SftVsRl, StudyClaim, WithPrompt
from tinsmith.studies.sft_vs_rl.settings import WORDS, ArmName
from tinsmith.studies.sft_vs_rl.story import sentences

_SHOWN: Final = (ArmName.SFT, ArmName.RL, ArmName.THEN)
"""Arms whose steps have one length, so that one axis serves them."""

_Row = tuple[str, Spent]


def sft_vs_rl_page(
    study: SftVsRl,
    arms: Mapping[ArmName, Arm],
    seconds: Mapping[ArmName, Seconds],
    searches: Sequence[tuple[str, Searched]] = (),
) -> Document:
    """Return the page; `searches`: those for a prompt, by what they are called."""
    plates = progress_plates([arms[arm] for arm in _SHOWN])[:3]
    rates = (
        "As many for every arm. SFT then RL takes SFT's chosen rate in its supervised steps, and tries RL's in the "
        "others; what was trained on shuffled labels takes the rate of the arm it controls."
    )
    return study_document(
        title="SFT against RL",
        question=QUESTION,
        facts=(("World", study.world), *study_facts(study)),
        verdict=study.claims[0].claim.verdict is Verdict.ALLOWED,
        sentences=sentences(study),
        sections=(
            scores_section(study, remark="A decision with offsets is neither sampled nor greedy."),
            Section("spent", "Data and compute", _spent(study)),
            *_prompt(study, searches),
            Section("claims", "Claims", _claims(study)),
            Section("truth", "Truth", (_truth(study),)),
            rates_section(study, own=(Words(rates),)),
            Section("steps", "Over the steps", (Plates(plates),)),
            seconds_section({WORDS[arm]: each for arm, each in seconds.items()}),
            settings_section(study),
        ),
    )


def _spent(study: SftVsRl) -> tuple[Block, ...]:
    base = study.row(WORDS[ArmName.RL]).spent
    rows = [(row.name, row.spent) for row in study.rows if row.spent is not None]

    def counted(head: str, of: Callable[[Spent], float]) -> tuple[str, Callable[[_Row], Cell]]:
        return head, lambda row: Cell(text=f"{of(row[1]):,.0f}", number=True)

    def of_rl(head: str, of: Callable[[Spent], float]) -> tuple[str, Callable[[_Row], Cell]]:
        return f"{head}|of RL's", lambda row: number(base and of(row[1]) / of(base), digits=2)

    table = table_of(
        "What training took, a mean over seeds. FLOPs are 2 a parameter and token read or sampled, 6 a parameter "
        "and token trained, and attention's own; looking at validation and test is left out.",
        [] if base is None else rows,
        ("Arm", lambda row: text(row[0])),
        counted("papers seen|with labels", lambda spent: spent.papers),
        counted("updates", lambda spent: spent.updates),
        counted("tokens read|to sample", lambda spent: spent.tokens_read),
        counted("tokens sampled", lambda spent: spent.tokens_sampled),
        counted("tokens trained", lambda spent: spent.tokens_trained),
        ("FLOPs", lambda row: Cell(text=f"{row[1].flops:.3e}", number=True)),
        of_rl("FLOPs", lambda spent: spent.flops),
        of_rl("papers", lambda spent: spent.papers),
    )
    equal = (
        "SFT and RL see the same papers with the same labels in the same order, as many in every update. SFT with RL's "
        "compute takes as many steps as have the FLOPs of one run of RL; what each arm then took stands in the table."
    )
    return Words(equal), table


def _prompt(study: SftVsRl, searches: Sequence[tuple[str, Searched]]) -> tuple[Section, ...]:
    if not isinstance(study, WithPrompt):
        return ()
    said = (
        "The base as it is, under lines of the task's own prompt files that were searched for it: edits are tried on "
        "some training papers, the best few that helped are put to a gate that draws others anew each time, and what "
        "it refuses is never proposed again. A right answer earns more the rarer its label, so that the mean is "
        "balanced accuracy. Every paper is asked about as often as RL asks. In the table above a search's papers are "
        "all that it looked at, for edits, gates and the last gate, and its tokens are read and sampled, never trained "
        "on; below, its seconds of training are those of the search."
    )
    side, metric = study.prompt, "the score that it names,"
    caption = (
        "Every search: what the prompt earns at the last gate, before any edit and after. Put: steps in which "
        "something helped on the batch and went to the gate. Papers: looked at, again where they came again."
    )
    return (
        Section(
            "prompt",
            "Prompt",
            (
                Words(said),
                *prompt_tables(
                    side.searches,
                    {name.value: words for name, words in WORDS.items()},
                    ("as the base is asked", ()),
                    caption=caption,
                    asked="papers",
                ),
                *step_folds(searches),
                *claim_blocks(_shown((*side.claims, *side.learned)), metric),
                Words("What was found by shuffled labels: not to be allowed."),
                claims_table(_shown(side.controls), metric),
            ),
        ),
    )


def _claims(study: SftVsRl) -> tuple[Block, ...]:
    first = (
        "The first claim was named before any run, and its verdict is the sentence at the top. Missing evidence "
        "refuses a claim as a failed check does."
    )
    metric = "the score that it names,"
    return (
        Words(first),
        *claim_blocks(_shown((*study.claims, *study.learned)), metric),
        Heading("Learned from shuffled labels"),
        Words("None of these may be allowed."),
        claims_table(_shown(study.controls), metric),
        Heading("Equivalence"),
        _equivalences(study),
    )


def _shown(claims: Sequence[StudyClaim]) -> list[Judged]:
    return [replace(of_claim(one.claim, one.note), on=f" on {one.claim.metric}") for one in claims]


def _equivalences(study: SftVsRl) -> Table:
    return table_of(
        "Two one-sided tests at 0.05 with a margin of one point: the 90 % interval must lie within it.",
        study.equivalences,
        ("Pair", lambda found: text(f"{found.first} and {found.second}", found.metric.value)),
        (
            "difference",
            lambda found: Cell(text=f"{found.value:+.3f}", under=f"{found.low:+.3f} to {found.high:+.3f}", number=True),
        ),
        (text("Within one point"), lambda found: text("equivalent" if found.shown else "not shown")),
    )


def _truth(study: SftVsRl) -> Block:
    if study.truth is None:
        unknown = (
            "Nothing is known of the best possible scores on these papers; a planted world "
            "(<code>world=planted</code>) has them."
        )
        return Words(Markup(unknown))
    return table_of(
        "Computed from the posteriors that were planted, for ever more papers; no run is in it.",
        study.truth.all,
        ("Policy", lambda known: text(known.name)),
        ("label_match", lambda known: number(known.label_match)),
        ("macro-F1", lambda known: number(known.macro_f1)),
        ("min recall", lambda known: number(known.min_class_recall)),
    )
