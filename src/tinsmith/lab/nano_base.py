"""Training of a nano base from scratch: decoder and tokenizer, with the same bits on every machine.

What a base reads is someone else's to say (a `base.py` of its own): it learns to continue conversations,
prompts and replies alike, and nothing of what will be rewarded later.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.engine import Engine
from tinsmith.engine.training import TrainingSession
from tinsmith.lab.base_recipe import BaseRecipe, Conversation, Progress
from tinsmith.lab.experiment.estimate import remember_steps, slower_steps
from tinsmith.lab.experiment.materials import CARD
from tinsmith.lab.live.progress import duration, other_work, slowdown
from tinsmith.lab.schedule import batch
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.models.staging import one_writer, present, staged
from tinsmith.ops.extension import native, physical_cores
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.tokenizer import save_tokenizer, train_tokenizer
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import bases_folder, certificates_folder
from tinsmith.types.seeds import derive
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say, ticking, unsaid

_NAME = "base"
_STEP_SECONDS: Final = 0.029  # What a step takes whatever it reads, of all weights of the nano shape on two cores.
_TOKENS_PER_SECOND: Final = 44_000  # What it reads beside that; both from 1,000 steps of 670 tokens and 240 of 6,300.
_PREPARING_SECONDS: Final = 3.0  # Of a tokenizer, texts and a certificate.
_PROBED: Final = (16, 42)  # Texts and tokens of each of a step that tells how fast this machine is.
_PROBED_STEPS: Final = 8  # The first ones are slower.
_TELLING_STEPS: Final = 50  # So many steps of a base that is built tell more.


def build_base(
    recipe: BaseRecipe, conversations: Sequence[Conversation], out: Path, *, say: Progress | None = None
) -> None:
    """Build the base from these conversations into `out`, a Hugging Face folder that appears whole or not at all."""
    if len(conversations) < recipe.batch_size:
        what, allowed = "there are too few texts to train a base model on", f"{recipe.batch_size} or more"
        fix = "train on more items, or name a model: model_name=..."
        raise DataError(what, field="conversations", value=len(conversations), allowed=allowed, fix=fix)
    config = dataclasses.replace(
        PRESETS[recipe.preset],
        num_layers=recipe.num_layers,
        vocab_size=recipe.vocab_size,
        max_positions=recipe.max_positions,
    )
    tokenizer = train_tokenizer(
        [message.content for conversation in conversations for message in conversation], recipe.vocab_size
    )
    renderer = renderer_for(tokenizer)
    examples = [
        np.array(renderer.build_supervised_example(conversation)[0], dtype=np.int32) for conversation in conversations
    ]
    with tempfile.TemporaryDirectory() as fresh:
        write_folder(Path(fresh), config, initial_weights(config, derive(recipe.seed, "weights")))
        engine = Engine({_NAME: fresh}, certificate_store=CertificateStore(certificates_folder()))
        session = engine.create_session(_NAME, AdapterSpec(kind=AdapterKind.FULL))
    _pretrain(session, recipe, examples, say)
    with staged(out) as folder:
        write_folder(folder, config, values(session.adapter.decoder.slots))
        save_tokenizer(tokenizer, folder)
        (folder / CARD).write_text(json.dumps(dataclasses.asdict(recipe), indent=1) + "\n")


def cached_base(recipe: BaseRecipe, conversations: Sequence[Conversation], say: Say) -> Path:
    """Return the folder of a base, built below TINSMITH_HOME unless cached."""
    place = _place(recipe, conversations)
    doing, began, forecast = "  base: preparing its texts", 0.0, 0.0

    def progress(step: int, steps: int, loss: float) -> None:
        nonlocal doing, began
        began = time.perf_counter() if step == 1 else began
        seconds = seconds_left(step, steps, time.perf_counter() - began, forecast)
        left = f", about {duration(seconds)} left" if step < steps else ""
        doing = f"  base: step {step}/{steps}, {loss:.3f} nats a token{left}"

    with one_writer(place):
        if not present(place).is_dir():
            say("building a base model from scratch, once")
            with ticking(lambda: doing, say):
                slower = 1.0 if say is unsaid else slowdown(physical_cores())
                forecast = 60 * slower * building_minutes(recipe, conversations)
                build_base(recipe, conversations, place, say=progress)
            say(doing)
            if say is not unsaid and recipe.steps >= _TELLING_STEPS:
                each = (time.perf_counter() - began) / recipe.steps
                remember_steps(each / slower / _step_seconds(_tokens(recipe, conversations)))
    return present(place)


def seconds_left(step: int, steps: int, took: float, forecast: float) -> float:
    """Return the seconds left, by those since the first step and a forecast that counts as a tenth of the steps."""
    known = 0.1 * steps
    return (took + known * forecast / steps) / (step - 1 + known) * (steps - step)


def _place(recipe: BaseRecipe, conversations: Sequence[Conversation]) -> Path:
    key = sha256_of({"version": VERSION, "recipe": recipe, "read": conversations})
    return bases_folder() / key[:16]


def missing_base(recipe: BaseRecipe, conversations: Sequence[Conversation]) -> dict[Path, float]:
    """Return the minutes to build a base on two cores, by its place; empty if it is cached."""
    place = _place(recipe, conversations)
    return {} if present(place).is_dir() else {place: building_minutes(recipe, conversations)}


def building_minutes(recipe: BaseRecipe, conversations: Sequence[Conversation]) -> float:
    """Return the time to build a base here, from the length of its texts, and from what its steps take here."""
    steps = recipe.steps * _step_seconds(_tokens(recipe, conversations))
    return (_PREPARING_SECONDS + steps) * slower_here() / 60


def _tokens(recipe: BaseRecipe, conversations: Sequence[Conversation]) -> float:
    """Return the tokens of a step, from the length of the first texts."""
    read = conversations[: recipe.batch_size]
    characters = sum(len(message.content) for conversation in read for message in conversation) / max(1, len(read))
    return recipe.batch_size * characters / recipe.characters_per_token


def _step_seconds(tokens: float) -> float:
    return _STEP_SECONDS + tokens / _TOKENS_PER_SECOND


def slower_here() -> float:
    """Return how many times as long steps take here; where no base was built, from the shortest of a few, once."""
    if (known := slower_steps()) is not None:
        return known
    if native is None:
        return 1.0
    (texts, length), threads = _PROBED, torch.get_num_threads()
    config = PRESETS["nano"]
    decoder = build_decoder(config, initial_weights(config, 0), NativeKernels())
    session = TrainingSession(create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL)))
    read = [(np.arange(length + 1, dtype=np.int32) * 7 + 3 * text) % config.vocab_size for text in range(texts)]
    took: list[float] = []
    torch.set_num_threads(1)  # as in an engine
    for _ in range(_PROBED_STEPS):
        began = time.perf_counter()
        pretrain_step(session, read, 0.0)
        took.append(time.perf_counter() - began)
    torch.set_num_threads(threads)
    remember_steps(min(took) / other_work() / _step_seconds(texts * length), saves=False)
    return slower_steps() or 1.0


def _pretrain(
    session: TrainingSession, recipe: BaseRecipe, examples: Sequence[NDArray[np.int32]], say: Progress | None
) -> None:
    """Train on batches of examples; the learning rate rises, then falls to a tenth."""
    for step in range(recipe.steps):
        loss = pretrain_step(session, batch(examples, recipe.batch_size, step, recipe.seed), _rate(recipe, step))
        if say is not None:
            say(step + 1, recipe.steps, loss)


def pretrain_step(session: TrainingSession, read: Sequence[NDArray[np.int32]], learning_rate: float) -> float:
    """Take a step on the cross-entropy of all tokens of texts, and return its mean in nats per token."""
    total = sum(len(tokens) - 1 for tokens in read)
    datums = [
        Datum(
            tokens=tokens[:-1],
            inputs={"target_tokens": tokens[1:], "weights": np.full(len(tokens) - 1, 1.0 / total, np.float32)},
        )
        for tokens in read
    ]
    loss = session.forward_backward(datums, LossName.CROSS_ENTROPY).metrics["loss:sum"]
    session.optim_step(AdamParams(learning_rate=learning_rate, eps=1e-8, grad_clip_norm=1.0))
    return loss


def _rate(recipe: BaseRecipe, step: int) -> float:
    """Learning rate: linear warm-up, then linear decay to a tenth; exact operations only, equal on every machine."""
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    left = (recipe.steps - step) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * (0.1 + 0.9 * left)
