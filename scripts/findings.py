"""The page of the source notes' findings, from kept values and published pages: `python scripts/findings.py`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.study.record import StudyRecord
from tinsmith.lab.study.report import sentences

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "findings.md"
INTRODUCTION: Final = """# The source notes' findings, and what came of each here
Two literature reviews among the notes that this project grew out of name twenty-one findings. Each has a study here, of
all of it or of the part that is not marked *not studied*, on models small enough for a laptop: where one did not come
out, that says so of these models. The last column quotes the pages of results: of what was expected beforehand, first
what did not come out, then what did.

| finding | source | study | what came of it here |
|---|---|---|---|
"""


class _Kept(msgspec.Struct):
    """Part read of a page's kept values."""

    results: StudyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding, its study, and the pages of its results."""

    text: str
    source: str
    command: str
    page: str
    """Below docs/results, where there is one."""
    begins: tuple[str, ...] = ()
    """Beginnings of lines of both pages that are quoted; none: its summary says which expectations were met."""
    more: str = ""
    """Another page."""
    lacks: str = ""
    """Part of the finding that is not studied."""
    about: str = ""
    """Page below docs on the study; empty: that of the name of its results, where there is one."""


ROWS: Final = (
    Row(
        text="RL changes few tokens, where the base was uncertain; training at those few does what RL does",
        source="E026, 2605.06241",
        command="microscope",
        page="microscope",
        more="sparse-select",
    ),
    Row(
        text="On questions of several hops RL solves what its base never solves, and SFT does not",
        source="E011, 2604.14877",
        command="pass_at_k",
        page="pass-at-k",
        more="pass-at-k-smollm2",
    ),
    Row(
        text="A loss on what the environment answers makes RL faster, with too much weight duller",
        source="E084, 2605.24517",
        command="environment_loss",
        page="environment-loss",
    ),
    Row(
        text="A reward for confidence that rises along the reasoning helps RL",
        source="E081, 2605.24396",
        command="confidence",
        page="confidence",
        more="confidence-smollm2",
    ),
    Row(
        text="Process rewards (say what is needed, plan, look back) do more than the final answer's",
        source="E079, 2605.23384",
        command="metacognition",
        page="metacognition",
        more="metacognition-smollm2",
    ),
    Row(
        text="One tree of rubrics makes data, filters supervision and rewards RL",
        source="E082, 2605.24218",
        command="examples/rubric_rewards.py",
        page="rubric-rewards",
        more="rlvr",
        lacks="making data, filtering supervision, and that SFT makes open-ended reports worse; rubrics here are flat",
        about="rlvr.md",
    ),
    Row(
        text="A rubric is as good as it makes a weak judge",
        source="E019, 2605.03871",
        command="rubric_quality",
        page="rubric-quality",
        begins=("- With its own rubric, minus without", "- With its own rubric, minus with another"),
        lacks="that the scalar judge that wins the benchmark trains a worse policy than rubrics; here it is accuracy "
        "on pairs, and the judge is a program, which a pair's own rubric makes right by construction",
        about="rlvr.md#rubric-quality",
    ),
    Row(
        text="SFT, then RL, beats either, once training is free of two faults of its libraries",
        source="E009, 2604.23747",
        command="study/taste",
        page="taste-sft-then-rl",
        begins=("- SFT then RL beats SFT on", "- SFT then RL beats RL on", "- Not claimed: SFT then RL learned"),
        more="taste-matched",
        lacks="mixed-policy methods; and the two faults, which [our checks](engine.md#checks-of-gradients) find",
        about="taste.md",
    ),
    Row(
        text="Answers stop depending on the question while entropy looks well; a filter on prompts prevents it",
        source="E010, 2604.06268",
        command="template_collapse",
        page="template-collapse",
        more="template-collapse-smollm2",
    ),
    Row(
        text="Exploration between the batches of a task widens what an agent knows, and helps the task",
        source="E052, 2605.16143",
        command="exploration",
        page="exploration",
    ),
    Row(
        text="RL cannot mend a model that fails always at the same questions, and mends one that fails by chance",
        source="E007, 2604.28182",
        command="dead_groups",
        page="dead-groups",
        more="dead-groups-smollm2",
        lacks="a training context inferred from the environment beside one stated outright",
    ),
    Row(
        text="Imitation inherits the patience of its demonstrations",
        source="E021, 2605.04036",
        command="patience",
        page="patience",
        more="patience-smollm2",
    ),
    Row(
        text="Tools that are run first, and tasks written backwards from what they gave, have right labels",
        source="E059, 2605.17558",
        command="backchain",
        page="backchain",
        more="backchain-smollm2",
    ),
    Row(
        text="Who writes the reward must not see how the task was made",
        source="E080, 2605.25624",
        command="barrier",
        page="barrier",
    ),
    Row(
        text="The order of examples by perplexity, rewards first coarse, then fine, and revision at test",
        source="E048, 2605.13301",
        command="curriculum",
        page="curriculum",
        more="curriculum-smollm2",
    ),
    Row(
        text="A reward model that is refitted on its policy's answers needs a steering term",
        source="E025, 2605.04266",
        command="alignment_collapse",
        page="alignment-collapse",
    ),
    Row(
        text="Recurrent depth, a prefix mask and a loss on responses make small pretraining cheap",
        source="E074, 2605.20613",
        command="prompt_masked_pretraining",
        page="prompt-masked-pretraining",
        about="nets.md#prompt-masked-pretraining",
    ),
    Row(
        text="Delegation within the RL loop reaches what one context does not hold",
        source="E028, 2605.06639",
        command="recursion",
        page="recursion",
        about="your-task.md#trees-of-rollouts",
    ),
    Row(
        text="A fixed budget of parameters does more in several coupled agents, grown one after the other",
        source="E060, 2605.16757",
        command="coupled_agents",
        page="coupled-agents",
        about="your-task.md#several-adapters",
    ),
    Row(
        text="Two frozen models, coupled by their hidden states, do what neither does",
        source="E040, 2605.11167",
        command="bridge",
        page="bridge",
        about="nets.md#a-bridge-between-two-frozen-models",
    ),
    Row(
        text="The prompt as a parameter: edits with a learning rate and a gate",
        source="E078, 2605.23904",
        command="prompt_search",
        page="prompt-search",
        more="prompt-search-smollm2",
    ),
)


def rendered(docs: Path = DOCS) -> str:
    """Return the page of today's values."""
    rows = [(described(row), row.source, study_link(row, docs), outcome(row, docs / "results")) for row in ROWS]
    return INTRODUCTION + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def described(row: Row) -> str:
    """Return a finding, and the part of it that is not studied."""
    return f"{row.text}. *Not studied*: {row.lacks}" if row.lacks else row.text


def study_link(row: Row, docs: Path) -> str:
    """Return the name of a study, with a link to the page about it where there is one."""
    about = row.about or f"{row.page}.md"
    return f"[`{row.command}`]({about})" if (docs / about.partition("#")[0]).exists() else f"`{row.command}`"


def outcome(row: Row, results: Path) -> str:
    """Return what came of a finding, with links to its pages; a study that was not run yet says so."""
    page, values = results / f"{row.page}.md", results / "values" / f"{row.page}.json"
    if not page.exists():
        return f"not run yet: `tinsmith run {row.command}`"
    if values.exists():
        _, *summary = sentences(msgspec.json.decode(values.read_bytes(), type=_Kept).results)[:3]
        quoted = summary if summary[-1].startswith("Met: ") else summary[:1]
    else:
        pages = [results / f"{name}.md" for name in (row.page, row.more) if name]
        lines = [line for one in pages for line in one.read_text(encoding="utf-8").splitlines()]
        begins = row.begins or (f"- {_summary(lines)}",)
        quoted = [_plain(next(line for line in lines if line.startswith(one))) for one in begins]
    linked = [
        f"[{name}](results/{name}.md)" for name in (row.page, row.more) if name and (results / f"{name}.md").exists()
    ]
    return f"{' '.join(quoted).replace('|', '/')} ({', '.join(linked)})"


def _summary(lines: list[str]) -> str:
    """Return the first sentence of a page's summary."""
    return next(line for line in lines[lines.index("## Summary") :] if line.startswith("- ")).removeprefix("- ")


def _plain(line: str) -> str:
    """Return a line of a list, or the cells of a line of a table but for its command, as a sentence."""
    if not line.startswith("|"):
        return line.removeprefix("- ")
    name, _, measured, *_ = (cell.strip() for cell in line.strip("|").split(" | "))
    return f"{name[:1].upper()}{name[1:]}: {measured}."


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
