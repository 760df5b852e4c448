"""Tokens that training changes, one by one, and whether those few explain what it gains.

    tinsmith run microscope [size=smallest | at=small] [task=FILE.py] [key=value ...]
    tinsmith run microscope second=DIR@final [first=DIR@base]

Each run of GRPO is looked for in its base; or any two policies of runs that are there are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.estimate import Lengths, Pace, pace_of
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import unreadable
from tinsmith.lab.experiment.replay import BASE, FINAL
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.study.keys import GENERATOR, SUMS, StudyKey, count, numbers
from tinsmith.lab.study.measures import BEFORE, Results
from tinsmith.lab.study.record import Column, Panel
from tinsmith.lab.study.sizes import Request
from tinsmith.lab.study.study import Arm, Beats, Expectation, Finding, Listing, OnRuns, PerItem, Points, Size, Study
from tinsmith.lab.user_task.entry import TASK_KINDS
from tinsmith.lab.user_task.run_data import data_of_task
from tinsmith.pages.document import Block, Fold, MarkedText, MarkedToken, Section, TokenMark, note
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import from_estimate, ranged, within
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.intervals import percentile
from tinsmith.stats.mean_runs import ByItem, MeanRuns, exact_mean
from tinsmith.studies.microscope.looking import Decoding, Fate, ItemLook, Looked, Place, Rule, Side, Writer, looked_at
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

Read = Callable[[Sequence[Looked], Bootstrap], Figure | None]
GRPO, FIRST, SECOND = "grpo", "first", "second"
RULES: Final[Mapping[Rule, str]] = {
    Rule.ORACLE: "the first, corrected where the two part",
    Rule.RANDOM: "the first, corrected at as many drawn places",
    Rule.UNCERTAIN: "the first, corrected where it is uncertain",
}
WRITES: Final[Mapping[Writer, str]] = {Writer.FIRST: "the first writes", Writer.SECOND: "the second writes"}
REWARD: Final = PerItem("reward", "reward")
SCORES: Final = (PerItem("greedy", "reward, greedy", is_greedy=True), PerItem("sampled", "reward, sampled"))
_OF_HABIT, _PRETRAINED = 0.14, 1.4
"""Corrections to a token by all three rules together: of a nano base on `crossroads`, of SmolLM2 on sums."""
_RL: Final = TASK_KINDS[Kind.TASK].known
_SET: Final = frozenset(["kind", "seed", "base_url", "log_path", "stop_after", "behavior_if_log_dir_exists", "quiet"])
_OF_SIDES: Final = frozenset([FIRST, SECOND, "out", "samples", "threshold", "dry_run", "size"])


def with_arms(study: Study, request: Request) -> Study:
    """Return the study of the policies that are asked for."""
    text = request.own["threshold"]
    found = numbers("threshold", text, float)
    if len(found) != 1 or not 0.0 <= found[0] < 100.0:
        raise unreadable("threshold", text, "nats, 0 or more")
    samples, threshold = count("samples", request.own["samples"], 1), found[0]
    if FIRST in request.given or SECOND in request.given:
        return _of_sides(study, request, samples, threshold)
    plan = request.plan({} if request.rate is None else {"learning_rate": float(str(request.rate))})
    grpo = Arm(GRPO, "GRPO", is_aside=True, kind=Kind.TASK.value, learning_rate=plan.settings.learning_rate)

    def make(folder: Path, file: Path, say: Say) -> Looked:
        return looked_at((Side(folder, BASE), Side(folder, FINAL)), samples, threshold, request.plan_of, file, say)

    on_runs = OnRuns(folder="looks", name=GRPO, make=make, arm=GRPO)
    return with_looks(study, samples, threshold, on_runs, [grpo], plan.experiment.name, "GRPO")


def _of_sides(study: Study, request: Request, samples: int, threshold: float) -> Study:
    given = request.given
    for key, value in given.items():
        if key not in _OF_SIDES:
            what, allowed = "nothing is trained where two policies are named", sorted(_OF_SIDES)
            raise ConfigError(what, field=key, value=value, allowed=allowed)
    if SECOND not in given:
        raise ConfigError("a second policy is needed", field=SECOND, fix="second=DIR@final")
    second = Side.of(SECOND, given[SECOND])
    first = Side.of(FIRST, given.get(FIRST, f"{second.folder}@base"))
    run = read_run(second.folder).config
    on_runs = OnRuns(
        folder="looks",
        name="two",
        make=lambda _, file, say: looked_at((first, second), samples, threshold, request.plan_of, file, say),
        there=second.folder,
    )
    found = with_looks(study, samples, threshold, on_runs, [], run.task.name, str(second))
    sizes = {name: Size(seeds=[run.seed or 0]) for name in study.sizes}
    return replace(found, sizes=sizes, warnings=[f"{second} is looked for in {first}: two servers, some minutes"])


def with_looks(
    study: Study, samples: int, threshold: float, on: OnRuns, runs: Sequence[Arm], task: str, second: str
) -> Study:
    """Return the study with its arms: the first as it writes, under each correction, and the second."""
    keys = {"samples": samples, "threshold": threshold}
    arms = [
        *runs,
        Arm(FIRST, "the first", keys, on=on, values=partial(_values, Writer.FIRST), is_aside=True),
        *(Arm(rule.value, label, on=on, values=partial(_values, rule)) for rule, label in RULES.items()),
        Arm(SECOND, "the second", on=on, values=partial(_values, Writer.SECOND)),
    ]
    notes = (f"The second policy is {second}.", *study.notes)
    pace = partial(_minutes, samples=samples)
    return replace(study, title=f"The microscope on {task}", arms=arms, notes=notes, pace=pace)


def _values(of: Rule | Writer, look: Looked, at: int, greedy: bool) -> ByItem:
    """Return what items earn: of the first, before, and of it under a rule, or of the second."""
    decoding = Decoding.GREEDY if greedy else Decoding.SAMPLED
    who = Writer.FIRST if at == BEFORE else of
    found = look.intervention(who, decoding) if isinstance(who, Rule) else look.agreement(who, decoding)
    return _means(found.earned)


def _means(rewards: Mapping[str, Sequence[float]]) -> dict[str, Fraction]:
    """Return each item's mean reward, exactly as its decimals say."""
    some = {item: [Fraction(repr(value)) for value in values] for item, values in rewards.items() if values}
    return {item: exact_mean(values) for item, values in some.items()}


def agreed(looks: Sequence[Looked], writer: Writer, decoding: Decoding, draws: Bootstrap) -> dict[str, Figure | None]:
    """Return the fate of the tokens that one policy wrote in one way.

    Entropy ratio: (H where they part / tokens there) / (H elsewhere / tokens there), sums over items and seeds.
    """
    agreements = [one.agreement(writer, decoding) for one in looks]
    every = [one for each in agreements for one in each.items]
    changed = sum(one.changed for one in every)

    def mean(of: Callable[[ItemLook], float], per: Callable[[ItemLook], int] = lambda _: 1) -> MeanRuns:
        return MeanRuns.of(
            "mean", [{one.item: Fraction(of(one)) / per(one) for one in each.items} for each in agreements]
        )

    def share(of: Callable[[ItemLook], int]) -> Figure:
        return from_estimate(mean(of, lambda one: one.tokens).estimate(draws))

    parts = (
        mean(lambda one: one.entropy_changed),
        mean(lambda one: one.tokens - one.changed),
        mean(lambda one: one.changed),
        mean(lambda one: one.entropy_same),
    )
    a, b, c, d = (one.mean() for one in parts)
    ratio = None
    if c * d:
        rows = [one.draws(draws, "first") for one in parts]
        ratio = within(a * b / (c * d), percentile((rows[0] * rows[1]) / (rows[2] * rows[3]), draws.level))
    return {
        "tokens": Figure(sum(one.tokens for one in every)),
        "unshifted": share(lambda one: one.tokens - one.changed),
        "reranked": share(lambda one: one.reranked),
        "shifted": share(lambda one: one.shifted),
        "mean rank": Figure(sum(one.ranks for one in every) / changed) if changed else None,
        "entropy ratio": ratio,
        "earned": from_estimate(MeanRuns.of("earned", [_means(each.earned) for each in agreements]).estimate(draws)),
        "failures": Figure(sum(each.failures for each in agreements)),
    }


def corrected(looks: Sequence[Looked], rule: Rule, decoding: Decoding, draws: Bootstrap) -> dict[str, Figure | None]:
    """Return what the first earns under correction, and how much of the second's gain that is."""
    interventions = [one.intervention(rule, decoding) for one in looks]
    ends = [[_means(one.agreement(writer, decoding).earned) for one in looks] for writer in Writer]
    under_rule = [_means(one.earned) for one in interventions]
    start, mine, goal = (MeanRuns.of("earned", some) for some in (ends[0], under_rule, ends[1]))
    return {
        "earned": from_estimate(mine.estimate(draws)),
        "recovered": recovered(start, mine, goal, draws),
        "taken": Figure(sum(one.taken for one in interventions) / sum(one.tokens for one in interventions)),
        "failures": Figure(sum(one.failures for one in interventions)),
    }


def recovered(start: MeanRuns, mine: MeanRuns, goal: MeanRuns, draws: Bootstrap) -> Figure | None:
    """Return (mine - start) / (goal - start), items and seeds of all three drawn together.

    None where the interval of the gain reaches zero: a share of what may be nothing says nothing.
    """
    gain = goal.mean() - start.mean()
    first, middle, last = (one.draws(draws, "first") for one in (start, mine, goal))
    gains = percentile(last - first, draws.level)
    if gain <= 0.0 or (gains is not None and gains.low <= 0.0):
        return None
    with_gain = last - first > 0.0
    ends = percentile((middle - first)[with_gain] / (last - first)[with_gain], draws.level)
    return within((mine.mean() - start.mean()) / gain, ends)


def lowest_of_control(looks: Sequence[Looked]) -> float:
    """Return the lowest share of unshifted tokens in any answer of the second against itself."""
    every = [item for one in looks for agreement in one.control for item in agreement.items]
    return float(min((Fraction(item.tokens - item.changed, item.tokens) for item in every), default=Fraction(1)))


def _looks(results: Results) -> tuple[Looked, ...]:
    return results.arms[SECOND].made


def _expected(text: str, read: Read, *, least: float = -math.inf, most: float = math.inf) -> Expectation:
    """Expect a figure at or above a bound, or at or below one, whatever its interval."""
    bound = f"at least {least:g}" if most == math.inf else f"at most {most:g}"

    def check(results: Results) -> Finding:
        value = read(_looks(results), results.draws.tables)
        shown = "nothing to measure" if value is None else ranged(value)
        return Finding(value is not None and least <= value.value <= most, f"{shown}; asked {bound}")

    return Expectation(text, check)


def _of_second(name: str) -> Read:
    return lambda looks, draws: agreed(looks, Writer.SECOND, Decoding.GREEDY, draws)[name]


def _recovery(whose: str, rule: Rule, decoding: Decoding, **bound: float) -> Expectation:
    text = f"{whose} share of the gain, {decoding}"
    return _expected(text, lambda looks, draws: corrected(looks, rule, decoding, draws)["recovered"], **bound)


def _rewards(results: Results) -> tuple[list[str], list[Panel]]:
    """Return what the first earns, under each correction, and what the second earns, as a picture has them."""
    arms = [arm.arm for arm in results.arms.values() if arm.arm.on is not None]
    values = {one.label: tuple(results.after(arm.name, one) for arm in arms) for one in SCORES}
    return [arm.label for arm in arms], [Panel(title=label, before=(), after=after) for label, after in values.items()]


_MARKS: Final = {Fate.UNSHIFTED: TokenMark.NONE, Fate.RERANKED: TokenMark.FIRST, Fate.SHIFTED: TokenMark.SECOND}


def _texts(results: Results) -> list[Section]:
    blocks: list[Block] = [
        note(
            "Held-out items of the first seed. Not marked: both would take this token. Underlined once: the second "
            "would take another that the first has among its five most probable. Twice: one that it has not. Point at "
            "a token for its figures."
        )
    ]
    for decoding in Decoding:
        for writer in reversed(Writer):
            shown = _looks(results)[0].agreement(writer, decoding).shown
            texts = [MarkedText(item, [_marked(one) for one in places]) for item, places in shown.items()]
            opened = (writer, decoding) == (Writer.SECOND, Decoding.GREEDY)
            blocks.append(Fold(f"{WRITES[writer]}, {decoding}".capitalize(), texts, opened=opened))
    return [Section("tokens", "Tokens", blocks)]


def _marked(one: Place) -> MarkedToken:
    remark = (
        f"{one.fate.value}: the second's {one.instead!r} has rank {one.rank} in the first, whose entropy is "
        f"{one.entropy:.3f} nats"
    )
    return MarkedToken(one.text, _MARKS[one.fate], remark)


def _minutes(plan: Plan, samples: int) -> float | None:
    data, pace = data_of_task(plan), pace_of(plan)
    run = data.minutes()
    if run is None or pace is None:
        return None
    longest = replace(data.lengths(), answer=plan.settings.max_tokens)
    pretrained = plan.circumstances.model_name is not None
    return run + look_seconds(longest, samples, pace, pretrained=pretrained) / 60


def look_seconds(lengths: Lengths, samples: int, pace: Pace, *, pretrained: bool) -> float:
    """Return the seconds of a look at two policies, most of which go into computing corrected texts anew."""
    prompt, answer = lengths.prompt, lengths.answer
    answers = lengths.examined * (1 + samples)
    written = prompt * pace.read + answer * pace.written
    spread = 2 * (prompt + answer) * pace.read  # both read every text
    # A correction goes on from the prompt and half of the answer, and both say what they think of the whole.
    again = prompt * pace.read + answer / 2 * (pace.read + pace.written) + spread
    corrections = (_PRETRAINED if pretrained else _OF_HABIT) * answer
    looks = len(Writer) + 1  # each that writes, and the second against itself
    return answers * (looks * (written + spread) + corrections * again)


study = Study(
    name="microscope",
    question="Which tokens of an answer does RL change, and do those few explain the gain?",
    task="crossroads",
    arms=(),
    complete=with_arms,
    own=(
        StudyKey("task", "crossroads", "Task to train on: a packaged one, or FILE.py."),
        GENERATOR,
        StudyKey(FIRST, "", "Instead of training: DIR@base, DIR@STEP or DIR@final of a run."),
        StudyKey(SECOND, "", "The policy to compare the first one with."),
        StudyKey("samples", "4", "Sampled answers per item."),
        StudyKey("threshold", "0.7", "Entropy in nats above which the first policy counts as uncertain."),
    ),
    passes=_RL - _SET,
    fixed=_SET,
    keys={"split_seed": 0},
    sizes={
        "smallest": Size(seeds=[1], samples=2, steps=40, held_out_items=24, practice=200),
        "nano": Size(practice=400),
        # A small pretrained model has read no demonstrations of crossroads: sums, of which it solves some.
        "small": Size(SUMS, seeds=[1], samples=2, steps=24, groups_per_batch=8, learning_rate=3e-4, eval_items=24),
    },
    score=REWARD,
    effort=lambda arm: 0 if arm.arm.name == FIRST else arm.examples,
    claims=tuple(
        Beats(*pair, on=score)
        for score in SCORES
        for pair in ((SECOND, FIRST), (Rule.ORACLE.value, FIRST), (Rule.ORACLE.value, Rule.RANDOM.value))
    ),
    source="arXiv:2605.06241",
    expectations=(
        _expected("unshifted tokens", _of_second("unshifted"), least=0.95),
        _expected("shifted tokens", _of_second("shifted"), least=0.0, most=0.005),
        _expected("entropy ratio", _of_second("entropy ratio"), least=3.0),
        *(_recovery("the oracle's", Rule.ORACLE, one, least=0.8) for one in Decoding),
        *(_recovery("the drawn places'", Rule.RANDOM, one, most=0.25) for one in Decoding),
        _expected("unshifted against itself", lambda looks, _: Figure(lowest_of_control(looks)), least=1.0),
    ),
    tables=(
        Listing(
            "Agreement",
            "Shares of an answer's tokens, means over answers, items and seeds. Entropy ratio: the mean entropy of the "
            "first where the two part, over that elsewhere.",
            (
                *(Column(head="tokens", form="d"), "unshifted", "reranked", Column(head="shifted", form=".4f")),
                *(Column(head=one, form=".2f", missing="none") for one in ("mean rank", "entropy ratio")),
                *("reward|of the writer", Column(head="failed|answers", form="d")),
            ),
            lambda results: [
                [f"{WRITES[writer]}|{way}", *agreed(_looks(results), writer, way, results.draws.tables).values()]
                for writer in Writer
                for way in Decoding
            ],
        ),
        Listing(
            "Corrections",
            "The first writes and is corrected by the second. Recovered: of what the second earns more than the first, "
            "where that is shown to be more.",
            (
                *("reward", Column(head="recovered", missing="no gain shown")),
                *("corrected|share of tokens", Column(head="failed|answers", form="d")),
            ),
            lambda results: [
                [f"{RULES[rule]}|{way}", *corrected(_looks(results), rule, way, results.draws.tables).values()]
                for way in Decoding
                for rule in Rule
            ],
        ),
    ),
    pictures=(Points(_rewards),),
    sections=_texts,
    notes=(
        lambda results: (
            "The share of unshifted tokens hangs on who writes and how; against itself the second's is "
            f"{lowest_of_control(_looks(results)):.3f} in every answer."
        ),
        "Every share is a mean over answers, so that how long answers are decides how small it can be.",
    ),
)
