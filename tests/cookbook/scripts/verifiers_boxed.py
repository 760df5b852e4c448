"""An environment of verifiers for the cookbook's recipe: the tiny model's two answers, one of them paid."""

from typing import Any

import verifiers as vf
from datasets import Dataset


def load_environment() -> vf.Environment:
    """Sums whose answer is 1 or 2, the only ones that the model gives."""

    def right(completion: Any, answer: str, **_: Any) -> float:
        return float(answer in completion[-1]["content"])

    rows = [{"question": f"{i + 2} - {i + i % 2} = ?", "answer": f"{{{2 - i % 2}}}"} for i in range(4)]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
