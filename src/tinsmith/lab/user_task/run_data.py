"""A task of the user's own as the data of a run: its items, its code's identity, and what its page needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, pace_of, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.experiment.model_pace import Lengths, run_seconds
from tinsmith.lab.forgetting import general_changes, general_metrics
from tinsmith.lab.interleave import NONE
from tinsmith.lab.judge.prices import load_prices
from tinsmith.lab.judge.records import write_tasks
from tinsmith.lab.live.progress import Say
from tinsmith.lab.live.watch import Examinee, ResponseWatch
from tinsmith.lab.nano_base import cached_base
from tinsmith.lab.runs.files import GENERAL, LEDGER, SECTIONS, TASK, TASKS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.user_task.asked_model import loaded_beside, open_model
from tinsmith.lab.user_task.base import BASE_MEGABYTES, NANO_CHARACTERS, base_minutes, recipe_of, task_base
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.chosen_items import chosen_items
from tinsmith.lab.user_task.entry import OpenedTask
from tinsmith.lab.user_task.items import UserItem, UserSplit, items_of_base, split_items
from tinsmith.lab.user_task.judge_choice import JUDGE_NAME, is_own, open_judge, parts_of, require_judge
from tinsmith.lab.user_task.judge_cost import asking_circumstances, cost_lines, ledger_line
from tinsmith.lab.user_task.judged import JudgedReward, Judging
from tinsmith.lab.user_task.kinds import TaskFrame
from tinsmith.lab.user_task.scoring import Failed, score_group
from tinsmith.lab.user_task.subject import UserAnswer, UserSubject
from tinsmith.lab.user_task.task import Model, Task
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.errors import DataError, TinsmithError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_CHARACTERS_PER_TOKEN: Final = 4.0
"""Of a pretrained model's tokenizer."""
_CHAT_TOKENS: Final = 30
"""That a pretrained model's chat template puts around a prompt: SmolLM2's 31."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """See RunData; its methods are described there."""

    plan: Plan
    opened: OpenedTask
    split: UserSplit
    """What this run trains on and is evaluated on."""
    every: UserSplit
    """All that the task has, each item with its own right answer."""
    recorded: Path | None = None
    """Folder of a run whose record answers for a judge elsewhere; None: the judge is asked."""

    @property
    def task(self) -> Task:
        """What its source made."""
        return self.opened.task

    @property
    def frame(self) -> TaskFrame:
        """The plan's frame."""
        assert isinstance(self.plan.frame, TaskFrame)
        return self.plan.frame

    def identity(self) -> Mapping[str, object]:
        """See RunData; where the file lies does not matter."""
        served = {} if self.asked is None else {name: key for key, name in self.models().items()}
        return {
            "data": {"sha256": self._items_sha256, **self._rows()},
            "code": {**self.opened.source.sha256, **self.task.identity},
            # A folder stands here by the name that it is served by: where it lies does not matter.
            "own_keys": {
                key: served.get(str(value), value)
                for key, value in self.opened.own_keys.items()
                if key not in self._files()
            },
        }

    def config(self) -> Mapping[str, object]:
        """See RunData."""
        judge = {} if self.judged is None else {"judge": parts_of(self.plan)[0].judge_model}
        return {
            "task": {"name": self.opened.name},
            "reward": {"name": " + ".join(self.task.terms), **judge},
            "data": {
                "fingerprint": self._items_sha256,
                "train": len(self.split.train),
                **self._evaluated(),
                **({} if self.judged is None else {"rubrics": self._criteria()}),
            },
        }

    @property
    def judged(self) -> JudgedReward | None:
        """The task's reward, where it is a judge."""
        return self.task.reward if isinstance(self.task.reward, JudgedReward) else None

    @property
    def _items_sha256(self) -> str:
        return self.task.items_sha256 or self.split.sha256

    def _criteria(self) -> int:
        assert self.judged is not None
        return sum(len(self.judged.criteria(one.item)) for one in (*self.split.train, *self.split.held_out))

    def _rows(self) -> dict[str, int]:
        tested = {"tested": len(self.split.tested)} if self.split.tested else {}
        return {"train": len(self.split.train), "held_out": len(self.split.held_out), **tested}

    def _evaluated(self) -> dict[str, int]:
        if not self.split.tested:
            return {"test": len(self.split.held_out)}
        return {"validation": len(self.split.held_out), "test": len(self.split.tested)}

    @property
    def asked(self) -> Model | None:
        """The frozen model that the task asks."""
        return None if self.task.talk is None else self.task.talk.model

    def circumstances(self) -> Mapping[str, object]:
        """See RunData."""
        asking = {} if self.judged is None else asking_circumstances(parts_of(self.plan)[1])
        return {"task": self.opened.source.found_at, "files": self._files(), **asking}

    def _files(self) -> dict[str, object]:
        """Return the task's own keys that are paths."""
        return {key.name: self.opened.own_keys[key.name] for key in self.opened.source.keys if key.is_file}

    def nano_base(self, say: Say) -> Path:
        """See RunData."""
        if self.task.base is not None:
            return cached_base(self.task.base.recipe, self.task.base.conversations(), say)
        return task_base(self.task, self._read_by_base(), recipe_of(self.task), say)

    def _read_by_base(self) -> Sequence[UserItem]:
        """Return what the small base reads demonstrations of."""
        apart = items_of_base(self.task, self.opened.source.folder)
        return self.every.train if apart is None else apart

    def models(self) -> Mapping[str, str]:
        """Return the judge or who is asked, where it is a model of this machine: the run's server serves it too."""
        if self.asked is not None:
            return loaded_beside(self.plan, self.asked)
        if self.judged is None or not is_own(self.plan):
            return {}
        return {JUDGE_NAME: parts_of(self.plan)[0].judge_model}

    def before(self) -> list[str]:
        """Return what was read."""
        told = f"{len(self.split.train)} items to train on, {len(self.split.held_out)} held out"
        if self.split.tested:
            told += f", {len(self.split.tested)} tested at the end"
        if apart := sum(one.aside for one in self.split.train):
            told += f"; {apart} of the first are aside, for batches of their own"
        if self.split.repeated:
            told += f"; {self.split.repeated} that were there before are left out"
        if not self.split.held_out:
            told += ": the items of training are evaluated, which says nothing of others"
        cost = [] if self.judged is None else cost_lines(self.plan, self.judged, self.split)
        return [f"{told}; reward: {' + '.join(self.task.terms)}", *self.task.notes, *cost]

    def forecast(self) -> list[str]:
        """Return what the run would take: lines for a person; nothing is built."""
        plan, where, lines = self.plan, self.plan.circumstances, self.before()
        if self.opened.own_keys:
            values = (f"{key}={shown_value(one)}" for key, one in self.opened.own_keys.items())
            lines.append(f"the task's own keys: {' '.join(values)}")
        if where.model_name is not None or where.base_url is not None or self.task.base is not None:
            taken = time_and_disk(self.minutes(), RUN_MEGABYTES)
            return [*lines, f"{plan.settings.steps} steps; time: {taken}"]
        base = time_and_disk(base_minutes(self.task, self._read_by_base()), BASE_MEGABYTES)
        lines.append(f"first, unless it is cached, a small base from the demonstrations: {base}")
        taken = time_and_disk(self.minutes(), RUN_MEGABYTES)
        return [*lines, f"{plan.settings.steps} steps; time: {taken}"]

    def minutes(self) -> float | None:
        """Return how long the run takes on two cores, without its base; None: nothing is known of the model."""
        pace = pace_of(self.plan)
        return None if pace is None else run_seconds(self.plan.settings, self.lengths(), pace) / 60

    def lengths(self) -> Lengths:
        """Return how long what is asked and answered will be, as far as can be told before."""
        plan, where = self.plan, self.plan.circumstances
        builds = where.model_name is None and where.base_url is None
        tested = len(subset(self.split.tested, plan.settings.test_items, lambda one: one.unit))
        items = (*self.split.train, *self.split.held_out)
        letters = sum(len(one.prompt) for one in items) / len(items)
        a_token = NANO_CHARACTERS if builds else _CHARACTERS_PER_TOKEN
        return Lengths(
            prompt=letters / a_token + (0 if builds else _CHAT_TOKENS),
            answer=plan.settings.max_tokens / 2 * (1 if self.task.turns is None else self.task.turns.most),
            options=self._letters_of_options(items) / a_token,
            examined=min(plan.settings.eval_items, len(self.split.held_out or items)),
            tested=tested * (1 + len(self.task.controls)),
            eval_samples=self.frame.eval_samples,
        )

    def _letters_of_options(self, items: Sequence[UserItem]) -> float:
        """Return how many letters an item's answers have, together and on average; 0: the task is not probed."""
        probed = self.task.probed
        if probed is None:
            return 0.0
        said = [attempt(probed.options, one.item) for one in items]
        mark = len(probed.before_answer)
        letters = [0 if isinstance(one, Raised) else sum(mark + len(each) for each in one) for one in said]
        return sum(letters) / len(letters)

    def begin(self, folder: RunFolder) -> None:
        """See RunData."""
        items, most = self.split.held_out or self.split.train, self.plan.settings.eval_items
        examined = subset(items, most, lambda one: one.unit)
        if self.judged is not None:
            write_tasks(self.judged.criteria, self.split.train, self.split.held_out, folder.path / TASKS)
        folder.write_json(
            TASK,
            {
                "terms": list(self.task.terms),
                "metrics": list(self.task.measured),
                "parsed": self.task.parse is not None,
                "several_turns": self.task.talk is not None,
                "items": _shown(examined),
                **({"tested": _shown(self.split.tested)} if self.split.tested else {}),
                **({"figures": dict(self.task.figures)} if self.task.figures else {}),
                "baselines": [
                    {"name": name, **_baseline(self.task, answer, examined)}
                    for name, answer in self.task.baselines.items()
                ],
            },
        )

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[UserItem, UserAnswer]:
        """See RunData."""
        renderer = renderer_for(tokenizer)

        def general(policy: Examinee) -> Mapping[str, float]:
            changes = general_changes(policy.base(), policy.client, renderer)
            folder.write_json(GENERAL, {"texts": [asdict(one) for one in changes]})
            return general_metrics(changes)

        model = None if self.asked is None else open_model(self.plan, self.asked, connection, tokenizer)
        subject = UserSubject(
            task=self._with_judge(folder, connection), split=self.split, renderer=renderer, model=model
        )
        return Course(
            subject=subject,
            settings=self.plan.settings,
            watch=ResponseWatch(),
            samples=self.frame.eval_samples,
            forks=1 if self.task.talk is None else self.task.talk.forks,
            controls={name: replace(subject, task=control) for name, control in self.task.controls.items()},
            at_end=general if self.frame.watch_forgetting else None,
            keep=lambda found: folder.write_json(SECTIONS, {"sections": [asdict(one) for one in found]}),
        )

    def _with_judge(self, folder: RunFolder, connection: Connection) -> Task:
        """Return the task with its judge open, and what each asking takes written into the ledger."""
        if self.judged is None:
            # A copy: what it remembers is this run's alone.
            return replace(self.task, reward=deepcopy(self.task.reward))
        prices = load_prices(parts_of(self.plan)[1].prices)

        def paid(judging: Judging) -> None:
            dollars = prices.dollars(parts_of(self.plan)[0].judge_model, judging.spent)
            folder.append(LEDGER, [ledger_line(judging, dollars)])

        judge = open_judge(self.plan, self.judged, connection, self.recorded)
        return replace(self.task, reward=self.judged.opened(judge, paid))


def _shown(items: Sequence[UserItem]) -> list[dict[str, str]]:
    return [{"id": one.prompt_id, "prompt": one.prompt, "unit": one.unit} for one in items]


def _baseline(task: Task, answer: Callable[[Any], str | Sequence[str]], items: Sequence[UserItem]) -> dict[str, object]:
    """Return what a baseline's answers earn, by item; where it fails it has no figures, but the cause."""
    by_item: dict[str, float] = {}
    metrics: dict[str, dict[str, float]] = {name: {} for name in task.metrics}
    for one in items:
        said = attempt(answer, one.item)
        if isinstance(said, Raised):
            return {"failure": str(said)}
        replies = [said] if isinstance(said, str) else [str(each) for each in said]
        (found,) = score_group(task, one.item, [replies])
        if isinstance(found, Failed):
            return {"failure": f"{found.where} {found.what}"}
        by_item[one.prompt_id] = found.total
        for name, value in found.metrics.items():
            metrics[name][one.prompt_id] = value
    return {"by_item": by_item, "metrics": metrics}


def task_data(plan: Plan, opened: OpenedTask) -> TaskData:
    """Read a task's items for a plan."""
    frame = plan.frame
    assert isinstance(frame, TaskFrame)
    seed = plan.settings.seed if frame.split_seed < 0 else frame.split_seed
    try:
        every = split_items(opened.task, opened.source.folder, seed)
        split = chosen_items(
            opened.task, every, examined=frame.examined, shuffle_labels=frame.shuffle_labels, seed=seed
        )
        if isinstance(opened.task.reward, JudgedReward):
            require_judge(plan, opened.task.reward, every)
            load_prices(parts_of(plan)[1].prices)  # what it refuses is told before anything is built
        if opened.task.aside is not None:
            _require_both(split, getattr(plan.settings, "interleave", NONE))
    except TinsmithError as error:
        raise opened.source.told(error) from None
    return TaskData(plan=plan, opened=opened, split=split, every=every)


def _require_both(split: UserSplit, interleave: str) -> None:
    """Check that there are items of the task's own to train on, and others aside where they are asked for."""
    apart = sum(one.aside for one in split.train)
    if apart == len(split.train):
        raise DataError("every item to train on is set aside", field="aside", value=apart)
    if interleave != NONE and not apart:
        raise DataError(
            "no item to train on is set aside",
            field="interleave",
            value=interleave,
            allowed="none, or an aside= that is true of some items",
        )


def data_of_task(plan: Plan) -> TaskData:
    """Return what the plan of a run on a task is about."""
    found = plan.experiment.subject.run_data(plan, print)
    assert isinstance(found, TaskData), "the run is on a task"
    return found
