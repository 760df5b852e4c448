"""Prefix trees on SmolLM2: the same bits as apart, one gradient whatever is computed together, and autograd's in fp64.

`tinsmith base fetch smollm2` first. Conversations of two turns that fork after each: three stems, every turn's answers
of several lengths, in a mixed order; a LoRA of rank 16 that was trained one step. Peer: transformers with peft in fp64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.published.sources import find_model
from tinsmith.models.slots import values
from tinsmith.ops.extension import native
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.fingerprints import tensors_sha256

NAME = "tinsmith/smollm2"
LOSS = LossName.CROSS_ENTROPY
TO_FP64, TO_DATUM = 2e-6, 5e-6
CUTS = (2048, 1)
"""The usual limit of a tree's rows, and one that cuts wherever a tree has twice the rows of its longest datum."""


def conversations(vocab: int) -> list[Datum]:
    """Stems of 40 to 60 tokens, three first answers each, three second ones after each of those."""
    rng = np.random.default_rng(0)

    def some(count: int) -> np.ndarray:
        return rng.integers(3, vocab, count).astype(np.int32)

    made: list[Datum] = []
    for stem in (some(40), some(50), some(60)):
        for _ in range(3):
            turn = np.concatenate([stem, some(12)])
            for length in (5, 9, 18):
                tokens = np.concatenate([turn, some(length)])
                weights = np.zeros(len(tokens) - 1, np.float32)
                weights[len(stem) :] = rng.standard_normal(len(weights) - len(stem))
                inputs = {"target_tokens": tokens[1:], "weights": weights}
                made.append(Datum(tokens=tokens[:-1], inputs=inputs))
    return [made[i] for i in rng.permutation(len(made))]


def main() -> None:
    base = open_base(NAME)
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    datums = conversations(base.config.vocab_size)
    adapter = create_adapter(decoder, AdapterSpec(rank=16, seed=1))
    first = TrainingSession(adapter)
    first.forward_backward(datums, LOSS)
    first.optim_step(AdamParams(learning_rate=1e-3))

    def session(unit: GradientUnit = GradientUnit.TREE) -> TrainingSession:
        return TrainingSession(adapter, gradient_unit=unit)

    tree, apart = session(), session(GradientUnit.DATUM)
    said = [one.forward_backward(datums, LOSS).outputs for one in (tree, apart)]
    differ = sum(
        int((a.logprobs.view(np.int32) != b.logprobs.view(np.int32)).sum()) for a, b in zip(*said, strict=True)
    )
    total = sum(map(len, datums))
    print(f"forward: {differ} of {total} log-probabilities differ in bits from those apart (goal 0)")
    for cut in CUTS:
        found = set(hashes(session(), datums, cut))
        print(f"gradient, trees of {cut} rows: {len(found)} hash (goal 1): {sorted(found)[0][:16]}")
    ours, theirs = tree.optimizer.gradient(), apart.optimizer.gradient()
    told("against gradient_unit=datum", errors(ours, theirs), TO_DATUM)
    reference = autograd(datums, values(adapter.slots), torch.float64)
    told("against autograd in fp64", errors(ours, reference), TO_FP64)
    plain = autograd(datums, values(adapter.slots), torch.float32)
    for what, found in (("gradient_unit=datum", theirs), ("transformers in fp32", plain)):
        middle, largest = errors(found, reference)
        print(f"  {what}, against the same: {largest:.2e}, the middle tensor {middle:.2e}")


def hashes(session: TrainingSession, datums: list[Datum], tree_rows: int) -> Iterator[str]:
    """One gradient computed in several ways: micro-batches, threads, instruction sets."""
    usual = native.isa(), native.num_threads()
    every = [
        (isa, threads, units)
        for isa in native.supported_isas()
        for threads in (1, 2)
        for units in (1, 2, 4, 1 << 30)
        if isa != "scalar" or (threads, units) == (2, 1 << 30)
    ]
    for isa, threads, units in every:
        native.use_isa(isa)
        native.set_num_threads(threads)
        one = replace(session, micro_batches=MicroBatches(units=units), tree_rows=tree_rows)
        one.forward_backward(datums, LOSS)
        gradient = one.optimizer.gradient()
        yield tensors_sha256({name: grad.numpy() for name, grad in gradient.items()})
    native.use_isa(usual[0])
    native.set_num_threads(usual[1])


def autograd(datums: list[Datum], adapter: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The gradient of the same adapter by transformers, peft and torch, one datum at a time."""
    path = find_model(NAME).path
    assert path is not None
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    targets = sorted({name.removesuffix(".lora_A.weight") for name in adapter if "lora_A" in name})
    peft = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=targets)).to(dtype)
    parameters = {
        name.removeprefix("base_model.model.").replace(".default", ""): parameter
        for name, parameter in peft.named_parameters()
        if parameter.requires_grad
    }
    assert set(parameters) == set(adapter)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(adapter[name])
    start = time.process_time()
    for datum in datums:
        ids = torch.from_numpy(datum.tokens.astype(np.int64))[None]
        wanted = torch.from_numpy(datum.inputs["target_tokens"].astype(np.int64))
        logprobs = torch.log_softmax(peft(input_ids=ids).logits[0], dim=-1)
        picked = logprobs.gather(1, wanted[:, None])[:, 0]
        (-(torch.from_numpy(datum.inputs["weights"]).to(dtype) * picked).sum()).backward()
    print(f"  ({dtype}: {time.process_time() - start:.0f} CPU-s)")
    return {name: p.grad for name, p in parameters.items() if p.grad is not None}


def errors(ours: dict[str, Tensor], reference: dict[str, Tensor]) -> tuple[float, float]:
    """||ours - reference|| / ||reference|| of the middle tensor, and of the worst."""
    assert set(ours) == set(reference)
    found = sorted(
        float((ours[name].double() - reference[name].double()).norm()) / float(reference[name].double().norm())
        for name in ours
    )
    return found[len(found) // 2], found[-1]


def told(what: str, found: tuple[float, float], goal: float) -> None:
    middle, largest = found
    verdict = "reached" if largest <= goal else "NOT reached"
    print(
        f"gradient {what}: {largest:.2e} relative, the worst tensor, the middle one {middle:.2e} "
        f"(goal <= {goal}: {verdict})"
    )


if __name__ == "__main__":
    main()
