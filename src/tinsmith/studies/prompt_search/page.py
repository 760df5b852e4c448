"""What may be said of a searched prompt, and its page: gains, what each search found, the steps of one, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.lab.prompt_search.search_rows import prompt_tables, step_folds
from tinsmith.lab.study.arm_gains import claim_folds, gain_words, gains_picture, gains_table
from tinsmith.lab.study.page import hashes_section, seconds_section, settings_section, study_document
from tinsmith.lab.study.results import Seconds, limits_of
from tinsmith.pages.document import Block, Document, Section, note
from tinsmith.pages.wording import counted
from tinsmith.stats.gate.claim import CheckName, Finding, Verdict
from tinsmith.studies.prompt_search.results import WRITTEN, PromptFound
from tinsmith.studies.prompt_search.searching import Found
from tinsmith.studies.prompt_search.settings import PROMPT, PROMPT_SHUFFLED, QUESTION, RL, WORDS


def prompt_sentences(found: PromptFound) -> tuple[str, ...]:
    """Return what may be said; what did and did not come out comes first."""
    prompt, rl = found.gain(PROMPT), found.gain(RL)
    better = found.beat(WRITTEN).verdict is Verdict.ALLOWED
    above_rl = found.beat(rl.words).verdict is Verdict.ALLOWED
    back = next(one for one in found.beats if one.first == rl.words)
    below_rl = any(one.name is CheckName.DIFFERENCE and one.finding is Finding.PASSED for one in back.checks)
    learned = any(one.verdict is Verdict.ALLOWED for one in found.controls)
    beside = "and it is not shown to differ from RL from that prompt"
    if above_rl:
        beside = "and above RL from that prompt"
    elif below_rl:
        beside = "but not as far as RL from that prompt"
        if back.verdict is not Verdict.ALLOWED:
            beside += ", which had more answers rewarded"
    control = found.gain(PROMPT_SHUFFLED)
    too = ""
    if control.holds and control.gain.value > 0.0:
        too = (
            f"; but a search by shuffled answers raises it too, by {control.gain.value:+.3f} beside "
            f"{prompt.gain.value:+.3f}, so that the right answers need not be what raises it"
        )
    head = (
        f"Over {counted(len(found.seeds), 'seed')}, the searched prompt "
        f"{'raises' if better else 'is not shown to raise'} what held-out questions earn over the prompt written by "
        f"hand, {beside}; from shuffled answers {'something' if learned else 'nothing'} may be claimed"
        f"{', which must not be' if learned else ''}{too}."
    )
    return (
        head,
        f"{prompt.words.capitalize()}: {gain_words(prompt)}.",
        f"RL: {gain_words(rl)}.",
        f"{control.words.capitalize()}: {gain_words(control)}.",
        _on_selection(found),
        _buffer(found),
        *_unequal(found),
        *limits_of(found, {}),
    )


def _on_selection(found: PromptFound) -> str:
    changed = sum(one.found != found.written for one in found.searches)
    return (
        f"Of {counted(len(found.searches), 'search', 'searches')} {found.lost} "
        f"{'ends' if found.lost == 1 else 'end'} lower on the questions of selection than it began, "
        f"and {changed} found another prompt."
    )


def _buffer(found: PromptFound) -> str:
    put = sum(one.put for one in found.searches)
    accepted = sum(one.accepted for one in found.searches)
    rejected = sum(one.rejected for one in found.searches)
    return (
        f"The gate was asked {put} times and let edits through {accepted} times; of {rejected} refused edits "
        f"{found.again} were proposed again."
    )


def _unequal(found: PromptFound) -> list[str]:
    if found.same_before:
        return []
    return [
        "Not every item earned under the hand-written prompt in the search what it earned in the run's first "
        "evaluation, as it should."
    ]


def prompt_page(
    found: PromptFound,
    sentences: tuple[str, ...],
    seconds: Mapping[str, Seconds],
    searches: Mapping[str, Sequence[Found]],
) -> Document:
    """Return the page; `seconds` by the words of the arm, `searches` by its name, one a seed."""
    caption = (
        "What held-out questions earn, sampled: means over seeds and items, 95 % intervals over seeds and what items "
        "belong to, p corrected over the arms. Before: under the prompt written by hand, by the base."
    )
    return study_document(
        title="Prompt search",
        question=QUESTION,
        facts=(
            ("Task", found.task),
            ("Items", found.data[:16]),
            ("Held out", f"{found.num_items:,} items"),
            ("Seeds", ", ".join(map(str, found.seeds))),
        ),
        sentences=sentences,
        beside=(gains_picture(found.gains, "reward, held out"),),
        sections=(
            Section("gains", "Gains", (gains_table(found.gains, caption),)),
            Section("prompts", "Prompts", _prompts(found)),
            Section("steps", "Steps", _steps(found, searches)),
            Section("claims", "Claims", claim_folds(found, "reward")),
            seconds_section(seconds),
            hashes_section(found.hashes),
            settings_section(found),
        ),
    )


def _prompts(found: PromptFound) -> tuple[Block, ...]:
    caption = (
        "Every search: what the prompt earns on all questions of selection, one answer each. Put: steps in which "
        "something helped on the batch and went to the gate. Answers: how many the search asked for in all."
    )
    return prompt_tables(found.searches, WORDS, (WRITTEN, found.written), caption=caption)


def _steps(found: PromptFound, searches: Mapping[str, Sequence[Found]]) -> tuple[Block, ...]:
    said = note(
        "Each step tries edits on some training questions, takes the best few of those that helped, and asks the gate: "
        "questions of selection, drawn anew each time, the same ones under both prompts. Only what earns strictly more "
        "passes; what does not is never proposed again."
    )
    folds = step_folds(
        [
            (f"{WORDS[name]}, seed {seed}", one.searched)
            for name, each in searches.items()
            for seed, one in zip(found.seeds, each, strict=True)
        ]
    )
    return (said, *folds)
