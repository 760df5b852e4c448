"""A report as Markdown: the sentences and tables of its HTML page, then each run's metrics, command and hashes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from pathlib import Path

from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.runs.records import Run

MOST_STEPS = 12
"""Columns of the table over the steps; of more evaluations, evenly spaced ones with the first and the last."""
_SHOWN = ("eval/", "eval_greedy/", "train/reward/", "optim/kl_sample_train")
_SKIPPED = frozenset({"head", "nav", "style", "script", "form", "noscript", "footer", "button"})
_VOID = frozenset({"br", "wbr", "meta", "link", "input", "img", "hr"})
_HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "summary": "#### "}
_BLOCKS = frozenset({*_HEADINGS, "p", "figcaption", "li", "div", "section", "ul", "dl", "table"})


def markdown_report(html: str, folders: Sequence[Path]) -> str:
    """Return a page as Markdown.

    Args:
        html: the page that `tinsmith report` writes; all its sentences and tables are kept, the rollout browser is not.
        folders: of the runs on it; each adds a table over the steps, the command that repeats it, and its hashes.

    Raises:
        DataError: a folder holds no run.
    """
    runs = [read_run(folder) for folder in folders]
    parts = [markdown_of(html).rstrip("\n"), *(_over_the_steps(run) for run in runs)]
    return "\n\n".join([*(part for part in parts if part), _commands(runs)]) + "\n"


def markdown_of(html: str) -> str:
    """Return the sentences, lists and tables of a page; a drawing becomes the sentence that names its values."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.block()
    return "\n".join(reader.lines).strip("\n") + "\n"


class _Reader(HTMLParser):
    """Collects the lines of Markdown; knows the few elements that our templates use."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._text: list[str] = []
        self._prefix = ""
        self._skipping: list[str] = []
        self._rows: list[list[str]] | None = None
        self._wide = 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if self._skipping:
            if tag not in _VOID:
                self._skipping.append(tag)
        elif tag in _SKIPPED or {"skip", "kind", "pager"} & set((values.get("class") or "").split()):
            self._skipping.append(tag)
        elif tag == "svg":
            self.block()
            self._text = [values.get("aria-label") or ""]
            self.block()
            self._skipping.append(tag)
        elif self._rows is not None:
            self._start_in_table(tag, values)
        elif tag in _BLOCKS:
            self.block()
            self._prefix = "- " if tag == "li" else _HEADINGS.get(tag, "")
            if tag == "table":
                self._rows = []
        elif tag == "dt":
            self.block()
            self._prefix = "- "
        elif tag in ("dd", "br", "span", "small"):
            self._text.append(": " if tag == "dd" else " ")

    def _start_in_table(self, tag: str, values: dict[str, str | None]) -> None:
        assert self._rows is not None
        if tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._text = []
            self._wide = int(values.get("colspan") or 1)
        elif tag in ("br", "summary", "ul", "span"):
            self._text.append(" ")
        elif tag == "small":
            self._text.append(" (")
        elif tag == "li":
            self._text.append("; " if "".join(self._text).strip() else "")

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            while self._skipping and tag in self._skipping and self._skipping.pop() != tag:
                pass
        elif self._rows is not None:
            if tag in ("td", "th"):
                words = _words(self._text)
                whole_row = tag == "th" and self._wide > 1
                self._rows[-1] += [f"**{words}**" if whole_row else words, *[""] * (self._wide - 1)]
                self._text = []
            elif tag == "small":
                self._text.append(")")
            elif tag == "table":
                rows, self._rows = [row for row in self._rows if row], None
                if len(rows) > 1 or (rows and any(rows[0][1:]) and not _is_head(rows)):
                    self.lines += ["", *table_lines(rows[0], rows[1:])]
        elif tag in _BLOCKS or tag == "dd":
            self.block()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data)

    def block(self) -> None:
        """End the paragraph, heading or list item that is being read."""
        words = _words(self._text)
        if words:
            joined = self._prefix == "- " and self.lines and self.lines[-1].startswith("- ")
            self.lines += [*([] if joined else [""]), self._prefix + words]
        self._text, self._prefix = [], ""


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table; the first column is text, the others figures or text as they come."""
    width = len(heads)
    lines = [heads, ["---"] * width, *([*row, *[""] * (width - len(row))][:width] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _is_head(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table of one row is a head that a script fills below."""
    return len(rows) == 1 and len(rows[0]) > 2


def _words(text: Sequence[str]) -> str:
    words = " ".join("".join(text).replace("\N{NO-BREAK SPACE}", " ").split())
    words = re.sub(r" ([;:,.])(?=\s|$)", r"\1", words)
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", words)


def _over_the_steps(run: Run) -> str:
    """Return what the page's figures are drawn from: metrics at the evaluated steps, a row each."""
    steps = [step for step, row in run.metrics.items() if any(key.startswith("eval") for key in row)]
    if not steps:
        return ""
    if len(steps) > MOST_STEPS:
        steps = [steps[i * (len(steps) - 1) // (MOST_STEPS - 1)] for i in range(MOST_STEPS)]
    keys = sorted({key for step in steps for key in run.metrics[step] if key.startswith(_SHOWN)})
    rows = [[f"`{key}`", *(_figure(run.metrics[step].get(key)) for step in steps)] for key in keys]
    heads = ["metric", *(f"step {step}" for step in steps)]
    name = _words([f"{run.config.title}, seed {run.config.seed}"])
    return "\n".join([f"## Over the steps: {name}", "", *table_lines(heads, rows)])


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _commands(runs: Sequence[Run]) -> str:
    """Return the command and the hashes of every run."""
    commands = [command_of(run) for run in runs]
    names = ("identity", "weights", "rollouts", "metrics")
    rows = [
        [
            f"`{run.folder.name}`",
            f"`{run.config.identity_sha256[:16]}`" if run.config.identity_sha256 else "",
            *(_hash(run, f"{name}_sha256") for name in names[1:]),
        ]
        for run in runs
    ]
    hashes = table_lines(["run", *names], rows)
    note = "The first 16 digits of each SHA-256."
    return "\n".join(["## Commands and hashes", "", "```", *commands, "```", "", note, "", *hashes])


def command_of(run: Run) -> str:
    """Return the command that a run was started with, without what only says where and how fast."""
    changed = (f"{key}={_value(value)}" for key, value in run.config.overrides.items())
    return shlex.join(["tinsmith", "run", run.config.name, *changed])


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hash(run: Run, name: str) -> str:
    digest = run.manifest.hashes.get(name) if run.manifest else None
    return f"`{digest[:16]}`" if digest else ""
