"""Measures on pages: values with intervals, and their wording; a missing value is None."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TypeVar

from tinsmith.data.baselines.report import Figure
from tinsmith.stats.estimates import Bootstrap, Difference, Estimate
from tinsmith.stats.intervals import Interval, mean_over_seeds
from tinsmith.types.page_names import decimals

BOOTSTRAP = Bootstrap(draws=2000)  # Draws for the intervals of tables; those of claims are drawn ten thousand times.


@dataclass(frozen=True, slots=True)
class Measure:
    """Value; `low` and `high` are the ends of its 95 % interval, None without one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return decimals(self.value)
        return f"{decimals(self.value)} [{decimals(self.low)}, {decimals(self.high)}]"

    def above(self, level: float) -> bool:
        """True if its interval lies above a level."""
        return self.low is not None and self.low > level

    def below(self, level: float) -> bool:
        """True if its interval lies below a level."""
        return self.high is not None and self.high < level

    def within(self, margin: float) -> bool:
        """True if its interval lies within a margin around 0."""
        return self.low is not None and self.high is not None and -margin <= self.low and self.high <= margin

    @property
    def between(self) -> str:
        """Ends of a difference's interval in words; empty without one."""
        return "" if self.low is None or self.high is None else f"{signed(self.low)} to {signed(self.high)}"


Measures = Mapping[str, Measure]  # By the name in metrics.jsonl, without its group.


def from_estimate(estimate: Estimate | Difference) -> Measure:
    """Return an estimate, or a difference, as a measure."""
    return within(estimate.value, estimate.interval)


def within(value: float, ends: Interval | None) -> Measure:
    """Return a value with its interval, if it has one."""
    return Measure(value) if ends is None else Measure(value, ends.low, ends.high)


def over_seeds(values: Sequence[float]) -> Measure:
    """Return a mean over seeds, with Student's interval where there are several."""
    return within(*mean_over_seeds(values))


def over_all(values: Sequence[float | None]) -> Measure | None:
    """Return a mean over runs with Student's interval; None if a run lacks the value."""
    known = [one for one in values if one is not None]
    return over_seeds(known) if len(known) == len(values) else None


def finite(value: Measure | float | None) -> Measure | None:
    """Return a number as a measure; None where it is none, such as NaN."""
    one = value if value is None or isinstance(value, Measure) else Measure(float(value))
    return one if one is not None and math.isfinite(one.value) else None


def from_figure(figure: Figure) -> Measure:
    """Return a baseline's figure."""
    return Measure(figure.value, figure.low, figure.high)


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def ranged(measure: Measure) -> str:
    """Return a value with its interval in words.

    >>> ranged(Measure(0.5, 0.4, 0.6))
    '0.500 (0.400 to 0.600)'
    """
    if measure.low is None or measure.high is None:
        return decimals(measure.value)
    return f"{decimals(measure.value)} ({decimals(measure.low)} to {decimals(measure.high)})"


def percent(share: float) -> str:
    """Return a share of answers in words.

    >>> percent(0.9966), percent(1.0), percent(0.9996), percent(0.0004)
    ('99.7 %', '100 %', 'over 99.9 %', 'under 0.1 %')
    """
    shown = f"{100 * share:.1f}"
    if 0.0 < share < 1.0 and shown in ("0.0", "100.0"):
        return "under 0.1 %" if share < 0.5 else "over 99.9 %"
    return f"{shown.removesuffix('.0')} %"


def magnitude(value: float | None) -> str | None:
    """Return a small number in words; None if it is unknown or not finite.

    >>> magnitude(0.0), magnitude(2.53e-6), magnitude(None)
    ('0', '2.5e-06', None)
    """
    if value is None or not math.isfinite(value):
        return None
    return "0" if value == 0.0 else f"{value:.2g}"


def share_of(value: float | None) -> str | None:
    """Return a possibly small share in words.

    >>> share_of(0.375), share_of(0.0)
    ('37.5 %', '0 %')
    """
    return None if value is None else f"{100 * value:.3g} %"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.25), signed(0.0), signed(-0.25)
    ('+0.250', '0.000', '-0.250')
    """
    return decimals(value, "+.3f")


T = TypeVar("T")


def in_turn(kinds: Iterable[Sequence[T]], most: int) -> Iterator[T]:
    """Select a number of items in turn from each kind, so that rare kinds are complete.

    >>> list(in_turn([[1, 2, 3], [4]], 3))
    [1, 4, 2]
    """
    return islice((one for turn in zip_longest(*kinds) for one in turn if one is not None), most)


def choice_words(num_shown: int, known: int, what: str, kinds: str) -> str:
    """Return which of `known` rows are shown, chosen in turn of every kind by a hash of their names.

    >>> choice_words(2, 2, "item", "result")
    'All 2 items are here.'
    """
    if num_shown == known:
        return f"All {counted(known, what)} are here."
    return (
        f"{num_shown:,} of {counted(known, what)} are here: in turn one of every {kinds}, within each by a hash of its "
        "name, so that rare results are complete and frequent ones are a sample. Shares among them are not those of "
        "the run."
    )
