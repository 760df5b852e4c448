"""Measures `moe/wander`, the mixture, its texts and each side in turn, and lays out the page of what was measured."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from markupsafe import Markup

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.lab.nano_base import pretrain_step
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import OpenedBase, open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import weights_fingerprint, write_folder
from tinsmith.models.slots import values
from tinsmith.models.staging import present
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.processor import cpu_model
from tinsmith.pages.curves import Dots, Panel, dots_svg, log_dots_svg
from tinsmith.pages.document import Document, Section, drawn, note, summary
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.measures import Measure, magnitude, share_of
from tinsmith.pages.tables import Cell, Table, flattened, plain, text
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.studies.moe.sides import (
    Figures,
    Ours,
    Theirs,
    coin_advantages,
    compared,
    greedy_parted,
    our_decoder,
    step_ratios,
)
from tinsmith.studies.moe.study import Amounts, Computed, Dtype, Engine, Side, Text, batched
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import IntArray
from tinsmith.types.errors import ConfigError
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say

FOLDER: Final = "base"  # In the study's folder: the mixture as every side reads it.

_BATCH: Final = 16  # Sentences of a training step.
_RATE: Final = 3e-3
_LEAST_PROMPT: Final = 8


def measured_base(model: str, out: Path, amounts: Amounts, say: Say) -> OpenedBase:
    """Open the mixture, train it if that is asked for, and write it below `out`, where all sides read it."""
    opened = open_base(model, seed=amounts.seed)
    config, weights = opened.config, dict(opened.weights)
    if config.mixture is None:
        what = "only a mixture of experts has routes"
        raise ConfigError(what, field="model", value=model, allowed="a mixture, such as tinsmith/moe-nano")
    if amounts.prompt_tokens + amounts.tokens > config.max_positions:
        what, allowed = "prompt and text do not fit into the model's context", f"{config.max_positions} tokens together"
        given = amounts.prompt_tokens, amounts.tokens
        raise ConfigError(what, field="prompt_tokens, tokens", value=given, allowed=allowed)
    if amounts.base_steps:
        decoder = build_decoder(config, weights, NativeKernels())
        session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL)))
        sentences = _sentences(model, amounts.seed, "training", _BATCH * amounts.base_steps)
        for step in range(amounts.base_steps):
            left = (amounts.base_steps - step) / amounts.base_steps
            loss = pretrain_step(session, sentences[_BATCH * step : _BATCH * (step + 1)], _RATE * left)
            if step == 0 or (step + 1) % 40 == 0 or step + 1 == amounts.base_steps:
                say(f"  base: step {step + 1}/{amounts.base_steps}, {loss:.3f} nats a token")
        weights = values(session.adapter.decoder.slots)
    folder = out / FOLDER / weights_fingerprint(weights)[:16]
    if not present(folder).is_dir():
        write_folder(folder, config, weights)
        tokenizer_of(model).save_pretrained(str(folder))
    return open_base(str(folder))


def drawn_texts(model: str, amounts: Amounts, base: OpenedBase) -> list[Text]:
    """Draw the texts: `samples` of each prompt, one after the other, at temperature 1 by canonical arithmetic.

    Prompts are beginnings of sentences that the base was not trained on, of lengths that are drawn.
    """
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    rng = np.random.default_rng(derive(amounts.seed, "wander", "prompts"))
    sentences = _sentences(model, amounts.seed, "prompts", 4 * amounts.prompts)
    requests: list[SampleRequest] = []
    for i in range(amounts.prompts):
        length = int(rng.integers(_LEAST_PROMPT, amounts.prompt_tokens + 1))
        prompt = np.concatenate(sentences[4 * i : 4 * i + 4])[:length].astype(np.int32)
        params = SamplingParams(seed=derive(amounts.seed, "wander", "text", i), max_tokens=amounts.tokens, stop=())
        requests.append(SampleRequest(prompt=prompt, params=params, num_samples=amounts.samples))
    results = Sampler(base.config, decoder.kernels).sample(requests, [Policy(decoder, {})] * len(requests))
    return [
        Text(prompt=request.prompt, completion=sequence.tokens)
        for request, result in zip(requests, results, strict=True)
        for sequence in result.sequences
    ]


def _sentences(model: str, seed: int, what: str, count: int) -> list[IntArray]:
    tokenizer = tokenizer_of(model)
    texts = builtin_corpus(num_sentences=count, seed=derive(seed, "wander", what))
    return [np.array(tokenizer.encode(text, add_special_tokens=False), np.int32) for text in texts]


def measured(model: str, out: Path, amounts: Amounts, sides: Sequence[Side], say: Say) -> dict[str, Any]:
    """Return the values of `wander.json`: a row for each arithmetic, way and batch; the mixture lies below `out`.

    One arithmetic is measured after the other; canonical of the same weights is what they are compared with.
    """
    base = measured_base(model, out, amounts, say)
    texts = drawn_texts(model, amounts, base)
    advantages = coin_advantages(len(texts), amounts.samples, amounts.seed)
    one_each = slice(None, None, amounts.samples)  # of each prompt: one by one is slow
    prompts = [text.prompt for text in texts[one_each]]
    rows, from_canonical, greedy, rl_step = list[Figures](), list[Figures](), list[Figures](), list[Figures]()

    @cache
    def canonical(dtype: Dtype) -> tuple[Ours, list[Computed]]:
        """Return canonical, and what it shows of the texts."""
        ours = Ours(our_decoder(Side(Engine.CANONICAL, dtype), base.config, base.weights))
        return ours, ours.forward(texts)

    def row(side: Side, way: str, batch: int, seen: Sequence[Computed], alone: Sequence[Computed]) -> None:
        found = compared(seen, alone)
        rows.append({"arithmetic": side.engine.value, "dtype": side.dtype.value, "way": way, "batch": batch, **found})
        counted = f"{found['changed_routes']} of {found['tokens']:,} routes"
        say(f"{side} {way} {batch}: {counted}, {found['max_logprob_difference']:.2g} nats")

    for side in sides:
        assert base.folder is not None, "it was written"
        is_theirs = side.engine is Engine.TRANSFORMERS
        computes = Theirs(base.folder, side.dtype) if is_theirs else Ours(our_decoder(side, base.config, base.weights))
        alone = batched(computes.forward, texts, 1)
        named = {"arithmetic": side.engine.value, "dtype": side.dtype.value}
        if side != Side(Engine.CANONICAL, Dtype.FP32):
            # Canonical bf16 stands beside canonical fp32: what rounding the weights does.
            beside = Dtype.FP32 if side.engine is Engine.CANONICAL else side.dtype
            from_canonical.append({**named, **compared(alone, canonical(beside)[1])})
        row(side, "decode", 1, batched(computes.decode, texts[one_each], 1), alone[one_each])
        most_probable = partial(computes.greedy, tokens=amounts.tokens)
        one_by_one = batched(most_probable, prompts, 1)
        for batch in amounts.batches:
            trainer, sampler = (batched(way, texts, batch) for way in (computes.forward, computes.decode))
            row(side, "forward", batch, trainer, alone)
            row(side, "decode", batch, sampler, alone)
            together = batched(most_probable, prompts, batch)
            greedy.append({**named, "batch": batch, **greedy_parted(together, one_by_one)})
            if batch < max(amounts.batches):
                continue
            given = texts, advantages, [each.logprobs for each in sampler]
            whole = computes.gradient(*given, batch) if isinstance(computes, Theirs) else computes.gradient(*given)[0]
            ours, scored = canonical(side.dtype)
            exact = partial(ours.gradient, texts, advantages)
            own = [each.logprobs for each in scored]
            step = step_ratios(exact, own, sampler=sampler, trainer=trainer, whole=whole)
            rl_step.append({**named, "batch": batch, **step})
    return {
        "ok": not any(is_moved(one) for one in rows if one["arithmetic"] == Engine.CANONICAL),
        "model": model,
        "fingerprint": base.identity.fingerprint,
        "settings": asdict(amounts),
        "machine": {
            "cpu": cpu_model(),
            "threads": str(torch.get_num_threads()),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "transformers": str(transformers.__version__),
            "tinsmith": VERSION,
        },
        "rows": rows,
        "from_canonical": from_canonical,
        "greedy": greedy,
        "rl_step": rl_step,
    }


def is_moved(row: Mapping[str, Any]) -> bool:
    """Return True if a route or a log-probability is another."""
    return row["changed_routes"] > 0 or row["unequal_logprob_bits"] > 0.0


QUESTION: Final = "Do a mixture's routes, log-probabilities and RL steps depend on what else is in the batch?"
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
    first, second, third, fourth = (drawn(one, "Missing: nothing was computed.") for one in _pictures(done))
    by_way, distances, greedy_texts, rl_step = _tables(done)
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


def _pictures(done: Row) -> tuple[Markup | None, ...]:
    """Return changed routes, differences of log-probabilities, greedy texts that part, and angles of gradients."""
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
    return (
        _dots("routes", "Tokens with changed routes, per cent", ways, shares, 0.1),
        log_dots_svg("logprobs", f"{unit}.", ways, nats, _TICKS, unit=unit),
        _dots("greedy", "Greedy texts that part from their own by themselves, share", parts, parted, 1.0),
        log_dots_svg("angles", "Degrees.", trained, angles, (1e-6, 1e-4, 1e-2, 1.0, 90.0), unit="Degrees"),
    )


def _tables(done: Row) -> tuple[Table, Table, Table, Table]:
    by_way = plain(
        "Beside the same arithmetic's forward pass of each text by itself. Forward: whole texts, as a trainer computes "
        "them. Decode: token by token over a cache, as a sampler does.",
        ("Arithmetic", text("Way"), "At once", *_COMPARED),
        [(_side(row), text(row["way"]), str(row["batch"]), *_compared(row)) for row in done["rows"]],
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
            for one in done["greedy"]
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
            for one in done["rl_step"]
        ],
    )
    return by_way, distances, greedy_texts, rl_step


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
    listing = "; ".join(f"{row}: {one.value:.2g}" for row, one in zip(rows, values, strict=True))
    return dots_svg(name, f"{title}. {listing}.", rows, [panel])


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
