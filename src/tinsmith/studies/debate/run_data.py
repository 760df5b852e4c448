"""The adversarial pair as the data of a run: a slice's papers, and who challenges what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.lab.course import Course
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.named_model import is_loaded_here, served_name
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.live.progress import Say
from tinsmith.lab.nano_base import cached_base
from tinsmith.lab.papers.frame import task_asked
from tinsmith.lab.papers.run_data import PaperData, data_of, named_slice
from tinsmith.lab.rollouts import WAIT_SECONDS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.service.facts import serves
from tinsmith.lab.service.official_client import ready
from tinsmith.models.base import tokenizer_of
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.debate.cues import WORLD_CUES, Cues, learned_cues
from tinsmith.studies.debate.debated_papers import DebatedPapers
from tinsmith.studies.debate.demonstrations import DebateBaseRecipe, debate_conversations
from tinsmith.studies.debate.exchange import Exchange
from tinsmith.studies.debate.frame import ITSELF, NOBODY, SCRIPTED, DebateFrame, WhichCues, WhichPapers
from tinsmith.studies.debate.model_opponent import ModelOpponent
from tinsmith.studies.debate.opponent import Opponent, ScriptedOpponent, arguable
from tinsmith.studies.debate.planted_debates import WORD_CUES, DebatesRecipe, debates_slice
from tinsmith.studies.debate.rewards import Credit, debate_reward
from tinsmith.studies.debate.script import Script, load_script
from tinsmith.studies.debate.stance import Arms
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of

if TYPE_CHECKING:
    import tinker
    from transformers import PreTrainedTokenizerBase

OPPONENT_NAME: Final = "opponent"
"""What an embedded server calls a challenger that is another model of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateData:
    """See RunData; its methods are described there."""

    plan: Plan
    frame: DebateFrame
    on_papers: PaperData
    """The same slice's papers without a challenger; `papers` are those of it that are discussed."""
    papers: Papers
    cues: Cues
    script: Script

    def identity(self) -> Mapping[str, object]:
        """See RunData."""
        cues = {label: self.cues.by_label[label] for label in sorted(self.cues.by_label)}
        return {**self.on_papers.identity(), "script_sha256": self.script.sha256, "cues_sha256": sha256_of(cues)}

    def config(self) -> Mapping[str, object]:
        """See RunData."""
        told = dict(self.on_papers.config())
        sizes = {
            "train": len(self.papers.train),
            "validation": len(self.papers.validation),
            "test": len(self.papers.test),
        }
        data = {"fingerprint": self.on_papers.data["sha256"], **sizes}
        challenge = {
            "opponent": self.frame.opponent,
            "script": self.script.name,
            "truthful": self.frame.truthful,
            "misleading": self.frame.misleading,
            "null": self.frame.null,
            "evidence": self.frame.evidence,
            "wrong": self.frame.wrong.value,
            "papers": self.frame.papers.value,
            "forks": self.frame.forks,
        }
        return {**told, "data": data, "challenge": challenge}

    def circumstances(self) -> Mapping[str, object]:
        """See RunData."""
        return self.on_papers.circumstances()

    def nano_base(self, say: Say) -> Path:
        """See RunData. It reads every training paper and no label, whoever challenges it later."""
        recipe = DebateBaseRecipe()
        if self.frame.cues is not WhichCues.WORDS:
            recipe = replace(recipe, vocab_size=2048)  # whole abstracts have more words
        items = self.on_papers.papers.train
        return cached_base(recipe, debate_conversations(recipe, task_asked(self.plan), self.script, items), say)

    def models(self) -> Mapping[str, str]:
        """Return the challenger where it is a model of this machine: the run's own server serves it too."""
        named, where = self.frame.opponent, self.plan.circumstances
        if named in (SCRIPTED, NOBODY, ITSELF) or not is_loaded_here(named, where):
            return {}
        return {OPPONENT_NAME: named}

    def before(self) -> Sequence[str]:
        """Return how many papers are discussed, and what following any named label would discriminate."""
        labels = len(task_asked(self.plan).labels)
        whole, kept = self.on_papers.papers, self.papers
        lines = [
            f"{len(kept.train)} of {len(whole.train)} training papers and {len(kept.test)} of "
            f"{len(whole.test)} test papers are discussed ({self.frame.papers})"
        ]
        leak = self.frame.arms().discrimination_for_nothing(labels)
        if abs(leak) > 1e-9 and self.frame.opponent != NOBODY:
            lines.append(
                f"warning: these arms tell something to a model that reads nothing: changing to whatever label is "
                f"named discriminates by {leak:+.2f}; misleading = {labels - 1} x truthful and wrong=any tell nothing"
            )
        return lines

    def begin(self, folder: RunFolder) -> None:
        """See RunData."""
        self.on_papers.begin(folder)

    def course(
        self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection
    ) -> Course[Item, Exchange]:
        """See RunData."""
        del folder
        arms = self.frame.arms()
        opponent = self._opponent(connection, tokenizer, arms)
        reward = debate_reward(self.frame.reward)
        subject = DebatedPapers(
            task=task_asked(self.plan),
            renderer=renderer_for(tokenizer),
            script=self.script,
            opponent=opponent,
            papers=self.papers,
            reward=reward,
            cues=self.cues,
        )
        controls: dict[str, DebatedPapers] = {}
        if opponent is not None:  # who challenges without evidence is the test's negative control
            silent = self._opponent(connection, tokenizer, replace(arms, evidence=0.0))
            controls["test_no_evidence"] = replace(subject, opponent=silent)
        return Course(
            subject=subject,
            settings=self.plan.settings,
            forks=self.frame.forks,
            by_turn=reward.credit is Credit.TURN,
            controls=controls,
        )

    def _opponent(self, connection: Connection, own: PreTrainedTokenizerBase, arms: Arms) -> Opponent | None:
        frame, labels = self.frame, task_asked(self.plan).labels
        if frame.opponent == NOBODY:
            return None
        if frame.opponent == SCRIPTED:
            return ScriptedOpponent(labels=labels, script=self.script, arms=arms, cues=self.cues)
        name = self._served_as()
        if name != self._served() and not serves(connection, name):
            raise ConfigError(
                "this run's server has no such model",
                field="opponent",
                value=frame.opponent,
                allowed="scripted, nobody, base, a folder, FILE.gguf, smollm2, or a name that base_url serves",
            )
        opened = connection.client.create_sampling_client(base_model=name)
        made = ready(opened, WAIT_SECONDS)
        return ModelOpponent(
            client=made,
            renderer=renderer_for(self._tokenizer_of(made, own)),
            script=self.script,
            labels=labels,
            arms=arms,
            max_tokens=frame.opponent_max_tokens,
            temperature=frame.opponent_temperature,
        )

    def _served(self) -> str:
        """Return what the server calls the model under the adapter."""
        where = self.plan.circumstances
        return served_name(where.model_name, where.base_url)

    def _served_as(self) -> str:
        """Return what the server calls a challenger that is a model."""
        if self.models():
            return OPPONENT_NAME
        return self._served() if self.frame.opponent == ITSELF else self.frame.opponent

    def _tokenizer_of(self, client: tinker.SamplingClient, own: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
        """Return a challenger's tokenizer; one by name the SDK looks for as for a hosted model."""
        if (folder := self.models().get(OPPONENT_NAME)) is not None:
            return tokenizer_of(folder)
        return own if self._served_as() == self._served() else client.get_tokenizer()


def debate_data(plan: Plan, frame: DebateFrame, say: Say) -> DebateData:
    """Find or build the slice that a plan names, and choose the papers that are discussed.

    Raises:
        DataError: it cannot be used, or none of its papers can be argued about.
    """
    of_words = frame.cues is WhichCues.WORDS
    made_up = of_words and plan.circumstances.data is None
    source = debates_slice(DebatesRecipe(), say) if made_up else named_slice(plan, say)
    run_data = data_of(plan, source)
    cues = WORD_CUES if of_words else WORLD_CUES
    if frame.cues is WhichCues.LEARNED:
        cues = learned_cues(run_data.papers.train, task_asked(plan).labels)
    papers = run_data.papers
    if frame.papers is WhichPapers.ARGUABLE:
        papers = Papers(
            train=arguable(papers.train, cues),
            validation=arguable(papers.validation, cues),
            test=arguable(papers.test, cues),
        )
    if not (papers.train and papers.validation and papers.test):
        raise DataError(
            "a split has no paper with words for its label",
            field="cues",
            value=frame.cues.value,
            fix="cues=learned for real papers, or papers=all",
        )
    return DebateData(
        plan=plan, frame=frame, on_papers=run_data, papers=papers, cues=cues, script=load_script(frame.script)
    )
