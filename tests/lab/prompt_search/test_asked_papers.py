"""Papers asked under documents: what a right answer earns, what is counted, and what does not fit."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import pytest
import tinker
from tinker import types

from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers
from tinsmith.lab.labels.task import Item, Paper, Task, bank_of, make_task
from tinsmith.lab.papers.compute_spent import Ledger
from tinsmith.lab.prompt_search import Search, SearchSettings, grammar, halves_of
from tinsmith.models.presets import PRESETS
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.equal_compute import PaperScorer, paid
from tinsmith.types.errors import ConfigError

TASK: Task = make_task("disruption", prompt="brief", contract="two_key", with_metadata=False)
D, C, N = TASK.labels
LABELS = (D, C, C, N, N, N)
HINT = "Say what the title says."
ITEMS = tuple(
    Item(paper=Paper(id=f"W{place}", title=label, abstract="Gears."), golds=(label,))
    for place, label in enumerate(LABELS * 4)
)
CONFIG = next(iter(PRESETS.values()))


@dataclass
class Letters:
    """A renderer whose tokens are characters."""

    def build_generation_prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        return tuple(ord(each) for one in messages for each in one.content)

    def stop_sequences(self) -> list[int]:
        return [0]

    def parse_response(self, tokens: tuple[int, ...]) -> Any:
        text = "".join(map(chr, tokens))
        return type("Read", (), {"message": Message(role=Role.ASSISTANT, content=text)})()


@dataclass
class SampledSequence:
    tokens: list[int]
    logprobs: list[float]


@dataclass
class SampleResponse:
    sequences: list[SampledSequence]


@dataclass
class Reader:
    """Says neutral, and under HINT what the title says."""

    asked: list[str] = field(default_factory=list[str])

    def sample(
        self, prompt: types.ModelInput, num_samples: int, sampling_params: object, **more: object
    ) -> Future[Any]:
        del sampling_params, more
        words = "".join(map(chr, prompt.to_ints()))
        self.asked.append(words)
        title = next(line for line in words.splitlines() if line.startswith("Title: "))
        label = title.removeprefix("Title: ") if HINT in words else N
        tokens = [ord(each) for each in TASK.contract.answer_text((label,), Confidence.MEDIUM)]
        one = SampledSequence(tokens=tokens, logprobs=[0.0] * len(tokens))
        done: Future[Any] = Future()
        done.set_result(SampleResponse(sequences=[one] * num_samples))
        return done


def made(reader: Reader, *, positions: int = 4096, samples: int = 2) -> PaperScorer:
    study = LabelledPapers(
        task=TASK,
        papers=Papers(train=ITEMS, validation=(), test=()),
        renderer=cast("Any", Letters()),
        tokenizer=cast("Any", None),
    )
    return PaperScorer(
        client=cast("tinker.SamplingClient", reader),
        study=study,
        samples=samples,
        temperature=1.0,
        max_tokens=80,
        positions=positions,
        ledger=Ledger(CONFIG),
    )


def test_always_one_label_earns_what_chance_earns_and_all_right_earns_one() -> None:
    assert paid(ITEMS) == {D: Fraction(2), C: Fraction(1), N: Fraction(2, 3)}
    reader = Reader()
    ask = made(reader)
    names = [one.prompt_id for one in ITEMS]
    plain, hinted = ask((), names, 1), ask((HINT,), names, 1)
    assert sum(plain.values()) / len(names) == Fraction(1, 3)
    assert sum(hinted.values()) / len(names) == 1
    assert reader.asked[0].startswith("Title: ")
    assert reader.asked[-1].startswith(f"{HINT}\nTitle: ")


def test_every_paper_and_token_is_counted() -> None:
    reader = Reader()
    ask = made(reader, samples=3)
    ask((), ["W0", "W1"], 1)
    ask((HINT,), ["W0"], 1)
    answers = [TASK.contract.answer_text((label,), Confidence.MEDIUM) for label in (N, N, D)]
    by_hand = Ledger(CONFIG)
    for sentence, answer in zip(reader.asked, answers, strict=True):
        by_hand.read(len(sentence))
        for _ in range(3):
            by_hand.sampled(len(answer), len(sentence))
    spent = ask.ledger.spent
    assert (spent.papers, spent.updates, spent.tokens_trained) == (3, 0, 0)
    assert spent.tokens_read == sum(map(len, reader.asked))
    assert spent.tokens_sampled == 3 * sum(map(len, answers))
    assert spent.flops == by_hand.spent.flops


def test_a_document_that_does_not_fit_is_not_asked_and_earns_nothing() -> None:
    reader = Reader()
    ask = made(reader, positions=200)
    assert ask(("x" * 200,), ["W3"], 1) == {"W3": 0}
    assert not reader.asked
    assert ask((), ["W3"], 1)["W3"] > 0


def test_a_search_finds_the_line_that_helps_and_asks_only_what_it_counts() -> None:
    reader = Reader()
    ask = made(reader, samples=1)
    train, selection = halves_of({one.prompt_id: one.prompt_id for one in ITEMS}, 3)
    assert not set(train) & set(selection)
    assert len(train) == len(selection) == len(ITEMS) // 2
    found = Search(
        train=train,
        selection=selection,
        prompts={name: one.paper.title for name, one in ask.items.items()},
        score=ask,
        proposer=grammar((HINT, "Be brief.")),
        settings=SearchSettings(steps=2, batch=6, candidates=2, gate=6),
        last=8,
    ).run(())
    assert HINT in found.found
    assert found.after > found.before + 0.3
    assert found.answered == ask.ledger.spent.papers == len(reader.asked)


def test_one_paper_cannot_be_halved() -> None:
    with pytest.raises(ConfigError, match="too few items"):
        halves_of({"one": "one"}, 0)


def test_the_bank_is_what_the_tasks_own_prompt_files_say() -> None:
    bank = bank_of(TASK)
    assert len(set(bank)) == len(bank) > 15
    assert any(line.startswith("- disruptive: they cite it and leave out") for line in bank)
    assert "No other keys, no code fence, no thinking tags." in bank
    own = bank_of(make_task("disruption", prompt="checklist", contract="two_key"))
    assert len(own) == 2  # what the short prompt says otherwise
