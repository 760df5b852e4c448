"""A task of the user's own, as one frozen value: items, a prompt, a reward, and whatever else its run should have.

Users import these names from `tinsmith`.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from tinsmith.lab.base_recipe import BaseRecipe, Conversation
from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.lab.user_task.tools import Tools
from tinsmith.types.arguments import KnownArguments
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.papers.labels import PaperRun

Item = Any
"""One item, as the user has it: a value of JSON, or a dataclass of such values."""
Items = Iterable[Any] | str | Path
"""A list, an iterator, or the name of a JSONL file, found beside the task's file."""
Number = float | int | bool
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class OfGroup:
    """Marks a reward of all answers to one prompt together: (item, answers) -> a number for each of them."""

    function: Callable[[Item, Sequence[Any]], Sequence[Number]]


@dataclass(frozen=True, slots=True)
class OfConversation:
    """Marks a reward of every reply of a conversation: (item, replies) -> a number; the first reply first."""

    function: Callable[[Item, Sequence[Any]], Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A rollout that another one spawned, as rewards of the other see it."""

    item: Item
    replies: tuple[Any, ...]
    """As `parse` reads them; the last one is its answer."""
    earned: float
    """The sum of its reward's terms, but for those of the tree."""
    children: tuple[Child, ...] = ()

    def below(self) -> int:
        """Return the number of rollouts that it and its children spawned."""
        return sum(1 + one.below() for one in self.children)


@dataclass(frozen=True, slots=True)
class OfTree:
    """Marks a reward of a conversation with what it spawned: (item, replies, children) -> a number."""

    function: Callable[[Item, Sequence[Any], Sequence[Child]], Number]


Reward = Callable[[Item, Any], Number] | OfGroup | OfConversation | OfTree
"""Reward of (item, answer). The answer is the model's last reply: its text, or what `parse` made of it."""
Metric = Callable[[Item, Any], Number | None] | OfGroup | OfConversation | OfTree
"""Metric of (item, answer); None: it does not apply, and is in no mean."""


of_group = OfGroup
of_conversation = OfConversation
of_tree = OfTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One held-out item as the trained model answered it: what page sections are made of."""

    item: Item
    prompt: str
    replies: tuple[str, ...]
    """The model's, the first one first."""
    terms: Mapping[str, float]
    metrics: Mapping[str, float]
    total: float
    """The sum of the terms."""
    record: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further fields that a reward of a whole step records."""
    split: str = "eval"
    """The evaluation: of the tested items `test`, `test_greedy` and those of the controls."""


Section = Callable[[Sequence[Answered]], str | Sequence[Mapping[str, object]]]
"""A page section: the answers of the last evaluation (of all of the test, where items are tested) -> a text, or rows of
a table by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """End of a reply's reasoning, and the answers there are: what confidence along the reasoning is read from."""

    before_answer: str
    """Text between the reasoning and the answer, the last time that it is there."""
    options: Callable[[Item], Sequence[str]]
    """Every answer that there is to an item: two or more."""
    gold: Callable[[Item], str]
    """The right one of them."""


@dataclass(frozen=True, slots=True)
class Base:
    """The small base that is built from scratch: its recipe, and the conversations that it reads."""

    recipe: BaseRecipe
    conversations: Callable[[], Sequence[Conversation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Filter of the items to train on by their demonstrations, the replies that `answer` returns; 0: no limit."""

    fewest_steps: int = 0
    """Replies of a demonstration."""
    most_steps: int = 0
    fewest_calls: int = 0
    """Replies that call a tool."""
    most_calls: int = 0
    call: Callable[[str], bool] | None = None
    """True for a reply that calls a tool; None: calls of the task's `tools`, else every reply but the last one."""
    where: Callable[[Item, Sequence[str]], bool] | None = None
    """A condition of one's own: (item, replies) -> True if it is trained on."""
    keeps_duplicates: bool = False
    """True: demonstrations with the same prompt and the same replies are all trained on."""

    def __post_init__(self) -> None:
        for what, fewest, most in (
            ("steps", self.fewest_steps, self.most_steps),
            ("calls", self.fewest_calls, self.most_calls),
        ):
            if min(fewest, most) < 0 or 0 < most < fewest:
                allowed = f"fewest_{what} of 0 or more, and most_{what} of 0 (no limit) or no fewer"
                field, value = f"examples {what}", f"{fewest} to {most}"
                raise ConfigError("no demonstration passes", field=field, value=value, allowed=allowed)


MOST_TURNS: Final = 8
ITSELF: Final = "base"
"""The name of a run's own model without its adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that a task asks and that is not trained."""

    name: str = ITSELF
    """`base`, the run's own without its adapter; a folder, FILE.gguf, or a name that base_url serves."""
    max_tokens: int = 96
    temperature: float = 1.0
    key: str = "asked"
    """The key of the task that names it; the run's own server calls it so."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the task's model, in place of a text; its answer is what the model in training is told."""

    prompt: str
    then: Callable[[str], str] = str
    """Makes the text of that answer; what it raises fails the conversation."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Items that the model itself is asked about, in place of a text: a rollout each, trained on as any other."""

    items: Sequence[Any]
    then: Callable[[Sequence[Any]], str]
    """Makes the text that follows of their answers, as `parse` reads them; None: that rollout failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns(KnownArguments):
    """Texts that follow the model's replies.

    All conversations of a group have one seed: whoever draws, draws by it, and a reward draws the same again.
    """

    reply: Callable[[Any, Sequence[Any], int], str | Ask | Spawn | None] = field(kw_only=False)
    """(item, replies so far, seed) -> a text, a question to another model, items to spawn, or None at the end."""
    most: int = MOST_TURNS
    """Replies after which a conversation ends whatever `reply` would say."""
    forks: int = 1
    """Second replies for each first one; with two or more each turn is trained with an advantage of its own, and
    `most` is 2."""
    model: Model | None = None
    """Who answers an `Ask`."""
    deepest: int = 0
    """Depth of a tree of rollouts: a `Spawn` of one that has so many above it ends its conversation."""
    agents: int | Mapping[int, int] = 1
    """Adapters on the one base that are trained together: each writes one reply, in their order, and learns from that.
    Or how many from which step: those that come later are new, and write after those that were there."""

    def __post_init__(self) -> None:
        require_callable("turns reply", self.reply, 3)
        _require_replies("max_turns", self.most)
        _require_replies("forks", self.forks)
        if self.deepest < 0 or (self.deepest and self.forks > 1):
            what = "a tree of rollouts has a depth, and does not fork"
            raise ConfigError(what, field="deepest", value=self.deepest, allowed="0 or more, and 0 with forks")
        counts = list(self.agents_by_step.values())
        if self.several_agents and (
            0 not in self.agents_by_step
            or counts != sorted(set(counts))
            or not 1 <= counts[0] <= counts[-1] <= self.most
            or self.deepest
            or self.forks > 1
        ):
            what = "agents are one or more from step 0, and become more; each writes one of the replies, in no tree"
            raise ConfigError(what, field="agents", value=self.agents, allowed=f"1 to {self.most} (max_turns)")
        if self.forks > 1 and self.most > 2:
            what = "forks are second replies, and nothing comes after those"
            raise ConfigError(what, field="forks", value=self.forks, allowed="1, or most=2")

    @property
    def agents_by_step(self) -> Mapping[int, int]:
        """The number of agents from each step at which it changes."""
        return {0: self.agents} if isinstance(self.agents, int) else dict(sorted(self.agents.items()))

    @property
    def several_agents(self) -> bool:
        """True if there is more than one adapter at any time."""
        return set(self.agents_by_step.values()) != {1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(KnownArguments):
    """Items, prompt and reward of a run."""

    items: Items
    """Items to ask about: a list, an iterator, or the name of a JSONL file beside the task's file."""
    prompt: str | Callable[[Item], str | Sequence[Mapping[str, str]]]
    """Prompt: a text with the item's fields in braces, `"What is {a} + {b}?"`; or a function of the item that returns a
    text, or messages `[{"role": "system", "content": ...}, {"role": "user", ...}]`."""
    reward: Reward | Mapping[str, Reward] | StepReward
    """Reward of an answer: a function of (item, answer), or several by name, whose sum is the reward; or one that sees
    all answers of a step together, such as `judged(...)`."""
    parse: Callable[[str], Any] | None = None
    """Reads a reply: rewards, metrics and `reply` then see what it returns. None means that it cannot be read."""
    reply: Callable[[Item, Sequence[Any]], str | None] | None = None
    """Several turns: given the replies so far, what the model is told next; None ends the conversation."""
    max_turns: int = MOST_TURNS
    """Replies after which a conversation ends whatever `reply` would say."""
    turns: Turns | None = None
    """In place of `reply`: several turns that draw from a seed, fork, or ask a frozen model."""
    tools: Tools | None = None
    """In place of `reply`: typed functions that replies call (`tools_of`), as `name(argument, ...)`; the model is told
    what they return, and a reply that is no call ends the conversation."""
    held_out: float | Items | Callable[[Item], bool] = 0.2
    """Items never trained on, but evaluated: a share, drawn by item id and the run's seed; a function of the item;
    or items of their own."""
    tested: Items = ()
    """Items of the one evaluation at the end; pages and `sections` are then about these."""
    controls: Mapping[str, Task] = field(default_factory=dict[str, Any])
    """The tested items asked otherwise, by the split's name (`test_...`): Tasks with other `turns` and `reward`."""
    item_id: Callable[[Item], str] | None = None
    """An item's name; otherwise its field `id`, or the first digits of its SHA-256."""
    unit: Callable[[Item], str] | None = None
    """Unit of an item, where several stand or fall together (two orders of one question): they are trained on
    in one step, held out together, and resampled together."""
    aside: Callable[[Item], bool] | None = None
    """Which items to train on are set aside: batches of their own are made of them, as often as `interleave=5:1` says;
    without it none of them is trained on. They are held out and evaluated as all others."""
    demonstrate: Callable[[Item, Random], str | Sequence[str]] | None = None
    """A possible answer, right or not: what the small base that is built from scratch reads before any reward.
    One text, or one a turn. Without it the task needs a model: `model_name=...` or `at=small`."""
    base_steps: int = 0
    """Steps for which that small base reads the demonstrations; 0: as many as the laboratory's recipe has (1,000).
    With fewer it is still unsure of what it was shown."""
    base: Base | None = None
    """Everything that the small base reads, in place of `demonstrate`."""
    base_items: Items | None = None
    """Items demonstrated to that small base, where these are not the items to train on: none of them is asked
    about in the run itself. With `demonstrate` alone."""
    answer: Callable[[Item], str | Sequence[str]] | None = None
    """A right answer: what supervised training (`kind=task_sft`, `sft_steps=N`) reads. With `reply` one text a turn;
    between them it reads what the task would say."""
    examples: Examples | None = None
    """Which items are trained on, by their demonstrations (`answer`): number of replies and calls, a condition, no
    duplicates. The data card and the page say which were left out."""
    options: Callable[[Item], Sequence[str]] | None = None
    """Every answer that there is, where there are few: what `force_options=true` puts into each group. Not with
    `reply`."""
    probed: Probed | None = None
    """For `watch=confidence` and `confidence_penalty`: where reasoning ends, and which answers there are. Not with
    `reply`."""
    baselines: Mapping[str, Callable[[Item], str | Sequence[str]]] = field(
        default_factory=dict[str, Callable[[Any], str | Sequence[str]]]
    )
    """Answers that need no model, by name; they are scored on the held-out items and stand on the page."""
    metrics: Mapping[str, Metric] = field(default_factory=dict[str, Metric])
    """Metrics of an answer, written like a reward and not rewarded; None where one does not apply."""
    figures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Figures of a run's end that its page and comparisons show: names in `metrics.jsonl`, by label."""
    sections: Mapping[str, Section] = field(default_factory=dict[str, Section])
    """More of the page, by title."""
    notes: Sequence[str] = ()
    """Lines that are shown before a run, such as the size of a file."""
    keys: Mapping[str, Value | Mapping[str, Value]] = field(default_factory=dict[str, Value | Mapping[str, Value]])
    """Values of a run's keys for this task, such as `{"steps": 40, "max_tokens": 16}`, or such values by size of model,
    `{"nano": {...}, "small": {...}, "seed": {...}}`; the command line goes first."""
    later_steps: float | None = None
    """Time of a step by reward in the second half of a run that was made, as a share of its first one's, where answers
    become shorter, longer or alike: for forecasts. None: steps last as those before them."""
    items_sha256: str = ""
    """Fingerprint of the items, where their data have one; empty: that of every item and its prompt."""
    identity: Mapping[str, str] = field(default_factory=dict[str, str])
    """Facts that decide results beside the task's own file, by name, such as versions of packages: a run is resumed and
    replayed only where it is the same."""
    run: PaperRun | None = None
    """Maker of the runs of experiments on labels, which have files and figures of their own."""
    name: str = ""
    """Empty: the file's name."""
    question: str = ""
    """Question of the run, in a sentence; it stands on the page."""

    def __post_init__(self) -> None:
        arities = {"prompt": 1, "parse": 1, "reply": 2, "item_id": 1, "unit": 1, "aside": 1}
        for what, count in {**arities, "demonstrate": 2, "answer": 1, "options": 1}.items():
            function = getattr(self, what)
            if function is not None and not (what == "prompt" and isinstance(function, str)):
                require_callable(what, function, count)
        probed = {} if self.probed is None else {"options": self.probed.options, "gold": self.probed.gold}
        for what, functions in (("baselines", self.baselines), ("sections", self.sections), ("probed", probed)):
            for name, function in functions.items():
                require_callable(f"probed {name}" if what == "probed" else f"{what} {name!r}", function, 1)
        self._check_rewards()
        self._check_examples()
        held = self.held_out
        if isinstance(held, int | float) and (isinstance(held, bool) or not 0.0 <= held < 1.0):
            what = "this is a share of the items, and some are left to train on"
            raise ConfigError(what, field="held_out", value=held, allowed="0 or more, below 1")
        steps = cast(object, self.base_steps)
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
            allowed = "0 (the laboratory's own number), or more"
            raise ConfigError("this must be a number of steps", field="base_steps", value=steps, allowed=allowed)
        for name, value in {"base_steps": steps or None, "base_items": self.base_items}.items():
            if value is not None and self.demonstrate is None:
                what, stated = "there are no demonstrations to train a base on", steps if name == "base_steps" else None
                fix = f"demonstrate=... in the task, or leave {name} out"
                raise ConfigError(what, field=name, value=stated, fix=fix)
        if self.later_steps is not None and not 0.0 < self.later_steps < math.inf:
            what, allowed = "a step takes time", "above 0, or None"
            raise ConfigError(what, field="later_steps", value=self.later_steps, allowed=allowed)
        for name in self.controls:
            if not name.startswith("test_"):
                raise ConfigError("the test has no such split", field="controls", value=name, allowed="test_...")
        if sum(one is not None for one in (self.turns, self.reply, self.tools)) > 1:
            allowed = "one of reply, turns and tools"
            raise ConfigError("the text between replies is defined twice", field="reply", allowed=allowed)
        _require_replies("max_turns", self.max_turns)

    def _check_examples(self) -> None:
        if self.examples is None:
            return
        if self.answer is None:
            what = "examples are filtered by their demonstrations, and this task has none"
            raise ConfigError(what, field="examples", fix="answer=..., a function of the item")
        for name, count in (("call", 1), ("where", 2)):
            if (function := getattr(self.examples, name)) is not None:
                require_callable(f"examples {name}", function, count)

    def _check_rewards(self) -> None:
        """Check rewards and metrics, and the names of their terms, which become part of metrics' keys."""
        for name in (*self.terms, *self.metrics):
            if not (isinstance(cast(object, name), str) and _NAME.fullmatch(name)) or name in RESERVED:
                what = "this name cannot be part of a metric's name"
                field = "reward" if name in self.terms else "metrics"
                allowed = "small letters, digits and _, beginning with a letter; not total or names"
                raise ConfigError(what, field=field, value=name, allowed=allowed)
        for name, reward in {**self.rewards, **self.metrics}.items():
            field = name if name == "reward" else f"reward {name}"
            require_callable(field, function_of(reward), 3 if isinstance(reward, OfTree) else 2)
        if not self.terms:
            raise ConfigError("a task needs at least one reward", field="reward", value={})
        if isinstance(self.reward, StepReward) and self.baselines:
            what = "a reward of a whole step cannot score baselines"
            fix = "leave baselines out, or give a reward of (item, answer)"
            raise ConfigError(what, field="baselines", value=", ".join(self.baselines), fix=fix)

    @property
    def talk(self) -> Turns | None:
        """Turns, whichever way they were given; None: there is one reply."""
        reply, tools = self.reply, self.tools
        if tools is not None:
            return Turns(reply=lambda _, replies, __: tools.answer(str(replies[-1])), most=self.max_turns)
        if reply is None:
            return self.turns
        return Turns(reply=lambda item, replies, _: reply(item, replies), most=self.max_turns)

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of all metrics, those of the reward first."""
        own = self.reward.metrics if isinstance(self.reward, StepReward) else ()
        return (*own, *self.metrics)

    @property
    def rewards(self) -> Mapping[str, Reward]:
        """The named terms, in their order; a single function goes by its own name. None of a reward of a whole step."""
        if isinstance(self.reward, StepReward):
            return {}
        if isinstance(self.reward, Mapping):
            return self.reward
        name = getattr(function_of(self.reward), "__name__", "")
        return {name if name.isidentifier() and name not in RESERVED else "reward": self.reward}

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the reward's terms."""
        return self.reward.terms if isinstance(self.reward, StepReward) else tuple(self.rewards)


RESERVED: Final = frozenset({"total", "names"})
"""Names that a term cannot have: the sum has the first."""


def function_of(reward: Reward | Metric) -> Callable[..., Any]:
    """Return the function that a reward is, without what says what it sees."""
    return reward.function if isinstance(reward, OfGroup | OfConversation | OfTree) else reward


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def _require_replies(what: str, count: int) -> None:
    if count < 1:
        raise ConfigError("a conversation has at least one reply", field=what, value=count, allowed="1 or more")


def require_callable(what: str, function: object, count: int) -> None:
    """Check that something can be called with so many arguments."""
    arguments = {1: "one argument", 2: "two arguments", 3: "three arguments"}[count]
    second = {"demonstrate": "random", "reply": "replies", "examples": "replies"}.get(what.split()[0], "answer")
    named = {2: f"(item, {second})", 3: "(item, replies, seed)" if what == "turns reply" else ""}.get(count, "(item)")
    allowed = f"a function of {arguments}{named and f': {named}'}"
    if not callable(function):
        raise ConfigError("this must be a function", field=what, value=function, allowed=allowed)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a function of C that does not say what it takes
    try:
        signature.bind(*[None] * count)
    except TypeError:
        code = getattr(function, "__code__", None)
        line = "" if code is None else f" (line {code.co_firstlineno})"
        value = f"{getattr(function, '__name__', 'function')}{signature}"
        wrong = f"this function{line} cannot be called with {arguments}"
        raise ConfigError(wrong, field=what, value=value, allowed=allowed) from None
