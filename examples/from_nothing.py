"""From nothing to a trained adapter in about a minute: pretrain, reinforce, repeat, export.

A model of a million weights is trained from scratch on the built-in sentences, then a LoRA is trained by reinforcement
learning on a reward a rule can verify: a completion earns 1 if it is one whole sentence of at most 16 tokens. The RL
part is run a second time, with another number of threads and other micro-batches: it must end with the same SHA-256.

    python examples/from_nothing.py [OUT]      OUT: where base and checkpoint go (default out/from_nothing)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinsmith.engine.checkpoints import save
from tinsmith.engine.engine import Engine, freeze
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import Adapter, create_adapter
from tinsmith.models.base import identify
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.slots import values
from tinsmith.ops.advantages import center_within_group
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.tokenizer import preset_tokenizer, save_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.sampling import SampledSequence, SampleRequest, SamplingParams, StopReason
from tinsmith.types.seeds import derive

BASE = "tinsmith/nano"
SEED = 0
SFT_STEPS, SFT_BATCH = 120, 24
RL_STEPS, PROMPTS, GROUP, MAX_TOKENS = 15, 16, 8, 32
LIMIT = 16


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/from_nothing")
    started = time.perf_counter()
    engine = Engine({BASE: BASE}, seed=SEED)
    certificate = engine.certificates[BASE]
    print(f"certificate {certificate.sha256[:16]}: {len(certificate.checks)} checks, one bit pattern each")
    sentences = encoded_sentences()

    session = pretrain(engine, sentences)
    base = session.adapter.decoder
    folder = out / "base"
    if not folder.exists():
        write_folder(folder, base.config, values(base.slots))
        save_tokenizer(preset_tokenizer("nano"), folder)

    print(
        f"\nRL: reward 1 for one whole sentence of at most {LIMIT} tokens; {PROMPTS} prompts x {GROUP} samples a step"
    )
    trained, first = reinforce(engine, base, sentences, MicroBatches(), verbose=True)
    print("\nonce more, with one thread and micro-batches of one:")
    configured = engine.kernels.threads()
    engine.kernels.set_threads(1)
    _, second = reinforce(engine, base, sentences, MicroBatches(units=1), verbose=False)
    engine.kernels.set_threads(configured)
    print(f"  weights_sha256 {first[:16]} and {second[:16]}: {'equal' if first == second else 'DIFFERENT'}")

    identity = identify(str(folder.resolve()), base.config, values(base.slots))
    checkpoint = save(trained, out / "checkpoint", base=identity, with_optimizer=True, overwrite=True)
    print(f"\nwrote {checkpoint} in {time.perf_counter() - started:.0f} s. Next: load it with transformers and PEFT:")
    print(f"  .venv/bin/tinsmith export {checkpoint} --to peft --out {out / 'peft'}")
    sys.exit(0 if first == second else 1)


def encoded_sentences() -> list[np.ndarray]:
    """The built-in sentences as token ids, each ended by the end token."""
    tokenizer = preset_tokenizer("nano")
    return [np.array([*tokenizer.encode(text), 0], np.int32) for text in builtin_corpus(num_sentences=4000)]


def pretrain(engine: Engine, sentences: Sequence[np.ndarray]) -> TrainingSession:
    """All weights, cross-entropy, mean per token: the weights carry the normaliser."""
    print(f"\npretraining {BASE} from seed {SEED}: {SFT_STEPS} steps of {SFT_BATCH} sentences")
    session = engine.create_session(BASE, AdapterSpec(kind=AdapterKind.FULL))
    rng = np.random.default_rng(derive(SEED, "order"))
    for step in range(SFT_STEPS):
        batch = [sentences[i] for i in rng.integers(0, len(sentences), SFT_BATCH)]
        total = sum(len(s) - 1 for s in batch)
        data = [
            Datum(tokens=s[:-1], inputs={"target_tokens": s[1:], "weights": np.full(len(s) - 1, 1 / total, np.float32)})
            for s in batch
        ]
        result = session.forward_backward(data, LossName.CROSS_ENTROPY)
        session.optim_step(AdamParams(learning_rate=3e-3 * min(1.0, (step + 1) / 10), eps=1e-8, grad_clip_norm=1.0))
        if step % 20 == 0 or step == SFT_STEPS - 1:
            print(f"  step {step:3d}  loss {result.metrics['loss:sum']:.3f} nats per token")
    return session


def reward(sample: SampledSequence) -> float:
    """1 for a completion that ends by itself within the limit."""
    return float(sample.stop_reason is StopReason.STOP and len(sample.tokens) <= LIMIT)


def reinforce(
    engine: Engine, base: Decoder, sentences: Sequence[np.ndarray], micro_batches: MicroBatches, *, verbose: bool
) -> tuple[TrainingSession, str]:
    """GRPO with centred advantages, on policy: sample, reward, one gradient step."""
    adapter: Adapter = create_adapter(base, AdapterSpec(kind=AdapterKind.LORA, rank=8, seed=SEED))
    session = TrainingSession(adapter, micro_batches)
    rng = np.random.default_rng(derive(SEED, "prompts"))
    for step in range(RL_STEPS):
        prompts = [sentences[i][:4] for i in rng.integers(0, len(sentences), PROMPTS)]
        requests = [
            SampleRequest(
                prompt=prompt,
                params=SamplingParams(seed=derive(SEED, "rollout", step, i), max_tokens=MAX_TOKENS),
                num_samples=GROUP,
            )
            for i, prompt in enumerate(prompts)
        ]
        results = engine.sample(BASE, requests, [freeze(session)] * PROMPTS)
        rewards = [np.array([reward(s) for s in result.sequences]) for result in results]
        data = [
            rollout_datum(prompt, sample, advantage)
            for prompt, result, group in zip(prompts, results, rewards, strict=True)
            for sample, advantage in zip(result.sequences, center_within_group(group), strict=True)
            if advantage != 0.0
        ]
        line = f"  step {step:2d}  reward {np.mean(rewards):.3f}"
        if data:
            metrics = session.forward_backward(data, LossName.IMPORTANCE_SAMPLING).metrics
            norm = session.optim_step(AdamParams(learning_rate=3e-3, eps=1e-8))["grad_norm:mean"]
            unequal = int(metrics["unequal_logprob_bits:sum"])
            line += f"  grad norm {norm:8.2f}  sampler/trainer logprobs that differ: {unequal}"
        if verbose and (step % 2 == 0 or step == RL_STEPS - 1):
            print(line)
    return session, tensors_sha256({name: t.numpy() for name, t in values(adapter.slots).items()})


def rollout_datum(prompt: np.ndarray, sample: SampledSequence, advantage: float) -> Datum:
    """A rollout as Tinker's importance_sampling reads it: prompt positions carry zeros."""
    tokens = np.concatenate([prompt, sample.tokens])
    zeros = np.zeros(len(prompt) - 1, np.float32)
    return Datum(
        tokens=tokens[:-1],
        inputs={
            "target_tokens": tokens[1:],
            "logprobs": np.concatenate([zeros, sample.logprobs]),
            "advantages": np.concatenate([zeros, np.full(len(sample.tokens), advantage, np.float32)]),
        },
    )


if __name__ == "__main__":
    main()
