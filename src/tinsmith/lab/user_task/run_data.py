"""Task as the data of a run: its items, code identity, models and base, and the records for its page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import msgspec

from tinsmith.data.replacing import replacing
from tinsmith.data.slices.splits import Split
from tinsmith.lab.base_recipe import BaseRecipe, Conversation
from tinsmith.lab.course import Course
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, Lengths, pace_of, run_seconds, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import shown_value
from tinsmith.lab.experiment.materials import is_loaded_here, named_model, served_name
from tinsmith.lab.forgetting import general_changes, general_metrics
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.prompting import cost_of, load_prices
from tinsmith.lab.judge.records import RULES, CriteriaRecord, Spent
from tinsmith.lab.live.watch import Examinee, Watch
from tinsmith.lab.nano_base import cached_base, missing_base
from tinsmith.lab.policy import ALONE
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.runs.files import GENERAL, LEDGER, SECTIONS, TASK, TASKS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import ExampleRecord, examples_summary
from tinsmith.lab.schedule import NONE, subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import serves
from tinsmith.lab.service.official_client import ready
from tinsmith.lab.user_task import judge_choice
from tinsmith.lab.user_task.calls import Raised, attempt, required
from tinsmith.lab.user_task.dialogue import Dialogue, Earned, score_group
from tinsmith.lab.user_task.entry import TaskFrame
from tinsmith.lab.user_task.functions import TaskSource
from tinsmith.lab.user_task.items import UserItem, UserSplit, chosen_items, items_of_base, split_items
from tinsmith.lab.user_task.judged import JudgedReward
from tinsmith.lab.user_task.reward_check import check_lines, filter_examples, tried
from tinsmith.lab.user_task.step_reward import Failed, StepReward
from tinsmith.lab.user_task.subject import FrozenModel, UserSubject
from tinsmith.lab.user_task.task import ITSELF, Model, Reward, Task
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.renderer import Message, Role
from tinsmith.stats.monitors import ResponseMonitor
from tinsmith.types.errors import ConfigError, DataError, TinsmithError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.seeds import derive
from tinsmith.types.waits import Say, unsaid

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHARACTERS: Final = 4.0  # Of a pretrained model's tokenizer.
_CHAT_TOKENS: Final = 30  # That a pretrained model's chat template puts around a prompt: SmolLM2's 31.
_BASE_MEGABYTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """Data of a run on a task, with the contents of its folder and forecast."""

    plan: Plan
    task: Task
    source: TaskSource
    split: UserSplit  # What this run trains on and is evaluated on.
    every: UserSplit  # All that the task has, each item with its own right answer.
    examples: Sequence[ExampleRecord] | None = None  # The items from which the task's `examples` chose.
    recorded: Path | None = None
    """Folder of a run whose recorded verdicts replace a remote judge; None to ask the judge."""

    @property
    def frame(self) -> TaskFrame:
        """The plan's frame."""
        assert isinstance(self.plan.frame, TaskFrame)
        return self.plan.frame

    @property
    def judged(self) -> JudgedReward | None:
        """Judge of the task, if its reward is one."""
        return self.task.reward if isinstance(self.task.reward, JudgedReward) else None

    @property
    def other_model(self) -> Model | None:
        """Frozen model that the task asks."""
        return None if self.task.talk is None else self.task.talk.model

    def identity(self) -> Mapping[str, object]:
        """Return the identity's fields beyond the plan's keys; locations of files are not among them."""
        # A folder stands here by the name that it is served by.
        served = {} if self.other_model is None else {name: key for key, name in self.models().items()}
        own, files, split = self.plan.experiment.subject.own_keys, self._files(), self.split
        record = None if self.task.tools is None else self.task.tools.record
        data: dict[str, object] = {"sha256": self._items_sha256, "train": len(split.train)}
        data |= {"held_out": len(split.held_out), **({"tested": len(split.tested)} if split.tested else {})}
        if self.examples is not None:
            data["examples"] = sha256_of([(one.id, one.sha256, one.left_out) for one in self.examples])
        data |= {} if record is None else {"record": sha256_of(record)}
        # Of a packaged task's file nothing counts but its items, which are hashed.
        if given := {} if self.source.is_packaged else {name: str(one) for name, one in files.items() if one}:
            data["files"] = {name: _content_sha256(name, Path(path)) for name, path in given.items()}
        return {
            "data": data,
            "code": {**self.source.sha256, **self.task.identity},
            "own_keys": {key: served.get(str(value), value) for key, value in own.items() if key not in files},
        }

    def config(self) -> Mapping[str, object]:
        """Return the entries of `config.json`: `task`, `reward`, `data`."""
        split, judged = self.split, self.judged
        data: dict[str, object] = {"fingerprint": self._items_sha256, "train": len(split.train)}
        data |= {"validation": len(split.held_out)} if split.tested else {}
        data |= {"test": len(split.tested or split.held_out)}
        if judged is not None:
            data["rubrics"] = sum(len(judged.criteria(one.item)) for one in (*split.train, *split.held_out))
        judge = {} if judged is None else {"judge": judge_choice.parts_of(self.plan)[0].judge_model}
        reward = {"name": " + ".join(self.task.terms), **judge}
        return {"task": {"name": self.plan.experiment.name}, "reward": reward, "data": data}

    def circumstances(self) -> Mapping[str, object]:
        """Return the task's location, and the settings of a judge's requests."""
        asking = {} if self.judged is None else judge_choice.asking_circumstances(judge_choice.parts_of(self.plan)[1])
        return {"task": self.source.found_at, "files": self._files(), **asking}

    @property
    def _items_sha256(self) -> str:
        return self.task.items_sha256 or self.split.sha256

    def _files(self) -> dict[str, object]:
        return {key.name: self.plan.experiment.subject.own_keys[key.name] for key in self.source.keys if key.is_file}

    def nano_base(self, say: Say) -> Path:
        """Return the small base, built unless cached."""
        return cached_base(*self._base(), say)

    def missing_base(self) -> Mapping[Path, float]:
        """Return the minutes to build the base, by its place; empty if it is cached, or a model is named."""
        return missing_base(*self._base()) if self._builds else {}

    def _base(self) -> tuple[BaseRecipe, Sequence[Conversation]]:
        task = self.task
        if task.base is not None:
            return task.base.recipe, required(task.base.conversations, field="conversations", value=task.name)
        recipe = recipe_of(task)
        read = items_of_base(task, self.source.folder) or self.every.train
        return recipe, task_conversations(task, read, recipe)

    @property
    def _builds(self) -> bool:
        return self.plan.circumstances.model_name is None and self.plan.circumstances.base_url is None

    def models(self) -> Mapping[str, str]:
        """Return the judge's or frozen model's source, if the run's server is to load it too."""
        if self.other_model is not None:
            loaded = self.other_model.name != ITSELF and is_loaded_here(self.other_model.name, self.plan.circumstances)
            return {self.other_model.key: self.other_model.name} if loaded else {}
        if self.judged is None or not judge_choice.is_own(self.plan):
            return {}
        return {judge_choice.JUDGE_NAME: judge_choice.parts_of(self.plan)[0].judge_model}

    def before(self) -> list[str]:
        """Return lines on the items read."""
        split = self.split
        message = f"{len(split.train)} items to train on, {len(split.held_out)} held out"
        if split.tested:
            message += f", {len(split.tested)} tested at the end"
        trained = {one.messages for one in split.train}
        if both := sum(one.messages in trained for one in (*split.held_out, *split.tested)):
            message += f"; {both} of these have a prompt that is trained on too"
        if apart := sum(one.aside for one in split.train):
            message += f"; {apart} of the first are aside, for batches of their own"
        if split.repeated:
            message += f"; {split.repeated} duplicates are left out"
        if self.examples is not None:
            message += f"; examples: {examples_summary(self.examples)}"
        if not split.held_out:
            message += ": evaluated on the training items, which says nothing about new ones"
        cost = [] if self.judged is None else judge_choice.cost_lines(self.plan, self.task, self.judged, split)
        return [f"{message}; reward: {' + '.join(self.task.terms)}", *self.task.notes, *cost]

    def forecast(self) -> list[str]:
        """Return the lines of a dry run; nothing is built."""
        where, lines = self.plan.circumstances, self.before()
        if self.plan.experiment.subject.own_keys:
            values = (f"{key}={shown_value(one)}" for key, one in self.plan.experiment.subject.own_keys.items())
            lines.append(f"the task's own keys: {' '.join(values)}")
        for minutes in self.missing_base().values():
            lines.append(f"first a small base: {time_and_disk(minutes, _BASE_MEGABYTES)}")
        by_rules = self.judged is None or judge_choice.parts_of(self.plan)[0].judge_model == RULES
        lines += tried(self.task, (*self.split.train, *self.split.held_out)[0], asks_judge=by_rules)
        if where.check_reward:
            found = check_lines(self.task, self.every.train, self.plan.settings.seed) if by_rules else ()
            lines += found or ["a reward is checked without a model: judge_model=rules"]
        return [*lines, f"{self.plan.settings.steps} steps; time: {time_and_disk(self.minutes(), RUN_MEGABYTES)}"]

    def minutes(self) -> float | None:
        """Return the time of the run on two cores, without its base; None if the model is unknown."""
        pace = pace_of(self.plan)
        return None if pace is None else run_seconds(self.plan.settings, self.lengths(), pace) / 60

    def lengths(self) -> Lengths:
        """Return the expected lengths of prompts and answers."""
        settings, split, probed, builds = self.plan.settings, self.split, self.task.probed, self._builds
        items = (*split.train, *split.held_out)
        a_token = TaskBaseRecipe.characters_per_token if builds else _CHARACTERS
        options: list[list[int]] = []  # letters of each of an item's answers
        listed = self.task.options if probed is None and getattr(settings, "force_options", False) else None
        of, mark = (listed, 0) if probed is None else (probed.options, len(probed.before_answer))
        for one in items if of is not None else ():
            assert of is not None
            texts = attempt(of, one.item)
            options.append([] if isinstance(texts, Raised) else [mark + len(each) for each in texts])
        # At most: a conversation may end before, and not every reply begins conversations below it.
        talk = self.task.talk
        replies = 1 if talk is None else (1 + talk.forks * (talk.most - 1)) * (1 + talk.deepest)
        return Lengths(
            prompt=sum(len(one.prompt) for one in items) / len(items) / a_token + (0 if builds else _CHAT_TOKENS),
            answer=settings.max_tokens / 2 * replies,
            replies=replies,
            options=fmean(map(sum, options)) / a_token if options else 0.0,
            option_texts=fmean(map(len, options)) if options else 0.0,
            examined=min(settings.eval_items, len(split.held_out or items)),
            tested=len(subset(split.tested, settings.test_items, lambda one: one.unit)) * (1 + len(self.task.controls)),
            eval_samples=self.frame.eval_samples,
        )

    def examined_items(self) -> Sequence[UserItem]:
        """Return the items of the evaluations while it trains."""
        items = self.split.held_out or self.split.train
        return subset(items, self.plan.settings.eval_items, lambda one: one.unit)

    def begin(self, folder: RunFolder) -> None:
        """Write the task's records of its items into the run's folder."""
        task, split, examined = self.task, self.split, self.examined_items()
        if self.judged is not None:
            write_tasks(self.judged, split, folder.path / TASKS)
        baselines, tested_baselines = (
            [{"name": name, **_baseline(task, answer, items)} for name, answer in task.baselines.items()]
            for items in (examined, split.tested)
        )
        record: dict[str, object] = {
            "terms": list(task.terms),
            "metrics": list(task.measured),
            "parsed": task.parse is not None,
            "several_turns": task.talk is not None,
            "items": _shown(task, examined),
            **({"tested": _shown(task, split.tested), "tested_baselines": tested_baselines} if split.tested else {}),
            **({"figures": dict(task.figures)} if task.figures else {}),
        }
        if self.examples is not None:
            record["examples"] = msgspec.to_builtins(self.examples)
        folder.write_json(TASK, {**record, "baselines": baselines})

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[UserItem, Earned]:
        """Return the training and evaluation procedure."""
        renderer = renderer_for(tokenizer)

        def general(policy: Examinee) -> Mapping[str, float]:
            changes = general_changes(policy.base(), policy.client, renderer)
            folder.write_json(GENERAL, {"texts": changes})
            return general_metrics(changes)

        model = None if self.other_model is None else self._opened_model(self.other_model, connection, tokenizer)
        reward = self._opened_reward(folder, connection)
        task = replace(self.task, reward=reward)
        subject, settings = UserSubject(task=task, split=self.split, renderer=renderer, model=model), self.plan.settings
        evaluated = subset(subject.items(Split.VALIDATION), settings.eval_items, subject.unit)
        return Course(
            subject=subject,
            settings=settings,
            watch=Watch[UserItem, Earned](monitor=ResponseMonitor(_largest_share(self.task, evaluated))),
            samples=self.frame.eval_samples,
            forks=1 if self.task.talk is None else self.task.talk.forks,
            agents=ALONE if self.task.talk is None else self.task.talk.agents_by_step,
            controls={
                name: replace(subject, task=self._rewarded_alike(control, reward))
                for name, control in self.task.controls.items()
            },
            later_steps=self.task.later_steps,
            at_end=general if self.frame.watch_forgetting else None,
            keep=lambda found: folder.write_json(SECTIONS, {"sections": msgspec.to_builtins(found)}),
        )

    def _opened_model(self, model: Model, connection: Connection, own: PreTrainedTokenizerBase) -> FrozenModel:
        """Return the task's frozen model on the run's server; `own` is the trained model's tokenizer."""
        where = self.plan.circumstances
        trained = served_name(where.model_name, where.base_url)
        beside = model.key in self.models()
        name = model.key if beside else trained if model.name == ITSELF else model.name
        if name != trained and not serves(connection, name):
            allowed = f"{ITSELF}, a folder, FILE.gguf, smollm2, or a name that base_url serves"
            raise ConfigError("this run's server has no such model", field=model.key, value=model.name, allowed=allowed)
        client = ready(connection.client.create_sampling_client(base_model=name), WAIT_SECONDS)
        tokenizer = tokenizer_of(model.name) if beside else own if name == trained else client.get_tokenizer()
        return FrozenModel(client=client, renderer=renderer_for(tokenizer), model=model)

    def _rewarded_alike(self, control: Task, opened: Reward | Mapping[str, Reward] | StepReward) -> Task:
        """Return a control of the test with the task's reward as the run opened it, or its own with the same judge."""
        if control.reward is self.task.reward:
            return replace(control, reward=opened)
        if isinstance(control.reward, JudgedReward) and isinstance(opened, JudgedReward):
            return replace(control, reward=replace(control.reward, judge=opened.judge, paid=opened.paid))
        return control

    def _opened_reward(self, folder: RunFolder, connection: Connection) -> Reward | Mapping[str, Reward] | StepReward:
        """Return the task's reward; costs of each judge request are written into the ledger."""
        if self.judged is None:
            reward = deepcopy(self.task.reward)  # what it remembers is this run's alone
            if isinstance(reward, StepReward):
                named = named_model(self.plan)
                reward.open(lambda: str(self.nano_base(unsaid)) if named is None else named[1])
            return reward
        frame, asking = judge_choice.parts_of(self.plan)
        prices = load_prices(asking.prices)

        def paid(counts: Mapping[str, int], spent: Spent) -> None:
            dollars = cost_of(prices, frame.judge_model, spent)
            left_out = sorted(judge.left_out) if isinstance(judge, BlockingJudge) else []
            more = {"left_out": left_out} if left_out else {}
            folder.append(LEDGER, [{**counts, **asdict(spent), "dollars": dollars, **more}])

        judge = judge_choice.open_judge(self.plan, self.judged, connection, self.recorded)
        return self.judged.opened(judge, paid)


def write_tasks(judged: JudgedReward, split: UserSplit, file: Path) -> None:
    """Write one line per item with its criteria; replaces the file atomically."""
    with replacing(file) as part, part.open("w", encoding="utf-8", newline="\n") as lines:
        for side, items in (("train", split.train), ("test", split.held_out), ("tested", split.tested)):
            for one in items:
                found, prompt = tuple(judged.criteria(one.item)), judged.prompt(one.item)
                line = CriteriaRecord(
                    task_id=one.prompt_id,
                    split=side,
                    prompt=one.prompt,
                    criteria=found,
                    judge_prompt="" if prompt == one.prompt else prompt,
                )
                lines.write(json.dumps(msgspec.to_builtins(line), ensure_ascii=False) + "\n")


def _shown(task: Task, items: Sequence[UserItem]) -> list[dict[str, str]]:
    found = [{"id": one.prompt_id, "prompt": one.prompt, "unit": one.unit} for one in items]
    for line, one in zip(found, items, strict=True):
        if answer := _right_answer(task, one):
            line["answer"] = answer
    return found


def _largest_share(task: Task, items: Sequence[UserItem]) -> float:
    """Return the largest share of items with one and the same right answer; 0 if none is known."""
    counts = Counter(answer for one in items if (answer := _right_answer(task, one)))
    return max(counts.values(), default=0) / max(1, len(items))


def _right_answer(task: Task, one: UserItem) -> str:
    """Return a task's right answer, of several replies the last; empty without one, or after a failure."""
    named = task.answer if task.probed is None else task.probed.gold
    found = None if named is None else attempt(named, one.item)
    if found is None or isinstance(found, Raised):
        return ""
    return str(found[-1]) if isinstance(found, list | tuple) and found else str(found or "")


def _baseline(task: Task, answer: Callable[[Any], str | Sequence[str]], items: Sequence[UserItem]) -> dict[str, object]:
    by_item: dict[str, float] = {}
    metrics: dict[str, dict[str, float]] = {name: {} for name in task.metrics}
    for item in items:
        texts = attempt(answer, item.item)
        if isinstance(texts, Raised):
            return {"failure": str(texts)}
        (scored,) = score_group(task, item.item, [[texts] if isinstance(texts, str) else [str(each) for each in texts]])
        if isinstance(scored, Failed):
            return {"failure": f"{scored.where} {scored.what}"}
        by_item[item.prompt_id] = scored.total
        for name, value in scored.metrics.items():
            metrics[name][item.prompt_id] = value
    return {"by_item": by_item, "metrics": metrics}


def _content_sha256(key: str, path: Path) -> str:
    try:
        if not path.is_dir():
            return file_sha256(path)
        return sha256_of({str(one.relative_to(path)): file_sha256(one) for one in path.rglob("*") if one.is_file()})
    except OSError as error:
        raise DataError(f"this cannot be read: {error.strerror}", field=key, value=str(path)) from None


def task_data(plan: Plan) -> TaskData:
    """Read a task's items for a plan."""
    frame, subject = plan.frame, plan.experiment.subject
    task, source = subject.task_of(plan), subject.source
    assert isinstance(frame, TaskFrame)
    assert source is not None, "a task without a name is made by its source"
    seed = plan.settings.seed if frame.split_seed < 0 else frame.split_seed
    try:
        every = split_items(task, source.folder, seed)
        left, examples = every, None
        if task.examples is not None:
            examples = filter_examples(task, task.examples, every.train)
            passes = tuple(one for one, found in zip(every.train, examples, strict=True) if not found.left_out)
            left = replace(every, train=passes)
        split = chosen_items(task, left, examined=frame.examined, shuffle_labels=frame.shuffle_labels, seed=seed)
        if isinstance(task.reward, JudgedReward):
            judge_choice.require_judge(plan, task, task.reward, every)
            load_prices(judge_choice.parts_of(plan)[1].prices)  # what it refuses is told before anything is built
        if task.aside is not None:
            apart, interleave = sum(one.aside for one in split.train), getattr(plan.settings, "interleave", NONE)
            if apart == len(split.train):
                raise DataError("all training items are set aside", field="aside", value=apart)
            if interleave != NONE and not apart:
                what, allowed = "no training item is set aside", "none, or an aside= that is true for some items"
                raise DataError(what, field="interleave", value=interleave, allowed=allowed)
    except TinsmithError as error:
        raise source.located(error) from None
    return TaskData(plan=plan, task=task, source=source, split=split, every=every, examples=examples)


def data_of_task(plan: Plan) -> TaskData:
    """Return the data of a run on a task."""
    found = plan.experiment.subject.run_data(plan, print)
    assert isinstance(found, TaskData), "the run is on a task"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBaseRecipe(BaseRecipe):
    """Recipe of a base from a task's demonstrations: it knows the form of answers before any reward."""

    characters_per_token: ClassVar[float] = 2.5
    """With so small a vocabulary."""

    vocab_size: int = 512
    max_positions: int = 1024
    steps: int = 1_000
    learning_rate: float = 3e-3
    count: int = 8_000
    """Demonstrations; the training items are gone through again and again."""


def recipe_of(task: Task) -> TaskBaseRecipe:
    """Return the recipe of a task's base: the laboratory's, for the task's number of steps."""
    recipe = TaskBaseRecipe()
    return replace(recipe, steps=task.base_steps) if task.base_steps else recipe


def task_conversations(task: Task, items: Sequence[UserItem], recipe: TaskBaseRecipe) -> list[Conversation]:
    """Return the base's training conversations, about training items only."""
    if task.demonstrate is None:
        what = "this task shows no answers (demonstrate=) that a small base could be built from, and no model is named"
        small, named = "at=small (SmolLM2; `tinsmith base fetch smollm2` once)", "base_url=... or learning_rate=..."
        fix = f"{small}, model_name=... with {named}, or demonstrate=... in the task"
        raise ConfigError(what, field="model_name", fix=fix)
    return [
        _conversation(task, items[place % len(items)], derive(recipe.seed, "demonstration", place))
        for place in range(recipe.count)
    ]


def _conversation(task: Task, item: UserItem, seed: int) -> Conversation:
    assert task.demonstrate is not None

    def refused(wrong: object) -> ConfigError:
        return ConfigError(f"a demonstration failed: {wrong}", field="demonstrate", value=item.item)

    demonstration = attempt(task.demonstrate, item.item, Random(seed))
    if isinstance(demonstration, Raised):
        raise refused(demonstration)
    replies = (demonstration,) if isinstance(demonstration, str) else demonstration
    if not replies or not all(isinstance(cast(object, each), str) for each in replies):
        raise refused(f"it gave {replies!r}, and no text or list of texts")
    messages = [*item.messages, Message(role=Role.ASSISTANT, content=replies[0])]
    talk = Dialogue(task=task, item=item, seed=seed)
    for reply, after in pairwise(replies):
        response = talk.say_shown(reply)
        if talk.failed is not None:
            raise refused(talk.failed.what)
        if not isinstance(response, str):
            break  # the task has nothing to say to it
        messages += [Message(role=Role.USER, content=response), Message(role=Role.ASSISTANT, content=after)]
    return tuple(messages)
