"""Papers with labels as a search asks for them: their prompts under a document, answered by a policy and scored.

A right answer earns 1 over the number of labels times its label's share of the papers that are trained on, anything
else nothing: so what papers earn on average is balanced accuracy, and a label that is rare is worth as much as others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import tinker

from tinsmith.lab.labels.labelled_papers import LabelledPapers
from tinsmith.lab.labels.task import Item
from tinsmith.lab.papers.compute_spent import Ledger
from tinsmith.lab.prompt_search.document import Document
from tinsmith.lab.rollouts import Failure, Sampling, sample_groups


def paid(items: Sequence[Item]) -> dict[str, Fraction]:
    """Return what a right answer earns, by label, where these papers are trained on."""
    counts = Counter(one.gold for one in items)
    return {label: Fraction(len(items), len(counts) * count) for label, count in sorted(counts.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPapers:
    """Scores documents; see Score. Counts the papers and tokens that it takes."""

    client: tinker.SamplingClient
    study: LabelledPapers
    """About one subject; its task has no lines of its own."""
    samples: int
    """Answers to each paper."""
    temperature: float
    max_tokens: int
    positions: int
    """Of the model: a document under which a prompt and its answer do not fit is not asked, and earns nothing."""
    ledger: Ledger
    _items: dict[str, Item] = field(default_factory=dict[str, Item])
    _paid: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    _under: dict[Document, LabelledPapers] = field(default_factory=dict[Document, LabelledPapers])

    def __post_init__(self) -> None:
        """Look up the training papers, and what they pay."""
        train = self.study.papers.train
        self._items.update({one.prompt_id: one for one in train})
        self._paid.update(paid(train))

    @property
    def prompts(self) -> Mapping[str, str]:
        """Titles of the training papers, for a proposer that reads."""
        return {name: one.paper.title for name, one in self._items.items()}

    def __call__(self, document: Document, items: Sequence[str], seed: int) -> dict[str, Fraction]:
        """Return the mean of what each paper's answers earn; papers of which every answer failed are left out."""
        asked = [self._items[name] for name in items]
        study = self._study(document)
        longest = max(len(study.prompt(one)) for one in asked)
        if longest + self.max_tokens > self.positions:
            return dict.fromkeys(items, Fraction())
        groups = sample_groups(
            self.client,
            study,
            asked,
            Sampling(samples=self.samples, max_tokens=self.max_tokens, temperature=self.temperature, seed=seed),
        )
        found: dict[str, Fraction] = {}
        for item, group in zip(asked, groups, strict=True):
            answered = [one for one in group if not isinstance(one, Failure)]
            prompt = len(study.prompt(item))
            self.ledger.spent.papers += 1
            self.ledger.read(prompt)
            for one in answered:
                self.ledger.sampled(len(one.tokens), prompt)
            if answered:
                right = sum(one.answer.predicted == item.gold for one in answered)
                found[item.prompt_id] = self._paid[item.gold] * Fraction(right, len(answered))
        return found

    def _study(self, document: Document) -> LabelledPapers:
        """Return the papers under a document; prompts are rendered once."""
        if document not in self._under:
            study = self.study
            self._under[document] = LabelledPapers(
                task=replace(study.task, prompt_lines=document),
                papers=study.papers,
                renderer=study.renderer,
                tokenizer=study.tokenizer,
            )
        return self._under[document]
