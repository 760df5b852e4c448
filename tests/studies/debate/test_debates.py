"""The conversation: its order, single use, forks, the seed's interface, and exact tokens."""

from __future__ import annotations

import asyncio

import pytest
from debate_cases import BRIEF, TASK, C, D, answer, debate, item, only, scripted

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.slices.rows import PaperRow
from tinsmith.renderers.plain import PlainRenderer
from tinsmith.renderers.renderer import Message, Role
from tinsmith.renderers.tokenizer import train_tokenizer
from tinsmith.studies.debate.conversation import Debate
from tinsmith.studies.debate.cookbook import AdversarialDisruptionEnv
from tinsmith.studies.debate.stance import Arm, Stance
from tinsmith.studies.debate.transcript import Transcript
from tinsmith.types.errors import ConfigError, DataError, InputError

GOOD = answer(D, reason="Later work leaves out older work.", signals=("tin and copper",))


def test_a_conversation_is_recorded() -> None:
    environment = debate(item(D), only(Arm.TRUTHFUL))
    prompt = environment.first()
    awaited = environment.reply(answer(C))
    assert awaited is not None
    message = awaited.message()
    assert message == awaited.message()  # and entered once
    assert message.role is Role.USER
    assert message.content.endswith('gears for"\nReturn JSON only.')
    assert environment.reply(GOOD) is None
    turns = environment.transcript.turns
    assert [turn.message.role for turn in turns] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert tuple(turn.message for turn in turns[:1]) == prompt
    assert turns[2].message == message
    assert [one.predicted for one in environment.transcript.answers] == [C, D]


def test_the_exchange_is_what_was_said() -> None:
    one = debate(item(D), only(Arm.MISLEADING))
    one.first()
    awaited = one.reply(answer(C))
    assert awaited is not None
    assert one.stance is not None
    assert one.stance.arm is Arm.MISLEADING
    awaited.message()
    with pytest.raises(InputError, match="not over"):
        one.exchange()
    one.reply(GOOD)
    exchange = one.exchange()
    assert (exchange.first_right, exchange.last_right, exchange.revised) == (False, True, True)
    assert exchange.reasons is not None
    assert exchange.reasons.signals == ("tin and copper",)
    assert exchange.challenge == one.transcript.turns[2].message.content.split("\n")[0]


def test_it_is_used_once_and_in_order() -> None:
    one = debate()
    with pytest.raises(InputError, match="reply"):
        one.reply(GOOD)
    one.first()
    with pytest.raises(InputError, match="used only once"):
        one.first()
    with pytest.raises(InputError, match="forks between"):
        one.fork()
    awaited = one.reply(GOOD)
    with pytest.raises(InputError, match="reply"):
        one.reply(GOOD)  # B was not heard yet
    assert awaited is not None
    awaited.message()
    one.reply("\ud800")
    for call in (lambda: one.reply(GOOD), one.fork):
        with pytest.raises(InputError):
            call()
    assert one.exchange().reasons is None


def test_forks_share_the_past_and_not_the_future() -> None:
    one = debate(item(D))
    one.first()
    awaited = one.reply(answer(C))
    assert awaited is not None
    awaited.message()
    other, third = one.fork(), one.fork()
    one.reply(answer(D))
    other.reply(answer(C))
    assert [each.exchange().last_right for each in (one, other)] == [True, False]
    assert one.transcript.turns[:3] == other.transcript.turns[:3] == third.transcript.turns
    assert one.exchange().stance == other.exchange().stance


class Waiting:
    """Counts what it is asked, and answers only when it is waited for."""

    def __init__(self, words: str) -> None:
        self.stance = Stance(arm=Arm.NULL, label=None, with_evidence=False)
        self.words = words
        self.waited = 0

    def challenge(self, seen: Transcript, seed: int) -> Waiting:
        del seen, seed
        return self

    def text(self) -> str:
        self.waited += 1
        return self.words


def test_the_challenge_is_waited_for_when_it_is_needed() -> None:
    opponent = Waiting("Hm?")
    one = Debate(TASK, item(), opponent=opponent, script=BRIEF, seed=0)
    one.first()
    awaited = one.reply(GOOD)
    assert opponent.waited == 0
    assert awaited is not None
    assert awaited.message().content == "Hm?\nReturn JSON only."
    assert opponent.waited == 1


def test_a_challenge_that_leaks_is_not_heard() -> None:
    one = Debate(TASK, item(), opponent=Waiting("It is disruptive."), script=BRIEF, seed=0)
    one.first()
    awaited = one.reply(answer(C))
    assert awaited is not None
    with pytest.raises(DataError, match="field: paper W1 = 'disruptive'"):
        awaited.message()
    assert len(one.transcript.turns) == 2


PAPER = PaperRow(
    openalex_id="W2741809807",
    title="Attention Is All You Need",
    abstract="We propose a new simple network architecture, the Transformer...",
    publication_year=2017,
    cited_by_count=50000,
    cd_index=0.65,
    novelty_score=0.82,
    conventionality_score=0.35,
    disruption_label=Disruption.DISRUPTIVE,
    novelty_label=Novelty.NOVEL,
    primary_field="Computer Science",
    concepts=(),
)


def test_as_the_seed_writes_it() -> None:
    async def run() -> None:
        env = AdversarialDisruptionEnv(PAPER)
        observation, stop = await env.initial_observation()
        assert (observation.tokens, stop) == (None, ())
        assert "Attention Is All You Need" in observation.messages[-1].content
        result = await env.step(answer(D))
        assert (result.reward, result.episode_done, dict(result.metrics)) == (0.0, False, {})
        [challenge] = result.next_observation.messages
        assert challenge.content.endswith("Return JSON only.")
        result = await env.step(answer(D))
        assert result.episode_done
        assert result.reward == pytest.approx(sum(result.metrics.values()))
        assert set(result.metrics) == {"correctness", "reasoning", "adaptation"}
        assert result.metrics["correctness"] == 1.0
        with pytest.raises(InputError, match="reply"):
            await env.step(answer(D))

    asyncio.run(run())


def test_no_token_is_rendered_twice() -> None:
    texts = [item().paper.abstract, item().paper.title, GOOD, answer(C), "Return JSON only."]
    renderer = PlainRenderer(train_tokenizer(texts, 300))

    def words(text: str) -> tuple[int, ...]:
        return renderer.build_generation_prompt((Message(role=Role.USER, content=text),))

    async def run() -> None:
        env = AdversarialDisruptionEnv(
            item(D), task=TASK, opponent=scripted(only(Arm.TRUTHFUL)), script="brief", renderer=renderer
        )
        observation, stop = await env.initial_observation()
        assert stop == renderer.stop_sequences()
        with pytest.raises(InputError, match="sampled tokens"):
            await env.step("text")
        # Letter by letter: tokens that no renderer would have made of this text.
        action = tuple(token for letter in answer(C) for token in words(letter)) + stop
        assert action[:-1] != words(answer(C))
        result = await env.step(action)
        before, after = observation.tokens, result.next_observation.tokens
        assert before is not None
        assert after is not None
        assert after[: len(before) + len(action)] == before + action
        result = await env.step((*words(GOOD), *stop))
        assert result.reward > 1.0

    asyncio.run(run())


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="adversarial/seed, adversarial/gated, adversarial/forked"):
        AdversarialDisruptionEnv(PAPER, reward="gated")
    with pytest.raises(ConfigError, match="brief, plain"):
        AdversarialDisruptionEnv(PAPER, script="long")
