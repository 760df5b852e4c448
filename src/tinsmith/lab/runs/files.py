"""The names of the files in a run's folder."""

from __future__ import annotations

from typing import Final

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.slices import card as slice_card

CONFIG: Final = "config.json"  # What was asked for. Its being there says that there is a run.
MANIFEST: Final = "manifest.json"  # How far the run came, on what, and the hashes of what it left.
METRICS: Final = "metrics.jsonl"
ROLLOUTS: Final = "rollouts.jsonl"
TIMINGS: Final = "timings.jsonl"
TRACE: Final = "trace.jsonl"  # Hashes of every tensor's gradient and weights at every step.
CHECKPOINTS: Final = "checkpoints.jsonl"
BASELINES: Final = slice_card.BASELINES  # What simple baselines reach on the run's papers, as beside their slice.
REPORT: Final = "report.html"
LEDGER: Final = "judge.jsonl"
"""What a judge was asked for and what that took. Never cut back: what was paid was paid, also by a killed run."""
TASKS: Final = "tasks.jsonl"  # The prompts of a run whose answers are judged by criteria, with these.
TASK: Final = "task.json"  # Of a run on a task of the user's own: its terms, its held-out items, its baselines.
SECTIONS: Final = "sections.json"  # The sections that it adds to its page.
GENERAL: Final = "general.json"
"""How well the trained model and its base foresee fixed general texts: what training cost elsewhere."""
STATE: Final = "checkpoints"  # Where a run's embedded server keeps its state, in the run's folder.

GROWING: Final = (METRICS, ROLLOUTS, TIMINGS, TRACE)  # Files that a step appends to, and that a resumed run cuts back.
WHOLE: Final = (MANIFEST, BASELINES, BASELINE_ANSWERS, REPORT, LEDGER, TASKS, TASK, SECTIONS, GENERAL, CONFIG)
"""Files that are deleted with a run, in this order."""
