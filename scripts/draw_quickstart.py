"""Draws docs/images/quickstart.svg from the runs of `make quickstart`: the share of each answer over the steps.

python scripts/draw_quickstart.py out/quickstart docs/images/quickstart.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from tinsmith.pages.curves import running_mean

RUNS = (
    ("ladder-exp4", "Reward: being right (Exp4)"),
    ("ladder-exp5", "Threefold for one class (Exp5)"),
    ("remedy-exp6", "Macro-F1 (Exp6)"),
)
COLORS = {"disruptive": "#c8553d", "neutral": "#8b96a1", "consolidating": "#2f6f9f"}
INVALID, INK, MUTED = "#d9bd6a", "#1c2127", "#5a646e"
SMOOTHING = 5
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "quickstart", "font.family": ["sans-serif"]}


def main(folder: Path, out: Path) -> None:
    """Draw one panel a run."""
    figure = Figure(figsize=(9.6, 2.5), layout="constrained", facecolor="white")
    grid = figure.subplots(1, len(RUNS), sharey=True)
    for axes, (run, reward) in zip(grid, RUNS, strict=True):
        lines = (folder / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        keys = [f"train/predicted_share/{label}" for label in COLORS]
        trained = [row for row in rows if keys[0] in row]
        shares = np.array([[row[key] for row in trained] for key in keys])
        shares = np.array([running_mean(row, SMOOTHING) for row in shares])
        shares = np.vstack([shares, 1 - shares.sum(axis=0)])
        steps = [row["step"] for row in trained]
        names = (*COLORS, "not valid")
        axes.stackplot(steps, shares, colors=[*COLORS.values(), INVALID], labels=names, lw=0)
        axes.set_title(reward, loc="left", fontsize=10, color=INK)
        axes.set_xlabel("training step", fontsize=9, color=MUTED)
        axes.set(xlim=(0, steps[-1]), ylim=(0, 1), yticks=[0, 0.5, 1])
        axes.set_yticklabels(["0 %", "50 %", "100 %"])
        axes.tick_params(labelsize=8.5, labelcolor=MUTED, length=0)
        axes.spines[:].set_visible(False)
    grid[0].set_ylabel("share of all answers", fontsize=9, color=MUTED)
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=9, reverse=True)
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    with rc_context(STYLE):
        main(Path(sys.argv[1]), Path(sys.argv[2]))
