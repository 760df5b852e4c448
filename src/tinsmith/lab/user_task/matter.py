"""A task of the user's own as the matter of a run: its items, its code's identity, and what its page needs."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.progress import Told
from tinsmith.lab.runs.files import SECTIONS, TASK
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.user_task.base import TaskBaseRecipe, task_base
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.frame import TaskFrame
from tinsmith.lab.user_task.items import UserItem, UserSplit
from tinsmith.lab.user_task.scoring import Failed, score_group
from tinsmith.lab.user_task.subject import UserAnswer, UserSubject
from tinsmith.lab.user_task.task import Task, Value, function_of
from tinsmith.lab.watch import ResponseWatch
from tinsmith.renderers.choose import renderer_for
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMatter:
    """See Matter; its methods are described there."""

    plan: Plan
    task: Task
    name: str
    split: UserSplit
    code: Mapping[str, str]
    """SHA-256 of the task's file and of the modules beside it, by name; of its functions, where there is no file."""
    own_keys: Mapping[str, Value]
    """Values of the file's own keys."""
    file: Path | None
    """None: the task was handed over in Python."""

    @property
    def frame(self) -> TaskFrame:
        """The plan's frame."""
        assert isinstance(self.plan.frame, TaskFrame)
        return self.plan.frame

    def identity(self) -> Mapping[str, object]:
        """See Matter; where the file lies does not matter."""
        return {
            "data": {"sha256": self.split.sha256, **self._rows()},
            "code": dict(self.code),
            "own_keys": dict(self.own_keys),
        }

    def config(self) -> Mapping[str, object]:
        """See Matter."""
        return {
            "task": {"name": self.name},
            "reward": {"name": " + ".join(self.task.rewards)},
            "data": {
                "fingerprint": self.split.sha256,
                "train": len(self.split.train),
                "test": len(self.split.held_out),
            },
        }

    def _rows(self) -> dict[str, int]:
        return {"train": len(self.split.train), "held_out": len(self.split.held_out)}

    def circumstances(self) -> Mapping[str, object]:
        """See Matter."""
        return {"task_file": None if self.file is None else str(self.file)}

    def nano_base(self, told: Told) -> Path:
        """See Matter."""
        return task_base(self.task, self.split.train, TaskBaseRecipe(), told)

    def models(self) -> Mapping[str, str]:
        """See Matter; nobody else is asked."""
        return {}

    def before(self) -> list[str]:
        """Return what was read."""
        told = f"{len(self.split.train)} items to train on, {len(self.split.held_out)} held out"
        if self.split.repeated:
            told += f"; {self.split.repeated} that were there before are left out"
        if not self.split.held_out:
            told += ": the items of training are evaluated, which says nothing of others"
        return [f"{told}; reward: {' + '.join(self.task.rewards)}"]

    def begin(self, folder: RunFolder) -> None:
        """See Matter."""
        examined = subset(self.split.held_out or self.split.train, self.plan.settings.eval_items)
        folder.write_json(
            TASK,
            {
                "terms": list(self.task.rewards),
                "metrics": list(self.task.metrics),
                "parsed": self.task.parse is not None,
                "several_turns": self.task.reply is not None,
                "items": [{"id": one.prompt_id, "prompt": one.prompt} for one in examined],
                "baselines": [
                    {"name": name, **_baseline(self.task, answer, examined)}
                    for name, answer in self.task.baselines.items()
                ],
            },
        )

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[UserItem, UserAnswer]:
        """See Matter."""
        del connection
        return Course(
            subject=UserSubject(task=self.task, split=self.split, renderer=renderer_for(tokenizer)),
            settings=self.plan.settings,
            watch=ResponseWatch(),
            samples=self.frame.eval_samples,
            keep=lambda found: folder.write_json(
                SECTIONS, {"sections": [asdict(one) for one in found]}
            ),
        )


def _baseline(
    task: Task, answer: Callable[[Any], str | Sequence[str]], items: Sequence[UserItem]
) -> dict[str, object]:
    """Return what a baseline's answers earn, by item; where it fails it has no figures, but the cause."""
    by_item: dict[str, float] = {}
    for one in items:
        said = attempt(answer, one.item)
        if isinstance(said, Raised):
            return {"failure": str(said)}
        replies = [said] if isinstance(said, str) else [str(each) for each in said]
        (found,) = score_group(task, one.item, [replies])
        if isinstance(found, Failed):
            return {"failure": f"{found.where} {found.what}"}
        by_item[one.prompt_id] = found.total
    return {"by_item": by_item}


def code_sha256(task: Task) -> dict[str, str]:
    """Return the identity of a task that was handed over in Python: the source of each of its functions.

    Raises:
        ConfigError: a function has no source that could be read, so that nobody could say later what ran.
    """
    functions: dict[str, object] = {
        "prompt": task.prompt,
        "parse": task.parse,
        "reply": task.reply,
        "demonstrate": task.demonstrate,
        **{f"reward {name}": function_of(each) for name, each in task.rewards.items()},
        **{f"metric {name}": function_of(each) for name, each in task.metrics.items()},
        **{f"baseline {name}": each for name, each in task.baselines.items()},
        **{f"section {name}": each for name, each in task.sections.items()},
    }
    sources: dict[str, object] = {"max_turns": task.max_turns}
    for name, function in functions.items():
        if function is None or isinstance(function, str):
            sources[name] = function
            continue
        try:
            sources[name] = inspect.getsource(function)  # pyright: ignore[reportArgumentType]
        except (OSError, TypeError):
            raise ConfigError(
                "this function has no source that can be read, and a run must be able to say what it was",
                field=name,
                value=getattr(function, "__name__", type(function).__name__),
                fix="define it in a file or a notebook cell",
            ) from None
    return {"python": hashlib.sha256(sha256_of(sources).encode()).hexdigest()}
