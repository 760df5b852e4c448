"""Tasks of `inspect-ai` by its provider for such a server; prints every sample: its answer, its scores, its turns.

python with_inspect.py CASE ...        # and OPENAI_BASE_URL, OPENAI_API_KEY
"""

import json
import os
import sys
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import choice, match, model_graded_qa
from inspect_ai.solver import generate, multiple_choice, use_tools
from inspect_ai.tool import Tool, tool

MODEL = "openai-api/tinsmith/tests/talker"
os.environ["TINSMITH_API_KEY"] = os.environ["OPENAI_API_KEY"]
os.environ["TINSMITH_BASE_URL"] = os.environ["OPENAI_BASE_URL"]


@tool
def add() -> Tool:
    """A tool that adds."""

    async def execute(a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: the first.
            b: the second.
        """
        return str(a + b)

    return execute


def sums(count: int, **more: Any) -> list[Sample]:
    """Questions whose target is 42, whatever they say: the model knows no other sum."""
    return [Sample(input=f"What is {i} + {42 - i}?", target="42", **more) for i in range(count)]


def scored() -> Task:
    """An answer that is matched, and graded by the same model."""
    return Task(
        dataset=sums(8), solver=generate(), scorer=[match(location="begin"), model_graded_qa(model=MODEL)], epochs=2
    )


def chosen() -> Task:
    """One of two letters."""
    options = [Sample(input=each.input, choices=["41", "42"], target="B") for each in sums(4)]
    return Task(dataset=options, solver=multiple_choice(), scorer=choice())


def called() -> Task:
    """A tool that is called, and what is made of its answer."""
    return Task(dataset=sums(2), solver=[use_tools(add()), generate()], scorer=match(location="begin"))


def main(cases: list[str]) -> Any:
    config = GenerateConfig(max_tokens=32, max_retries=0, timeout=120)
    tasks = [globals()[case]() for case in cases]
    logs = eval(tasks, model=MODEL, **config.model_dump(exclude_none=True), log_dir="logs")
    for log in logs:
        assert log.status == "success", log.error and log.error.message
    return {case: [told(sample) for sample in log.samples or ()] for case, log in zip(cases, logs, strict=True)}


def told(sample: EvalSample) -> Any:
    return {
        "id": sample.id,
        "epoch": sample.epoch,
        "answer": sample.output.completion,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
        "roles": [message.role for message in sample.messages],
        "tokens": {name: used.total_tokens for name, used in sample.model_usage.items()},
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
