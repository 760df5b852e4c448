"""`tinsmith run taste/probe`: what a frozen model knows of it, by a linear probe, beside the baselines.

A logistic regression on the difference of two papers' hidden states. Layer, pooling and how strongly it is held back
are chosen on the validation pairs; the later years are looked at once, with what was chosen.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.study.files import write_json
from tinsmith.lab.study.keys import Measure, at_least
from tinsmith.stats.intervals import wilson
from tinsmith.studies.taste.pairs import PairSettings, Side, Sides, draw_pairs
from tinsmith.studies.taste.task import CARD, Baseline, Fitted, favours_a, fit_difference, require_corpus
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    from tinsmith.lab.hidden_states import HiddenStates

PROBE: Final = "taste/probe"
RESULT: Final = "probe.json"
STRENGTHS: Final = (1e-5, 1e-4, 1e-3, 1e-2)
"""Of scikit-learn's C: how far the weights may go from zero."""
Figures = dict[str, Any]
"""As probe.json has them."""


def probe(
    *,
    data: str = "",
    model: str = "smollm2",
    out: Path = Path("runs/taste-probe"),
    pairs: int = 2500,
    validation_pairs: int = 800,
    test_pairs: int = 800,
    dry_run: bool = False,
    **drawn: Annotated[object, PairSettings],
) -> Measure:
    """Return what measures how well a line through a model's hidden states tells which of two papers is cited more.

    The layer, and how states are pooled, are chosen on the validation pairs.

    Args:
        data: The corpus: a folder of tinsmith data build.
        model: Whose hidden states: as for tinsmith serve --model.
        out: The folder that it is written to.
        pairs: Most pairs to train on; fewer than the task has, as every title goes through the model.
        validation_pairs: Most of the last stretch of training.
        test_pairs: Most pairs of the later years.
        dry_run: Only say how many pairs it is.
        drawn: See PairSettings.
    """
    at_least(1, validation_pairs=validation_pairs)
    counts = {"pairs": pairs, "validation_pairs": validation_pairs, "test_pairs": test_pairs}
    settings = PairSettings(**cast("dict[str, Any]", {**drawn, **counts}))
    if (out / CARD).is_file():
        raise ConfigError("this folder holds a corpus", field="out", value=str(out))
    folder = require_corpus(data)

    def measure(say: Say) -> Path:
        from tinsmith.data.corpus import Corpus
        from tinsmith.models.published.sources import find_model

        find_model(model)
        corpus = Corpus.open(folder)
        sides = draw_pairs(corpus, settings)
        counted = ", ".join(f"{len(some):,} {side.value}" for side, some in sides.items())
        say(f"pairs: {counted}; {2 * sum(map(len, sides.values())):,} texts through {model}")
        if dry_run:
            return out
        from tinsmith.lab.hidden_states import hidden_states

        papers = [one for side in Side for pair in sides[side] for one in (pair.a, pair.b)]
        states = hidden_states(model, [one.shown(settings.text) for one in papers], say)
        choices, chosen, right = probed(states, sides)
        test, fitted = sides[Side.TEST], Fitted(lambda: sides[Side.TRAIN], settings.text)
        found = {PROBE: right, **{one.value: fitted.right(one, test) for one in Baseline}}
        accuracies = {name: accuracy(each) for name, each in found.items()}
        for name, one in accuracies.items():
            say(f"{name}: {one['accuracy']:.3f} ({one['low']:.3f} to {one['high']:.3f}) of {one['pairs']:,} pairs")
        say(f"chosen: layer {chosen['layer']}, {chosen['pooling']}, C={chosen['strength']}")
        values = {
            "corpus": corpus.card.fingerprint,
            "model": {"name": model, "fingerprint": states.fingerprint},
            "settings": asdict(settings),
            "pairs": {side.value: len(some) for side, some in sides.items()},
            "chosen": chosen,
            "test": accuracies,
            "validation": choices,
            "right": {pair.id: {name: bool(each[i]) for name, each in found.items()} for i, pair in enumerate(test)},
        }
        write_json(values, out / RESULT)
        return out

    return measure


def probed(states: HiddenStates, sides: Sides) -> tuple[list[Figures], Figures, NDArray[np.bool_]]:
    """Return every way that was tried, the chosen one, and which test pairs it is right about.

    The states are those of the papers of the pairs, a before b, by side in the order of `Side`. `validation` is the
    share of validation pairs that a way is right about; of equally good ways the first is chosen: the lowest layer.
    """
    bounds = np.cumsum([0, *(len(sides[side]) for side in Side)])
    rows = {side: slice(*bounds[i : i + 2].tolist()) for i, side in enumerate(Side)}
    choices: list[Figures] = []
    best: tuple[Figures, NDArray[np.bool_]] | None = None
    for layer in range(states.layers):
        for pooling, all_states in states.by_pooling.items():
            layer_states = all_states[:, layer].astype(np.float64)
            difference = layer_states[0::2] - layer_states[1::2]
            scale = np.sqrt((difference[rows[Side.TRAIN]] ** 2).mean(axis=0))
            difference /= np.where(scale == 0, 1.0, scale)
            for strength in STRENGTHS:
                weights = fit_difference(difference[rows[Side.TRAIN]], sides[Side.TRAIN], strength).coef_[0]
                validation, test = (
                    favours_a(some, difference[rows[side]] @ weights)
                    == np.array([one.a_right for one in some], np.bool_)
                    for side, some in sides.items()
                    if side is not Side.TRAIN
                )
                choice = {"pooling": pooling.value, "layer": layer, "strength": strength}
                choices.append({**choice, "validation": float(validation.mean())})
                if best is None or choices[-1]["validation"] > best[0]["validation"]:
                    best = choices[-1], test
    assert best is not None
    return choices, *best


def accuracy(right: NDArray[np.bool_]) -> Figures:
    """Return the share that is right, with Wilson's 95 % interval; a pair is the unit."""
    count, pairs = int(right.sum()), len(right)
    interval = wilson(count, pairs)
    return {"pairs": pairs, "right": count, "accuracy": count / pairs, "low": interval.low, "high": interval.high}
