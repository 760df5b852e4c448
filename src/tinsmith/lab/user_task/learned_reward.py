"""A reward that is learned: a linear model of an answer's features, refitted during a run to labels of its answers."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

import numpy as np

from tinsmith.lab.hidden_states import LastStates
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.step_reward import Conversation, Failed, Groups, Scored, StepReward
from tinsmith.stats.ridge import Floats, Moments, dots, solve
from tinsmith.types.errors import ConfigError, DataError

Features = Callable[[Any, str], str | Sequence[float]]
"""(item, answer) -> features; or a text, for its hidden state in the untrained base's last layer."""
LEARNED: Final = "learned"
LABEL: Final = "label"
FEATURES: Final = "features"


@dataclass(slots=True, kw_only=True)
class LearnedReward(StepReward):
    """Reward predicted by ridge regression from the labels of earlier answers.

    It is fitted after the first step, and then every so many; nothing is paid before. Evaluations do not enter it. The
    label of an answer is measured as `label` and not paid.
    """

    terms: ClassVar[tuple[str, ...]] = (LEARNED,)
    metrics: ClassVar[tuple[str, ...]] = (LABEL,)

    label: Callable[[Any, str], float]
    """(item, answer) -> its label, such as a person's rating."""
    features: Features
    every: int = 5
    """Steps between fits."""
    decay: float = 1.0
    """Weight of earlier steps' answers at each step, beside those of the step."""
    ridge: float = 0.01
    """Penalty on the squared weights, beside the mean squared error."""
    states: LastStates | None = field(default=None, init=False)
    steps: int = field(default=0, init=False)
    moments: Moments | None = field(default=None, init=False)
    """Of the answers so far, with a constant 1 behind their features."""
    weights: Floats | None = field(default=None, init=False)
    """Fitted weights; None before the first fit."""

    def open(self, model: Callable[[], str]) -> None:
        """Prepare the hidden states of the run's base."""
        self.states = LastStates(model)

    def __call__(self, answers: Sequence[Conversation]) -> list[Any]:
        """Return the learned reward and the label of each answer, a Scored; one without a label is a Failed."""
        read = [self.read(one) for one in answers]
        known = [one for one in read if not isinstance(one, Failed)]
        if not known:
            return read
        x_ND = self.featured([features for _, features in known])
        u_N = np.array([label for label, _ in known], np.float64)
        learned = np.zeros(len(known)) if self.weights is None else dots(x_ND, self.weights)
        moments = Moments.none(x_ND.shape[1]) if self.moments is None else self.moments
        after = moments.with_rows(x_ND, u_N, self.decay)
        paid = learned if self.weights is None else self.paid(learned, u_N, x_ND, after)
        self.moments = after
        if self.steps % self.every == 0:
            self.weights = after.fitted(self.ridge)
        self.steps += 1
        scored = (
            Scored(terms={LEARNED: float(one)}, metrics={LABEL: float(label)}, record={"predicted": float(predicted)})
            for one, label, predicted in zip(paid, u_N, learned, strict=True)
        )
        return [one if isinstance(one, Failed) else next(scored) for one in read]

    def read(self, one: Conversation) -> tuple[float, str | Sequence[float]] | Failed:
        """Return the label and the features of an answer; a Failed where one raises, or is no finite number."""
        label = attempt(lambda: float(self.label(one.item, one.text)))
        numbers = features = attempt(self.features, one.item, one.text)
        if not isinstance(numbers, str | Raised):
            features = attempt(lambda: [float(one) for one in numbers])
        for name, found in ((LABEL, label), (FEATURES, features)):
            if isinstance(found, Raised):
                return Failed(name, str(found))
            if (wrong := _not_finite(found)) is not None:
                return Failed(name, f"it returned {wrong}, not a finite number")
        return cast("tuple[float, str | Sequence[float]]", (label, features))

    def paid(self, learned_N: Floats, labels_N: Floats, x_ND: Floats, moments: Moments) -> Floats:
        """Return the answers' rewards; a subclass may steer by their effect on the next fit."""
        del labels_N, x_ND, moments
        return learned_N

    def featured(self, found: Sequence[str | Sequence[float]]) -> Floats:
        """Return the features of answers as rows, with a constant 1 appended; raise DataError where they differ."""
        if len(kinds := {"text" if isinstance(one, str) else f"{len(one)} numbers" for one in found}) > 1:
            raise DataError("answers have different features", field=FEATURES, value=sorted(kinds), allowed="one kind")
        if all(isinstance(one, str) for one in found):
            if self.states is None:
                raise ConfigError("features of a text exist only within a run", field="features", fix="return numbers")
            rows = self.states(cast("list[str]", found))
        else:
            rows = np.array(found, np.float64)
        return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)

    def state(self) -> Mapping[str, object] | None:
        """Return the sums and the weights, in full."""
        if self.moments is None or self.weights is None:
            return None
        parts = (self.moments.outer_DD, self.moments.labelled_D, self.weights)
        packed = [base64.b64encode(one.astype("<f8").tobytes()).decode() for one in parts]
        return {"steps": self.steps, "weight": self.moments.weight, "parts": packed}

    def restore(self, state: object) -> None:
        """Restore the state of a checkpoint."""
        self.steps, self.moments, self.weights = 0, None, None
        if state is not None:
            saved = cast("Mapping[str, Any]", state)
            outer, labelled, weights = (np.frombuffer(base64.b64decode(one), "<f8").copy() for one in saved["parts"])
            moments = Moments(saved["weight"], outer.reshape(len(labelled), len(labelled)), labelled)
            self.steps, self.moments, self.weights = saved["steps"], moments, weights

    def train_figures(self, groups: Groups) -> Mapping[str, float]:
        """Return the mean of a step's predicted rewards minus labels."""
        scored = [one for group in groups for one in group if isinstance(one, Scored)]
        if not scored or self.steps < 2:
            return {}
        gaps = [float(str(one.record["predicted"])) - (one.metrics[LABEL] or 0.0) for one in scored]
        return {"overrated": math.fsum(gaps) / len(gaps)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsAlone(StepReward):
    """Reward by the labels themselves, for a dry run, which fits no model."""

    learned: LearnedReward

    terms: ClassVar[tuple[str, ...]] = (LABEL,)

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored | Failed]:
        """Return each answer's label, or the failure of its label or features."""
        return [self._scored(one) for one in answers]

    def _scored(self, one: Conversation) -> Scored | Failed:
        read = self.learned.read(one)
        return read if isinstance(read, Failed) else Scored(terms={LABEL: read[0]})


def _not_finite(found: float | str | Sequence[float]) -> float | None:
    numbers = () if isinstance(found, str) else found if isinstance(found, Sequence) else (found,)
    return next((one for one in numbers if not math.isfinite(one)), None)


def influence(moments: Moments, ridge: float, x_ND: Floats, mean_D: Floats) -> Floats:
    """Return g H^-1 x of each row, where g is the mean row of the policy's answers and H the Hessian of the fit.

    With r = phi x and an answer's label u, the gradient of E[r] and of what the policy does to the next fit phi is that
    of paying r - (r - u) g H^-1 x (arXiv:2605.04266: the steering term, of a linear model and squared errors), where
    all answers of the fit are the policy's. Where earlier ones stay as they were, g is to be multiplied by the share of
    the weights that the policy's have.
    """
    return dots(x_ND, solve(moments.hessian(ridge), mean_D))
