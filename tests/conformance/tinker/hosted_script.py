"""A user's script: policy gradients with the tinker SDK alone, no seed anywhere. Runs against any Tinker server.

    TINKER_BASE_URL=... TINKER_API_KEY=... python hosted_script.py MODEL

Rewards samples for even tokens; prints one line of JSON per step, every number with all its bits.
"""

import json
import sys

import tinker
from tinker import types

PROMPTS = (b"tin", b"tin", b"lead", b"copper", b"lead", b"tin")
GROUP, STEPS = 4, 3


def main(model: str) -> None:
    with tinker.ServiceClient() as service:
        trainer = service.create_lora_training_client(base_model=model, rank=8).result()
        for step in range(STEPS):
            print(json.dumps({"step": step, **train_step(trainer)}))
        path = trainer.save_weights_for_sampler("last").result().path
        sampler = service.create_sampling_client(model_path=path).result()
        params = types.SamplingParams(max_tokens=8, temperature=0.7)
        last = sampler.sample(types.ModelInput.from_ints(list(b"tin")), 2, params).result()
        print(json.dumps({"last": [sequence.tokens for sequence in last.sequences]}))


def train_step(trainer: tinker.TrainingClient) -> dict[str, object]:
    sampler = trainer.save_weights_and_get_sampling_client().result()
    params = types.SamplingParams(max_tokens=12, temperature=1.0, stop=[])
    pending = [sampler.sample(types.ModelInput.from_ints(list(prompt)), GROUP, params) for prompt in PROMPTS]
    groups = [future.result().sequences for future in pending]
    batch = []
    for prompt, group in zip(PROMPTS, groups, strict=True):
        rewards = [sum(token % 2 == 0 for token in s.tokens) / len(s.tokens) for s in group]
        mean = sum(rewards) / len(rewards)
        for reward, sequence in zip(rewards, group, strict=True):
            batch.append(datum(list(prompt), sequence, reward - mean))
    forward_backward = trainer.forward_backward(batch, "importance_sampling")
    optim = trainer.optim_step(types.AdamParams(learning_rate=0.01))
    output, metrics = forward_backward.result(), optim.result().metrics or {}
    samples = [sequence for group in groups for sequence in group]
    trained = [out["logprobs"].tolist() for out in output.loss_fn_outputs]
    unequal = sum(
        lines != scored
        for sequence, values in zip(samples, trained, strict=True)
        for lines, scored in zip(sequence.logprobs or [], values[-len(sequence.tokens) :], strict=True)
    )
    return {
        "tokens": [sequence.tokens for sequence in samples],
        "logprobs": [[value.hex() for value in s.logprobs or []] for s in samples],
        "trained": [[value.hex() for value in values] for values in trained],
        "loss": output.metrics["loss:sum"].hex(),
        "optim": {name: value.hex() for name, value in sorted(metrics.items())},
        "unequal_logprob_bits": unequal,
    }


def datum(prompt: list[int], sequence: types.SampledSequence, advantage: float) -> types.Datum:
    tokens = prompt + sequence.tokens
    zeros = [0.0] * (len(prompt) - 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "logprobs": zeros + list(sequence.logprobs or []),
            "advantages": zeros + [advantage] * len(sequence.tokens),
        },
    )


if __name__ == "__main__":
    main(sys.argv[1])
