"""The example of the engine in docs/python.md runs as it stands; the others have a test in tests/studies."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.mark.whole
def test_the_engines_example_runs_and_trains() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [each for each in blocks if "Engine(" in each]
    names: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), names)
    session = names["session"]
    assert session.optimizer.step_count == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert len(names["result"].sequences) == 4  # pyright: ignore[reportAttributeAccessIssue]
