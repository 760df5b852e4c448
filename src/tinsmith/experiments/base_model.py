"""The nano base: a small decoder and its tokenizer, built from scratch, the same bits on every machine.

It reads abstracts and, after them, answers in the contract whose labels are drawn uniformly at random. So it answers in
the contract most of the time and knows nothing of the labels, as the seeds' model did at step 0. A tenth of the answers
break the contract, so that there is something to learn about it too. After every second abstract it is asked for words
of it instead: a model that never had to look back at a text needs many more rollouts before it finds anything there.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinsmith.engine.engine import Engine
from tinsmith.engine.training import TrainingSession
from tinsmith.models.folder import write_folder
from tinsmith.models.presets import PRESETS, initial_weights
from tinsmith.models.slots import values
from tinsmith.models.staging import staged
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.renderers.tokenizer import save_tokenizer, train_tokenizer
from tinsmith.tasks.contracts import Confidence
from tinsmith.tasks.environment import SingleTurn
from tinsmith.tasks.paper import Item
from tinsmith.tasks.task import Task
from tinsmith.training.schedule import batch
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive, random_bits

CARD = "base.json"
"""What a base was built from, in its folder."""

_NAME = "base"

Progress = Callable[[int, int, float], None]
"""(step, steps, nats per token)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecipe:
    """How a base is built; its identity together with the papers it reads."""

    preset: str = "nano"
    """The shape, but for the next three."""
    num_layers: int = 2
    vocab_size: int = 2048
    max_positions: int = 1024
    steps: int = 240
    batch_size: int = 32
    learning_rate: float = 4e-3
    warm_up: int = 20
    broken: float = 0.1
    """Share of demonstrations that break the contract."""
    reading_every: int = 2
    """Every so many-th demonstration asks for words of the abstract instead of a label; 0: none."""
    seed: int = 0


def build_base(
    recipe: BaseRecipe,
    tasks: Sequence[Task],
    items: Sequence[Item],
    out: Path,
    *,
    told: Progress | None = None,
) -> None:
    """Build the base from these papers and write it to `out`, a Hugging Face folder that appears whole or not at all.

    Raises:
        DataError: there are too few papers.
    """
    if len(items) < recipe.batch_size:
        raise DataError(
            "a base model needs papers to read",
            field="papers",
            value=len(items),
            allowed=f"{recipe.batch_size} or more",
        )
    config = dataclasses.replace(
        PRESETS[recipe.preset],
        num_layers=recipe.num_layers,
        vocab_size=recipe.vocab_size,
        max_positions=recipe.max_positions,
    )
    demonstrations = _demonstrations(recipe, tasks, items)
    tokenizer = train_tokenizer(
        [message.content for demonstration in demonstrations for message in demonstration],
        recipe.vocab_size,
    )
    renderer = renderer_for(tokenizer)
    examples = [
        np.array(renderer.build_supervised_example(demonstration)[0], dtype=np.int32)
        for demonstration in demonstrations
    ]
    with tempfile.TemporaryDirectory() as fresh:
        write_folder(Path(fresh), config, initial_weights(config, derive(recipe.seed, "weights")))
        engine = Engine({_NAME: fresh})
        session = engine.create_session(_NAME, AdapterSpec(kind=AdapterKind.FULL))
    _pretrain(session, recipe, examples, told)
    with staged(out) as folder:
        write_folder(folder, config, values(session.adapter.decoder.slots))
        save_tokenizer(tokenizer, folder)
        (folder / CARD).write_text(json.dumps(dataclasses.asdict(recipe), indent=1) + "\n")


def _demonstrations(
    recipe: BaseRecipe, tasks: Sequence[Task], items: Sequence[Item]
) -> list[tuple[Message, ...]]:
    """One conversation a paper: its prompt for a task, and an answer that has nothing to do with its label."""
    bits = random_bits(derive(recipe.seed, "answers"), 3 * len(items))
    unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    conversations: list[tuple[Message, ...]] = []
    for i, item in enumerate(items):
        task = tasks[i % len(tasks)]
        label = task.labels[int(unit[3 * i] * len(task.labels))]
        confidence = tuple(Confidence)[int(unit[3 * i + 1] * len(Confidence))]
        answer = task.contract.answer_text(label, confidence)
        if unit[3 * i + 2] < recipe.broken:
            answer = _broken(answer, label, unit[3 * i + 2] / recipe.broken)
        first = SingleTurn(task, item).first()
        if recipe.reading_every and i % recipe.reading_every == 0:
            first, answer = _reading(first, item.paper.abstract, derive(recipe.seed, "words", i))
        conversations.append((*first, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def _reading(
    prompt: tuple[Message, ...], abstract: str, seed: int
) -> tuple[tuple[Message, ...], str]:
    """The same paper with another last line, which asks for words of its abstract; and three of them, at random."""
    *before, last = prompt
    paper, _, _ = last.content.rpartition("\n")
    words = abstract.split() or ["none"]
    named = [words[int(bit) % len(words)].strip(".,") for bit in random_bits(seed, 3)]
    asked = Message(role=last.role, content=f"{paper}\nReturn words.")
    return (*before, asked), json.dumps(named, ensure_ascii=False)


def _broken(answer: str, label: str, unit: float) -> str:
    """An answer that breaks the contract in one of the ways that models do."""
    fenced = f"```json\n{answer}\n```"
    return (fenced, label, answer[:-1], f"The paper is {label}.")[int(unit * 4)]


def _pretrain(
    session: TrainingSession,
    recipe: BaseRecipe,
    examples: Sequence[NDArray[np.int32]],
    told: Progress | None,
) -> None:
    """Cross-entropy on every token, mean over a batch's tokens; the learning rate rises, then falls to a tenth."""
    for step in range(recipe.steps):
        read = batch(examples, recipe.batch_size, step, recipe.seed)
        total = sum(len(tokens) - 1 for tokens in read)
        datums = [
            Datum(
                tokens=tokens[:-1],
                inputs={
                    "target_tokens": tokens[1:],
                    "weights": np.full(len(tokens) - 1, 1.0 / total, np.float32),
                },
            )
            for tokens in read
        ]
        loss = session.forward_backward(datums, LossName.CROSS_ENTROPY).metrics["loss:sum"]
        session.optim_step(
            AdamParams(learning_rate=_rate(recipe, step), eps=1e-8, grad_clip_norm=1.0)
        )
        if told is not None:
            told(step + 1, recipe.steps, loss)


def _rate(recipe: BaseRecipe, step: int) -> float:
    """Linear up over the warm-up, then linear down to a tenth: only exact steps, so the same everywhere."""
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    left = (recipe.steps - step) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * (0.1 + 0.9 * left)
