"""The two examples of the laboratory in docs/python.md run as they stand, with fewer steps and a smaller world."""

import re
from pathlib import Path

import pytest
from small_slice import BASE, WORLD, Made

from tinsmith.lab.papers import run_data as paper_data
from tinsmith.lab.papers import worlds as paper_sets

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
FEWER = {
    "steps=160, seed=0": "steps=2, batch_size=4, max_tokens=12",
    "steps=60, seed=0": "steps=1, groups_per_batch=4, max_tokens=12",
    "max_tokens=48": "max_tokens=12",
    "group_size=8": "group_size=2",
    "range(20)": "range(2)",
    "16 * step": "4 * step",
    "step + 16": "step + 4",
}


def test_the_laboratorys_examples_run(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(made.home))
    monkeypatch.setattr(paper_sets, "WorldRecipe", lambda: WORLD)
    monkeypatch.setattr(paper_data, "PaperBaseRecipe", lambda: BASE)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = "".join(blocks[:2])
    for long, short in FEWER.items():
        assert text.count(long) >= 1, long
        text = text.replace(long, short)
    names: dict[str, object] = {}
    exec(compile(text, str(PAGE), "exec"), names)
    lines = capsys.readouterr().out
    assert re.search(r"\| SFT +\|", lines)
    assert re.search(r"\| GRPO +\|", lines)
    assert "| always " in lines
    assert len(names["datums"]) == 32  # type: ignore[arg-type]
    names["service"].close("success").result()  # type: ignore[attr-defined]
    for model in names["models"].values():  # type: ignore[attr-defined]
        model.close()
