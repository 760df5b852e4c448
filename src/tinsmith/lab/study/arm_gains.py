"""What the arms of a study on a task gained, with intervals over seeds and clusters of items, and what may be claimed.

Items that hang together, and would be learned together, are drawn together: a study says which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinsmith.lab.study.results import Draws
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.pages.document import Block, drawn
from tinsmith.pages.dots import Dots, Panel, dots_svg
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, column, measured, table_of, text
from tinsmith.pages.wording import p_words, signed, told
from tinsmith.stats.estimates import Bootstrap, Difference
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.claims import MeanBeats, MeanLearned, judge_beats, judge_learned
from tinsmith.stats.mean_runs import MeanRuns, mean_difference
from tinsmith.stats.significance import ALPHA, holm
from tinsmith.types.errors import DataError

ClusterOf = Callable[[str], str]
"""Returns what an item, by its name, stands or falls with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGain:
    """One arm before and after training, on held-out items: means over seeds and items."""

    name: str
    words: str
    before: Measure
    after: Measure
    gain: Measure
    p_value: float
    p_holm: float
    """Corrected over the study's arms."""
    greedy_before: float
    greedy_after: float

    @property
    def holds(self) -> bool:
        """Whether the gain's interval leaves out 0, and its corrected test refuses 0."""
        low, high = self.gain.low, self.gain.high
        return low is not None and high is not None and not low <= 0.0 <= high and self.p_holm <= ALPHA

    def within(self, margin: float) -> bool:
        """Whether the whole interval of the gain lies within a margin around 0."""
        low, high = self.gain.low, self.gain.high
        return low is not None and high is not None and -margin <= low and high <= margin


@dataclass(frozen=True, slots=True)
class Arms:
    """The arms' finished runs by name, and what hangs together in them."""

    reads: Mapping[str, ArmRead]
    cluster_of: ClusterOf
    first: int = 0
    """The place of the evaluation that stands before what is studied, among all of a run."""

    def at(self, name: str, place: int, score: str = "total", *, greedy: bool = False) -> MeanRuns:
        """Return what items earned at an arm's evaluation: 0 is the first, -1 the last.

        Raises:
            DataError: a run has no such values.
        """
        read = self.reads[name]
        found = read.at(read.steps[place], score, greedy=greedy)
        if found is None:
            raise DataError("a run has no such score", field="score", value=score)
        return self.clustered(found)

    def clustered(self, found: MeanRuns) -> MeanRuns:
        """Return values with what hangs together."""
        return MeanRuns.of(found.name, found.by_seed, {item: self.cluster_of(item) for item in found.items})

    def gains(self, draws: Bootstrap, score: str = "total") -> tuple[ArmGain, ...]:
        """Return every arm's gain."""
        return corrected([self._gain(name, draws, score) for name in self.reads])

    def _gain(self, name: str, draws: Bootstrap, score: str) -> ArmGain:
        return gain_of(
            (name, self.reads[name].words),
            (self.at(name, self.first, score), self.at(name, -1, score)),
            (self.at(name, self.first, score, greedy=True).mean(), self.at(name, -1, score, greedy=True).mean()),
            draws,
        )

    def beats(
        self, pairs: Sequence[tuple[str, str]], seen: Mapping[str, int], metric: str, draws: Draws
    ) -> tuple[Claim, ...]:
        """Judge that the first arm of each pair ends above the second; `seen` are items looked at."""
        return judge_beats(
            [
                MeanBeats(
                    first=self.at(first, -1),
                    second=self.at(second, -1),
                    metric=metric,
                    training=(self._training(first, seen), self._training(second, seen)),
                    parity=parity_of([self.reads[first], self.reads[second]]),
                )
                for first, second in pairs
            ],
            draws.claims,
        )

    def learned(self, controls: Mapping[str, str], metric: str, draws: Draws) -> tuple[Claim, ...]:
        """Judge that each arm learned something, beside the arm that is its control on shuffled labels."""
        return judge_learned(
            [
                MeanLearned(
                    system=self.at(name, -1),
                    metric=metric,
                    before=self.at(name, self.first),
                    baselines=tuple(
                        self.clustered(values)
                        for one in self.reads[name].reads[0].task.baselines
                        if (values := self.reads[name].baseline(one.name, "total")) is not None
                    ),
                    control=self.at(control, -1),
                    parity=parity_of([self.reads[name]]),
                )
                for name, control in controls.items()
            ],
            draws.claims,
        )

    def _training(self, name: str, seen: Mapping[str, int]) -> Training:
        data = self.reads[name].reads[0].run.config.data.fingerprint
        return Training(data, seen[name])


def gain_of(
    named: tuple[str, str], sampled: tuple[MeanRuns, MeanRuns], greedy: tuple[float, float], draws: Bootstrap
) -> ArmGain:
    """Return a gain that is corrected for nothing.

    Args:
        named: the arm's name, and what it is called on the page.
        sampled: what items earned before and after, by the same runs.
        greedy: the means where the likeliest answer was taken.
        draws: how intervals are drawn.
    """
    before, after = sampled
    gap = mean_difference(after, before, draws, same_models=True)
    return ArmGain(
        name=named[0],
        words=named[1],
        before=from_estimate(before.estimate(draws)),
        after=from_estimate(after.estimate(draws)),
        gain=as_measure(gap),
        p_value=gap.p_value,
        p_holm=gap.p_value,
        greedy_before=greedy[0],
        greedy_after=greedy[1],
    )


def corrected(gains: Sequence[ArmGain]) -> tuple[ArmGain, ...]:
    """Return gains as one family, by Holm."""
    p_holm = holm([one.p_value for one in gains])
    return tuple(replace(one, p_holm=p) for one, p in zip(gains, p_holm, strict=True))


def as_measure(gap: Difference) -> Measure:
    """Return a difference as a page shows it."""
    if gap.interval is None:
        return Measure(gap.value)
    return Measure(gap.value, gap.interval.low, gap.interval.high)


def gain_words(one: ArmGain) -> str:
    """Say where an arm went."""
    gain = f"{signed(one.gain.value)}"
    if one.gain.low is not None and one.gain.high is not None:
        gain += f" ({signed(one.gain.low)} to {signed(one.gain.high)}, Holm {p_words(one.p_holm)})"
    return f"from {one.before.value:.3f} to {told(one.after)}: {gain}"


def gains_table(gains: Sequence[ArmGain], caption: str) -> Table:
    """Return the arms before and after."""

    def moved(one: ArmGain) -> Cell:
        under = ""
        if one.gain.low is not None and one.gain.high is not None:
            under = f"{signed(one.gain.low)} to {signed(one.gain.high)}"
        return Cell(text=signed(one.gain.value), under=under, number=True)

    def greedy(one: ArmGain) -> Cell:
        return Cell(text=f"{one.greedy_before:.3f} to {one.greedy_after:.3f}", number=True)

    return table_of(
        caption,
        gains,
        ("Arm", lambda one: text(one.words)),
        ("before", lambda one: measured(one.before)),
        ("after", lambda one: measured(one.after)),
        ("gain|95 % interval", moved),
        ("p|Holm", lambda one: Cell(text=p_words(one.p_holm).removeprefix("p "), number=True)),
        (column("greedily", "before and after"), greedy),
    )


def gains_picture(gains: Sequence[ArmGain], title: str) -> Block:
    """Draw every arm before and after."""
    before: list[Measure | None] = [one.before for one in gains]
    after: list[Measure | None] = [one.after for one in gains]
    panel = Panel(
        title=title, dots=[Dots("before", series_mark(6), before), Dots("after", series_mark(0), after)], high=1.0
    )
    said = "; ".join(f"{one.words} {one.after.value:.3f}" for one in gains)
    rows = [one.words for one in gains]
    return drawn(dots_svg("arms", f"{title}. {said}.", rows, [panel], width=7.6), "Missing: nothing was evaluated.")
