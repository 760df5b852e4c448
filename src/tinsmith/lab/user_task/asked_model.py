"""The frozen model that a task asks: found by its name, and asked with seeds through the Tinker API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tinker
from tinker import types

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import is_loaded_here, served_name
from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import serves
from tinsmith.lab.service.official_client import ready
from tinsmith.lab.user_task.task import ITSELF, Model
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model that can be asked."""

    client: tinker.SamplingClient
    renderer: Renderer
    model: Model

    def ask(self, prompt: str, seed: int) -> Callable[[], str]:
        """Begin a question; return what waits for its answer."""
        message = Message(role=Role.USER, content=prompt)
        future = self.client.sample(
            types.ModelInput.from_ints(list(self.renderer.build_generation_prompt((message,)))),
            1,
            types.SamplingParams(
                max_tokens=self.model.max_tokens,
                temperature=self.model.temperature,
                seed=seed % 2**SEED_BITS,
                stop=list(self.renderer.stop_sequences()),
            ),
        )

        def answer() -> str:
            (sequence,) = future.result(WAIT_SECONDS).sequences
            return self.renderer.parse_response(sequence.tokens).message.content

        return answer


def loaded_beside(plan: Plan, model: Model) -> dict[str, str]:
    """Return the model where it is one of this machine: the run's own server serves it too."""
    loaded = model.name != ITSELF and is_loaded_here(model.name, plan.circumstances)
    return {model.key: model.name} if loaded else {}


def open_model(plan: Plan, model: Model, connection: Connection, own: PreTrainedTokenizerBase) -> AskedModel:
    """Return a task's model as the run's server has it; `own` is the tokenizer of the model that is trained."""
    trained = served_name(plan.circumstances.model_name, plan.circumstances.base_url)
    beside = loaded_beside(plan, model)
    name = model.key if beside else trained if model.name == ITSELF else model.name
    if name != trained and not serves(connection, name):
        raise ConfigError(
            "this run's server has no such model",
            field=model.key,
            value=model.name,
            allowed=f"{ITSELF}, a folder, FILE.gguf, smollm2, or a name that base_url serves",
        )
    client = ready(connection.client.create_sampling_client(base_model=name), WAIT_SECONDS)
    if beside:
        tokenizer = tokenizer_of(model.name)
    else:
        tokenizer = own if name == trained else client.get_tokenizer()
    return AskedModel(client=client, renderer=renderer_for(tokenizer), model=model)
