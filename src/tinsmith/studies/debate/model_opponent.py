"""A frozen model as challenger: it writes what it is told to argue for, sampled with a seed of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import tinker
from tinker import types

from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS
from tinsmith.renderers.renderer import Renderer
from tinsmith.studies.debate.script import Script
from tinsmith.studies.debate.stance import Arms, Stance
from tinsmith.studies.debate.transcript import Transcript
from tinsmith.types.errors import InputError
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True)
class Asked:
    """A challenge that is being written."""

    stance: Stance
    renderer: Renderer
    future: tinker.APIFuture[types.SampleResponse]

    def text(self) -> str:
        """See Pending.

        Raises:
            TinkerError: the server failed.
        """
        (sequence,) = self.future.result(WAIT_SECONDS).sequences
        return self.renderer.parse_response(sequence.tokens).message.content.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOpponent:
    """See Opponent; whether the words it quotes speak for anything, nobody knows."""

    client: tinker.SamplingClient
    renderer: Renderer
    script: Script
    labels: tuple[str, ...]
    arms: Arms
    max_tokens: int
    temperature: float

    def challenge(self, seen: Transcript, seed: int) -> Asked:
        """Ask for a challenge; see Opponent.

        Raises:
            InputError: nothing was answered yet.
        """
        if seen.final is None:
            raise InputError("there is no answer to challenge")
        stance = self.arms.draw(seen.item, self.labels, seen.final.predicted, seed)
        said = seen.turns[-1].message.content
        request = self.script.request(stance, seen.item.paper, said)
        future = self.client.sample(
            types.ModelInput.from_ints(list(self.renderer.build_generation_prompt((request,)))),
            1,
            types.SamplingParams(
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                seed=derive(seed, "challenge", seen.item.paper.id, said) % 2**SEED_BITS,
                stop=list(self.renderer.stop_sequences()),
            ),
        )
        return Asked(replace(stance, grounded=None), self.renderer, future)
