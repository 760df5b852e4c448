"""Data sets in the shape of the public ones that the recipes load by name, made of sums."""

import json
from collections.abc import Iterable
from pathlib import Path

GSM8K = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: train.jsonl
  - split: test
    path: test.jsonl
---
"""


def write_no_robots(folder: Path) -> None:
    """Conversations, as HuggingFaceH4/no_robots has them."""
    rows = [
        {
            "prompt": f"What is {i} + {i % 7}?",
            "messages": [
                {"role": "user", "content": f"What is {i} + {i % 7}?"},
                {"role": "assistant", "content": f"It is {i + i % 7}."},
            ],
        }
        for i in range(24)
    ]
    _write(folder / "train.jsonl", rows[:20])
    _write(folder / "test.jsonl", rows[20:])


def write_gsm8k(folder: Path) -> None:
    """Problems, as openai/gsm8k has them. Every answer is 1 or 2, the only ones that the tiny model gives."""
    rows = [
        {
            "question": f"Ann has {i + 3} tins and sells {i + 2 - i % 2}. How many are left?",
            "answer": f"{i + 3} - {i + 2 - i % 2} = {1 + i % 2}\n#### {1 + i % 2}",
        }
        for i in range(12)
    ]
    _write(folder / "train.jsonl", rows[:8])
    _write(folder / "test.jsonl", rows[8:])
    (folder / "README.md").write_text(GSM8K, encoding="utf-8")


def write_rubrics(folder: Path) -> None:
    """Tasks with a rubric, as the rubric recipe reads them. The grade is the number that the grader puts in its box."""
    rows = [
        {
            "convo": [{"role": "user", "content": f"What is {i} + 1?"}],
            "rubric_items": [
                {
                    "rubric_str": f"Is the answer {i + 1}?",
                    "extraction_regex": r"\\boxed\{(\d)\}",
                    "grader_output_format_instruction": "Put 1 or 2 in a box.",
                }
            ],
        }
        for i in range(6)
    ]
    _write(folder / "train.jsonl", rows[:4])
    _write(folder / "test.jsonl", rows[4:])


def _write(file: Path, rows: Iterable[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
