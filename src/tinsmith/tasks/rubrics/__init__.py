"""Tasks measured by rubrics: their files, the rules a program can judge, rubric trees, built-in tasks."""

from __future__ import annotations

from tinsmith.tasks.rubrics.builtin import BuiltinTasks, WorkedTask, builtin_dataset, worked_tasks
from tinsmith.tasks.rubrics.dataset import RubricDataset, read_dataset
from tinsmith.tasks.rubrics.demonstrations import Demonstration, demonstrations
from tinsmith.tasks.rubrics.rule import Rule
from tinsmith.tasks.rubrics.rule_text import (
    RuleJudge,
    RuleVerdict,
    criterion_of,
    parse_rule,
)
from tinsmith.tasks.rubrics.splitting import RubricSplit, split_tasks
from tinsmith.tasks.rubrics.task import Rubric, RubricTask, task_of
from tinsmith.tasks.rubrics.tree import (
    Branch,
    Leaf,
    Node,
    NodeState,
    NodeTrace,
    Strategy,
    TreeScore,
    criteria_of,
    evaluate,
    flat_tree,
    pass_rate,
)
from tinsmith.tasks.rubrics.tree_schema import TREE_SCHEMA, tree_of

__all__ = [
    "TREE_SCHEMA",
    "Branch",
    "BuiltinTasks",
    "Demonstration",
    "Leaf",
    "Node",
    "NodeState",
    "NodeTrace",
    "Rubric",
    "RubricDataset",
    "RubricSplit",
    "RubricTask",
    "Rule",
    "RuleJudge",
    "RuleVerdict",
    "Strategy",
    "TreeScore",
    "WorkedTask",
    "builtin_dataset",
    "criteria_of",
    "criterion_of",
    "demonstrations",
    "evaluate",
    "flat_tree",
    "parse_rule",
    "pass_rate",
    "read_dataset",
    "split_tasks",
    "task_of",
    "tree_of",
    "worked_tasks",
]
