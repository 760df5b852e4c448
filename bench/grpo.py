"""One GRPO step, 8 prompts x 8 samples, 128 + 64 tokens, 5M parameters, all trained: `canonical` against TRL.

Both sides sample from this step's weights, reward, centre within the prompt's group, take one policy gradient over
the completions, clip it and step AdamW; fp32, no reference model, no token ends a completion. TRL runs as it comes,
without gradient checkpointing, and without it in batches of 8; the best of the three counts. Our steps alternate with
TRL's in one process. CPU-seconds are all threads' and hold on a busy machine; wall time does not.

Limit, in products of weights only (2 FLOP per parameter and token, 6 to train): sampling, whose prompts are computed
once, (8 * 128 + 64 * 64) tokens x 10.8 MFLOP = 55 GFLOP; training 64 * 192 tokens x 32.4 MFLOP = 398 GFLOP (364 if
the head's gradient is left out where a prompt token is the target). What the machine can do per CPU-second is
`gemm.py`'s best product on these shapes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from numpy.typing import NDArray
from transformers import AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from gemm import best_rate
from peers import QUIET_TRAINER, Clock, Times, idle_threads_sleep, report, threads, tiny_decoder
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.advantages import center_within_group
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams
from tinsmith.types.seeds import derive

PROMPTS, SAMPLES, PROMPT, COMPLETION = 8, 8, 128, 64
GOAL = 0.6
ADAM = AdamParams(learning_rate=1e-6, beta2=0.999, eps=1e-8, grad_clip_norm=1.0)
"""TRL's defaults."""
GFLOP = {
    "sample": (PROMPTS * PROMPT + PROMPTS * SAMPLES * COMPLETION) * 2 * 5.401856e-3,
    "forward_backward": PROMPTS * SAMPLES * (PROMPT + COMPLETION) * 6 * 5.401856e-3,
}
TRL = {
    "as it comes": {},
    "no checkpointing": {"gradient_checkpointing": False},
    "no checkpointing, 8 x 8": {
        "gradient_checkpointing": False,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 8,
    },
}
"""Differences from TRL's defaults; the batch is 64 unless said otherwise."""


def reward(tokens: list[int]) -> float:
    """The share of even token ids."""
    return sum(token % 2 == 0 for token in tokens) / len(tokens)


def prompts() -> tuple[list[str], list[NDArray[np.int32]]]:
    """Texts that are exactly 128 tokens long, and their ids."""
    tokenizer = preset_tokenizer("tiny")
    texts: list[str] = []
    ids: list[NDArray[np.int32]] = []
    sentences = iter(builtin_corpus(num_sentences=40 * PROMPTS))
    while len(texts) < PROMPTS:
        words = " ".join(next(sentences) for _ in range(16))
        text = tokenizer.decode(tokenizer(words)["input_ids"][:PROMPT])
        tokens = tokenizer(text)["input_ids"]
        if len(tokens) == PROMPT:
            texts.append(text)
            ids.append(np.array(tokens, np.int32))
    return texts, ids


class Ours:
    """The engine's side: a sampler on frozen copies of the weights that a session trains."""

    PHASES = ("sample", "forward_backward", "optim_step", "rest")

    def __init__(self, prompts: list[NDArray[np.int32]]) -> None:
        decoder = tiny_decoder(NativeKernels())
        self.prompts = prompts
        self.session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL)))
        self.sampler = Sampler(decoder.config, decoder.kernels)
        self.steps = 0

    def step(self) -> dict[str, Times]:
        """Take one step; return its phases' times.

        Raises:
            SystemExit: if the sampler's and the trainer's log-probabilities differ in any bit.
        """
        clock, times = Clock(), {}
        snapshot = self.session.adapter.snapshot()
        requests = [self._request(i, prompt) for i, prompt in enumerate(self.prompts)]
        times["rest"] = clock.read()
        results = self.sampler.sample(requests, [Policy(snapshot.decoder, snapshot.low)] * PROMPTS)
        times["sample"] = clock.read()
        datums = [
            datum for prompt, result in zip(self.prompts, results, strict=True) for datum in _datums(prompt, result)
        ]
        made = clock.read()
        times["rest"] = Times(times["rest"].wall + made.wall, times["rest"].cpu + made.cpu)
        metrics = self.session.forward_backward(datums, LossName.IMPORTANCE_SAMPLING).metrics
        times["forward_backward"] = clock.read()
        self.session.optim_step(ADAM)
        times["optim_step"] = clock.read()
        self.steps += 1
        expected = PROMPTS * SAMPLES * COMPLETION
        if metrics["unequal_logprob_bits:sum"] != 0 or metrics["tokens:sum"] != expected:
            sys.exit(f"sampler and trainer are not one model: {metrics}, expected 0 unequal of {expected}")
        return times

    def _request(self, index: int, prompt: NDArray[np.int32]) -> SampleRequest:
        params = SamplingParams(seed=derive(0, "rollout", self.steps, index), max_tokens=COMPLETION, stop=())
        return SampleRequest(prompt=prompt, params=params, num_samples=SAMPLES)


def _datums(prompt: NDArray[np.int32], result: SampleResult) -> list[Datum]:
    """One datum per sample, the loss a mean over all completion tokens of the step."""
    rewards = np.array([reward(sequence.tokens.tolist()) for sequence in result.sequences])
    datums: list[Datum] = []
    for sequence, advantage in zip(result.sequences, center_within_group(rewards), strict=True):
        tokens = np.concatenate([prompt, sequence.tokens])
        before = np.zeros(PROMPT - 1, np.float32)
        weight = np.full(COMPLETION, advantage / (PROMPTS * SAMPLES * COMPLETION), np.float32)
        inputs = {
            "target_tokens": tokens[1:],
            "logprobs": np.concatenate([before, sequence.logprobs]),
            "advantages": np.concatenate([before, weight]),
        }
        datums.append(Datum(tokens=tokens[:-1], inputs=inputs))
    return datums


class Alternate(TrainerCallback):
    """After each of TRL's steps, one of ours; both timed from end to end, logging and data loading included."""

    def __init__(self, ours: Callable[[], dict[str, Times]], count: int) -> None:
        self.ours = ours
        self.count = count
        self.clock = Clock()
        self.times_theirs: list[Times] = []
        self.times_ours: list[dict[str, Times]] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.clock.read()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.times_theirs.append(self.clock.read())
        assert torch.get_num_threads() == self.count
        self.times_ours.append(self.ours())
        self.clock.read()


def trl_trainer(
    folder: Path, texts: list[str], steps: int, callback: Alternate, options: dict[str, Any]
) -> GRPOTrainer:
    """TRL's trainer on the model in `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"eos_token": "<|never|>"})  # an id that the model does not have

    def rewards(completion_ids: list[list[int]], **_: Any) -> list[float]:
        assert all(len(ids) == COMPLETION for ids in completion_ids)
        return [reward(ids) for ids in completion_ids]

    settings = {
        "output_dir": str(folder / "out"),
        **QUIET_TRAINER,
        "max_steps": steps,
        "per_device_train_batch_size": PROMPTS * SAMPLES,
        "num_generations": SAMPLES,
        "max_completion_length": COMPLETION,
        "learning_rate": ADAM.learning_rate,
        "lr_scheduler_type": "constant",
        "scale_rewards": "none",
        "beta": 0.0,
    }
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=rewards,
        args=GRPOConfig(**{**settings, **options}),
        train_dataset=Dataset.from_list([{"prompt": text} for text in texts]),
        processing_class=tokenizer,
        callbacks=[callback],
    )
    assert trainer.model.dtype is torch.float32
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure(count: int, steps: int, options: dict[str, Any]) -> Alternate:
    """Alternate `steps` steps of both sides after one to warm up."""
    texts, ids = prompts()
    callback = Alternate(Ours(ids).step, count)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tiny"
        config = replace(PRESETS["tiny"], end_tokens=())
        write_folder(folder, config, initial_weights(config, 0), dtype=torch.float32)
        save_tokenizer(preset_tokenizer("tiny"), folder)
        trl_trainer(folder, texts, steps + 1, callback, options).train()
    del callback.times_ours[0], callback.times_theirs[0]  # warm-up
    return callback


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each side, per setting")
    steps = parser.parse_args().steps
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for count in (1, 2):
        threads(count)
        runs = {name: measure(count, steps, options) for name, options in TRL.items()}
        for name, run in runs.items():
            cpu = [round(t.cpu, 2) for t in run.times_theirs]
            wall = [round(t.wall, 2) for t in run.times_theirs]
            print(f"  TRL, {name}, {count} thread(s): CPU-seconds {cpu}, wall {wall}")
        ours = [phases for run in runs.values() for phases in run.times_ours]
        print_ours(ours, count)
        for clock, name in (("cpu", "CPU"), ("wall", "wall")):
            mine = [sum(getattr(t, clock) for t in phases.values()) for phases in ours]
            peers = [[getattr(t, clock) for t in run.times_theirs] for run in runs.values()]
            title = f"GRPO step, {count} thread(s), {name}"
            report(f"{title}, best", min(mine), min(map(min, peers)), GOAL, "s")
            report(f"{title}, median", statistics.median(mine), min(map(statistics.median, peers)), GOAL, "s")


def print_ours(steps: list[dict[str, Times]], count: int) -> None:
    """Print where our time goes, tokens per second, and the distance from the products alone."""
    wall = {phase: statistics.median(step[phase].wall for step in steps) for phase in Ours.PHASES}
    cpu = {phase: statistics.median(step[phase].cpu for step in steps) for phase in Ours.PHASES}
    parts = ", ".join(f"{phase} {cpu[phase]:.3f} ({wall[phase]:.3f})" for phase in Ours.PHASES)
    print(f"  tinsmith, {count} thread(s), CPU-seconds (wall), median of {len(steps)}: {parts}")
    sampled, trained = PROMPTS * SAMPLES * COMPLETION, PROMPTS * SAMPLES * (PROMPT + COMPLETION)
    print(
        f"  per CPU-second {sampled / cpu['sample']:.0f} new tokens, {trained / cpu['forward_backward']:.0f} trained; "
        f"0 unequal log-probability bits in {len(steps) * sampled} sampled tokens"
    )
    rate = best_rate(NativeKernels())
    far = ", ".join(f"{phase} {cpu[phase] * rate / gflop:.2f}" for phase, gflop in GFLOP.items())
    limit, total = sum(GFLOP.values()) / rate, sum(cpu.values())
    print(
        f"  limit {sum(GFLOP.values()):.0f} GFLOP at {rate:.0f} GFLOP per CPU-second = {limit:.2f} CPU-seconds; "
        f"the step takes {total / limit:.2f} times that ({far})"
    )


if __name__ == "__main__":
    idle_threads_sleep()
    main()
