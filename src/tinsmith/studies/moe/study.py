"""`tinsmith run moe/wander`: the same texts in other batches, by canonical arithmetic, the vendor's and others'."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers

from tinsmith.data.replacing import replacing
from tinsmith.lab.live.progress import Say
from tinsmith.ops.processor import cpu_model
from tinsmith.pages.markdown import document_markdown
from tinsmith.studies.moe.base import MeasuredBase, drawn_texts, measured_base
from tinsmith.studies.moe.measures import compared, greedy_parted
from tinsmith.studies.moe.ours import Ours, our_decoder
from tinsmith.studies.moe.page import report_wander, wander_page
from tinsmith.studies.moe.results import (
    WANDER_JSON,
    WANDER_MARKDOWN,
    WANDER_PAGE,
    Distance,
    Greedy,
    Row,
    StepRatios,
    Wander,
    Way,
    wander_json,
    wander_story,
)
from tinsmith.studies.moe.seen import Computes, Seen, Text
from tinsmith.studies.moe.settings import Dtype, Engine, Side, WanderSettings, wander_settings
from tinsmith.studies.moe.step import ExactStep, Gradient, OwnGradient, coin_advantages, step_ratios
from tinsmith.studies.moe.theirs import Theirs
from tinsmith.types.datum import LossName
from tinsmith.types.version import VERSION


def run_wander(given: Mapping[str, str], say: Say) -> Path:
    """Measure it, write `wander.json`, the page and the same as Markdown; return their folder. dry_run=true only says.

    Raises:
        ConfigError, CheckpointError: a mistake in the keys, or no such mixture.
    """
    settings = wander_settings(given)
    texts = settings.prompts * settings.samples
    say(
        f"{texts} texts of {settings.tokens} tokens, one by one and {', '.join(map(str, settings.batches))} at once, "
        f"by {', '.join(map(str, settings.sides))}"
    )
    if settings.dry_run:
        return settings.out
    settings.out.mkdir(parents=True, exist_ok=True)
    done = wander(settings, say)
    with replacing(settings.out / WANDER_JSON) as part:
        part.write_text(json.dumps(wander_json(done), indent=1) + "\n", encoding="utf-8")
    report_wander(done, settings.out / WANDER_PAGE)
    with replacing(settings.out / WANDER_MARKDOWN) as part:
        part.write_text(document_markdown(wander_page(done)), encoding="utf-8")
    for sentence in wander_story(done):
        say(sentence)
    return settings.out


def wander(settings: WanderSettings, say: Say) -> Wander:
    """Compute everything that is asked for.

    Raises:
        ConfigError, CheckpointError: there is no such mixture.
    """
    base = measured_base(settings, say)
    bench = _Bench(settings, base, drawn_texts(settings, base), say)
    for side in settings.sides:
        bench.measure(side)
    return Wander(
        model=settings.model,
        fingerprint=base.fingerprint,
        settings={
            "base_steps": settings.base_steps,
            "prompts": settings.prompts,
            "samples": settings.samples,
            "prompt_tokens": settings.prompt_tokens,
            "tokens": settings.tokens,
            "batches": list(settings.batches),
            "seed": settings.seed,
        },
        machine={
            "cpu": cpu_model(),
            "threads": str(torch.get_num_threads()),
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "transformers": str(transformers.__version__),
            "tinsmith": VERSION,
        },
        rows=tuple(bench.rows),
        distances=tuple(bench.distances),
        greedy=tuple(bench.greedy),
        steps=tuple(bench.steps),
    )


@dataclass(slots=True)
class _Bench:
    """Measures one arithmetic after the other; canonical of the same weights is what they are compared with."""

    settings: WanderSettings
    base: MeasuredBase
    texts: Sequence[Text]
    say: Say
    rows: list[Row] = field(default_factory=list[Row])
    distances: list[Distance] = field(default_factory=list[Distance])
    greedy: list[Greedy] = field(default_factory=list[Greedy])
    steps: list[StepRatios] = field(default_factory=list[StepRatios])
    _canonical: dict[Dtype, list[Seen]] = field(default_factory=dict[Dtype, list[Seen]])
    _exact: dict[Dtype, ExactStep] = field(default_factory=dict[Dtype, ExactStep])

    def measure(self, side: Side) -> None:
        """Compute the texts in every way, and say what each showed."""
        computes = self._computes(side)
        alone = computes.forward(self.texts, 1)
        if side != Side(Engine.CANONICAL, Dtype.FP32):
            # Canonical bf16 stands beside canonical fp32: what rounding the weights does.
            beside = Dtype.FP32 if side.engine is Engine.CANONICAL else side.dtype
            self.distances.append(
                Distance(engine=side.engine, dtype=side.dtype, compared=compared(alone, self._of_canonical(beside)))
            )
        one_each = slice(None, None, self.settings.samples)  # of each prompt: one by one is slow
        self._row(side, Way.DECODE, 1, computes.decode(self.texts[one_each], 1), alone[one_each])
        prompts = [text.prompt for text in self.texts[one_each]]
        one_by_one = computes.greedy(prompts, self.settings.tokens, 1)
        for batch in self.settings.batches:
            trainer = computes.forward(self.texts, batch)
            self._row(side, Way.FORWARD, batch, trainer, alone)
            sampler = computes.decode(self.texts, batch)
            self._row(side, Way.DECODE, batch, sampler, alone)
            drawn = computes.greedy(prompts, self.settings.tokens, batch)
            self.greedy.append(greedy_parted(side, batch, drawn, one_by_one))
            if batch == max(self.settings.batches):
                self._step(side, batch, computes, sampler, trainer)

    def _row(self, side: Side, way: Way, batch: int, seen: Sequence[Seen], alone: Sequence[Seen]) -> None:
        found = compared(seen, alone)
        self.rows.append(Row(engine=side.engine, dtype=side.dtype, way=way, batch=batch, compared=found))
        self.say(
            f"{side} {way} {batch}: {found.changed_routes} of {found.tokens:,} routes, "
            f"{found.max_logprob_difference:.2g} nats"
        )

    def _step(
        self, side: Side, batch: int, computes: Computes, sampler: Sequence[Seen], trainer: Sequence[Seen]
    ) -> None:
        advantages = coin_advantages(len(self.texts), self.settings.samples, self.settings.seed)
        if side.dtype not in self._exact:
            decoder = our_decoder(Side(Engine.CANONICAL, side.dtype), self.base.config, self.base.weights)
            self._exact[side.dtype] = ExactStep.of(decoder, self.texts, self._of_canonical(side.dtype), advantages)
        sampled = [each.logprobs for each in sampler]
        whole: Gradient | None = None
        if isinstance(computes, Theirs):
            whole = computes.gradient(self.texts, sampled, advantages, batch)
        elif isinstance(computes, Ours):
            own = OwnGradient(computes.decoder)
            whole, _ = own(self.texts, sampled, advantages, LossName.IMPORTANCE_SAMPLING)
        self.steps.append(
            step_ratios(
                side,
                batch,
                self.texts,
                advantages,
                sampler=sampler,
                trainer=trainer,
                exact=self._exact[side.dtype],
                whole=whole,
            )
        )

    def _of_canonical(self, dtype: Dtype) -> list[Seen]:
        if dtype not in self._canonical:
            decoder = our_decoder(Side(Engine.CANONICAL, dtype), self.base.config, self.base.weights)
            self._canonical[dtype] = Ours(decoder).forward(self.texts, len(self.texts))
        return self._canonical[dtype]

    def _computes(self, side: Side) -> Computes:
        if side.engine is Engine.TRANSFORMERS:
            return Theirs(self.base.folder, side.dtype)
        return Ours(our_decoder(side, self.base.config, self.base.weights))
