"""The adversarial pair: A predicts, B challenges, A revises or defends."""

from __future__ import annotations

from tinsmith.tasks.debate.conversation import Debate
from tinsmith.tasks.debate.cues import WORLD_CUES, Cue, Cues
from tinsmith.tasks.debate.demonstrations import Habits, demonstrations
from tinsmith.tasks.debate.exchange import Exchange, Reasons
from tinsmith.tasks.debate.learned_cues import learned_cues
from tinsmith.tasks.debate.opponent import Opponent, Pending, Said, ScriptedOpponent, arguable
from tinsmith.tasks.debate.rewards import (
    DEBATE_REWARDS,
    Credit,
    DebateReward,
    DebateTerms,
    debate_reward,
)
from tinsmith.tasks.debate.script import SCRIPTS, Script, load_script
from tinsmith.tasks.debate.seed_env import AdversarialDisruptionEnv, Observation, StepResult
from tinsmith.tasks.debate.stance import Arms, Stance, WrongLabel

__all__ = [
    "DEBATE_REWARDS",
    "SCRIPTS",
    "WORLD_CUES",
    "AdversarialDisruptionEnv",
    "Arms",
    "Credit",
    "Cue",
    "Cues",
    "Debate",
    "DebateReward",
    "DebateTerms",
    "Exchange",
    "Habits",
    "Observation",
    "Opponent",
    "Pending",
    "Reasons",
    "Said",
    "Script",
    "ScriptedOpponent",
    "Stance",
    "StepResult",
    "WrongLabel",
    "arguable",
    "debate_reward",
    "demonstrations",
    "learned_cues",
    "load_script",
]
