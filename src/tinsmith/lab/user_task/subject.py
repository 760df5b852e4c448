"""Task as the subject of a run: calls of its functions, with exceptions recorded as failures.

A function that fails on every rollout of a step ends the run: it is not the policy that has to change.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, cast

import tinker
from tinker import types

from tinsmith.data.slices.splits import Split
from tinsmith.lab.environment import Environment, Failed, Move
from tinsmith.lab.grouping import Example, Line, ScoredGroup, metric_means, shared_opening
from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS, Failure, Group, Rollout, Trajectory
from tinsmith.lab.runs.records import SectionRecord
from tinsmith.lab.subject import Probe, Subject
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.dialogue import Dialogue, Earned, earned, right_example
from tinsmith.lab.user_task.items import UserItem, UserSplit, named_item
from tinsmith.lab.user_task.judged import JUDGE
from tinsmith.lab.user_task.step_reward import NO_STEP_REWARD, NamedTerms, Scored, StepReward
from tinsmith.lab.user_task.task import Answered, Model, Section, Spawn, Task
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import TaskError
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenModel:
    """Frozen model that a task asks, with seeds, through the Tinker API."""

    client: tinker.SamplingClient
    renderer: Renderer
    model: Model

    def ask(self, prompt: str, seed: int) -> Callable[[], str]:
        """Send a question; return the future of its answer."""
        tokens = self.renderer.build_generation_prompt((Message(role=Role.USER, content=prompt),))
        params = types.SamplingParams(
            max_tokens=self.model.max_tokens,
            temperature=self.model.temperature,
            seed=seed % 2**SEED_BITS,
            stop=list(self.renderer.stop_sequences()),
        )
        future = self.client.sample(types.ModelInput.from_ints(list(tokens)), 1, params)

        def answer() -> str:
            (sequence,) = future.result(WAIT_SECONDS).sequences
            return self.renderer.parse_response(sequence.tokens).message.content

        return answer


UserRollout = Rollout[UserItem, Earned]


@dataclass(slots=True, eq=False, kw_only=True)
class UserEnvironment(Dialogue):
    """Conversation in tokens: an `Environment`."""

    subject: UserSubject = field(repr=False)

    def first(self) -> tuple[int, ...]:
        """Return the prompt's tokens."""
        return self.subject.prompt(self.item)

    def step(self, tokens: Sequence[int]) -> Move:
        """Take a reply; an exception of the user's function ends the conversation, and is recorded."""
        response, model = self.say(self.subject.text(tokens)), self.subject.model
        if response is None:
            return Move()
        if isinstance(response, str):
            return Response(self, tuple(tokens), lambda: response)
        if isinstance(response, Spawn):
            first = len(self.children)
            self.children = (*self.children, *(self._child(item, first + n) for n, item in enumerate(response.items)))
            begun = cast("tuple[UserEnvironment, ...]", self.children[first:])
            return Response(
                self, tuple(tokens), lambda: self.tell(attempt(response.then, [one.answer for one in begun])), begun
            )
        assert model is not None, "a task's model is opened with its run"
        seed = derive(self.seed, "challenge", self.item.prompt_id, self.replies[-1])
        answer = model.ask(response.prompt, seed)
        return Response(self, tuple(tokens), lambda: self.tell(attempt(response.then, answer())))

    def _child(self, item: object, place: int) -> UserEnvironment:
        seed, named = derive(self.seed, "spawned", self.item.prompt_id, place), named_item(self.task, item)
        group, depth = (self.group, named.prompt_id), self.depth + 1  # with all that its tree's group asks so deep
        return UserEnvironment(task=self.task, item=named, seed=seed, group=group, depth=depth, subject=self.subject)


@dataclass(slots=True)
class Response(Move):
    """Response to a reply, which may still wait for another model or for spawned conversations."""

    environment: UserEnvironment
    reply: tuple[int, ...]
    text: Callable[[], str | None]  # Waits for it; None: that failed.
    begun: tuple[UserEnvironment, ...] = ()
    _own: tuple[bool, ...] = ()

    def children(self) -> list[tuple[UserItem, Environment]]:
        return [(one.item, one) for one in self.begun]

    def observation(self) -> tuple[int, ...] | None:
        """Return the text in tokens."""
        text, subject = self.text(), self.environment.subject
        if text is None:
            return None
        extended = subject.renderer.extend((), self.reply, (Message(role=Role.USER, content=text),))
        tokens = extended[len(self.reply) :]
        self._own = subject.borders.own_words(self.reply, tokens)
        return tokens

    def own_words(self) -> tuple[bool, ...]:
        return self._own


@dataclass(slots=True, kw_only=True)
class UserSubject(Subject[UserItem, Earned]):
    """A task as a `Subject`; its methods are described there."""

    task: Task
    split: UserSplit
    renderer: Renderer
    model: FrozenModel | None = None  # Whom the task asks.
    borders: TemplateBorders = field(init=False)
    _prompts: dict[tuple[Message, ...], tuple[int, ...]] = field(
        default_factory=dict[tuple[Message, ...], tuple[int, ...]]
    )
    """By their messages: a search asks an item under other prompts."""
    _tails: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _entered: str = ""  # State of the reward after the answers that were read last, as JSON.

    def __post_init__(self) -> None:
        self.borders = TemplateBorders(self.renderer)

    def items(self, split: Split) -> Sequence[UserItem]:
        """Return the items of a split; without held-out items, those to train on are evaluated."""
        if split is Split.VALIDATION:
            return self.split.held_out or self.split.train
        return self.split.train if split is Split.TRAIN else self.split.tested

    def unit(self, item: UserItem) -> str:
        return item.unit

    def aside(self, item: UserItem) -> bool:
        return item.aside

    def stop(self) -> Sequence[int]:
        return self.renderer.stop_sequences()

    def prompt(self, item: UserItem) -> tuple[int, ...]:
        """Return the prompt of an item in tokens."""
        if item.messages not in self._prompts:
            self._prompts[item.messages] = self.renderer.build_generation_prompt(item.messages)
        return self._prompts[item.messages]

    def environments(self, item: UserItem, count: int, seed: int) -> list[UserEnvironment]:
        shared: dict[str, Any] = {"task": self.task, "item": item, "seed": seed, "group": seed, "subject": self}
        return [UserEnvironment(**shared) for _ in range(count)]

    def text(self, tokens: Sequence[int]) -> str:
        return self.renderer.parse_response(tokens).message.content

    def read(self, trajectories: Sequence[Trajectory[UserItem]]) -> list[Earned | Failed]:
        """Have the user's rewards score every group; a state that these enter is put back until `score`."""
        before = json.dumps(self._reward.state())
        read = earned(self.task, [cast(UserEnvironment, one.environment) for one in trajectories])
        after = json.dumps(self._reward.state())
        self._entered = after if after != before else ""
        if self._entered:
            self._reward.restore(json.loads(before))
        roots = [one for one, played in zip(read, trajectories, strict=True) if not played.depth]
        failures = [one for one in roots if isinstance(one, Failed)]
        if failures and len(failures) == len(roots):
            raise TaskError(f"{failures[0].where} {failures[0].what}")
        return read

    @property
    def _reward(self) -> StepReward:
        return self.task.reward if isinstance(self.task.reward, StepReward) else NO_STEP_REWARD

    def score(self, rollouts: Sequence[UserRollout]) -> list[NamedTerms]:
        """Return named terms of rewards; a reward of whole steps enters the answers into its state."""
        if self._entered:
            self._reward.restore(json.loads(self._entered))
            self._entered = ""
        return [NamedTerms(values=one.terms, total=one.total) for one in (each.answer for each in rollouts)]

    def figures(self, groups: Sequence[Group[UserItem, Earned]], split: str) -> dict[str, float]:
        """Return the figures of an evaluation; an item with several answers counts once in rewards and metrics."""
        by_item = [[one for one in group if isinstance(one, Rollout)] for group in groups]
        rollouts = [one for group in by_item for one in group]
        own = self._reward.figures([[_scored(one) for one in each] for each in groups])
        failures = [one for group in groups for one in group if isinstance(one, Failure)]
        if own is None:
            failed = 1.0 - len(rollouts) / sum(len(group) for group in groups)
            own = {"failed": failed, **metric_means([_rewards(group) for group in by_item if group])}
        elif others := [one for one in failures if one.where != JUDGE]:  # that the judge failed is a figure of its own
            own = {"failed": len(others) / sum(len(group) for group in groups), **own}
        found = {
            **own,
            "tokens/answer": fmean([float(len(one.tokens)) for one in rollouts]),
            "distinct_texts": len({one.text for one in rollouts}) / len(rollouts),
            **metric_means([self._measured(group) for group in by_item if group]),
        }
        return {f"{split}/{name}": value for name, value in found.items()}

    def example(self, item: UserItem) -> Example:
        return right_example(self.task, item, self.renderer)

    def example_figures(self, examples: Sequence[Example]) -> dict[str, float]:
        """Return the tokens that were learned, where the task chooses its examples: arms of other lengths compare."""
        if self.task.examples is None:
            return {}
        return {"train/learned_tokens": float(sum(sum(one.learned) for one in examples))}

    def options(self, item: UserItem) -> list[tuple[int, ...]]:
        if self.task.options is None:
            return []
        options = attempt(self.task.options, item.item)
        if isinstance(options, Raised):
            raise TaskError(f"options of the item {item.prompt_id}: {options}")
        if not all(isinstance(cast(object, one), str) for one in options):
            raise TaskError(f"options of the item {item.prompt_id}: one of them is no text")
        return [self._reply(item, one) for one in options]

    def probe(self, rollout: UserRollout) -> Probe:
        probed, item = self.task.probed, rollout.item.item
        assert probed is not None, "a task that is not probed is refused before"
        offered, gold = attempt(probed.options, item), attempt(probed.gold, item)
        if isinstance(offered, Raised) or isinstance(gold, Raised):
            failed = offered if isinstance(offered, Raised) else gold
            raise TaskError(f"probed of the item {rollout.item.prompt_id}: {failed}")
        options = list(offered)
        if len(set(options)) < 2 or gold not in options:
            raise TaskError(f"probed of the item {rollout.item.prompt_id}: {gold!r} is none of two or more answers")
        turn = rollout.turns[0]
        before, mark, answer = turn.text.rpartition(probed.before_answer)
        # The reasoning is the longest beginning in tokens whose text is no longer than what stands before the answer.
        most, ends = len(before if mark else turn.text), range(1, len(turn.tokens) + 1)
        return Probe(
            prompt=turn.observation,
            reasoning=turn.tokens[: bisect_right(ends, most, key=lambda end: len(self.text(turn.tokens[:end])))],
            answers=tuple(self._tail(rollout.item, probed.before_answer + one) for one in options),
            gold=options.index(gold),
            answered=options.index(answer.strip()) if mark and answer.strip() in options else None,
        )

    def _tail(self, item: UserItem, text: str) -> tuple[int, ...]:
        """Return the ending of a reply in tokens, as it is tokenized after other text."""
        if text not in self._tails:
            whole, start = self._reply(item, f"a{text}"), self._reply(item, "a")
            same = next(place for place, one in enumerate(start) if one != whole[place])
            self._tails[text] = whole[same:]
        return self._tails[text]

    def _reply(self, item: UserItem, text: str) -> tuple[int, ...]:
        reply = Message(role=Role.ASSISTANT, content=text)
        tokens, weights = self.renderer.build_supervised_example((*item.messages, reply))
        return tuple(tokens[sum(weight == 0.0 for weight in weights) :])

    def train_figures(self, groups: Sequence[ScoredGroup[UserItem, Earned]]) -> dict[str, float]:
        found = metric_means([self._measured([one.rollout for one in group.scored]) for group in groups])
        every = [[*(one.rollout for one in group.scored), *group.failures] for group in groups]
        found |= self._reward.train_figures([[_scored(one) for one in group] for group in every])
        return {f"train/{name}": value for name, value in found.items()}

    def trace(self) -> dict[str, float]:
        return {f"reward/{name}": float(value) for name, value in self._reward.trace().items()}

    def state(self) -> object:
        return self._reward.state()

    def restore(self, state: object) -> None:
        if state is not None:
            self._reward.restore(state)

    def close(self) -> None:
        self._reward.close()

    def _measured(self, rollouts: Sequence[UserRollout]) -> Mapping[str, float]:
        if not rollouts:
            return {}
        found = [one.answer for one in rollouts]
        measured = {name: [one.metrics[name] for one in found if name in one.metrics] for name in self.task.measured}
        metrics = {f"metric/{name}": fmean(values) for name, values in measured.items() if values}
        if self.task.parse is not None:
            metrics["parse_ok"] = fmean([float(one.readable) for one in found])
        if self.task.talk is not None:
            metrics["replies"] = fmean([float(len(one.turns)) for one in rollouts])
        return metrics

    def facts(self, rollout: UserRollout) -> Line:
        """Return the fields of a rollout's line; several turns are listed one by one."""
        one = rollout.answer
        if one.scored is not None:
            facts: Line = dict(self._reward.line(one.scored))
        else:
            outcome = "ok" if one.readable else "unreadable"
            facts = {"outcome": outcome, "terms": dict(one.terms), "total": one.total}
        if self.task.measured:
            facts["metrics"] = dict(one.metrics)
        if self.task.talk is not None:
            facts["turns"] = _turns(rollout)
            facts |= {"fork": rollout.fork} if self.task.talk.forks > 1 else {}
            facts |= {"tree": list(_tree(rollout))} if self.task.talk.deepest else {}
        return facts

    def sections(self, rollouts: Mapping[str, Sequence[UserRollout]]) -> list[SectionRecord]:
        """Parse the conversations; a failed one is replaced by its cause."""
        answered = [
            Answered(
                item=one.item.item,
                prompt=one.item.prompt,
                replies=tuple(turn.text for turn in one.turns),
                terms=one.answer.terms,
                metrics=one.answer.metrics,
                total=one.answer.total,
                record={} if one.answer.scored is None else one.answer.scored.record,
                split=split,
            )
            for split, some in rollouts.items()
            for one in some
        ]
        return [_section(title, make, answered) for title, make in self.task.sections.items()]


def _scored(one: UserRollout | Failure[UserItem]) -> Scored | Failed:
    if isinstance(one, Failure):
        return Failed(one.where, one.what)
    return one.answer.scored or Scored(terms=one.answer.terms)


def _turns(rollout: UserRollout) -> list[Line]:
    lines: list[Line] = []
    for number, turn in enumerate(rollout.turns):
        if number:
            lines.append({"role": "user", "text": rollout.answer.observations[number - 1]})
        lines.append({"role": "assistant", "tokens": list(turn.tokens), "text": turn.text})
    return lines


def _tree(rollout: UserRollout) -> Iterator[Line]:
    """Yield the fields of each rollout below a line's own; for a failed one, the cause."""
    for child in rollout.children:
        line: Line = {"prompt_id": child.item.prompt_id, "depth": rollout.depth + 1}
        if isinstance(child, Failure):
            yield {**line, "failure": {"where": child.where, "what": child.what}}
            continue
        terms = {"terms": dict(child.answer.terms), "total": child.answer.total}
        yield {**line, "turns": _turns(child), **terms}
        yield from _tree(child)


def _section(title: str, make: Section, answered: Sequence[Answered]) -> SectionRecord:
    made = attempt(make, answered)
    if isinstance(made, str):
        return SectionRecord(title=title, text=made)
    if isinstance(made, Raised):
        return SectionRecord(title=title, failure=str(made))
    rows = attempt(lambda: [dict(row) for row in made])
    if isinstance(rows, Raised):
        return SectionRecord(title=title, failure="it gave neither a text nor rows of a table")
    columns = tuple(dict.fromkeys(str(name) for row in rows for name in row))
    return SectionRecord(
        title=title, columns=columns, rows=tuple(tuple(str(row.get(name, "")) for name in columns) for row in rows)
    )


def _rewards(group: Sequence[UserRollout]) -> dict[str, float]:
    found = [one.answer for one in group]
    means = {f"reward/{name}": fmean([one.terms[name] for one in found]) for name in found[0].terms}
    return {"reward/total": fmean([one.total for one in found]), **means}


_PROBES: Final = ("a", "7", "?")  # Texts that have no token in common.


@dataclass(slots=True, eq=False)
class TemplateBorders:
    """Numbers of tokens that a renderer puts before and after a message's text."""

    renderer: Renderer
    _known: dict[bool, tuple[int, int]] = field(default_factory=dict[bool, tuple[int, int]])
    """Before and after, by whether the reply ended with its stop token."""

    def own_words(self, reply: Sequence[int], observation: Sequence[int]) -> tuple[bool, ...]:
        """Return a mask of a response's tokens that are its text rather than the template's."""
        before, after = self._borders(tuple(reply))
        count = max(0, len(observation) - before - after)
        return (False,) * before + (True,) * count + (False,) * (len(observation) - before - count)

    def _borders(self, reply: tuple[int, ...]) -> tuple[int, int]:
        stopped = bool(reply) and reply[-1] in self.renderer.stop_sequences()
        if stopped not in self._known:
            extensions = [
                self.renderer.extend((), reply, (Message(role=Role.USER, content=one),))[len(reply) :]
                for one in _PROBES
            ]
            ends = [one[::-1] for one in extensions]
            self._known[stopped] = len(shared_opening(extensions)), len(shared_opening(ends))
        return self._known[stopped]
