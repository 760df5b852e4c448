"""A trained policy that can be asked: the server of its run's folder, started again where it is needed.

What it is asked goes through the Tinker API, like the training: the same tokens, the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import tinker
from numpy.typing import NDArray

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.scores import label_logprobs
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Sampling, sample_groups
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.official_client import ready
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.errors import BackendError, LostError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(slots=True, kw_only=True)
class Policy:
    """The chosen checkpoint of one run; close it when it is no longer asked."""

    task: Task
    sampler_path: str
    base_url: str | None
    """None: a server is started for it."""
    embedded: EmbeddedSettings
    max_tokens: int
    tokenizer: PreTrainedTokenizerBase | None
    """None: that of the model's folder, or as the server calls the model."""
    connection: Connection | None = field(default=None, repr=False)
    """None: it is opened when it is needed."""
    _client: tinker.SamplingClient | None = field(default=None, repr=False, init=False)

    def __reduce__(self) -> tuple[partial[Policy], tuple[()]]:
        """A copy knows where to ask, and opens a connection of its own."""
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return partial(Policy, **{**named, "connection": None}), ()

    def label_logprobs(self, items: Sequence[Item]) -> NDArray[np.float64]:
        """Return [N, K] log-probabilities of the openings of the task's labels; not normalised."""
        with self._asked() as (client, study):
            return label_logprobs(client, study, items)

    def answers(self, items: Sequence[Item], *, temperature: float, seed: int) -> list[Answer]:
        """Return what the contract reads in one answer a paper."""
        sampling = Sampling(samples=1, max_tokens=self.max_tokens, temperature=temperature, seed=seed)
        with self._asked() as (client, study):
            groups = sample_groups(client, study, items, sampling)
        found: list[Answer] = []
        for (one,) in groups:
            if isinstance(one, Failure):
                raise LostError(f"an answer failed: {one.what}")
            found.append(one.answer)
        return found

    def close(self) -> None:
        """Stop the server, if one was started; harmless when repeated."""
        self._client = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    @contextmanager
    def _asked(self) -> Generator[tuple[tinker.SamplingClient, LabelledPapers], None, None]:
        try:
            client = self._open()
            self.tokenizer = tokenizer = self.tokenizer or self._find_tokenizer(client)
            yield (
                client,
                LabelledPapers(
                    task=self.task,
                    papers=Papers(train=(), validation=(), test=()),
                    renderer=renderer_for(tokenizer),
                    tokenizer=tokenizer,
                ),
            )
        except (tinker.TinkerError, BackendError, TimeoutError) as error:
            self.close()
            raise LostError(f"the model cannot be asked: {error}".splitlines()[0]) from error

    def _find_tokenizer(self, client: tinker.SamplingClient) -> PreTrainedTokenizerBase:
        for source in self.embedded.models.values():
            return tokenizer_of(source)
        return client.get_tokenizer()

    def _open(self) -> tinker.SamplingClient:
        if self._client is None:
            self.connection = self.connection or open_connection(self.base_url, self.embedded)
            made = self.connection.client.create_sampling_client(model_path=self.sampler_path)
            self._client = ready(made, WAIT_SECONDS)
        return self._client
