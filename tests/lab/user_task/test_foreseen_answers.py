"""A loss on what the environment answers: on which tokens, with what weight, and the policy's own as it was."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from types import SimpleNamespace
from typing import Any

import pytest
from tinker import types

from tinsmith.cli.registered import plan_of
from tinsmith.lab.grouping import Scored, ScoredGroup, answered_logprobs, known_logprobs, policy_datum
from tinsmith.lab.policy import update_policy
from tinsmith.lab.rollouts import Rollout, Turn
from tinsmith.lab.settings import RlSettings, identity_settings
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.lab.user_task.subject import TemplateBorders
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import ConfigError

FIRST = Turn(observation=(1, 2, 3), tokens=(4, 5), logprobs=(-0.5, -0.25), text="one")
SECOND = Turn(
    observation=(6, 7, 8),
    own_words=(False, True, False),
    observed=(-3.0, -2.0, -1.0),
    tokens=(9,),
    logprobs=(-0.125,),
    text="two",
)
ROLLOUT: Rollout[Any, Any] = Rollout(item=None, sample=0, turns=(FIRST, SECOND), answer=None)
ADVANTAGES = ([1.0, 1.0], [1.0])


def inputs(name: str, foreseen: float) -> Sequence[float]:
    return policy_datum(ROLLOUT, ADVANTAGES, foreseen).loss_fn_inputs[name].tolist()


def test_without_a_weight_nothing_that_was_answered_has_an_advantage() -> None:
    assert inputs("advantages", 0.0) == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert inputs("logprobs", 0.0) == [0.0, 0.0, -0.5, -0.25, 0.0, 0.0, 0.0, -0.125]


def test_with_one_only_the_environments_own_words_have_it_and_actions_are_as_before() -> None:
    assert inputs("advantages", 0.25) == [0.0, 0.0, 1.0, 1.0, 0.0, 0.25, 0.0, 1.0]
    assert inputs("logprobs", 0.25) == [0.0, 0.0, -0.5, -0.25, 0.0, -2.0, 0.0, -0.125]


def test_what_is_known_of_a_conversation() -> None:
    lines, known = known_logprobs(ROLLOUT)
    assert list(compress(lines, known)) == [-0.5, -0.25, -2.0, -0.125]
    assert answered_logprobs(ROLLOUT) == [-2.0]


@pytest.mark.parametrize("text", ["found 7", "none", "a b c", "The paper?"])
@pytest.mark.parametrize("stopped", [True, False])
def test_the_template_around_an_answer_is_not_the_answers(renderer: Renderer, text: str, stopped: bool) -> None:
    example, weights = renderer.build_supervised_example(
        (Message(role=Role.USER, content="go"), Message(role=Role.ASSISTANT, content="look"))
    )
    reply = [token for token, weight in zip(example, weights, strict=True) if weight]
    reply = reply if stopped else reply[:-1]
    observation = renderer.extend((), reply, (Message(role=Role.USER, content=text),))[len(reply) :]
    own = TemplateBorders(renderer).own_words(reply, observation)
    assert len(own) == len(observation)
    words = renderer.parse_response([*compress(observation, own)]).message.content
    assert words.strip() == text
    assert not own[-1]


def settings(**changes: Any) -> RlSettings:
    return RlSettings(steps=1, learning_rate=1e-3, **changes)


class Trainer:
    """Stand-in for a training client that records the advantages of every datum."""

    sent: list[list[float]]

    def forward_backward(self, datums: Sequence[types.Datum], loss: str) -> Any:
        del loss
        self.sent = [one.loss_fn_inputs["advantages"].tolist() for one in datums]
        outputs = [{"logprobs": one.loss_fn_inputs["logprobs"]} for one in datums]
        return SimpleNamespace(result=lambda _: SimpleNamespace(loss_fn_outputs=outputs, metrics={}))

    def optim_step(self, params: object) -> Any:
        del params
        return SimpleNamespace(result=lambda _: SimpleNamespace(metrics={}))


def sent(**changes: Any) -> list[list[float]]:
    """Return the advantages of a step in which the first of two conversations was left out."""
    terms = NamedTerms(values={}, total=0.0)
    scored = [Scored(rollout=replace(ROLLOUT), terms=terms, advantage=each) for each in (None, 1.0)]
    groups = [ScoredGroup(item=None, scored=(one,), failures=(), informative=False) for one in scored]
    trainer: Any = Trainer()
    update_policy(trainer, groups, settings(entropy_bonus=0.2, **changes), 0, None)
    return trainer.sent


def test_an_entropy_bonus_is_not_paid_to_what_was_left_out() -> None:
    (alone,), (left_out, compared) = sent(), sent(env_loss_coef=1e-9)
    assert left_out == pytest.approx([0.0] * len(left_out), abs=1e-8)
    assert compared == pytest.approx(alone, abs=1e-8)


def test_the_key_came_later_and_leaves_names_alone() -> None:
    assert "env_loss_coef" not in identity_settings(settings())
    assert identity_settings(settings(env_loss_coef=0.05))["env_loss_coef"] == 0.05


@pytest.mark.parametrize("changes", [{"env_loss_coef": -0.1}, {"env_loss_coef": 0.1, "num_substeps": 2}])
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        settings(**changes)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("crossroads", "env_loss_coef", "0.1"),
        ("crossroads", "watch", "environment"),
        ("remedy/exp6", "env_loss_coef", "0.1"),
        ("remedy/exp6", "watch", "environment"),
        ("remedy/exp6", "watch", "confidence"),
    ],
)
def test_nothing_is_foreseen_where_nothing_answers(name: str, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        plan_of(name, {key: value})
