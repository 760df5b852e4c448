"""The model under the cookbook: random weights with one habit, and a tokenizer of bytes.

A random model earns no reward, so no recipe would train. This one has its last layer bent so that, after the colon that
ends `Assistant:`, it writes `\\boxed{2}` (two times of three) or `\\boxed{1}` (one of five), and stops. Tasks that have
one of the two as their answer are then solved sometimes, and groups have something to learn from.
"""

from pathlib import Path

from bent_model import END, byte_tokenizer, write_bent_model

NAME = "Qwen/Qwen3-8B-Base"
"""The recipes look a model's renderer up by its name, so the tiny one goes by the name of a large one."""

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""The special tokens of Qwen's chats."""

HABIT = (":", "\\", "b", "o", "x", "e", "d", "{", "12", "}")
"""Each is followed by the next, and the last by the end of the text."""


def write_model(folder: Path) -> None:
    """Save the model and its tokenizer; the same files every time."""
    tokenizer = byte_tokenizer(SPECIAL)
    steps = [[tokenizer.encode(c)[0] for c in text] for text in HABIT]
    write_bent_model(folder, tokenizer, [[*steps, [END]]])
