"""The page of `moe/wander`: changes with the batch, for each arithmetic, and in an RL step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, Table, flattened, plain, text
from tinsmith.pages.wording import magnitude, share_of
from tinsmith.studies.moe.values import Compared, Engine, StepRatios, Wander, wander_json

QUESTION: Final = "Do a mixture's routes, log-probabilities and RL steps depend on who else is in the batch?"
LIMITS: Final = (
    "The texts are canonical's own draws, followed by every side: another side's own draws would differ a little more.",
    "Rewards are coins: the angles are those of a gradient with small advantages, not of a task.",
    "One machine's CPU kernels: a GPU's choose other tiles for other batches, and change more.",
)
_LOSSES: Final = {"importance_sampling": "importance sampling", "ppo": "PPO", "cispo": "CISPO"}
_COMPARED: Final = (
    *("changed|routes, of tokens", "share|95 % interval", "texts|with one", "unequal|bits, of log-probabilities"),
    *("largest|nats", "mean|nats"),
)
_NONE: Final = "Missing: nothing was computed."


def wander_page(done: Wander) -> Document:
    """Return the page."""
    settings = wander_json(done)["settings"]
    assert isinstance(settings, dict)
    routes = note(
        "Tokens that take another expert in some layer than when their text is computed by itself; lines are 95 % "
        "intervals over texts."
    )
    rows = plain(
        "Beside the same arithmetic's forward pass of each text by itself. Forward: whole texts, as a trainer computes "
        "them. Decode: token by token over a cache, as a sampler does.",
        ("Arithmetic", text("Way"), "At once", *_COMPARED),
        [(str(row.side), text(str(row.way)), str(row.batch), *_compared(row.compared)) for row in done.rows],
    )
    distances = plain(
        "Each text by itself, beside canonical arithmetic on the same weights; canonical bf16 beside canonical fp32, "
        "so that its row is what rounding the weights does.",
        ("Arithmetic", *_COMPARED),
        [(str(row.side), *_compared(row.compared)) for row in done.distances],
    )
    greedy = plain(
        "The most probable text of each prompt, computed together, beside that computed by itself.",
        ("Arithmetic", "At once", "parted", "first|token that differs, median"),
        [
            (
                *(str(one.side), str(one.batch), f"{one.parted} of {one.texts}"),
                str(one.first[len(one.first) // 2]) if one.first else None,
            )
            for one in done.greedy
        ],
    )
    ways = [row.name for row in done.rows]
    largest = [row.compared.max_logprob_difference for row in done.rows]
    mean = [row.compared.mean_logprob_difference for row in done.rows]
    shares = [Measure(*(100 * one for one in (row.compared.share, *row.compared.interval))) for row in done.rows]
    parted = [Measure(one.parted / one.texts) for one in done.greedy]
    angles = [
        *((label, [one.angle_degrees[loss] for one in done.steps]) for loss, label in _LOSSES.items()),
        ("all of it by that arithmetic", [one.whole_angle_degrees for one in done.steps]),
    ]
    unit, ticks = "Largest difference of a log-probability, nats", (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
    named = [f"{one.side}, {one.batch} at once" for one in (*done.greedy, *done.steps)]
    parts, steps = named[: len(done.greedy)], named[len(done.greedy) :]
    pictures = (
        _dots("routes", "Tokens with changed routes, per cent", ways, shares, 0.1),
        log_dots_svg("logprobs", f"{unit}.", ways, (("largest", largest), ("mean", mean)), ticks, unit=unit),
        _dots("greedy", "Greedy texts that part from their own by themselves, share", parts, parted, 1.0),
        log_dots_svg("angles", "Degrees.", steps, angles, (1e-6, 1e-4, 1e-2, 1.0, 90.0), unit="Degrees"),
    )
    first, second, third, fourth = (drawn(one, _NONE) for one in pictures)
    return Document(
        kind="Report of a study",
        title=f"Do the routes of {done.model} wander?",
        question=QUESTION,
        facts=(("Mixture", done.fingerprint[:16]), *flattened(settings), *done.machine.items()),
        sections=(
            summary(wander_story(done), limits=LIMITS),
            Section("routes", "Routes", (routes, first, rows)),
            Section("logprobs", "Log-probabilities", (second, distances)),
            Section("greedy", "Greedy texts", (third, greedy)),
            Section("step", "One RL step", (fourth, _steps(done.steps))),
        ),
    )


def wander_story(done: Wander) -> tuple[str, ...]:
    """Return a sentence for each arithmetic: its largest changes in any batch, and those of an RL step."""
    found: list[str] = []
    for side in dict.fromkeys(row.side for row in done.rows):
        some = [row for row in done.rows if row.side == side]
        worst = max(some, key=lambda row: (row.compared.share, row.compared.tokens))
        nats = max(row.compared.max_logprob_difference for row in some)
        one, moved = worst.compared, any(row.compared.is_moved for row in some)
        ends = " to ".join(f"{100 * end:.2f}" for end in one.interval)
        broken = " SOMETHING MOVED." if moved and side.engine is Engine.CANONICAL else ""
        found.append(
            f"{side}: {one.changed_routes} of {one.tokens:,} tokens ({100 * one.share:.2f} %, {ends}) take another "
            f"expert at most ({worst.way}, {worst.batch} at once); log-probabilities move by up to {nats:.2g} "
            f"nats.{broken}"
        )
    for side in dict.fromkeys(one.side for one in done.steps):
        step = max((one for one in done.steps if one.side == side), key=lambda one: max(one.angle_degrees.values()))
        angles = ", ".join(f"{_LOSSES[loss]} {angle:.2g}" for loss, angle in step.angle_degrees.items())
        whole = magnitude(step.whole_angle_degrees) or "not computed"
        found.append(
            f"One RL step, {side}, sampled {step.batch} at once: {step.unequal_routes} of {step.tokens:,} tokens are "
            f"trained through other experts; ratios lie in {step.least_ratio:.3g} to {step.largest_ratio:.3g}; they "
            f"turn the gradient by (degrees) {angles}, throughout {whole}."
        )
    return tuple(found)


def _dots(name: str, title: str, rows: Sequence[str], values: Sequence[Measure], high: float) -> Markup | None:
    most = max((one.value if one.high is None else one.high for one in values), default=high)
    panel = Panel(title=title, dots=[Dots(name, series_mark(0), values)], high=max(most, high))
    said = "; ".join(f"{row}: {one.value:.2g}" for row, one in zip(rows, values, strict=True))
    return dots_svg(name, f"{title}. {said}.", rows, [panel])


def _compared(one: Compared) -> tuple[str | Cell | None, ...]:
    low, high = map(share_of, one.interval)
    return (
        f"{one.changed_routes} of {one.tokens:,}",
        Cell(text=share_of(one.share) or "", under=f"{low} to {high}", number=True),
        f"{one.changed_texts} of {one.texts}",
        share_of(one.unequal_logprob_bits),
        magnitude(one.max_logprob_difference),
        magnitude(one.mean_logprob_difference),
    )


def _steps(steps: Sequence[StepRatios]) -> Table:
    return plain(
        "On policy: every ratio should be 1. The angle of each loss is between its gradient with these ratios and that "
        "with ratios of 1, both by canonical arithmetic; the last one is of the gradient of importance sampling as the "
        "arithmetic computes it throughout.",
        (
            *("Arithmetic", "At once", "unequal|routes", "ratios|not 1", "ratios|from, to", "clipped|PPO"),
            *("clipped|CISPO", *(f"degrees|{label}" for label in _LOSSES.values()), "degrees|throughout"),
        ),
        [
            (
                *(str(one.side), str(one.batch), f"{one.unequal_routes} of {one.tokens:,}"),
                *(share_of(one.ratios_not_one), f"{one.least_ratio:.4g}, {one.largest_ratio:.4g}"),
                *(share_of(one.clipped[loss]) for loss in ("ppo", "cispo")),
                *(magnitude(one.angle_degrees[loss]) for loss in _LOSSES),
                magnitude(one.whole_angle_degrees),
            )
            for one in steps
        ],
    )
