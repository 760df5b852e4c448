"""What the rubrics' base reads: short instructions with answers, few of which do what they are asked.

So it knows how answers look and seldom gives the one that is asked for, which is what is left to reinforce. Every
second instruction asks for its own words instead: without these a small model never finds out that an answer may depend
on the words of its prompt, and rewards then teach it little but the text that passes most rubrics whatever is asked.

The kinds of instructions, with rules and worked answers, are those of `templates.toml`, of which the built-in tasks are
made too; no prompt of these, training or held-out, is among the demonstrations.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Final

import msgspec

from tinsmith.lab.base_recipe import BaseRecipe, Conversation
from tinsmith.lab.judge.rules.rule_text import RuleJudge
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.rubrics.dataset import builtin_dataset
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits

Words = tuple[str, str, str]  # Three words that differ; a template uses the first ones it needs.
_TIMES: Final = ("two", "three", "four")


class Template(msgspec.Struct, frozen=True):
    """An instruction, the rules for its answer, and an answer that obeys every one."""

    prompt: str
    rules: tuple[str, ...]
    answer: str

    def filled(self, words: Words, number: int) -> Template:
        """Return it with words, the `number`-th of its kind, its rules as criteria carry them."""
        place = number % len(_TIMES)
        values = dict(zip("abc", words, strict=True), n=place + 2, times=_TIMES[place])
        values["repeated"] = " ".join([words[0]] * (place + 2))
        rules = tuple(f"rule: {each.format(**values)}" for each in self.rules)
        return Template(self.prompt.format(**values), rules, self.answer.format(**values))


class _File(msgspec.Struct, frozen=True):
    lexicon: str
    families: dict[str, Template]


_FILE: Final = msgspec.convert(
    tomllib.loads(resources.files("tinsmith.studies.rubrics").joinpath("templates.toml").read_text("utf-8")), _File
)
LEXICON: Final = tuple(_FILE.lexicon.split())  # Every word that the built-in tasks ask for.
FAMILIES: Final = tuple(_FILE.families.items())  # Templates by the name of their kind.


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricBaseRecipe(BaseRecipe):
    """How a base is built from demonstrations of the kinds of instruction that the built-in tasks are of."""

    vocab_size: int = 512
    max_positions: int = 256
    steps: int = 1500
    learning_rate: float = 3e-3
    count: int = 24_000  # Demonstrations; as many steps as these read each of them twice.
    obeying: float = 0.15  # Share of them that do all that is asked on purpose; a few others do by chance.
    reading_every: int = 2  # Every so many-th asks for the words of its instruction instead; 0: none.


def rubric_conversations(recipe: RubricBaseRecipe) -> list[Conversation]:
    """Make one conversation a demonstration."""
    seed = derive(recipe.seed, "demonstrations")
    conversations: list[Conversation] = []
    for i, shown in enumerate(demonstrations(recipe.count, seed=seed, obeying=recipe.obeying)):
        prompt, answer = shown.prompt, shown.answer
        if recipe.reading_every and i % recipe.reading_every == 0:
            prompt, answer = _reading(prompt)
        asked = Message(role=Role.USER, content=prompt)
        conversations.append((asked, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def _reading(instruction: str) -> tuple[str, str]:
    """The instruction with a last line that asks for words; and those that it names, in its order."""
    named = [word for word in re.findall(r"\w+", instruction) if word in LEXICON]
    return f"{instruction}\nReturn words.", " ".join(named)


_RAMBLES: Final = (5, 6, 7)  # Words of the lexicon in a ramble; with what joins them, 13 to 19 words.


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A prompt, and an answer to it; `obeys` where the answer does all that is asked."""

    prompt: str
    answer: str
    obeys: bool


def demonstrations(count: int, *, seed: int, obeying: float = 0.2) -> tuple[Demonstration, ...]:
    """Make `count` demonstrations; demonstration i is the same whatever the count.

    A share `obeying` does what is asked. Of the others, a half answers some instruction or other
    with other words, and a half rambles.
    """
    if count < 0:
        raise ConfigError("at least none", field="count", value=count)
    if not 0 <= obeying <= 1:
        raise ConfigError("a share", field="obeying", value=obeying, allowed="0 <= obeying <= 1")
    taken = frozenset(task.prompt for task in builtin_dataset().tasks)
    return tuple(_demonstration(derive(seed, "demonstration", i), obeying, taken) for i in range(count))


def _demonstration(seed: int, obeying: float, taken: frozenset[str]) -> Demonstration:
    attempt = 0
    while True:  # every family has far more prompts than the built-in tasks use
        bits = [int(word) for word in random_bits(derive(seed, attempt), 5)]
        _, template = FAMILIES[bits[0] % len(FAMILIES)]
        sheet = template.filled(_three(bits[1]), bits[2] % len(LEXICON))
        if sheet.prompt not in taken:
            break
        attempt += 1
    unit = (bits[3] >> 11) * 2.0**-53
    if unit < obeying:
        return Demonstration(prompt=sheet.prompt, answer=sheet.answer, obeys=True)
    if bits[3] % 2:
        _, other = FAMILIES[bits[4] % len(FAMILIES)]
        answer = other.filled(_three(bits[4] // len(FAMILIES)), 0).answer
    else:
        order = _shuffled(bits[4])
        answer = " and the ".join(order[: _RAMBLES[bits[2] % len(_RAMBLES)]])
    obeys = all(RuleJudge(sheet.rules).held(answer))
    return Demonstration(prompt=sheet.prompt, answer=answer, obeys=obeys)


def _three(seed: int) -> Words:
    first, second, third, *_ = _shuffled(seed)
    return first, second, third


def _shuffled(seed: int) -> list[str]:
    keys = random_bits(seed, len(LEXICON))
    return [LEXICON[i] for i in sorted(range(len(LEXICON)), key=lambda i: int(keys[i]))]
