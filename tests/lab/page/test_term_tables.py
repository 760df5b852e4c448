"""Table of a reward's terms on the page of a run that has several."""

from pathlib import Path
from typing import Any

from pages_of import document_of
from run_files import write_task_run

from tinsmith.lab.study.terms import audit_of_run
from tinsmith.pages.markdown import document_markdown


def write(folder: Path, terms: dict[str, list[float]], right: list[float]) -> Path:
    """Write a run with one group of training answers and two evaluations."""
    task = {"terms": list(terms), "metrics": ["right"], "items": [{"id": "a", "prompt": "a", "unit": "a"}]}
    lines: list[dict[str, Any]] = [
        {"step": step, "split": split, "prompt_id": "a", "sample": place, "text": "x", "metrics": {"right": good}}
        | {"terms": {name: some[place] for name, some in terms.items()}}
        | {"total": sum(some[place] for some in terms.values())}
        for split, step in (("eval", 0), ("train", 0), ("eval", 2))
        for place, good in enumerate(right)
    ]
    lines.append({"step": 0, "split": "train", "prompt_id": "a", "failure": {"where": "reward", "what": "x"}})
    return write_task_run(folder, task, lines, metrics=[{"step": 2}], steps=2)


def test_terms_of_training_stand_on_the_page_with_their_variance_and_correlation(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", {"good": [1.0, 0.0, 1.0, 0.0], "form": [0.0, 1.0, 0.0, 1.0]}, [1.0, 0.0, 1.0, 0.0])
    found = audit_of_run(folder)
    assert [(one.variance, one.differs, one.with_right) for one in found.values()] == [(0.25, 1, 1), (0.25, 1, -1)]
    text = document_markdown(document_of(folder))
    assert "| good | 0.2500 | nothing differs | 1.00 | +1.00 |" in text
    assert "| form | 0.2500 | nothing differs | 1.00 | -1.00 |" in text


def test_a_run_with_one_term_has_no_such_table(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", {"good": [1.0, 0.0]}, [1.0, 0.0])
    assert "around the group's mean" not in document_markdown(document_of(folder))
