"""Tasks with rubrics as the matter of a run: the built-in ones or a file's, dealt out once, and who judges them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.experiments.judging_cost import cost_lines, ledger_line
from tinsmith.experiments.keys import RULES, Asking, RubricFrame
from tinsmith.experiments.plan import Plan
from tinsmith.experiments.rubric_base import RubricBaseRecipe, rubric_base
from tinsmith.experiments.worlds import Told
from tinsmith.renderers.choose import renderer_for
from tinsmith.tasks.judges.cache import VerdictCache
from tinsmith.tasks.judges.chat_judge import BlockingJudge, ChatSettings
from tinsmith.tasks.judges.prices import load_prices
from tinsmith.tasks.judges.rubric_judge import RubricJudge, RulesOnly
from tinsmith.tasks.rubrics.builtin import builtin_dataset
from tinsmith.tasks.rubrics.dataset import RubricDataset, read_dataset
from tinsmith.tasks.rubrics.rule_text import RuleJudge
from tinsmith.tasks.rubrics.splitting import RubricSplit, split_tasks
from tinsmith.training.connect import Connection
from tinsmith.training.rubric_course import RubricCourse
from tinsmith.training.rubric_ground import Asked, RubricGround
from tinsmith.training.run_folder import JUDGE_LEDGER, RunFolder
from tinsmith.training.server_facts import model_identity, serves, weights_sha256
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.home import home
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

JUDGE_NAME: Final = "judge"
"""What an embedded server calls a judge that was given as a folder."""
TINKER_PATH: Final = "tinker://"


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricMatter:
    """See Matter; its methods are described there."""

    plan: Plan
    frame: RubricFrame
    asking: Asking
    dataset: RubricDataset
    split: RubricSplit

    def identity(self) -> Mapping[str, object]:
        """See Matter; where a file lies does not matter, and how often a call is tried neither."""
        return {"data": {"sha256": self.split.sha256, "rows": self._rows()}}

    def config(self) -> Mapping[str, object]:
        """See Matter."""
        return {
            "task": {"name": "rubrics"},
            "reward": {"name": "rubrics", "judge": self.frame.judge_model},
            "data": {"fingerprint": self.split.sha256, **self._rows()},
        }

    def _rows(self) -> dict[str, int]:
        both = (*self.split.train, *self.split.test)
        return {
            "train": len(self.split.train),
            "test": len(self.split.test),
            "rubrics": sum(len(task.rubrics) for task in both),
        }

    def circumstances(self) -> Mapping[str, object]:
        """See Matter."""
        path = self.asking.data_path
        return {
            "data_path": None if path is None else str(path.absolute()),
            "control_characters": self.dataset.control_characters,
            "without_rubrics": self.dataset.without_rubrics,
        }

    def nano_base(self, told: Told) -> Path:
        """See Matter."""
        return rubric_base(RubricBaseRecipe(), told)

    def models(self) -> Mapping[str, str]:
        """Return the judge where it is a folder: the run's own server serves it too."""
        named = self.frame.judge_model
        return {JUDGE_NAME: named} if _is_folder(named) else {}

    def before(self) -> Sequence[str]:
        """Return what was read, and what judging will take."""
        read = f"{len(self.dataset.tasks)} tasks, {self.dataset.rubric_count} rubrics"
        mended = self.dataset.control_characters, self.dataset.without_rubrics
        if any(mended):
            read += f"; {mended[0]} raw control characters kept, {mended[1]} records without rubrics left out"
        return [read, *cost_lines(self.plan, self.frame, self.asking, self.split)]

    def begin(self, folder: RunFolder) -> None:
        """See Matter."""

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> RubricCourse:
        """See Matter."""
        prices = load_prices(self.asking.prices)

        def paid(asked: Asked) -> None:
            line = ledger_line(asked, prices.dollars(self.frame.judge_model, asked.spent))
            folder.append(JUDGE_LEDGER, [line])

        ground = RubricGround(
            renderer=renderer_for(tokenizer), judge=self._judge(connection), paid=paid
        )
        return RubricCourse(
            ground=ground,
            split=self.split,
            settings=self.plan.settings,
            eval_samples=self.frame.eval_samples,
        )

    def _judge(self, connection: Connection) -> RubricJudge:
        frame, asking = self.frame, self.asking
        if frame.judge_model == RULES:
            return RulesOnly()
        served = self._served(connection)
        name = JUDGE_NAME if _is_folder(frame.judge_model) else frame.judge_model
        settings = ChatSettings(
            judge_model=name,
            judge_base_url=f"{connection.base_url}/v1" if served else asking.judge_base_url,
            judge_temperature=frame.judge_temperature,
            judge_max_retries=asking.judge_max_retries,
            judge_timeout_s=asking.judge_timeout_s,
            judge_concurrency=asking.judge_concurrency,
            judge_rpm=asking.judge_rpm or None,
            judge_tpm=asking.judge_tpm or None,
            judge_max_tokens=frame.judge_max_tokens or None,
            identity=_identity(connection, name) if served else None,
            seed=derive(self.plan.settings.seed, "judge"),
        )
        key = connection.key or os.environ.get("TINKER_API_KEY") if served else None
        return BlockingJudge(settings, cache=VerdictCache(home() / "verdicts"), api_key=key)

    def _served(self, connection: Connection) -> bool:
        """Whether the judge is a model of the server that the run is trained on."""
        named = self.frame.judge_model
        if self.asking.judge_base_url is not None:
            return False
        if named.startswith(TINKER_PATH) or _is_folder(named):
            return True
        return serves(connection, named)


def rubric_matter(plan: Plan) -> RubricMatter:
    """Read the tasks that a plan names, and deal them out.

    Raises:
        ConfigError: there is no such file, or the judge cannot judge what is in it.
        DataError: the file cannot be read.
    """
    frame, asking = plan.frame, plan.asking
    assert isinstance(frame, RubricFrame)
    assert asking is not None
    dataset = builtin_dataset() if asking.data_path is None else read_dataset(asking.data_path)
    if frame.judge_model == RULES:
        _require_rules(dataset)
    load_prices(asking.prices)  # what it refuses is told before anything is built
    split = split_tasks(dataset.tasks, train_ratio=frame.train_ratio, data_seed=frame.data_seed)
    return RubricMatter(plan=plan, frame=frame, asking=asking, dataset=dataset, split=split)


def _require_rules(dataset: RubricDataset) -> None:
    for task in dataset.tasks:
        try:
            RuleJudge(task.criteria)
        except DataError as error:
            raise ConfigError(
                f"task {task.task_id}, {error.field}: {error.what}",
                field="judge_model",
                value=RULES,
                allowed="a judge that reads prose, where criteria are prose",
                fix="judge_model=gpt-5-mini with OPENAI_API_KEY, or judge_model=FOLDER of a local model",
            ) from None


def _is_folder(name: str) -> bool:
    return Path(name).is_dir()


def _identity(connection: Connection, name: str) -> str:
    """Return what a served judge is called in the cache: a name at home may mean other weights tomorrow."""
    weights = weights_sha256(connection, name) if name.startswith(TINKER_PATH) else None
    model = model_identity(connection, name)
    return sha256_of({"name": name, "model": model, "weights": weights})
