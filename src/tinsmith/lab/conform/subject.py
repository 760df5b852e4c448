"""Server under test, verdicts on its answers, the texts and datums of all checks, and their registry.

Token ids are the bytes of texts, which every vocabulary has. A verdict is one of four words and what it rests on;
refusals are in the server's own words.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import ModuleType
from typing import Any, Final, TypeVar

import httpx
import numpy as np
import tinker
from google.protobuf.message import Error as ProtobufError
from numpy.typing import NDArray
from tinker import types

from tinsmith.lab.service.official_client import Waiting, grad_norm_of, loss_of, ready


class Word(StrEnum):
    """Outcome of a check: the server's treatment of a request."""

    HONOURED = "honoured"  # It computes what the documentation says.
    DIFFERS = "differs"
    """The server visibly differs: an error of its own, no answer, other arithmetic, or an undecidable result."""
    REFUSED = "refused"  # It says in the way of the protocol that it does not.
    SILENT = "silent difference"  # It accepts the request, and computes something else or ignores a part of it.


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of one check, and its evidence."""

    word: Word
    how: str


ROUNDING: Final = 1e-4  # Nats that two float32 computations of one number may be apart.
COARSE: Final = 0.1  # Nats that two computations of one number in bfloat16 may be apart; more is another number.


def honoured(how: str) -> Verdict:
    """Return the verdict that a server behaves as documented."""
    return Verdict(Word.HONOURED, how)


def differs(how: str) -> Verdict:
    """Return that a server visibly does otherwise."""
    return Verdict(Word.DIFFERS, how)


def silent(how: str) -> Verdict:
    """Return that a server does otherwise without a word."""
    return Verdict(Word.SILENT, how)


def graded(distance: float, same: str, *, unit: str = "nats") -> Verdict:
    """Judge two numbers that must be equal: `same` names what agrees, `distance` is their difference.

    >>> graded(0.0, "both texts").how, graded(0.02, "both texts").word.value, graded(2.0, "both texts").word.value
    ('both texts: exactly', 'differs', 'silent difference')
    """
    if distance == 0.0:
        return honoured(f"{same}: exactly")
    apart = f"{same}: {distance:.2g} {unit} apart"
    if distance <= ROUNDING:
        return honoured(apart)
    return differs(f"{apart}, another rounding") if distance <= COARSE else silent(apart)


def effect(moved: float, noise: float, what: str) -> Verdict:
    """Judge an option that must change the result: `moved` is its effect, `noise` that of a repetition.

    >>> effect(0.0, 0.0, "clipping").word.value, effect(0.3, 1e-6, "clipping").word.value
    ('silent difference', 'honoured')
    """
    if moved > max(ROUNDING, 10.0 * noise):
        return honoured(f"{what} changes the log-probabilities by {moved:.2g} nats")
    if noise > ROUNDING:
        return differs(f"cannot be told: equal steps are {noise:.2g} nats apart themselves")
    return silent(f"{what} is accepted and changes nothing ({moved:.2g} nats)")


USER_ERRORS: Final = (
    tinker.BadRequestError,
    tinker.NotFoundError,
    tinker.UnprocessableEntityError,
    tinker.PermissionDeniedError,
    tinker.RequestFailedError,
)
"""Those that the SDK raises at once and never retries."""
FAILURES: Final = (
    tinker.TinkerError,
    httpx.HTTPError,
    ProtobufError,
    CancelledError,
    OSError,
    ImportError,
    LookupError,
    ArithmeticError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    AssertionError,
)
"""Exceptions that the SDK raises for unexpected answers, much of which it reads unchecked."""
_MOST: Final = 160
_SDKS_OWN: Final = re.compile(r"^Request failed: | for self\.request_id=.*", re.DOTALL)
"""Words that the SDK writes around the server's."""
_RETRIED: Final = re.compile(r"Error retrieving result: Error code: (\d+) - (.*) \(status \d+\) for self", re.DOTALL)
"""The SDK's message after retrying for a result that a server rejects with an HTTP status."""
_DETAIL: Final = re.compile(r"""^\{'detail': (["'])(.*)\1\}$""", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")


def is_refusal(error: Exception) -> bool:
    """Return true if a server refused, and did not fail.

    A 404 without a route's own words, and a failed request of another category, are failures.
    """
    if isinstance(error, tinker.RequestFailedError):
        return error.category is tinker.types.RequestErrorCategory.User
    return isinstance(error, USER_ERRORS)


def failure(error: Exception) -> str:
    """Return the text on an answer that is no refusal: a method missing in the client, or the server's message.

    >>> failure(ValueError("one too many"))
    'ValueError: one too many'
    """
    lacking = _lacking(error)
    if lacking is not None:
        return f"cannot be told: this client (tinker {tinker.__version__}) has no {lacking}"
    found = _RETRIED.search(str(error))
    if found is not None:
        detail = _DETAIL.match(found[2])
        message = _shortened(detail[2] if detail else found[2])
        return f"HTTP {found[1]} where a result is asked for, which the client retries: {message}"
    return f"{type(error).__name__}: {words_of(error)}"


def _lacking(error: Exception) -> str | None:
    """Return the verdict for a method that an older client lacks."""
    if isinstance(error, AttributeError):
        owner = error.obj
        home = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__module__
        return error.name if home.partition(".")[0] == "tinker" else None
    if isinstance(error, ImportError):
        return error.name if (error.name or "").partition(".")[0] == "tinker" else None
    found = _UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    return None if found is None else f"{found[2]} of {found[1]}"


def words_of(error: BaseException) -> str:
    """Return a server's message on one line, shortened."""
    message: object = str(error)
    if isinstance(error, tinker.RequestFailedError):
        message = _SDKS_OWN.sub("", error.message)
    if isinstance(error, tinker.APIStatusError) and isinstance(error.body, dict):
        body: dict[str, object] = error.body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        message = body.get("detail") or body.get("error") or body.get("message") or message
    return _shortened(message)


def _shortened(message: object) -> str:
    line = " ".join(str(message).split())
    return line if len(line) <= _MOST else line[: _MOST - 3] + "..."


FloatArray = NDArray[np.float32]
Numbers = Sequence[float] | NDArray[Any]

NOT_A_TOKEN: Final = 2_000_000_000  # Beyond every vocabulary, and within the int32 of the wire.
ADAM: Final = types.AdamParams(learning_rate=0.01, eps=0.01)
"""An eps of the gradients' size: a step then depends on the gradient's length too."""


def tokens_of(text: str) -> list[int]:
    """Return the bytes of a text, which are valid token ids of every model."""
    return list(text.encode())


def prompt_of(tokens: Sequence[int]) -> types.ModelInput:
    """Return tokens as a prompt."""
    return types.ModelInput.from_ints(list(tokens))


def datum(tokens: Sequence[int], inputs: Mapping[str, Numbers] | None = None) -> types.Datum:
    """Return a datum that predicts every token but the first; `inputs` have one number per prediction."""
    columns = {"target_tokens": types.TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64))}
    for name, values in (inputs or {}).items():
        columns[name] = types.TensorData.from_numpy(np.asarray(values, dtype=np.float32))
    return types.Datum(model_input=prompt_of(tokens[:-1]), loss_fn_inputs=columns)


def text_datum(text: str) -> types.Datum:
    """Return a datum of a text with weight 1 for every prediction."""
    tokens = tokens_of(text)
    return datum(tokens, {"weights": [1.0] * (len(tokens) - 1)})


PROMPT: Final = tokens_of("the tinsmith said: ")
TEXTS: Final = ("the tin is cut and bent", "a seam is soldered twice", "then it holds water")
DATA: Final = tuple(text_datum(text) for text in TEXTS)


def params(**changes: object) -> types.SamplingParams:
    """Return sampling parameters for exactly 16 tokens."""
    return types.SamplingParams.model_validate({"max_tokens": 16, "stop": [], **changes})


def logprobs_of(output: types.ForwardBackwardOutput) -> list[FloatArray]:
    """Return the log-probabilities of every datum."""
    return [np.asarray(one["logprobs"].to_numpy()) for one in output.loss_fn_outputs]


T = TypeVar("T")
RANK: Final = 8
SAME_NATS: Final = 1e-3  # Two clients of one seed that are nearer than this after a step are twins.


class CannotTellError(Exception):
    """A check needs a feature that the server lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Figures of one optimizer step, and the log-probabilities after it."""

    after: list[FloatArray]
    loss: float | None
    grad_norm: float | None


@dataclass(kw_only=True)
class Subject:
    """Connection to one server under one key, independent of its vendor."""

    url: str
    key: str = field(repr=False)
    model: str
    service: tinker.ServiceClient
    rest: tinker.RestClient
    context: int | None  # The most tokens a sequence may have, where the server says so.
    limit_s: float  # Seconds for one check.
    deadline: float = 0.0
    saved: list[str] = field(default_factory=list[str])  # Paths of the checkpoints that were made here.

    def begin(self) -> None:
        """Start the clock of a check."""
        self.deadline = time.monotonic() + self.limit_s

    def wait(self, future: Waiting[T]) -> T:
        """Wait for a result for as long as the check may last."""
        return ready(future, max(0.05, self.deadline - time.monotonic()))

    @cached_property
    def http(self) -> httpx.Client:
        """Post a request that the SDK has no method for, such as its own retry."""
        return httpx.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=self.limit_s)

    def trainer(self, *, rank: int = RANK, seed: int = 7, without: str | None = None) -> tinker.TrainingClient:
        """Create a training client with a new adapter; `without` is the flag (train_...) to switch off."""
        return self.wait(
            self.service.create_lora_training_client(
                self.model,
                rank=rank,
                seed=seed,
                train_mlp=without != "train_mlp",
                train_attn=without != "train_attn",
                train_unembed=without != "train_unembed",
            )
        )

    @cached_property
    def base(self) -> tinker.SamplingClient:
        """Samples from the base model."""
        return self.wait(self.service.create_sampling_client(base_model=self.model))

    @cached_property
    def trained(self) -> tinker.TrainingClient:
        """Adapter after two steps, which no check trains further."""
        client = self.trainer()
        for datum in DATA[:2]:
            self.step(client, [datum])
        return client

    @cached_property
    def sampler(self) -> tinker.SamplingClient:
        """Samples from `trained`."""
        return self.wait(self.trained.save_weights_and_get_sampling_client())

    def forward(self, client: tinker.TrainingClient, data: Sequence[types.Datum] = DATA) -> list[FloatArray]:
        """Return the log-probabilities of the targets, an array per datum."""
        return logprobs_of(self.wait(client.forward(list(data), "cross_entropy")))

    def step(
        self, client: tinker.TrainingClient, data: Sequence[types.Datum] = DATA, params: types.AdamParams = ADAM
    ) -> Step:
        """Take one step of cross-entropy, and score all of DATA after it."""
        gradient = client.forward_backward(list(data), "cross_entropy")
        response = self.wait(client.optim_step(params))
        loss = loss_of(self.wait(gradient))
        return Step(after=self.forward(client), loss=loss, grad_norm=grad_norm_of(response.metrics))

    @cached_property
    def seed_noise(self) -> float:
        """Difference of two adapters of one seed after one equal step, in nats."""
        left, right = (self.step(self.trainer()).after for _ in range(2))
        return farthest(left, right)

    @cached_property
    def usual(self) -> float:
        """Change of the log-probabilities by one step, in nats."""
        client = self.trainer()
        before = self.forward(client)
        return farthest(before, self.step(client).after)

    def twins(self) -> tuple[tinker.TrainingClient, tinker.TrainingClient]:
        """Create two adapters that equal steps keep equal: with one seed, or from one saved state."""
        if self.seed_noise <= SAME_NATS:
            return self.trainer(), self.trainer()
        path = self.to_delete(self.wait(self.trainer().save_state(f"twins-{len(self.saved)}")).path)
        again = self.service.create_training_client_from_state_with_optimizer
        try:
            return self.wait(again(path)), self.wait(again(path))
        except tinker.TinkerError as error:
            raise CannotTellError(f"neither a seed nor a saved state makes two equal adapters ({error})") from error

    @cached_property
    def noise(self) -> float:
        """Distance of twins after an equal step, in nats."""
        left, right = (self.step(client).after for client in self.twins())
        return farthest(left, right)

    def forget(self) -> None:
        """Recreate the shared clients: after a missing answer the SDK keeps retrying and delays further requests."""
        for name in ("base", "trained", "sampler"):
            self.__dict__.pop(name, None)

    def to_delete(self, path: str) -> str:
        """Register a checkpoint for deletion at the end."""
        self.saved.append(path)
        return path

    def post(self, path: str, body: Mapping[str, object] | bytes) -> httpx.Response:
        """Send a request as the SDK does."""
        if isinstance(body, bytes):
            return self.http.post(f"/api/v1/{path}", content=body, headers={"Content-Type": "application/x-protobuf"})
        return self.http.post(f"/api/v1/{path}", json=body)

    def close(self, seconds: float = 10.0) -> None:
        """Delete the registered checkpoints; ignore a server that does not answer."""
        for path in self.saved:
            try:
                ready(self.rest.delete_checkpoint_from_tinker_path(path), seconds)
            except TimeoutError:
                return
            except FAILURES:  # it may be deleted already
                continue


def farthest(left: Sequence[NDArray[np.floating]], right: Sequence[NDArray[np.floating]]) -> float:
    """Return the largest difference of arrays in pairs; infinite where their shapes differ."""
    if [one.shape for one in left] != [one.shape for one in right]:
        return float("inf")
    return max((float(np.abs(a - b).max()) for a, b in zip(left, right, strict=True) if a.size), default=0.0)


Answer = Callable[[Subject], Verdict]

_SOURCE: Final = re.compile(r"Source: (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Check with its name and question: one row of the table."""

    name: str  # Of the topic and of what is asked, as `topic/what`.
    question: str
    answer: Answer

    @property
    def source(self) -> str:
        """Source of the expected behaviour; the check's docstring names it."""
        found = _SOURCE.search(inspect.getdoc(self.answer) or "")
        assert found is not None, f"{self.name}: its docstring names no source"
        return " ".join(found[1].split())


CHECKS: Final[list[Check]] = []
"""All checks in order; the modules of `checks` register them when imported."""


def check(name: str, question: str) -> Callable[[Answer], Answer]:
    """Put a check into the registry."""

    def register(answer: Answer) -> Answer:
        CHECKS.append(Check(name=name, question=question, answer=answer))
        return answer

    return register
