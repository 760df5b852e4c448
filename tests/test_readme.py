"""The README's Python example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_and_trains() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    exec(compile(blocks[0], str(README), "exec"), names)
    session = names["session"]
    assert session.optimizer.step_count == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert len(names["result"].sequences) == 4  # pyright: ignore[reportAttributeAccessIssue]
