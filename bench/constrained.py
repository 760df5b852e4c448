"""500 answers under a JSON schema from SmolLM2-135M: valid by `jsonschema`, scored as the model has them, their cost.

500 answers at temperature 1 to one prompt, of a schema whose texts are bounded. Their log-probabilities are compared
bit for bit with a scoring of prompt and answer, and the same answers' lengths are drawn again without a grammar, which
is what the masks cost.
"""

from __future__ import annotations

import argparse
import json
import time

import jsonschema
import numpy as np

from peers import idle_threads_sleep
from tinsmith.engine.engine import Engine
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.sampling import (
    Adjustments,
    Grammar,
    GrammarKind,
    SampledSequence,
    SampleRequest,
    SamplingParams,
    StopReason,
)

NAME = "tinsmith/smollm2"
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 60},
        "year": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "field": {"enum": ["biology", "physics", "economics", "computer science"]},
        "disruptive": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "keywords": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
        "author": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 30},
                "orcid": {"type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{4}$"},
            },
            "required": ["name", "orcid"],
            "additionalProperties": False,
        },
    },
    "required": ["title", "year", "field", "disruptive", "confidence", "keywords", "author"],
    "additionalProperties": False,
}
QUESTION = "Describe a scientific paper of your choice as JSON."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=500)
    parser.add_argument("--max-tokens", type=int, default=400)
    options = parser.parse_args()
    engine = Engine({NAME: NAME})
    folder = engine.folder(NAME)
    assert folder is not None
    tokenizer = load_tokenizer(folder)
    prompt = np.array(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": QUESTION}], add_generation_prompt=True, return_dict=False
        ),
        np.int32,
    )
    grammar = Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(SCHEMA))

    def ask(adjustments: Adjustments | None, max_tokens: int) -> tuple[SampledSequence, ...]:
        params = SamplingParams(
            seed=0, max_tokens=max_tokens, adjustments=adjustments, stop=None if adjustments else ()
        )
        request = SampleRequest(prompt=prompt, params=params, num_samples=options.answers)
        return engine.sample(NAME, [request], [engine.base_policy(NAME)])[0].sequences

    ask(Adjustments(grammar=grammar), 1)  # loads the tokenizer and compiles the grammar
    begun = time.process_time()
    answers = ask(Adjustments(grammar=grammar), options.max_tokens)
    constrained = time.process_time() - begun
    tokens = sum(len(one.tokens) for one in answers)
    longest = max(len(one.tokens) for one in answers)
    begun = time.process_time()
    free = ask(None, tokens // len(answers))
    unconstrained = time.process_time() - begun
    plain = sum(len(one.tokens) for one in free)
    ended = [one for one in answers if one.stop_reason is StopReason.STOP]
    texts = [tokenizer.decode(one.tokens.tolist(), skip_special_tokens=True) for one in ended]
    valid = sum(_valid(str(text)) for text in texts)
    unequal = _unequal(engine, prompt, answers)
    print(f"{len(answers)} answers, {tokens} tokens, longest {longest}, {len(set(texts))} different")
    print(f"ended: {len(ended)}; valid: {valid}; log-probabilities with another bit: {unequal}")
    print(
        f"CPU per token: {1e3 * constrained / tokens:.2f} ms under the schema, "
        f"{1e3 * unconstrained / plain:.2f} ms without"
    )
    for text in texts[:3]:
        print(text)


def _valid(text: str) -> bool:
    try:
        jsonschema.validate(json.loads(text), SCHEMA)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def _unequal(engine: Engine, prompt: np.ndarray, answers: tuple[SampledSequence, ...]) -> int:
    """Sampled tokens whose log-probability is not, to the bit, that of a scoring of prompt and answer."""
    requests = [
        SampleRequest(
            prompt=np.concatenate([prompt, one.tokens]),
            params=SamplingParams(seed=0, max_tokens=0),
            prompt_logprobs=True,
        )
        for one in answers
    ]
    results = engine.sample(NAME, requests, [engine.base_policy(NAME)] * len(requests))
    unequal = 0
    for one, result in zip(answers, results, strict=True):
        assert result.prompt_logprobs is not None
        scored = result.prompt_logprobs[len(prompt) :]
        unequal += int((scored.view(np.int32) != one.logprobs.view(np.int32)).sum())
    return unequal


if __name__ == "__main__":
    idle_threads_sleep()
    main()
