"""Fails where a file, function, folder or the laboratory is too large, or a file's name or a docstring says nothing."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

MAX_FILE, MAX_MEDIAN, MAX_FUNCTION = 500, 150, 80
MAX_BESIDE = 25
"""Files of the package in one folder."""
LABORATORY, MAX_LABORATORY = ("lab", "studies", "stats", "cli", "pages"), 57_640
"""Folders of the package, and lines of all: what is added takes the place of something (docs/decisions/0016)."""
FORBIDDEN = ("util", "helper", "common", "manager")
QUESTIONS = ("What", "Whether", "How", "Whose", "Where", "When", "Why", "See")
"""Words that no docstring of the package begins with."""


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "*.py", "*.cpp", "*.hpp"], capture_output=True, text=True, check=True)
    files = [Path(name) for name in tracked.stdout.split() if Path(name).exists()]
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    problems = [f"{file}: {lines} lines, at most {MAX_FILE}" for file, lines in lengths.items() if lines > MAX_FILE]
    problems += [f"{file}: the name says nothing" for file in files if any(word in file.stem for word in FORBIDDEN)]
    beside = Counter(file.parent for file in files if file.parts[0] == "src")
    problems += [
        f"{folder}: {count} files, at most {MAX_BESIDE}"
        for folder, count in sorted(beside.items())
        if count > MAX_BESIDE
    ]
    source = [lines for file, lines in lengths.items() if file.parts[0] == "src"]
    if source and statistics.median(source) > MAX_MEDIAN:
        problems.append(f"median file of src/: {statistics.median(source)} lines, at most {MAX_MEDIAN}")
    laboratory = sum(lines for file, lines in lengths.items() if file.parts[2:3] and file.parts[2] in LABORATORY)
    if laboratory > MAX_LABORATORY:
        problems.append(f"{', '.join(LABORATORY)}: {laboratory} lines, at most {MAX_LABORATORY}")
    for file in files:
        if file.suffix == ".py":
            problems += [f"{file}: {problem}" for problem in long_functions(file)]
            if file.parts[0] == "src":
                problems += [f"{file}:{problem}" for problem in questions(file.read_text(encoding="utf-8"))]
    for problem in problems:
        print(problem, file=sys.stderr)
    median = statistics.median(source) if source else 0
    longest = max(lengths.values())
    print(f"sizes: {len(files)} files, median of src/ {median:.0f}, longest {longest}, laboratory {laboratory}")
    return 1 if problems else 0


def long_functions(file: Path) -> list[str]:
    """Functions over the limit, with their length."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    sizes = [(f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for f in functions]
    return [f"{name} has {size} lines, at most {MAX_FUNCTION}" for name, size in sizes if size > MAX_FUNCTION]


def questions(source: str) -> list[str]:
    """Docstrings of modules, classes, functions and fields that begin with a question word, by line."""
    strings = [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return [
        f"{line}: a docstring begins with {text.split()[0]}; begin with a noun or a verb"
        for line, text in sorted(strings)
        if re.match(rf"\s*(?:{'|'.join(QUESTIONS)})\b", text)
    ]


if __name__ == "__main__":
    sys.exit(main())
