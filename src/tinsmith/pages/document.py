"""Parts of a page on any subject: header, and sections of blocks in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from tinsmith.pages.measures import listed, signed
from tinsmith.pages.tables import Table
from tinsmith.stats.gate import Check, Claim, Finding, Verdict
from tinsmith.types.page_names import metric_name, p_cell

Pairs = Sequence[tuple[str, str]]  # Names with their values.


class Tone(StrEnum):
    """Setting of a text."""

    PLAIN = ""
    NOTE = "note"  # Smaller and lighter.
    MISSING = "missing"  # Says why something is not there.
    HEADING = "heading"  # Stands over others within a section.
    VERBATIM = "verbatim"  # Of a model or a person, line by line.


@dataclass(frozen=True, slots=True)
class Words:
    """Paragraph, heading, or verbatim text."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Story:
    """Sentences that are read first, each a paragraph."""

    sentences: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A plain list."""

    items: Sequence[str]


class TokenMark(StrEnum):
    """Highlight of a token."""

    NONE = ""
    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class MarkedToken:
    """Token of a text as spelled; `remark` is its tooltip."""

    text: str
    mark: TokenMark = TokenMark.NONE
    remark: str = ""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Text of a model, token by token, with some tokens highlighted."""

    title: str
    tokens: Sequence[MarkedToken]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure as wide as the page."""

    svg: Markup
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Plate:
    """Figure with its caption; `svg` is None if it is missing, and `note` says why."""

    title: str
    note: str
    svg: Markup | None


@dataclass(frozen=True, slots=True)
class Plates:
    """Figures beside each other."""

    plates: Sequence[Plate]
    half: bool = False  # True of a single one that needs no more than half the page.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """One claim."""

    claim: str
    allowed: bool
    difference: str
    interval: str
    p_holm: str
    num_items: str
    scope: str
    reasons: tuple[str, ...]
    passed: tuple[str, ...]  # Checks that a refused claim passes.

    @classmethod
    def of(cls, claim: Claim) -> ClaimRow:
        """Return a claim in words."""
        allowed = claim.verdict is Verdict.ALLOWED
        return cls(
            claim=claim.words,
            allowed=allowed,
            difference=f"{signed(claim.value)}{claim.unit}",
            interval="" if claim.interval is None else f"{signed(claim.interval.low)} to {signed(claim.interval.high)}",
            p_holm=p_cell(claim.p_holm),
            num_items=f"{claim.num_items:,}",
            scope=claim.scope,
            reasons=tuple(_checked(check) for check in claim.checks if allowed or not check.passed),
            passed=() if allowed else tuple(_checked(check) for check in claim.checks if check.passed),
        )


def _checked(check: Check) -> str:
    missing = " (missing evidence)" if check.finding is Finding.MISSING else ""
    return f"{check.name.value}: {check.sentence}{missing}"


@dataclass(frozen=True, slots=True)
class ClaimTable:
    """Claims of one kind."""

    claims: Sequence[Claim]

    @property
    def caption(self) -> str:
        """Their metrics, and the meaning of interval and p."""
        metrics = listed(list(dict.fromkeys(metric_name(one.judged_on or one.metric) for one in self.claims)))
        return (
            f"Each claim is about {metrics} on held-out items. The interval is that of the difference, at the level "
            "that Holm's correction leaves to this claim; p is corrected by Holm within a family of claims: all of "
            "this table, unless the study names several."
        )

    @property
    def rows(self) -> list[ClaimRow]:
        """Allowed claims first."""
        return sorted(map(ClaimRow.of, self.claims), key=lambda row: not row.allowed)


@dataclass(frozen=True, slots=True)
class Facts:
    """Short values under their names."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Values:
    """Names and values in two columns, as in a file."""

    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Callout:
    """Blocks that a reader must not overlook."""

    title: str
    blocks: Sequence[Block]
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks in a fold, opened by a line."""

    title: str
    blocks: Sequence[Block]
    opened: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer, or a message between answers."""

    title: str
    text: str
    right: bool | None = None  # True if an answer is right; None where that is not asked.
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """Replies side by side, below their prompt."""

    title: str
    before: Sequence[Block]
    replies: Sequence[Reply]


@dataclass(frozen=True, slots=True)
class Browser:
    """Table with search and filters, plain without a script; its caption says which rows it has."""

    table: Table
    filters: tuple[str, ...]  # Heads of the columns that can be filtered by.


Block = (
    Words | Story | Bullets | MarkedText | Drawing | Plates
    | ClaimTable | Facts | Values | Table | Callout | Fold | Example | Browser
)  # fmt: skip
"""Content of a section; the template has a macro for each class."""


@dataclass(frozen=True, slots=True)
class Section:
    """Section of a page."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    short: str = ""  # Its title among the links at the top, where that is another.


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole page."""

    kind: str  # Sort of the page, above the title.
    title: str
    question: str = ""  # Below the title: what was asked, or what is here.
    facts: Pairs
    sections: Sequence[Section]
    foot: str = "from the files in the run's folder."  # Source of the page; the version is said beside it.
    claims: str = ""  # Claims that are allowed, in a line for a terminal.

    @property
    def verdict(self) -> str:
        """The first sentence; empty where the page has none."""
        blocks = (block for section in self.sections for block in section.blocks)
        return next((block.sentences[0] for block in blocks if isinstance(block, Story) and block.sentences), "")


def note(text: str) -> Words:
    """Return a paragraph that is smaller and lighter."""
    return Words(text, Tone.NOTE)


def missing(text: str) -> Words:
    """Return a paragraph on the reason why something is missing."""
    return Words(text, Tone.MISSING)


def drawn(svg: Markup | None, words: str) -> Block:
    """Return a figure, or `words` where there is none."""
    return missing(words) if svg is None else Drawing(svg)


def present(*blocks: Block | None) -> tuple[Block, ...]:
    """Return the blocks that are there."""
    return tuple(block for block in blocks if block is not None)


def summary(
    story: Sequence[str], *blocks: Block | None, limits: Sequence[str] = (), notes: Sequence[str] = ()
) -> Section:
    """Return the first section: results, limits, and unreadable files."""
    lists = {"What cannot be said": limits, "What could not be read": notes}
    callouts = (Callout(title, [Bullets(lines)]) for title, lines in lists.items() if lines)
    return Section("summary", "Summary", present(Story(story), *callouts, *blocks))
