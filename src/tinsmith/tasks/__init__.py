"""F4: what is asked of a model about a paper, how its answer is read, and what an answer earns."""

from __future__ import annotations

from tinsmith.tasks.answers import Answer, Confidence, Outcome
from tinsmith.tasks.contracts import CONTRACTS, FOUR_KEY, TWO_KEY, Contract, Form
from tinsmith.tasks.environment import Environment, SingleTurn, Transcript, Turn
from tinsmith.tasks.label_reward import JointTerms, LabelReward, make_label_reward
from tinsmith.tasks.paper import Item, Paper, items_of, paper_of
from tinsmith.tasks.prompt_files import PROMPTS
from tinsmith.tasks.prompting import messages
from tinsmith.tasks.reward_registry import REWARDS, make_reward
from tinsmith.tasks.reward_state import RewardState
from tinsmith.tasks.rewards import SOFT, STRONG, Reward, RewardTable, Terms
from tinsmith.tasks.set_rewards import per_label_at
from tinsmith.tasks.subjects import Subject
from tinsmith.tasks.task import TASKS, Task, make_joint_task, make_task

__all__ = [
    "CONTRACTS",
    "FOUR_KEY",
    "PROMPTS",
    "REWARDS",
    "SOFT",
    "STRONG",
    "TASKS",
    "TWO_KEY",
    "Answer",
    "Confidence",
    "Contract",
    "Environment",
    "Form",
    "Item",
    "JointTerms",
    "LabelReward",
    "Outcome",
    "Paper",
    "Reward",
    "RewardState",
    "RewardTable",
    "SingleTurn",
    "Subject",
    "Task",
    "Terms",
    "Transcript",
    "Turn",
    "items_of",
    "make_joint_task",
    "make_label_reward",
    "make_reward",
    "make_task",
    "messages",
    "paper_of",
    "per_label_at",
]
