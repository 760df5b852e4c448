"""A study as a value: arms, sizes and seeds on one task, what is measured of them, and what is expected beforehand.

Nothing here runs: `conduct` makes runs of it, `measures` reads them back, `report` says and shows what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tinsmith.lab.experiment.experiment import Experiment, Plan
from tinsmith.lab.runs.records import Split, TaskRollout
from tinsmith.lab.study.keys import StudyKey
from tinsmith.lab.study.record import Column, CurveRecord, ExampleRecord, Expected, Panel
from tinsmith.lab.user_task.task import Task
from tinsmith.pages.document import Section
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.mean_runs import ByItem, MeanRuns
from tinsmith.stats.rates import Metric
from tinsmith.types.arguments import KnownArguments
from tinsmith.types.errors import ConfigError, require_known
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    from tinsmith.lab.study.conduct import Stage
    from tinsmith.lab.study.measures import ArmRuns, Results
    from tinsmith.lab.study.sizes import Request

Value = str | int | float | bool
BySize = Mapping[str, Value]
"""A value for each size, by the size's name."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """In place of a value: the learning rate that validation chooses for another arm."""

    arm: str


tuned = Tuned

ArmValue = Value | BySize | Sequence[float] | Tuned
"""Several numbers are learning rates, of which validation chooses one."""
UNTRAINED: Final = ""
"""In place of an arm that is beaten: the same runs before their training."""
_BASELINE: Final = "baseline:"
BySeed = Mapping[int, str]
"""A value for single runs, by seed."""
After = Callable[["Stage"], Mapping[str, Value | BySeed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnRuns:
    """Something made of finished runs, each kept in a file; arms may stand on it instead of on runs of their own."""

    folder: str
    name: str
    """Of the files, before the seed."""
    make: Callable[[Path, Path, Say], Any]
    """Makes it of the run in a folder, or reads it from its file."""
    arm: str = ""
    """Arm whose runs they are; empty: the run in `there`."""
    there: Path | None = None
    before: str = "the base"
    """Names what it begins with."""


V = TypeVar("V", bound=object)


def _keys(more: Mapping[str, V] | str) -> Mapping[str, V | str]:
    if not isinstance(more, str):
        return more
    if (wrong := next((one for one in more.split() if "=" not in one), None)) is not None:
        raise ConfigError("this is no key with its value", field="keys", value=wrong, allowed="KEY=VALUE KEY=VALUE")
    return dict(one.split("=", 1) for one in more.split())


def _number(value: V) -> V | str | float:
    """Return a value as it is compared: a text on a command line as the number or the truth that it means."""
    text = str(value).lower()
    try:
        return float(text) if isinstance(value, str | int | float) and not isinstance(value, bool) else value
    except ValueError:
        return text


@dataclass(frozen=True, init=False)
class Arm:
    """One way to train: keys of a run or of the task, on top of those of the size.

    They may also stand together as on a command line, or in a mapping.

    >>> Arm("hotter", "temperature 3", temperature=3.0).keys
    {'temperature': 3.0}
    """

    name: str
    label: str
    keys: Mapping[str, ArmValue]
    after: After | None
    """Computes keys from what other arms did, in place of those given here, which a forecast goes by."""
    experiment: Experiment | None
    """Experiment of an arm that is no way to train on the study's task."""
    is_aside: bool
    """True if only tables and pictures of its own read it, and it has neither a gain nor a claim."""
    on: OnRuns | None
    """Of an arm without runs of its own."""
    values: Callable[[Any, int, bool], ByItem] | None
    """Returns what items earn, of what was made on a run: BEFORE or AFTER, and whether greedily."""

    def __init__(
        self,
        name: str,
        label: str,
        more: Mapping[str, ArmValue] | str = "",
        /,
        *,
        after: After | None = None,
        experiment: Experiment | None = None,
        is_aside: bool = False,
        on: OnRuns | None = None,
        values: Callable[[Any, int, bool], ByItem] | None = None,
        **keys: ArmValue,
    ) -> None:
        self.__dict__.update(name=name, label=label, keys={**_keys(more), **keys}, after=after, experiment=experiment)
        self.__dict__.update(is_aside=is_aside, on=on, values=values)

    @property
    def is_staged(self) -> bool:
        """True if other arms decide its keys, which have to be run before it."""
        return self.after is not None or any(isinstance(value, Tuned) for value in self.keys.values())

    def shuffled_is(self, other: Arm) -> bool:
        """Return True if another arm differs from this one by shuffled labels alone."""
        mine = {key: _number(one) for key, one in self.keys.items()}
        theirs = {key: mine.get(key) if one == Tuned(self.name) else _number(one) for key, one in other.keys.items()}
        is_shuffled = theirs.pop("shuffle_labels", False) in (True, "true")
        return is_shuffled and theirs == mine and other.experiment == self.experiment


@dataclass(frozen=True, init=False)
class Size:
    """Seeds, and keys of every run, at one size of the study."""

    seeds: tuple[int, ...]
    keys: Mapping[str, Value]
    without: tuple[str, ...]
    before: int
    """Place of the evaluation that counts as before training: 1 where the first steps only prepare the model."""

    def __init__(
        self,
        more: Mapping[str, Value] | str = "",
        /,
        *,
        seeds: Sequence[int] = (1, 2, 3, 4, 5),
        without: Sequence[str] = (),
        before: int = 0,
        **keys: Value,
    ) -> None:
        if isinstance(seeds, int | str):
            raise ConfigError("seeds are several numbers", field="seeds", value=seeds, allowed="such as (1, 2, 3)")
        if before < 0:
            raise ConfigError("this is no place of an evaluation", field="before", value=before, allowed="0 or more")
        self.__dict__.update(seeds=tuple(seeds), keys={**_keys(more), **keys}, without=tuple(without), before=before)


def baseline(name: str) -> str:
    """Return, in place of an arm that is beaten, a baseline of the task."""
    return f"{_BASELINE}{name}"


Reading = MeanRuns | Sequence[float] | Figure | float | int | str | None
"""Values by item and seed, which get an interval over both; one a run, with an interval over runs; or what stands."""
Samples = Sequence[Fraction]
"""Of the sampled answers to one item."""


@dataclass(frozen=True, slots=True)
class PerItem(KnownArguments):
    """A value of every held-out item, before and after training: the mean of its answers, or `of` them."""

    name: str
    label: str
    metric: str = "total"
    """The reward; `metric/NAME`, or a term, of the task."""
    where: Callable[[str], bool] | None = None
    """Selects items by their ids; None: all."""
    of: Callable[[Samples], Fraction | float] | None = None
    """Combines the values of an item's answers; None: their mean."""
    answers: Callable[[Sequence[TaskRollout]], Fraction] | None = None
    """Instead of a metric: computes the value from an item's answers, with their texts and turns."""
    is_greedy: bool = False
    """True: of the most probable answer."""


Score = PerItem | Metric
"""Compares arms, on held-out items; of answers that are labels a metric such as macro-F1: no mean over items."""


@dataclass(frozen=True, slots=True)
class Measure(KnownArguments):
    """A figure of each arm, read from its finished runs."""

    name: str
    label: str
    """Head of the column; `mixed|observed` has two lines."""
    read: Callable[[ArmRuns], Reading]
    form: str = ".3f"
    """Its format, as in Python's `format`; with a sign: it is a difference."""
    missing: str = "not known"


@dataclass(frozen=True, slots=True)
class Table:
    """A section of the page: a row for each arm, a column for each measure."""

    title: str
    caption: str
    measures: Sequence[Measure | PerItem]
    """A PerItem has three columns: before, after, and the difference to the arm that others are compared with."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A section of the page with rows of its own."""

    title: str
    caption: str
    heads: Sequence[str | Column] | Callable[[Results], Sequence[str | Column]]
    """Of the columns beside the rows' names."""
    rows: Callable[[Results], Sequence[Sequence[Figure | str | None]]]
    """Each begins with its name; what follows a `|` stands below it."""
    names: str = "Arm"
    """Head of the names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check: whether an expectation was met, and the figures that say so."""

    met: bool
    figures: str

    def recorded(self, text: str) -> Expected:
        """Return what is kept of it, with the expectation's text."""
        return Expected(text=text, met=self.met, figures=self.figures)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Something expected before the runs, and the check that decides whether it was met."""

    text: str
    check: Callable[[Results], Finding]


@dataclass(frozen=True, slots=True)
class Beats:
    """The claim that one arm ends above another in the study's score, or in a measure."""

    first: str
    second: str
    on: Score | None = None
    family: str = ""
    """Claims of one family are corrected together."""

    @property
    def baseline(self) -> str | None:
        """Name of the baseline that stands in place of the second arm; None: it is an arm."""
        return self.second.removeprefix(_BASELINE) if self.second.startswith(_BASELINE) else None


@dataclass(frozen=True, slots=True)
class Learned:
    """The claim that an arm learned something; its control is trained where there is nothing to learn."""

    arm: str
    control: str
    """Empty: there is none, so that the claim is refused."""
    on: Score | None = None
    family: str = ""
    """Claims of one family are corrected together."""


def _arms_of(claim: Beats | Learned) -> set[str]:
    if isinstance(claim, Learned):
        return {claim.arm, claim.control} - {""}
    return {claim.first} if claim.baseline is not None else {claim.first, claim.second} - {UNTRAINED}


@dataclass(frozen=True, slots=True)
class Points:
    """A picture of values side by side, whose rows and panels are computed."""

    read: Callable[[Results], tuple[Sequence[str], Sequence[Panel]]]


@dataclass(frozen=True, slots=True)
class Curves:
    """Pictures of lines that are computed."""

    read: Callable[[Results], Sequence[CurveRecord]]


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """A picture of every arm before and after training, a panel for each measure; none: the study's score."""

    measures: Sequence[PerItem] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A picture of a figure along an axis, a line for each arm; its figures are listed below all curves."""

    name: str
    label: str
    read: Callable[[ArmRuns], Mapping[int, Figure | float | None]]
    axis: str = "step"
    shares: bool = False
    """All values lie between 0 and 1."""
    is_drawn: bool = True
    is_listed: bool = True


def over_steps(metric: str, label: str, *, is_drawn: bool = True) -> Curve:
    """Return the curve of a metric over the evaluated steps: its mean over an arm's runs."""
    return Curve(name=metric.replace("/", "-"), label=label, read=lambda arm: arm.over_steps(metric), is_drawn=is_drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study(KnownArguments):
    """A question, and the runs that answer it.

    `tinsmith run FILE.py` runs what has not been run, and writes values, tables and a page; `dry_run=true` forecasts
    it. Sentences, claims with their controls, tables, seconds, hashes and limits follow from this value.
    """

    name: str
    question: str
    task: Callable[..., Task] | str | None
    """A function that returns the task, whose arguments are keys of the study; or the name of a packaged task, which
    the key `task` replaces; None: arms are experiments on labels of papers."""
    arms: Sequence[Arm]
    sizes: Mapping[str, Size] = field(default_factory=lambda: {"nano": Size()})
    """By name: `nano` is taken where none is asked for, else the first; `small` is taken with `at=small`."""
    title: str = ""
    """Of the page; empty: the name."""
    score: Score = PerItem("reward", "reward")
    scores: Sequence[PerItem] = ()
    """Further scores, whose gains are shown too."""
    against: str = ""
    """The arm that every other one but the control is claimed to end above; empty: `claims` decides."""
    control: str = ""
    """The negative control: trained where there is nothing to learn, best with the keys of an arm that is claimed."""
    untrained: str = ""
    """An arm that is not trained: what the others were before training, where runs are evaluated at their end only."""
    claims: Sequence[Beats | Learned] | Callable[[Mapping[str, ArmRuns]], Sequence[Beats | Learned]] | None = None
    """None: every arm above `against`, and learned beside `control`; a function: of the finished runs by arm."""
    clusters: Callable[[str], str] | None = None
    """Names what an item, by its id, is learned with: such items are drawn together; None: the task's units."""
    source: str = ""
    """Publication of what is expected."""
    expectations: Sequence[Expectation] = ()
    tables: Sequence[Table | Listing] = ()
    pictures: Sequence[BeforeAfter | Curve | Points | Curves] = (BeforeAfter(),)
    sections: Callable[[Results], Sequence[Section]] | None = None
    """Returns sections of the page that are not kept among the values, such as texts of the runs."""
    examples: Callable[[Results], tuple[ExampleRecord, ...]] | None = None
    """Chooses items whose answers stand side by side."""
    notes: Sequence[str | Callable[[Results], str]] = ()
    """Sentences that a reader needs beside the figures; a function of the results may return none, as an empty text."""
    keys: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """Of every run at every size."""
    own: Sequence[StudyKey] = ()
    """Keys that are the study's alone."""
    passes: frozenset[str] = frozenset()
    """Further keys of a run that may be given."""
    fixed: frozenset[str] = frozenset()
    """Further keys of a run that the study sets itself."""
    effort: Callable[[Any], int | None] | None = None
    """Counts what the runs of an arm were trained on, of which the first of a claim may have no more; None: its items.
    """
    prefixes: tuple[str, ...] = ()
    """Prefixes of further keys of a run that may be given."""
    fewest_seeds: int = 1
    ways: Mapping[str, tuple[str, str, Split]] = field(default_factory=dict[str, tuple[str, str, Split]])
    """Other ways to decide with the models of an arm on labels, by name: label, arm, and the split of the answers."""
    shared: Callable[[Request], Mapping[str, str]] | None = None
    """Computes the keys of every run from those that are asked for."""
    materials: Callable[[Request, Say], Mapping[str, str]] | None = None
    """Finds or builds what all runs stand on, and returns keys that say where it is."""
    took: Callable[[str], float | None] | None = None
    """Returns the seconds that an arm took before its runs; None: it began with them."""
    warnings: Sequence[str] = ()
    """Sentences before the forecast, of what it does not know."""
    pace: Callable[[Plan], float | None] | None = None
    """Forecasts the minutes of a run; None: as of any run of its kind."""
    complete: Callable[[Study, Request], Study] | None = None
    """Returns the study with what hangs on the keys that are asked for, such as its arms."""

    @property
    def is_named(self) -> bool:
        """True if the study names a packaged task, which may be replaced."""
        return isinstance(self.task, str)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its arms, and of other ways to decide with them."""
        return (*(arm.name for arm in self.arms), *self.ways)

    def judged(self, arms: Mapping[str, ArmRuns]) -> Sequence[Beats | Learned]:
        """Return the claims of finished runs that are put to the gate; raise ConfigError where one names no arm."""
        trained = [arm.name for arm in self.arms if arm.name not in (self.control, self.untrained) and not arm.is_aside]
        beats = [Beats(name, self.against) for name in trained if self.against and name != self.against]
        usual = [*beats, *(Learned(name, self.control) for name in trained if self.control)]
        claims = usual if self.claims is None else self.claims(arms) if callable(self.claims) else self.claims
        named = ((name, "claims") for one in claims for name in sorted(_arms_of(one)))
        require_known("arm", named, [*self.names, *arms])
        return [one for one in claims if _arms_of(one) <= arms.keys()]
