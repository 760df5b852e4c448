"""The page of a rubric's quality: accuracies, gains with their p, places, criteria, and what the pairs do not show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tinsmith.lab.judge.records import RULES
from tinsmith.pages.curves import Limit
from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, measured, plain, text
from tinsmith.pages.wording import counted, p_words, signed
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.rubrics.quality.statistics import Finding

QUESTION: Final = "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?"
LABELS: Final = {"without": "without rubric", "own": "with its own rubric", "other": "with another pair's rubric"}
BUILTIN_PAIRS: Final = "built-in pairs"
_MOST_CRITERIA: Final = 60
"""Rows of the table of criteria; quality.json has all."""
Found = Mapping[str, Any]
"""As `quality.json` has it."""


def quality_page(found: Found, data: Found, seed: int, money: str) -> Document:
    """Return the page; the same values, the same bytes.

    Args:
        found: values of quality.json.
        data: what config.json says of the pairs.
        seed: of the pairs and their order.
        money: price of asking everything once.
    """
    accuracies, once = found["accuracies"], found["asking_once"]
    values = [Measure(one["value"], one["interval"]["low"], one["interval"]["high"]) for one in accuracies]
    labels = [LABELS[one["condition"]] for one in accuracies]
    dots = Dots("accuracy", series_mark(0), values)
    panel = Panel(title="Accuracy on preference pairs", dots=[dots], limits=[Limit(0.5, "a coin")])
    shown = "; ".join(f"{label}: {value.value:.3f}" for label, value in zip(labels, values, strict=True))
    picture = drawn(dots_svg("accuracy", f"Accuracy. {shown}.", labels, [panel], width=7.2), "Missing: no accuracy.")
    shares = plain(
        "The share of pairs of which the judge prefers the better response, with Wilson's 95 % interval, which takes "
        "pairs for independent. Judge by rules: without a rubric it goes by repeated words and length.",
        ("The judge", "accuracy", "right", "pairs"),
        [
            (label, measured(value), f"{one['right']:,}", f"{one['n']:,}")
            for label, value, one in zip(labels, values, accuracies, strict=True)
        ],
    )
    gains, places, criteria = _tables(found)
    costs = plain(
        "What asking everything once takes; what this run really sent is in spent.json.",
        ("Cost", ""),
        [
            ("calls", f"{once['calls']:,}"),
            ("tokens read, estimated", f"{once['prompt_tokens']:,}"),
            ("tokens written, estimated", f"{once['completion_tokens']:,}"),
            ("money", money),
            ("pairs without a rubric in the file", f"{data['without_rubrics']:,}"),
            ("pairs without verdicts on their criteria", f"{found['unrated']:,}"),
            *((f"answers that never came: {why.replace('_', ' ')}", f"{n:,}") for why, n in found["failures"].items()),
        ],
    )
    return Document(
        kind="Report of a rubric's quality",
        title=f"Rubric quality for the judge {found['judge']}",
        question=QUESTION,
        facts=(
            ("Judge", found["judge"]),
            ("Pairs", f"{found['pairs']} of {found['drawn']}, {counted(found['prompts'], 'prompt')}"),
            ("Unit of the tests", found["unit"]),
            ("From", data["source"]),
            ("Pairs' fingerprint", data["fingerprint"][:12]),
            ("Seed", str(seed)),
        ),
        sections=(
            summary(found["story"], limits=found["cannot_be_claimed"]),
            Section("accuracy", "Accuracy", [picture, shares]),
            Section("gains", "Gains", [gains]),
            Section("places", "Places", [places if places.rows else note("This judge does not look at places.")]),
            Section("criteria", "Criteria", [criteria]),
            Section("cost", "Cost and failures", [costs]),
        ),
    )


def _tables(found: Found) -> tuple[Table, Table, Table]:
    """Return gains, effects of places, and criteria."""
    gains = plain(
        "On the same pairs. By pairs: McNemar's exact test and Tango's 95 % interval. By prompts, where several pairs "
        "have one: flips of the sign of what each prompt's pairs gained in sum. Needed: units like these that show a "
        "difference of this size four times out of five.",
        ("Gain", "gain", "p", "only the first right", "only the second right", "moved", "needed", text("Finding")),
        [
            (
                _name(one),
                Cell(text=signed(one["gain"]), under=_ends(one), number=True),
                *(_p(one), f"{one['helped']:,}", f"{one['hurt']:,}"),
                f"{one['moved']:,} of {counted(one['units'], one['unit'])}",
                "" if one["needed"] is None else f"{one['needed']:,}",
                text(one["finding"]),
            )
            for one in _contrasts(found)
        ],
    )
    places = plain(
        "Every pair was asked in both orders, where the judge looks at places. p tests the pairs whose answer followed "
        "the place, first against second.",
        (
            *("The judge", "answers A|share of all", "same|in both orders", "right|in both orders"),
            *("always A", "always B", "p"),
        ),
        [
            (
                LABELS[one["condition"]],
                f"{at['first_share']:.3f}",
                *(f"{at[name]:,}" for name in ("same", "right_both", "always_first", "always_second")),
                _p(at),
            )
            for one in found["accuracies"]
            if (at := one["positions"]) is not None
        ],
    )
    criteria = plain(
        f"How often each criterion holds for one response alone, most frequent first, {_MOST_CRITERIA} at most; never: "
        "it tells none apart. quality.json has all.",
        ("Criterion", "pairs", "for the chosen", "for the rejected", text("Tells apart")),
        [
            (
                one["criterion"],
                *(f"{one[name]:,}" for name in ("pairs", "for_chosen", "for_rejected")),
                text("never" if one["criterion"] in found["idle_criteria"] else ""),
            )
            for one in sorted(found["criteria"], key=lambda each: (-each["pairs"], each["criterion"]))[:_MOST_CRITERIA]
        ],
    )
    return gains, places, criteria


def quality_story(found: Found) -> tuple[str, ...]:
    """Return the sentences of the page's top: each gain with its p, and criteria that tell nothing apart."""
    story: list[str] = []
    for one in _contrasts(found):
        few = "" if one["enough"] else f"; with so few the exact p cannot fall to {ALPHA}"
        needed = "" if one["needed"] is None else f"; about {one['needed']:,} would show such a difference"
        story.append(
            f"{_name(one).capitalize()}: {one['finding']}: {signed(one['gain'])} ({_ends(one)}, exact "
            f"{p_words(one['p_value'])}); {one['moved']:,} of {counted(one['units'], one['unit'])} moved{few}{needed}."
        )
    if found["criteria"]:
        criteria = counted(len(found["criteria"]), "criterion", "criteria")
        story.append(f"{len(found['idle_criteria']):,} of {criteria} tell chosen from rejected in no pair.")
    left_out = counted(found["left_out"], "pair")
    return (*story, f"{left_out} of {found['drawn']:,} left out for a missing answer.")


def limits(found: Found, source: object) -> tuple[str, ...]:
    """Return what the figures do not show, of pairs from a source."""
    gain, beyond = found["gain"], found["beyond_control"]
    said: list[str] = []
    if gain["finding"] == Finding.CANNOT_TELL:
        said.append("That the rubric adds nothing: a gain that cannot be shown may still be there.")
    if beyond is None or (gain["finding"] == Finding.ADDS and beyond["finding"] != Finding.ADDS):
        figures = "no other pair's is there"
        if beyond is not None:
            figures = f"{signed(beyond['gain'])}, {p_words(beyond['p_value'])}"
        said.append(f"That a gain comes from what the rubric says, beyond another pair's rubric ({figures}).")
    if found["unit"] == "prompt":
        said.append("The intervals of the accuracies, which take pairs of one prompt for independent: too narrow.")
    if source == BUILTIN_PAIRS:
        right = " The judge by rules is then right by construction." if found["judge"] == RULES else ""
        said.append(
            "That rubrics are good elsewhere: in the built-in pairs the better answer passes its whole rubric and the "
            f"worse one breaks one or two rules.{right}"
        )
    return (*said, "Anything about another judge, other pairs, or a policy that is trained by this rubric.")


def _contrasts(found: Found) -> list[Found]:
    return [one for name in ("gain", "control", "beyond_control") if (one := found[name]) is not None]


def _name(one: Found) -> str:
    return f"{LABELS[one['first']]}, minus {LABELS[one['second']]}"


def _ends(one: Found) -> str:
    return f"{signed(one['interval']['low'])} to {signed(one['interval']['high'])}"


def _p(one: Found) -> str:
    return p_words(one["p_value"]).removeprefix("p ").removeprefix("= ")
