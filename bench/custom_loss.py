"""Custom losses on `tinsmith/nano` against the built-in ones: bits, CPU-seconds, requests; [T, K] against K datums.

IS, PPO and CISPO are written in torch and traced by the official SDK. The batch is that of a GRPO step: 16 prompts of
96 tokens x 8 answers of up to 64. Sides take turns within one process; CPU-seconds are those of all its threads.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from peers import idle_threads_sleep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))

from traced import custom
from written_losses import WRITTEN

from tinsmith.engine.engine import Engine
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.ops.custom_loss.program import CustomLoss
from tinsmith.ops.extension import module
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, ForwardBackwardResult, LossName
from tinsmith.types.fingerprints import tensors_sha256

MODEL = "tinsmith/nano"
PROMPTS, ANSWERS, PROMPT, ANSWER, ROUNDS = 16, 8, 96, 64, 15
LIMIT, EXACT = 1.1, 1e-6
CANDIDATES = 8

LOSSES = (LossName.IMPORTANCE_SAMPLING, LossName.PPO, LossName.CISPO)


def batch() -> list[Datum]:
    """Datums that have what both sides read: the sampler's log-probabilities under both names."""
    rng, datums = np.random.default_rng(0), list[Datum]()
    for _ in range(PROMPTS):
        prompt = rng.integers(20, 250, PROMPT)
        for _ in range(ANSWERS):
            answer = rng.integers(20, 250, rng.integers(ANSWER // 2, ANSWER + 1))
            tokens = np.concatenate([prompt, answer]).astype(np.int32)
            action = np.arange(len(tokens) - 1) >= PROMPT - 1
            q = np.where(action, rng.normal(-5.5, 0.3, len(action)), 0.0).astype(np.float32)
            a = np.where(action, rng.normal(), 0.0).astype(np.float32)
            inputs = {"target_tokens": tokens[1:], "logprobs": q, "advantages": a}
            datums.append(Datum(tokens=tokens[:-1], inputs=inputs))
    return datums


def renamed(datums: Sequence[Datum]) -> list[Datum]:
    """The same datums for the custom side, whose parameter cannot be called logprobs twice."""
    names = {"logprobs": "old"}
    return [Datum(tokens=d.tokens, inputs={names.get(n, n): v for n, v in d.inputs.items()}) for d in datums]


def session(engine: Engine, micro_batches: MicroBatches | None = None) -> TrainingSession:
    made = engine.create_session(MODEL, AdapterSpec(rank=32, seed=1), micro_batches=micro_batches)
    made.forward_backward(batch(), LossName.IMPORTANCE_SAMPLING)
    made.optim_step(AdamParams(learning_rate=1e-3))  # so that no part of the adapter is zero
    return made


def digest(made: TrainingSession) -> str:
    gradient = made.optimizer.gradient()
    return tensors_sha256({name: gradient[name].cpu().numpy() for name in sorted(gradient)})[:16]


def hashes(engine: Engine) -> str:
    """One word per loss: the hash of the gradient of the batch, over several micro-batches and threads."""
    words: list[str] = []
    theirs = renamed(batch())
    for name in LOSSES:
        loss, found = custom(*WRITTEN[name.value]), set[str]()
        for threads, units in ((1, 1 << 30), (2, 1 << 30), (2, 1), (1, 4)):
            module().set_num_threads(threads)
            made = session(engine, MicroBatches(units=units))
            made.forward_backward(theirs, loss)
            found.add(digest(made))
        words.append("|".join(sorted(found)))
    return " ".join(words)


def error(ours: TrainingSession, theirs: TrainingSession) -> float:
    """The largest relative error of a tensor's gradient."""
    a, b = ours.optimizer.gradient(), theirs.optimizer.gradient()
    return max(float((a[n].double() - b[n].double()).norm() / max(float(b[n].double().norm()), 1e-300)) for n in b)


def cpu(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def ratio(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float, list[float]]:
    """Median CPU-seconds of both, and the ratio of every round, in which they take turns."""
    rows: list[tuple[float, float]] = []
    for i in range(ROUNDS + 1):
        first, second = (ours, theirs) if i % 2 else (theirs, ours)
        one, two = cpu(first), cpu(second)
        rows.append((one, two) if i % 2 else (two, one))
    kept = rows[1:]
    return (
        statistics.median(a for a, _ in kept),
        statistics.median(b for _, b in kept),
        sorted(a / b for a, b in kept),
    )


def against_the_built_in(engine: Engine, name: LossName, loss: CustomLoss) -> None:
    ours, theirs = session(engine), session(engine)
    mine, given = renamed(batch()), batch()
    results: tuple[ForwardBackwardResult, ...] = (
        ours.forward_backward(mine, loss),
        theirs.forward_backward(given, name),
    )
    same = digest(ours) == digest(theirs)
    far = error(ours, theirs)
    totals = [result.metrics["loss:sum"] for result in results]
    print(
        f"{name}: gradients {'bit-equal' if same else f'{far:.1e} apart'} (goal <= {EXACT:g})"
        f"{'' if far <= EXACT else ' NOT reached'}; loss {totals[0]:.15g} and {totals[1]:.15g}"
    )
    a, b, rounds = ratio(lambda: ours.forward_backward(mine, loss), lambda: theirs.forward_backward(given, name))
    told(f"{name}, custom / built-in", a, b, rounds, LIMIT)


def told(title: str, ours: float, theirs: float, rounds: list[float], limit: float) -> None:
    middle = statistics.median(rounds)
    print(
        f"{title}: {ours:.3f} and {theirs:.3f} CPU-s, ratio {middle:.3f} [{rounds[0]:.3f}, "
        f"{rounds[-1]:.3f}] in {ROUNDS} rounds (goal <= {limit}"
        f"{': reached' if middle <= limit else ' NOT reached'})"
    )


def several_targets(engine: Engine) -> None:
    """Cross entropy with K targets a position against K datums of one each."""
    rng, wide, apart = np.random.default_rng(1), list[Datum](), list[Datum]()
    for datum in batch()[::ANSWERS]:
        shape = (len(datum.tokens), CANDIDATES)
        targets = rng.integers(0, 250, shape)
        weights = rng.random(shape).astype(np.float32)
        wide.append(Datum(tokens=datum.tokens, inputs={"target_tokens": targets, "weights": weights}))
        apart += [
            Datum(tokens=datum.tokens, inputs={"target_tokens": targets[:, k], "weights": weights[:, k]})
            for k in range(CANDIDATES)
        ]
    for unit in (GradientUnit.TREE, GradientUnit.DATUM):
        targets_against(engine, wide, apart, unit)


def targets_against(engine: Engine, wide: list[Datum], apart: list[Datum], unit: GradientUnit) -> None:
    """Bits, gradients and CPU-seconds of both; as trees, the K datums share their rows too."""
    ours, theirs, loss = session(engine), session(engine), LossName.CROSS_ENTROPY
    ours.gradient_unit = theirs.gradient_unit = unit
    one, many = ours.forward_backward(wide, loss), theirs.forward_backward(apart, loss)
    stacked = [
        np.stack([each.logprobs for each in many.outputs[i : i + CANDIDATES]], axis=1)
        for i in range(0, len(apart), CANDIDATES)
    ]
    differ = sum(
        int((a.logprobs.view(np.int32) != b.view(np.int32)).sum()) for a, b in zip(one.outputs, stacked, strict=True)
    )
    far = error(ours, theirs)
    print(
        f"[T, {CANDIDATES}] cross entropy, units {unit.value}: {differ} of {sum(b.size for b in stacked)} "
        f"log-probabilities differ in bits from {CANDIDATES} datums (goal 0); gradients {far:.1e} apart "
        f"(goal <= {EXACT:g}{': reached' if differ == 0 and far <= EXACT else ' NOT reached'})"
    )
    a, b, rounds = ratio(lambda: ours.forward_backward(wide, loss), lambda: theirs.forward_backward(apart, loss))
    print(
        f"[T, {CANDIDATES}] and {CANDIDATES} datums: {a:.3f} and {b:.3f} CPU-s, ratio {statistics.median(rounds):.2f}"
    )


def requests() -> None:
    """Count the SDK's requests of one step, with the loss on the server and in the client."""
    import tinker

    from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings

    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        server = EmbeddedServer(EmbeddedSettings(models={MODEL: MODEL}, state=state))
        service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
        data = [
            tinker.Datum(
                model_input=tinker.ModelInput.from_ints(datum.tokens.tolist()),
                loss_fn_inputs={n: tinker.TensorData.from_numpy(v) for n, v in datum.inputs.items()},
            )
            for datum in renamed(batch()[:8])
        ]
        written, ranks = WRITTEN["ppo"]
        handle = service.create_custom_loss(written, dict(ranks)).result()  # pyright: ignore[reportArgumentType]

        def in_client(data: list[tinker.Datum], logprobs: list[object]) -> object:
            parts = [
                written(p, *(d.loss_fn_inputs[n].to_torch() for n in ("old", "advantages")))[0]
                for d, p in zip(data, logprobs, strict=True)
            ]
            return sum(parts), {}

        for title, loss in (("on the server", handle), ("in the client", in_client)):
            client = service.create_lora_training_client(base_model=MODEL, rank=8).result()
            client.forward_backward_custom(data, loss).result()  # pyright: ignore[reportArgumentType]
            with sqlite3.connect(f"file:{state / 'tinsmith.sqlite3'}?mode=ro", uri=True) as rows:
                (count,) = rows.execute(
                    "SELECT count(*) FROM requests WHERE owner = ? AND kind LIKE 'forward%'", (client.model_id,)
                ).fetchone()
            print(f"a custom loss {title}: {count} request(s) a step")


def one_hash(engine: Engine) -> None:
    """Print whether threads, micro-batches and instruction sets give one hash a loss."""
    found = {hashes(engine)}
    for isa in ("avx512", "avx2"):
        if isa in module().supported_isas():
            command = [sys.executable, __file__, "--hashes"]
            environment = {**os.environ, "TINSMITH_ISA": isa}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            found.add(done.stdout.strip())
    single = len(found) == 1 and "|" not in next(iter(found))
    print(
        f"hashes over micro-batches, threads and instruction sets {', '.join(module().supported_isas())}: "
        f"{' / '.join(sorted(found))} (goal one a loss: {'reached' if single else 'NOT reached'})"
    )


def main() -> None:
    idle_threads_sleep()
    warnings.simplefilter("ignore")
    engine = Engine({MODEL: MODEL})
    if sys.argv[1:] == ["--hashes"]:
        print(hashes(engine))
        return
    for name in LOSSES:
        against_the_built_in(engine, name, custom(*WRITTEN[name.value]))
    several_targets(engine)
    one_hash(engine)
    requests()


if __name__ == "__main__":
    main()
