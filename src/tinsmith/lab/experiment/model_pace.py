"""How long two cores take to sample from a pretrained model and to train it: measured on 135M parameters, then scaled.

A prompt is read once for all samples of its group, and trained on once: samples of one prompt share it. What a token
costs grows with the parameters that multiply; attention over some hundred tokens is little beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tinsmith.lab.confidence import WATCHED
from tinsmith.lab.labels.scores import PROBED
from tinsmith.lab.live.watch import PROMPTS
from tinsmith.lab.policy import DRIFT_PROBED
from tinsmith.lab.schedule import due
from tinsmith.lab.settings import CommonSettings, RlSettings, Selection, SftSettings, Watched
from tinsmith.ops.confidence import FRACTIONS
from tinsmith.ops.extension import native

MEASURED_PARAMETERS: Final = 134_479_872
"""Of SmolLM2-135M: weights of all layers and the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds a token, on two cores."""

    trained: float
    """Forward and backward, LoRA of rank 16 on all linear layers."""
    read: float
    """Of a prompt, or scored without a gradient."""
    written: float
    """Sampled, some dozen sequences at once."""


_WIDE: Final = Pace(trained=2.5e-3, read=0.7e-3, written=1.2e-3)
"""With AVX-512, on two cores of an AMD EPYC: 4.7 to 4.8 ms of CPU time a token trained on (16 x 8 answers of 20 after
prompts of 60, 8 x 8 of 22 after 300), 1.1 a token read, 1.5 one scored, 1.8 to 2.1 one written among 64 to 128."""
_NARROW: Final = Pace(trained=5.4e-3, read=2.3e-3, written=5.0e-3)
"""With AVX2, on two cores of an AMD EPYC without AVX-512: 10.1 ms of CPU time a token trained on (8 x 264), and 14.9 s
for 4 prompts of 236 tokens read and 8 answers of up to 32 to each."""
NANO_PACE: Final = Pace(trained=1 / 14_000, read=1 / 42_000, written=1 / 14_000)
"""Of a nano base."""
START_SECONDS: Final = 10.0
"""To start the server, load the model and save at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of what is asked and of what is answered, on average, and what is asked in a look."""

    prompt: float
    answer: float
    labels: int = 0
    """Of the task, where a look computes their probabilities."""
    examined: int
    """Items of a look while training."""
    tested: int = 0
    """Items of the last look; 0: there is none beside those."""
    eval_samples: int = 1
    """Sampled answers to each item, beside a greedy one."""
    options: float = 0.0
    """Of all answers that an item has, together, where their probabilities after parts of a reply are computed."""


def machine_pace(parameters: int) -> Pace:
    """Return the pace of a model with so many parameters that multiply, on this machine's kernels."""
    wide = native is not None and "avx512" in native.supported_isas()
    measured, scale = (_WIDE if wide else _NARROW), parameters / MEASURED_PARAMETERS
    return Pace(trained=measured.trained * scale, read=measured.read * scale, written=measured.written * scale)


def run_seconds(settings: CommonSettings, lengths: Lengths, pace: Pace) -> float:
    """Return how long a run takes: its steps, its looks and its test."""
    supervised = settings.sft_steps if isinstance(settings, RlSettings) else settings.steps
    rewarded = settings.steps - supervised
    looks = 1 + sum(due(step, settings.eval_every) for step in range(settings.steps))
    policies = 1 if settings.select_by is Selection.LAST else 2
    tested = policies * _answers(lengths.tested, lengths, pace)
    return (
        START_SECONDS
        + supervised * _by_example(settings, lengths, pace)
        + rewarded * _by_reward(settings, lengths, pace)
        + looks
        * (_answers(lengths.examined, lengths, pace) + _probes(lengths, pace) + _watched(settings, lengths, pace))
        + tested
    )


def _by_example(settings: CommonSettings, lengths: Lengths, pace: Pace) -> float:
    if isinstance(settings, RlSettings):
        items = settings.sft_batch_size
    else:
        assert isinstance(settings, SftSettings)
        items = settings.batch_size
    return items * (lengths.prompt + lengths.answer) * pace.trained


def _by_reward(settings: CommonSettings, lengths: Lengths, pace: Pace) -> float:
    if not isinstance(settings, RlSettings):
        return 0.0
    prompts = settings.groups_per_batch * lengths.prompt
    replies = settings.groups_per_batch * settings.group_size
    answers = replies * lengths.answer
    shaped = replies * _forced(lengths, pace) if settings.confidence_penalty else 0.0
    return prompts * pace.read + answers * pace.written + (prompts + answers) * pace.trained + shaped


def _answers(items: int, lengths: Lengths, pace: Pace) -> float:
    """Sampled and greedy answers, for each of which the prompt is read anew."""
    written = (lengths.eval_samples + 1) * lengths.answer
    return items * (2 * lengths.prompt * pace.read + written * pace.written)


def _forced(lengths: Lengths, pace: Pace) -> float:
    """Every answer that there is after every part of one reply, which is read once."""
    return (lengths.prompt + lengths.answer + len(FRACTIONS) * lengths.options) * pace.read


def _watched(settings: CommonSettings, lengths: Lengths, pace: Pace) -> float:
    """What `watch` reads at a look: each answer after each prompt, or answers forced after replies, thrice."""
    if settings.watch is Watched.MUTUAL_INFORMATION:
        count = min(PROMPTS, lengths.examined)
        return count * (lengths.prompt + count * lengths.answer) * pace.read
    if settings.watch is Watched.CONFIDENCE:
        return 3 * min(WATCHED, lengths.examined) * _forced(lengths, pace)
    return 0.0


def _probes(lengths: Lengths, pace: Pace) -> float:
    """Every label after some prompts, and some answers under the base."""
    labels = min(PROBED, lengths.examined) * lengths.labels
    drift = min(DRIFT_PROBED, lengths.examined * lengths.eval_samples)
    return (labels * lengths.prompt + drift * (lengths.prompt + lengths.answer)) * pace.read
