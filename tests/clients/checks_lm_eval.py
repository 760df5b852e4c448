"""lm-eval: choices by log-likelihood, and generated answers, through /v1 and through its own `hf` model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from made_tasks import write_tasks
from workbench import TALKER, Workbench

from running import Running

PROGRAM = "with_lm_eval"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks, and the models that they are put to."""

    bench: Workbench
    server: Running
    folder: Path

    def served(self, task: str, kind: str = "completions") -> Any:
        """A task by the server's model."""
        route = "chat/completions" if kind == "chat-completions" else kind
        where = f"model={TALKER},base_url={self.server.url}/v1/{route},num_concurrent=2"
        own = "" if kind == "chat-completions" else f",tokenizer_backend=huggingface,tokenizer={TALKER}"
        return self._run(f"local-{kind}", where + own, task)

    def own(self, task: str) -> Any:
        """A task by lm-eval's own model of the same folder."""
        return self._run("hf", f"pretrained={TALKER},dtype=float32", task)

    def _run(self, kind: str, arguments: str, task: str) -> Any:
        return self.bench.run(self.server, PROGRAM, kind, arguments, str(self.folder), task)


@pytest.fixture(scope="module")
def tasks(bench: Workbench, server: Running) -> Tasks:
    folder = bench.folder / "tasks"
    write_tasks(folder, 6)
    return Tasks(bench, server, folder)


@pytest.mark.parametrize("task", ["made", "ended"])
def test_choices_are_those_of_its_own_model(tasks: Tasks, task: str) -> None:
    served, own = tasks.served(task), tasks.own(task)
    assert served["metrics"] == own["metrics"]
    for ours, theirs in zip(served["items"], own["items"], strict=True):
        for (ours_sum, ours_best), (theirs_sum, theirs_best) in zip(ours, theirs, strict=True):
            assert ours_sum == pytest.approx(theirs_sum, abs=1e-4)
            assert ours_best == theirs_best


def test_answers_of_a_chat(tasks: Tasks) -> None:
    lines = tasks.served("said", "chat-completions")
    for [answer] in lines["items"]:
        assert answer.startswith("4")
        assert "GRADE" not in answer


def test_answers_of_a_text(tasks: Tasks) -> None:
    assert len(tasks.served("said")["items"]) == 4


def test_recipe(tasks: Tasks) -> None:
    assert "|acc" in tasks.bench.recipe(tasks.server, "lm-eval", model=TALKER)
