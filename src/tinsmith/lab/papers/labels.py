"""Labels of papers as a task: contract, prompts, leak check, rewards and kinds of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final

from tinsmith.data.slices.splits import Split
from tinsmith.lab.experiment.experiment import REWARD_PREFIX, Plan
from tinsmith.lab.experiment.key_text import BY_EXAMPLE, OPTIONS, SMALL_MODEL, At, KindEntry, RunFrame, Values
from tinsmith.lab.labels.contracts import Confidence
from tinsmith.lab.labels.rewards import make_label_reward
from tinsmith.lab.labels.task import Item, make_joint_task, make_task, prompt_messages
from tinsmith.lab.labels.task import Task as LabelTask
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.settings import RlSettings, Selection, SftSettings, Watched
from tinsmith.lab.user_task.calls import argument_keys
from tinsmith.lab.user_task.task import Task
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import LATER, canonical_json

if TYPE_CHECKING:
    from tinsmith.lab.papers.run_data import PaperData
    from tinsmith.types.waits import Say

SELECTIONS: Final = (Selection.MACRO_F1, Selection.BALANCED_ACCURACY, Selection.MIN_CLASS_RECALL, Selection.LAST)
"""Figures that a checkpoint of several labels can be chosen by: the mean of all, of the smallest recall the smaller."""


def labels(
    *,
    task: str = "disruption",
    prompt: str = "plain",
    contract: str = "four_key",
    with_metadata: bool = True,
    reward: str = "soft",
    shuffle_labels: bool = False,
    prompt_lines: Annotated[str, LATER] = "",
    **settings: object,
) -> Task:
    """Return the task of one label.

    task: Which label: disruption or novelty.
    prompt: How it is asked for: plain, brief, short, checklist or ontology.
    contract: Which JSON keys an answer has: four_key or two_key.
    with_metadata: Whether the prompt shows year and citations, which leak the label.
    reward: What an answer earns; tinsmith analyse incentives knows every name.
    shuffle_labels: Shuffle the training labels among the papers: the negative control.
    prompt_lines: Lines before the paper in every prompt, such as a search finds them; none where it is empty.
    """
    lines = tuple(line.strip() for line in prompt_lines.splitlines() if line.strip())
    label_task = make_task(task, prompt=prompt, contract=contract, with_metadata=with_metadata)
    return _task(replace(label_task, prompt_lines=lines), reward, settings, shuffle_labels=shuffle_labels)


def joint(
    *,
    prompt: str = "plain",
    contract: str = "three_key",
    with_metadata: bool = True,
    reward: str = "macro_f1",
    shuffle_labels: bool = False,
    **settings: object,
) -> Task:
    """Return the task of both labels.

    prompt: How both are asked for: plain or brief.
    contract: Both labels and a confidence (three_key), or with a justification and signals (five_key).
    with_metadata: Whether the prompt shows year and citations, which leak the disruption label.
    reward: The reward of each label; each has a memory of its own.
    shuffle_labels: Shuffle the training papers' pairs of labels among them: the negative control.
    """
    label_task = make_joint_task(prompt=prompt, contract=contract, with_metadata=with_metadata)
    return _task(label_task, reward, settings, shuffle_labels=shuffle_labels)


def Labels(  # a value, as Task is
    *subjects: str,
    data: str | Path | None = None,
    prompt: str = "plain",
    contract: str = "",
    with_metadata: bool = True,
    reward: str = "macro_f1",
    **settings: object,
) -> Task:
    """Return the task of one label of papers, or of several in one answer: `Labels("disruption", "novelty")`.

    Args:
        subjects: disruption, novelty, or both.
        data: the folder of a slice; None: a synthetic world, built and cached.
        prompt: how they are asked for.
        contract: which JSON keys an answer has; empty: labels and a confidence.
        with_metadata: whether the prompt shows year and citations.
        reward: what an answer earns, by a name that `tinsmith analyse incentives` knows.
        settings: of the reward.
    """
    if len(subjects) == 1:
        label_task = make_task(subjects[0], prompt=prompt, contract=contract or "two_key", with_metadata=with_metadata)
    else:
        label_task = make_joint_task(prompt=prompt, contract=contract or "three_key", with_metadata=with_metadata)
        if subjects != tuple(one.value for one in label_task.subjects):
            known = ", ".join(label_task.subjects)
            raise ConfigError("there are no such labels together", field="subjects", value=subjects, allowed=known)
    made = _task(label_task, reward, settings, data=None if data is None else Path(data))
    return replace(made, run=None, identity={**made.identity, "reward": canonical_json([reward, settings])})


def _task(
    label_task: LabelTask,
    reward: str,
    settings: Mapping[str, object],
    *,
    shuffle_labels: bool = False,
    data: Path | None = None,
) -> Task:
    contract = label_task.contract

    def demonstrated(item: Item, rng: Random) -> str:
        """Return an answer that satisfies the contract, independent of the labels."""
        del item
        drawn = [rng.choice(subject.labels) for subject in label_task.subjects]
        return contract.answer_text(drawn, rng.choice(tuple(Confidence)))

    given = {key.removeprefix(REWARD_PREFIX): value for key, value in settings.items()}
    return Task(
        items=PapersOf(label_task, data, Split.TRAIN),
        held_out=PapersOf(label_task, data, Split.VALIDATION),
        item_id=lambda item: item.prompt_id,
        prompt=lambda item: [{"role": one.role, "content": one.content} for one in prompt_messages(label_task, item)],
        parse=contract.parse,
        reward=make_label_reward(reward, label_task, **given),
        metrics={"exact_match": lambda item, answer: answer.predicted_labels == item.golds},
        answer=lambda item: contract.answer_text(item.golds, Confidence.MEDIUM),
        demonstrate=demonstrated,
        identity={"prompt_sha256": label_task.prompt_sha256},
        run=PaperRun(label_task=label_task, reward=reward, shuffle_labels=shuffle_labels),
    )


@dataclass(frozen=True, slots=True)
class PapersOf:
    """Papers of a split of a slice, opened when iterated over."""

    label_task: LabelTask
    data: Path | None
    split: Split

    def __iter__(self) -> Iterator[Item]:
        """Yield the papers in the slice's order."""
        from tinsmith.lab.labels.task import items_of
        from tinsmith.lab.papers.worlds import slice_in

        source = slice_in(self.data, self.label_task, print)
        if source.card.oversampled:  # items of one id are one item
            what, fix = "the slice repeats training papers, which a task has once", "cut it again without --oversample"
            raise DataError(what, field="data", value=str(self.data), fix=fix)
        return iter(items_of(source.rows(self.split), self.label_task))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRun:
    """Runs of the experiments on labels: the question that is put about papers, and the reward of answers."""

    label_task: LabelTask
    reward: str
    shuffle_labels: bool

    def check(self, plan: Plan) -> None:
        """Reject a selection metric that is undefined for several labels, and looks at what labels have not."""
        watched, foreseen = plan.settings.watch, getattr(plan.settings, "env_loss_coef", 0.0)
        what = "nothing is answered to what is written of a paper, and no reasoning is read"
        if watched in (Watched.ENVIRONMENT, Watched.CONFIDENCE):
            raise ConfigError(what, field="watch", value=watched.value, allowed="none, mutual_information")
        if foreseen:
            raise ConfigError(what, field="env_loss_coef", value=foreseen, allowed="0")
        chosen = plan.settings.select_by
        if len(self.label_task.subjects) > 1 and chosen not in SELECTIONS:
            what = "a run on two labels has no label_match of its own"
            fix = "select_by=macro_f1 is the mean over both tasks"
            raise ConfigError(what, field="select_by", value=chosen.value, allowed=", ".join(SELECTIONS), fix=fix)

    def run_data(self, plan: Plan, say: Say) -> PaperData:
        """Find or build the slice."""
        from tinsmith.lab.papers.run_data import data_of
        from tinsmith.lab.papers.worlds import slice_in

        return data_of(plan, slice_in(plan.circumstances.data, self.label_task, say))

    def forecast(self, plan: Plan) -> Sequence[str]:
        """Return the numbers of trained and evaluated tokens, and the time they take."""
        from tinsmith.lab.papers.run_data import forecast_lines

        return forecast_lines(plan)


def on_papers(plan: Plan) -> PaperRun:
    """Return a plan's run on papers."""
    task = plan.experiment.subject.task
    assert task is not None
    assert task.run is not None, "this experiment is not on papers"
    return task.run


def label_task_of(plan: Plan) -> LabelTask:
    """Return the labelling task of a plan's papers."""
    return on_papers(plan).label_task


_LABELS, _JOINT = (argument_keys(one, Path(__file__)) for one in (labels, joint))

# fmt: off
_NANO: Final[Values] = {"lora_rank": 16, "eval_items": 200}
_NANO_RL: Final[Values] = {
    **_NANO, "steps": 100, "learning_rate": 1.5e-3, "group_size": 8, "groups_per_batch": 16,
    "eval_every": 25, "save_every": 25,
}
_SMALL: Final[Values] = {
    "model_name": SMALL_MODEL, "learning_rate": 3e-4, "lora_rank": 16, "grad_clip_norm": 1.0,
    "eval_items": 48, "test_items": 150,
}
_SMALL_RL: Final[Values] = {
    **_SMALL, "steps": 30, "group_size": 8, "groups_per_batch": 16, "eval_every": 10, "save_every": 10,
    "sft_steps": 6, "sft_learning_rate": 5e-4, "sft_batch_size": 16,
}
_SEED: Final[Values] = {
    "steps": 313, "lora_rank": 32, "temperature": 0.3, "max_tokens": 256,
    "eval_every": 250, "save_every": 250, "eval_items": 500, "train_items": 5000,
}
SEED_RL: Final[Values] = {**_SEED, "learning_rate": 8e-6, "group_size": 2, "groups_per_batch": 16}
NOTEBOOK: Final[Values] = {
    "lora_rank": 64, "lora_alpha": 128.0, "train_unembed": False, "learning_rate": 1e-5, "lr_schedule": "cosine",
    "lr_warmup": 0.03, "weight_decay": 0.1, "grad_clip_norm": 1.0, "batch_size": 32, "steps": 157,
}
"""Settings of the source notes' QDoRA notebook, for supervised training at `at=seed`: one epoch of 5,000 papers.

Its dropout of 0.05 has no counterpart in the Tinker API, and its `o_proj` was not adapted, which here goes with
attention.
"""
_SFT: Final[Mapping[At, Values]] = {
    At.NANO: {
        **_NANO, "steps": 120, "learning_rate": 2e-3, "batch_size": 32, "eval_every": 60, "save_every": 60,
    },
    At.SMALL: {**_SMALL, "steps": 60, "batch_size": 16, "eval_every": 20, "save_every": 20},
    At.SEED: {**_SEED, "learning_rate": 1e-4, "batch_size": 16},
}
# fmt: on
_FORCED: Final[Mapping[At, Values]] = {
    At.NANO: {"prompt": "brief", "max_tokens": 48},
    At.SMALL: {"prompt": "short", "contract": "two_key", "max_tokens": 40},
}

LABEL_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.RL: KindEntry(
            RunFrame,
            RlSettings,
            {At.NANO: _NANO_RL, At.SMALL: _SMALL_RL, At.SEED: SEED_RL},
            forced=_FORCED,
            without=OPTIONS,
            own=_LABELS,
            named_reward=True,
        ),
        Kind.SFT: KindEntry(RunFrame, SftSettings, _SFT, forced=_FORCED, without=frozenset({"reward"}), own=_LABELS),
    }
)
"""Kinds of runs on one label: RL and supervised; RL of a small model begins with supervised steps.

Values of `at=nano` are what two cores do in about a minute, those of `at=small` what they do with
SmolLM2-135M-Instruct in well under an hour; those of `at=seed` see 5,000 papers once: batch 16, group 2, learning rate
8e-6, temperature 0.3, no KL. Forced is what a model needs: the nano base has read the brief prompt only, and a small
chat model needs an answer shown before one is asked for, and no prose in it.
"""
JOINT_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.JOINT: KindEntry(
            RunFrame,
            RlSettings,
            without=BY_EXAMPLE | OPTIONS | {"gradient", "task"},
            own=_JOINT,
            values={At.NANO: _NANO_RL, At.SEED: SEED_RL},
            forced={At.NANO: {"prompt": "brief", "max_tokens": 64}},
            named_reward=True,
        )
    }
)
"""On both labels: a pair has no gradient that is exact, and no example that supervised steps would follow.

There are no numbers for a small model: none of that size was tried with both labels in one answer.
"""
