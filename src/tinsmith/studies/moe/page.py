"""The page of `moe/wander`, and its sentences: changes with the batch, for each arithmetic, and in an RL step."""

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
from tinsmith.studies.moe.values import Compared, Engine, Greedy, Row, Side, StepRatios, Wander, wander_json

QUESTION: Final = "Do a mixture's routes, log-probabilities and RL steps depend on who else is in the batch?"
LIMITS: Final = (
    "The texts are canonical's own draws, followed by every side: another side's own draws would differ a little more.",
    "Rewards are coins: the angles are those of a gradient with small advantages, not of a task.",
    "One machine's CPU kernels: a GPU's choose other tiles for other batches, and change more.",
)
_COMPARED: Final = (
    *("changed|routes, of tokens", "share|95 % interval", "texts|with one", "unequal|bits, of log-probabilities"),
    *("largest|nats", "mean|nats"),
)


def wander_page(done: Wander) -> Document:
    """Return the page."""
    none = "Missing: nothing was computed."
    routes = note(
        "Tokens that take another expert in some layer than when their text is computed by itself; lines are 95 % "
        "intervals over texts."
    )
    logprobs = note("The largest difference of a token's log-probability, nats.")
    settings = wander_json(done)["settings"]
    assert isinstance(settings, dict)
    return Document(
        kind="Report of a study",
        title=f"Do the routes of {done.model} wander?",
        question=QUESTION,
        facts=(("Mixture", done.fingerprint[:16]), *flattened(settings), *done.machine.items()),
        sections=(
            summary(wander_story(done), limits=LIMITS),
            Section("routes", "Routes", (routes, drawn(_routes(done.rows), none), _rows(done.rows))),
            Section(
                "logprobs",
                "Log-probabilities",
                (logprobs, drawn(_logprobs(done.rows), none), _distances(done.distances)),
            ),
            Section("greedy", "Greedy texts", (drawn(_parting(done.greedy), none), _greedy(done.greedy))),
            Section("step", "One RL step", (drawn(_angles(done.steps), none), _steps(done.steps))),
        ),
    )


def wander_story(done: Wander) -> tuple[str, ...]:
    """Return the conclusions, in plain words."""
    by_side: dict[Side, list[Row]] = {}
    for row in done.rows:
        by_side.setdefault(row.side, []).append(row)
    own = [row for row in done.rows if row.side.engine is Engine.CANONICAL]
    sentences: list[str] = []
    if own:
        moved = any(row.compared.is_moved for row in own)
        sentences.append(
            f"Canonical: {sum(row.compared.changed_routes for row in own)} of "
            f"{sum(row.compared.tokens for row in own):,} routed tokens take another expert in any of {len(own)} "
            "batches, forward or decoding; "
            + ("SOMETHING MOVED." if moved else "every log-probability has the same bits.")
        )
    for side, rows in by_side.items():
        if side.engine is not Engine.CANONICAL:
            worst = max(rows, key=lambda row: (row.compared.share, row.compared.tokens))
            most = max(row.compared.max_logprob_difference for row in rows)
            sentences.append(f"{side}: {_of_routes(worst)}; log-probabilities move by up to {most:.2g} nats.")
    steps = {
        side: [one for one in done.steps if one.side == side] for side in dict.fromkeys(s.side for s in done.steps)
    }
    worst_steps = [max(some, key=lambda one: max(one.angle_degrees.values())) for some in steps.values()]
    return (*sentences, *map(_of_step, worst_steps))


def _of_routes(worst: Row) -> str:
    one = worst.compared
    low, high = (100 * end for end in one.interval)
    if one.changed_routes == 0:
        return f"no route of {one.tokens:,} tokens changes in any batch (at most {high:.2g} %)"
    how = f"{worst.batch} at once" if worst.batch > 1 else "by itself over a cache"
    return (
        f"{one.changed_routes} of {one.tokens:,} tokens ({100 * one.share:.2f} %, {low:.2f} to {high:.2f}) take "
        f"another expert when a text is computed {how} ({worst.way}) instead of by itself, whole"
    )


def _of_step(one: StepRatios) -> str:
    name = f"One RL step, {one.side}, sampled {one.batch} at once"
    if one.ratios_not_one == 0.0 and one.unequal_routes == 0:
        return f"{name}: every importance ratio is exactly 1, every route the trainer's."
    angles = ", ".join(f"{loss} {angle:.2g}" for loss, angle in one.angle_degrees.items())
    whole = one.whole_angle_degrees
    turned = "" if whole is None else f"; computed by that arithmetic throughout, the gradient turns by {whole:.2g}"
    return (
        f"{name}: {one.unequal_routes} of {one.tokens:,} tokens are trained through other experts than they were drawn "
        f"from; ratios lie in {one.least_ratio:.3g} to {one.largest_ratio:.3g}, PPO clips "
        f"{100 * one.clipped.get('ppo', 0.0):.2g} %; the ratios alone turn the gradient by (degrees) {angles}{turned}."
    )


def _routes(rows: Sequence[Row]) -> Markup | None:
    shown = [Measure(*(100 * one for one in (row.compared.share, *row.compared.interval))) for row in rows]
    most = max((one.high or 0.0 for one in shown), default=1.0)
    panel = Panel(
        title="Tokens with changed routes, per cent", dots=[Dots("changed", series_mark(0), shown)], high=max(most, 0.1)
    )
    shown_values = "; ".join(f"{row.name}: {row.compared.changed_routes}" for row in rows)
    return dots_svg("routes", f"Changed routes. {shown_values}.", [row.name for row in rows], [panel])


def _logprobs(rows: Sequence[Row]) -> Markup | None:
    largest = [row.compared.max_logprob_difference for row in rows]
    shown_values = "; ".join(f"{row.name}: {value:.2g}" for row, value in zip(rows, largest, strict=True))
    dots = (("largest", largest), ("mean", [row.compared.mean_logprob_difference for row in rows]))
    unit, names = "Largest difference, nats", [row.name for row in rows]
    return log_dots_svg("logprobs", f"{unit}. {shown_values}.", names, dots, (1e-8, 1e-6, 1e-4, 1e-2, 1.0), unit=unit)


def _angles(steps: Sequence[StepRatios]) -> Markup | None:
    names = [f"{one.side}, {one.batch} at once" for one in steps]
    labels = ("by the ratios, importance sampling", "PPO", "CISPO")
    losses = ("importance_sampling", "ppo", "cispo")
    shown_values = "; ".join(
        f"{name}: {one.angle_degrees[losses[0]]:.2g}" for name, one in zip(names, steps, strict=True)
    )
    dots = [
        *((label, [one.angle_degrees[loss] for one in steps]) for label, loss in zip(labels, losses, strict=True)),
        ("all of it by that arithmetic", [one.whole_angle_degrees for one in steps]),
    ]
    return log_dots_svg(
        "angles", f"Degrees. {shown_values}.", names, dots, (1e-6, 1e-4, 1e-2, 1.0, 90.0), unit="Degrees"
    )


def _parting(greedy: Sequence[Greedy]) -> Markup | None:
    names = [f"{one.side}, {one.batch} at once" for one in greedy]
    panel = Panel(
        title="Greedy texts that part from their own by themselves, share",
        dots=[Dots("parted", series_mark(1), [Measure(one.parted / one.texts) for one in greedy])],
    )
    shown_values = "; ".join(f"{name}: {one.parted}" for name, one in zip(names, greedy, strict=True))
    return dots_svg("greedy", f"Parted texts. {shown_values}.", names, [panel])


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


def _rows(rows: Sequence[Row]) -> Table:
    return plain(
        "Beside the same arithmetic's forward pass of each text by itself. Forward: whole texts, as a trainer computes "
        "them. Decode: token by token over a cache, as a sampler does.",
        ("Arithmetic", text("Way"), "At once", *_COMPARED),
        [(str(row.side), text(str(row.way)), str(row.batch), *_compared(row.compared)) for row in rows],
    )


def _distances(rows: Sequence[Row]) -> Table:
    return plain(
        "Each text by itself, beside canonical arithmetic on the same weights; canonical bf16 beside canonical fp32, "
        "so that its row is what rounding the weights does.",
        ("Arithmetic", *_COMPARED),
        [(str(row.side), *_compared(row.compared)) for row in rows],
    )


def _greedy(greedy: Sequence[Greedy]) -> Table:
    return plain(
        "The most probable text of each prompt, computed together, beside that computed by itself.",
        ("Arithmetic", "At once", "parted", "first|token that differs, median"),
        [
            (
                str(one.side),
                str(one.batch),
                f"{one.parted} of {one.texts}",
                str(one.first[len(one.first) // 2]) if one.first else None,
            )
            for one in greedy
        ],
    )


def _steps(steps: Sequence[StepRatios]) -> Table:
    heads = (
        "Arithmetic",
        "At once",
        "unequal|routes",
        "ratios|not 1",
        "ratios|from, to",
        "clipped|PPO",
        "clipped|CISPO",
    )
    heads += ("degrees|importance sampling", "degrees|PPO", "degrees|CISPO", "degrees|throughout")
    return plain(
        "On policy: every ratio should be 1. The angle of each loss is between its gradient with these ratios and that "
        "with ratios of 1, both by canonical arithmetic; the last one is of the gradient of importance sampling as the "
        "arithmetic computes it throughout.",
        heads,
        [
            (
                str(one.side),
                str(one.batch),
                f"{one.unequal_routes} of {one.tokens:,}",
                share_of(one.ratios_not_one),
                f"{one.least_ratio:.4g}, {one.largest_ratio:.4g}",
                *(share_of(one.clipped[loss]) for loss in ("ppo", "cispo")),
                *(magnitude(one.angle_degrees[loss]) for loss in ("importance_sampling", "ppo", "cispo")),
                magnitude(one.whole_angle_degrees),
            )
            for one in steps
        ],
    )
