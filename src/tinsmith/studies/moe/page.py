"""The page of `moe/wander`, from the values of `wander.json`: changes with the batch, and in an RL step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.dots import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.measures import Measure
from tinsmith.pages.palette import series_mark
from tinsmith.pages.tables import Cell, flattened, plain, text
from tinsmith.pages.wording import magnitude, share_of
from tinsmith.studies.moe.bench import is_moved
from tinsmith.studies.moe.values import Engine

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
_TICKS: Final = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
Row = Mapping[str, Any]


def wander_page(done: Row) -> Document:
    """Return the page."""
    rows, greedy, steps = (done[name] for name in ("rows", "greedy", "rl_step"))
    ways = [f"{_side(row)}, {row['way']} {row['batch']}" for row in rows]
    shares = [Measure(*(100 * one for one in (row["share"], *row["interval"]))) for row in rows]
    parted = [Measure(one["parted"] / one["texts"]) for one in greedy]
    parts, trained = ([f"{_side(one)}, {one['batch']} at once" for one in some] for some in (greedy, steps))
    nats = [(word, [row[f"{key}_logprob_difference"] for row in rows]) for word, key in _NATS.items()]
    unit = "Largest difference of a log-probability, nats"
    angles = [
        *((label, [one["angle_degrees"][loss] for one in steps]) for loss, label in _LOSSES.items()),
        ("all of it by that arithmetic", [one["whole_angle_degrees"] for one in steps]),
    ]
    pictures = (
        _dots("routes", "Tokens with changed routes, per cent", ways, shares, 0.1),
        log_dots_svg("logprobs", f"{unit}.", ways, nats, _TICKS, unit=unit),
        _dots("greedy", "Greedy texts that part from their own by themselves, share", parts, parted, 1.0),
        log_dots_svg("angles", "Degrees.", trained, angles, (1e-6, 1e-4, 1e-2, 1.0, 90.0), unit="Degrees"),
    )
    first, second, third, fourth = (drawn(one, "Missing: nothing was computed.") for one in pictures)
    by_way = plain(
        "Beside the same arithmetic's forward pass of each text by itself. Forward: whole texts, as a trainer computes "
        "them. Decode: token by token over a cache, as a sampler does.",
        ("Arithmetic", text("Way"), "At once", *_COMPARED),
        [(_side(row), text(row["way"]), str(row["batch"]), *_compared(row)) for row in rows],
    )
    distances = plain(
        "Each text by itself, beside canonical arithmetic on the same weights; canonical bf16 beside canonical fp32, "
        "so that its row is what rounding the weights does.",
        ("Arithmetic", *_COMPARED),
        [(_side(row), *_compared(row)) for row in done["from_canonical"]],
    )
    greedy_texts = plain(
        "The most probable text of each prompt, computed together, beside that computed by itself.",
        ("Arithmetic", "At once", "parted", "first|token that differs, median"),
        [
            (
                *(_side(one), str(one["batch"]), f"{one['parted']} of {one['texts']}"),
                str(one["first"][len(one["first"]) // 2]) if one["first"] else None,
            )
            for one in greedy
        ],
    )
    rl_step = plain(
        "On policy: every ratio should be 1. The angle of each loss is between its gradient with these ratios and that "
        "with ratios of 1, both by canonical arithmetic; the last one is of the gradient of importance sampling as the "
        "arithmetic computes it throughout.",
        (
            *("Arithmetic", "At once", "unequal|routes", "ratios|not 1", "ratios|from, to", "clipped|PPO"),
            *("clipped|CISPO", *(f"degrees|{label}" for label in _LOSSES.values()), "degrees|throughout"),
        ),
        [
            (
                *(_side(one), str(one["batch"]), f"{one['unequal_routes']} of {one['tokens']:,}"),
                *(share_of(one["ratios_not_one"]), f"{one['least_ratio']:.4g}, {one['largest_ratio']:.4g}"),
                *(share_of(one["clipped"][loss]) for loss in ("ppo", "cispo")),
                *(magnitude(one["angle_degrees"][loss]) for loss in _LOSSES),
                magnitude(one["whole_angle_degrees"]),
            )
            for one in steps
        ],
    )
    routes = note(
        "Tokens that take another expert in some layer than when their text is computed by itself; lines are 95 % "
        "intervals over texts."
    )
    return Document(
        kind="Report of a study",
        title=f"Do the routes of {done['model']} wander?",
        question=QUESTION,
        facts=(("Mixture", done["fingerprint"][:16]), *flattened(done["settings"]), *done["machine"].items()),
        sections=(
            summary(wander_story(done), limits=LIMITS),
            Section("routes", "Routes", (routes, first, by_way)),
            Section("logprobs", "Log-probabilities", (second, distances)),
            Section("greedy", "Greedy texts", (third, greedy_texts)),
            Section("step", "One RL step", (fourth, rl_step)),
        ),
    )


_NATS: Final = {"largest": "max", "mean": "mean"}


def wander_story(done: Row) -> tuple[str, ...]:
    """Return a sentence for each arithmetic: its largest changes in any batch, and those of an RL step."""
    found: list[str] = []
    for side in dict.fromkeys(map(_side, done["rows"])):
        some = [row for row in done["rows"] if _side(row) == side]
        worst = max(some, key=lambda row: (row["share"], row["tokens"]))
        nats = max(row["max_logprob_difference"] for row in some)
        ends = " to ".join(f"{100 * end:.2f}" for end in worst["interval"])
        broken = any(map(is_moved, some)) and side.startswith(Engine.CANONICAL)
        found.append(
            f"{side}: {worst['changed_routes']} of {worst['tokens']:,} tokens ({100 * worst['share']:.2f} %, {ends}) "
            f"take another expert at most ({worst['way']}, {worst['batch']} at once); log-probabilities move by up to "
            f"{nats:.2g} nats.{' SOMETHING MOVED.' if broken else ''}"
        )
    for step in done["rl_step"]:
        angles = ", ".join(f"{_LOSSES[loss]} {angle:.2g}" for loss, angle in step["angle_degrees"].items())
        found.append(
            f"One RL step, {_side(step)}, sampled {step['batch']} at once: {step['unequal_routes']} of "
            f"{step['tokens']:,} tokens are trained through other experts; ratios lie in {step['least_ratio']:.3g} to "
            f"{step['largest_ratio']:.3g}; they turn the gradient by (degrees) {angles}, throughout "
            f"{magnitude(step['whole_angle_degrees'])}."
        )
    return tuple(found)


def _side(row: Row) -> str:
    return f"{row['arithmetic']} {row['dtype']}"


def _dots(name: str, title: str, rows: Sequence[str], values: Sequence[Measure], high: float) -> Markup | None:
    most = max((one.value if one.high is None else one.high for one in values), default=high)
    panel = Panel(title=title, dots=[Dots(name, series_mark(0), values)], high=max(most, high))
    said = "; ".join(f"{row}: {one.value:.2g}" for row, one in zip(rows, values, strict=True))
    return dots_svg(name, f"{title}. {said}.", rows, [panel])


def _compared(one: Row) -> tuple[str | Cell | None, ...]:
    low, high = map(share_of, one["interval"])
    return (
        f"{one['changed_routes']} of {one['tokens']:,}",
        Cell(text=share_of(one["share"]) or "", under=f"{low} to {high}", number=True),
        f"{one['changed_texts']} of {one['texts']}",
        share_of(one["unequal_logprob_bits"]),
        magnitude(one["max_logprob_difference"]),
        magnitude(one["mean_logprob_difference"]),
    )
