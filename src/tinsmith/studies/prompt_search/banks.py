"""Lines that a prompt for following instructions may begin with: what is often written there, and what does no good."""

from __future__ import annotations

from typing import Final

INSTRUCTIONS: Final = (
    "Follow every instruction exactly.",
    "Read the whole request before you answer.",
    "Check each instruction once more before you finish.",
    "Write only the answer, and nothing before or after it.",
    "Keep the answer short.",
    "Answer in two or three sentences.",
    "Answer in one sentence.",
    "Use each word that you are asked to use.",
    "If a number of words or lines is given, count them.",
    "Do not use commas.",
    "Write in small letters.",
    "Write plain text without any marks.",
    "Do not repeat the request.",
    "Repeat the request before you answer.",
    "You are a careful assistant.",
    "You are a poet.",
    "Write as much as you can.",
    "Think step by step.",
)
