"""SFT and GRPO in the manner of scikit-learn: hyper-parameters in the constructor, papers in `fit`.

They make a plan of their parameters and conduct it: the loops, the folder and the figures are those of `tinsmith run`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
import tinker
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from tinsmith.lab.experiment.conduct import conduct, embedded_settings
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, time_and_disk
from tinsmith.lab.experiment.experiment import REWARD_PREFIX, Experiment, Plan, make_plan
from tinsmith.lab.experiment.materials import named_model, with_model
from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.labelled_papers import LabelledPapers, Papers, label_logprobs, label_probabilities
from tinsmith.lab.labels.task import Item, Task
from tinsmith.lab.papers.labels import label_task_of
from tinsmith.lab.papers.run_data import PaperData, data_of, shuffle_seed
from tinsmith.lab.papers.worlds import AnyPaper, LoadedSlice, items_identity, labelled, split_items, unlabelled
from tinsmith.lab.rollouts import WAIT_SECONDS, Failure, Sampling, sample_groups
from tinsmith.lab.runs.files import CONFIG, METRICS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.frames import History
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.official_client import ready
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.stats.rates import Confusion, Metric
from tinsmith.studies.disruption.experiments import LABELS
from tinsmith.types.arguments import require_known
from tinsmith.types.errors import ArgumentError, BackendError, ConfigError, LostError
from tinsmith.types.waits import Say, tell, ticking, unsaid

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class SharedServer:
    """One server for fits one after another, opened by the first; what it holds goes with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tinsmith-"))
        self._connection: Connection | None = None

    def open(self, plan: Plan, models: Mapping[str, str]) -> Connection:
        """Return the connection to it."""
        if self._connection is None:
            where = plan.circumstances.base_url
            self._connection = open_connection(where, embedded_settings(plan, models, self.folder))
        return self._connection

    def close(self) -> None:
        """Stop it."""
        if self._connection is not None:
            self._connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_OWN: Final = {"held_out", "verbose", "reward_settings"}
"""Parameters that are no keys of `tinsmith run`."""
AnyPapers = LoadedSlice | Sequence[AnyPaper]
Strings = NDArray[np.str_]
Floats = NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class Policy:
    """The chosen checkpoint of one run; close it when it is no longer asked."""

    task: Task
    sampler_path: str
    base_url: str | None
    """None: a server is started for it."""
    embedded: EmbeddedSettings
    max_tokens: int
    tokenizer: PreTrainedTokenizerBase | None
    """None: that of the model's folder, or as the server calls the model."""
    connection: Connection | None = field(default=None, repr=False)
    """None: it is opened when it is needed."""
    is_shared: bool = False
    """The connection is closed by whoever opened it."""
    _client: tinker.SamplingClient | None = field(default=None, repr=False, init=False)

    def __reduce__(self) -> tuple[partial[Policy], tuple[()]]:
        """A copy knows where to ask, and opens a connection of its own."""
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return partial(Policy, **{**named, "connection": None, "is_shared": False}), ()

    def label_logprobs(self, items: Sequence[Item]) -> NDArray[np.float64]:
        """Return [N, K] log-probabilities of the openings of the task's labels; not normalised."""
        with self._opened() as (client, study):
            return label_logprobs(client, study, items)

    def answers(self, items: Sequence[Item], *, temperature: float, seed: int) -> list[Answer]:
        """Return what the contract reads in one answer a paper."""
        sampling = Sampling(samples=1, max_tokens=self.max_tokens, temperature=temperature, seed=seed)
        with self._opened() as (client, study):
            groups = sample_groups(client, study, items, sampling)
        found: list[Answer] = []
        for (one,) in groups:
            if isinstance(one, Failure):
                raise LostError(f"an answer failed: {one.what}")
            found.append(one.answer)
        return found

    def close(self) -> None:
        """Stop the server, if one was started; harmless when repeated."""
        self._client = None
        if self.connection is not None and not self.is_shared:
            self.connection.close()
        self.connection = None

    @contextmanager
    def _opened(self) -> Generator[tuple[tinker.SamplingClient, LabelledPapers], None, None]:
        try:
            if self._client is None:
                self.connection = self.connection or open_connection(self.base_url, self.embedded)
                made = self.connection.client.create_sampling_client(model_path=self.sampler_path)
                self._client = ready(made, WAIT_SECONDS)
            if self.tokenizer is None:
                source = next(iter(self.embedded.models.values()), None)
                self.tokenizer = self._client.get_tokenizer() if source is None else tokenizer_of(source)
            yield (
                self._client,
                LabelledPapers(
                    task=self.task,
                    papers=Papers(train=(), validation=(), test=()),
                    renderer=renderer_for(self.tokenizer),
                    tokenizer=self.tokenizer,
                ),
            )
        except (tinker.TinkerError, BackendError, TimeoutError) as error:
            self.close()
            raise LostError(f"the model does not answer: {error}".splitlines()[0]) from error


@dataclass(kw_only=True, eq=False, repr=False)
class PaperClassifier(ClassifierMixin, BaseEstimator):
    """Common part of SFT and GRPO; every parameter left None is as in `tinsmith run` with `at=nano`."""

    model_name: str | Path | None = None
    """A Hugging Face folder, or what `base_url` serves; None: the nano base, built from the papers and cached.

    Clones share it, so that folds and the members of `GridSearchCV` train one base: that of the first fold's papers,
    which it reads without their labels. An estimator that is fitted again builds its own.
    """
    task: str | None = None
    """`disruption` or `novelty`."""
    prompt: str | None = None
    prompt_lines: str | None = None
    contract: str | None = None
    with_metadata: bool | None = None
    shuffle_labels: bool | None = None
    """The negative control: training labels shuffled among the papers."""
    at: str | None = None
    steps: int | None = None
    learning_rate: float | None = None
    lr_schedule: str | None = None
    lr_warmup: float | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    adapter: str | None = None
    train_unembed: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    eval_every: int | None = None
    eval_items: int | None = None
    save_every: int | None = None
    select_by: str | None = None
    train_items: int | None = None
    test_items: int | None = None
    weight_decay: float | None = None
    grad_clip_norm: float | None = None
    watch: str | None = None
    seed: int | None = None
    arithmetic: str | None = None
    held_out: float = 0.2
    """Of the distinct texts of a list, to choose and to test by; a slice has its own splits."""
    log_path: str | Path | None = None
    """The run's folder; None: a temporary one, which goes with the estimator."""
    behavior_if_log_dir_exists: str | None = None
    base_url: str | None = None
    device: str | None = None
    threads: int | None = None
    micro_batch: int | None = None
    hold: str | None = None
    unit_hashes: bool | None = None
    workers: int | None = None
    shards: int | None = None
    verbose: bool = True
    """Print progress to stderr, and beforehand how long a fit will take, as `tinsmith.run` does."""

    _experiment: ClassVar[Experiment]

    def __new__(cls, *arguments: object, **parameters: object) -> Self:
        """Refuse what is no parameter, with the nearest one that is."""
        if arguments:
            what = f"{cls.__name__} takes its parameters by name"
            raise ArgumentError(what, field="1st argument", value=arguments[0], fix=f"{cls.__name__}(NAME=VALUE, ...)")
        require_known(cls, parameters)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self._bases: dict[Task, Path] = {}  # by what they are asked; of this estimator and its clones

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, as scikit-learn does; return self."""
        require_known(type(self), parameters)
        return super().set_params(**parameters)

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters, and the same base once one of the two has built it."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        copied: dict[str, Any] = {name: clone(value, safe=False) for name, value in parameters.items()}
        copy = type(self)(**copied)
        copy._bases = self._bases
        return copy

    def fit(self, papers: AnyPapers, y: Sequence[str] | None = None) -> PaperClassifier:
        """Train, choose the best checkpoint on validation, and test it once; return self.

        A fit that is refused or fails leaves what an earlier one learned.

        Afterwards: `adapter_` (the chosen checkpoint's tinker:// path), `history_` (a `History`: metrics by step),
        `fingerprint_` (SHA-256 of all that decided the run but the model), `base_` (the model under the adapter),
        `config_`, `log_path_` and `classes_` (sorted).

        Raises:
            ConfigError, DataError: a parameter or the papers are not allowed.
            LostError: the server was lost.
        """
        return self.fit_through(None, papers, y)

    def fit_through(self, server: SharedServer | None, papers: AnyPapers, y: Sequence[str] | None = None) -> Self:
        """Fit on a server that others are fitted on too; None: on one of its own. See `fit`."""
        plan = self.plan()
        folder = plan.circumstances.log_path
        temporary = None
        if folder is None:
            temporary = folder = Path(tempfile.mkdtemp(prefix="tinsmith-"))
            plan = replace(plan, circumstances=replace(plan.circumstances, log_path=folder))
        try:
            if server is None and self.verbose:
                self.tell_price(papers, y)
            data = self._data(plan, papers, y)
            materials = with_model(plan, data, self.tell)
            if data.source is None and hasattr(self, "adapter_"):
                self._bases = {}  # fitted again: its base is its own
            if data.source is None and named_model(plan) is None:
                self._bases[_base_key(plan)] = Path(materials.models[materials.model_name])
            self.close()  # an earlier fit's server may hold the folder
            through = server and server.open(plan, materials.models)
            done = conduct(plan, say=self.tell, materials=materials, stays=True, through=through)
        except BaseException:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        assert done.finished is not None, "no parameter stops it before its end"
        if hasattr(self, "_release"):
            self._release()
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self._policy = Policy(
            task=label_task_of(plan),
            sampler_path=done.finished.sampler_path,
            base_url=plan.circumstances.base_url,
            embedded=embedded_settings(plan, materials.models, folder if server is None else server.folder),
            max_tokens=plan.settings.max_tokens,
            tokenizer=done.tokenizer,
            connection=done.connection,
            is_shared=server is not None,
        )
        self._release = weakref.finalize(self, _release, self._policy, temporary)
        left = RunFolder(folder)
        self.log_path_ = folder
        self.base_ = materials.models.get(materials.model_name, materials.model_name)
        self.adapter_ = done.finished.sampler_path
        self.config_ = left.read_json(CONFIG)
        self.history_ = History(left.read_lines(METRICS))
        self.fingerprint_ = str(self.config_["identity_sha256"])
        self.classes_: Strings = np.array(sorted(label_task_of(plan).labels))
        return self

    def predict(self, papers: Sequence[AnyPaper]) -> Strings:
        """Return [N] labels: the most probable of each paper, the first of `classes_` among equals."""
        best = self.predict_proba(papers).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, papers: Sequence[AnyPaper]) -> Floats:
        """Return [N, K] probabilities of `classes_`: the model's own for the openings of their answers, normalised.

        They are exact and not sampled, and given that it answers in the contract; `answers` tells whether it does.
        With `logit_offset` they hold the offsets that were chosen on validation.
        """
        policy = self._fitted()
        labels, last = list(policy.task.labels), self.history_[-1]
        offsets = np.array([last.get(f"offset/{label}", 0.0) for label in labels], dtype=np.float64)
        logprobs = policy.label_logprobs(unlabelled(papers, policy.task)) + offsets
        return label_probabilities(logprobs)[:, [labels.index(str(one)) for one in self.classes_]]

    def answers(self, papers: Sequence[AnyPaper], *, temperature: float = 0.0, seed: int = 0) -> list[Answer]:
        """Return what the model writes about each paper, as its contract reads it: broken answers predict None."""
        policy = self._fitted()
        items = unlabelled(papers, policy.task)
        return policy.answers(items, temperature=temperature, seed=seed)

    def score(  # pyright: ignore[reportIncompatibleMethodOverride]  # scikit-learn's X are papers
        self, papers: Sequence[AnyPaper], y: Sequence[str] | None = None, *, metric: str = Metric.MACRO_F1.value
    ) -> float:
        """Return macro-F1 (not scikit-learn's accuracy, which a model that has lost a class may win), or another.

        Without `y` the labels are those of the rows.
        """
        wanted, task = named_metric(metric), self.fitted_task()
        golds = [item.gold for item in labelled(papers, y, task)]
        predicted = [str(label) for label in self.predict(papers)]
        return Confusion.of(task.labels, golds, predicted).score(wanted)

    def fitted_task(self) -> Task:
        """Return the task that this fitted model answers."""
        return self._fitted().task

    def close(self) -> None:
        """Stop the server that answers for this model; it is started again when it is asked.

        While it runs the run's folder is its own: another copy of this model cannot be asked.
        """
        if hasattr(self, "_policy"):
            self._policy.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process can let go of; a copy asks a server of its own."""
        return {name: value for name, value in vars(self).items() if name != "_release"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if hasattr(self, "_policy"):
            self._release = weakref.finalize(self, _release, self._policy, None)

    def plan(self) -> Plan:
        """Return the plan of a fit with these parameters."""
        keys = {
            each.name: str(value)
            for each in fields(self)
            if each.name not in _OWN and (value := getattr(self, each.name)) is not None
        }
        rewards: Mapping[str, float] = getattr(self, "reward_settings", None) or {}
        keys |= {f"{REWARD_PREFIX}{name}": str(value) for name, value in rewards.items()}
        return make_plan(self._experiment, {**keys, "quiet": str(not self.verbose)})

    def fit_minutes(self, papers: AnyPapers, y: Sequence[str] | None = None) -> tuple[float | None, float]:
        """Return the minutes of a fit on two cores, if they are known, and of the small base that it needs first."""
        data = self._data(self.plan(), papers, y)
        base = sum(data.missing_base().values())  # what a missing base is measured by, fits are
        return data.minutes(), base

    def tell_price(self, papers: AnyPapers, y: Sequence[str] | None, fits: int = 1) -> None:
        """Say what so many fits as on these papers take, with the small base that they need first."""
        with ticking("reading the papers", self.tell):
            taken, base = self.fit_minutes(papers, y)
            what = f"{'one fit' if fits == 1 else f'{fits} fits on one server'}{', after a small base' if base else ''}"
            each = f" (each fit {taken:.1f} without other work)" if taken is not None and fits > 1 else ""
            total = None if taken is None else fits * taken + base
            self.tell(f"{what}: {time_and_disk(total, fits * RUN_MEGABYTES)}{each}")

    def _data(self, plan: Plan, papers: AnyPapers, y: Sequence[str] | None) -> PaperData:
        if isinstance(papers, LoadedSlice):
            if y is not None:
                raise ConfigError("a slice brings its own labels", field="y", fix="leave it out")
            return data_of(plan, papers.source)
        items = labelled(papers, y, label_task_of(plan))
        seed = shuffle_seed(plan)
        split = split_items(items, self.held_out, plan.settings.seed, shuffle_seed=seed)
        base = None if hasattr(self, "adapter_") else self._bases.get(_base_key(plan))
        return PaperData(plan=plan, papers=split, data=items_identity(split), source=None, base=base)

    def _fitted(self) -> Policy:
        check_is_fitted(self)
        return self._policy

    @property
    def tell(self) -> Say:
        """Takes a line of progress; drops it where the model is not verbose."""
        return tell if self.verbose else unsaid


@dataclass(kw_only=True, eq=False, repr=False)
class SFT(PaperClassifier):
    """Supervised fine-tuning on the contract's answer with the true label."""

    batch_size: int | None = None
    order: str | None = None
    """Of an epoch's papers: `random`; by the perplexity of their right answers `ascending descending recomputed`."""
    logit_offset: bool | None = None
    """Choose offsets of the labels' log-probabilities on validation, and decide by them."""

    _experiment: ClassVar[Experiment] = Experiment(
        name="python/sft",
        question="What does supervised fine-tuning learn from these papers?",
        subject=LABELS,
        parent=None,
        delta={"kind": "sft", "prompt": "checklist", "contract": "two_key", "max_tokens": 64},
    )


@dataclass(kw_only=True, eq=False, repr=False)
class GRPO(PaperClassifier):
    """Reinforcement learning of the GRPO family, with rewards that a rule verifies."""

    reward: str | None = None
    """`soft strong exp5 macro_f1 prior_matching dual g_mean inverse_share`; None: macro_f1, which keeps all classes."""
    reward_settings: Mapping[str, float] | None = None
    group_size: int | None = None
    groups_per_batch: int | None = None
    advantage: str | None = None
    loss_fn: str | None = None
    num_substeps: int | None = None
    kl_penalty_coef: float | None = None
    zero_variance_filter: bool | None = None
    gradient: str | None = None
    force_options: bool | None = None
    entropy_bonus: float | None = None
    snr_filter: float | None = None
    early_stop: bool | None = None
    confidence_penalty: float | None = None
    confidence_prefixes: str | None = None
    env_loss_coef: float | None = None
    interleave: str | None = None
    sft_steps: int | None = None
    """Supervised steps before the first rollout."""
    sft_learning_rate: float | None = None
    sft_batch_size: int | None = None

    _experiment: ClassVar[Experiment] = Experiment(
        name="python/grpo",
        question="What does reinforcement learning learn from these papers?",
        subject=LABELS,
        parent=None,
        delta={"kind": "rl", "prompt": "checklist", "contract": "two_key", "max_tokens": 64, "reward": "macro_f1"},
    )


def _base_key(plan: Plan) -> Task:
    return replace(label_task_of(plan), prompt_lines=())


def named_metric(name: str) -> Metric:
    """Return the score of that name."""
    if name not in tuple(Metric):
        raise ConfigError("there is no such score", field="metric", value=name, allowed=Metric)
    return Metric(name)


def _release(policy: Policy | None, temporary: Path | None) -> None:
    if policy is not None:
        policy.close()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)
