"""The probe: hidden states are the decoder's own, the layer is chosen on validation pairs, and a rerun is the same."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from taste_corpora import world, write

from tinsmith.lab.hidden_states import HiddenStates, Pooling, hidden_states
from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.select import select
from tinsmith.studies.taste.pairs import PairSettings, Side, Sides, draw_pairs
from tinsmith.studies.taste.probe import PROBE, RESULT, accuracy, probe, probed
from tinsmith.studies.taste.task import Baseline
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import DataError
from tinsmith.types.waits import unsaid

NANO = "tinsmith/nano"
TEXTS = ("Duality of branes", "Remarks", "On the spinors of a string")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("taste") / "corpus", world()).folder


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    corpus = write(tmp_path_factory.mktemp("taste") / "corpus", world())
    return draw_pairs(corpus, PairSettings(validation_pairs=6))


def test_states_do_not_hang_on_neighbours_and_end_as_the_decoders_own() -> None:
    together = hidden_states(NANO, TEXTS, unsaid)
    base = open_base(NANO)
    decoder = build_decoder(base.config, base.weights, select(Arithmetic.CANONICAL))
    for place, text in enumerate(TEXTS):
        alone = hidden_states(NANO, [text], unsaid)
        for pooling in Pooling:
            assert np.array_equal(alone.by_pooling[pooling][0], together.by_pooling[pooling][place])
        ids = torch.tensor(tokenizer_of(NANO).encode(text, add_special_tokens=False))
        with torch.no_grad():
            steps = TrainSteps(decoder.kernels, Forest.whole([len(ids)]))
            ends = decoder.hidden(steps, ids)[-1].numpy()
        last = torch.from_numpy(alone.by_pooling[Pooling.LAST][0, -1:].copy())
        gain = decoder.final_norm.value
        normed = decoder.kernels.add_rms_norm(last, None, gain, base.config.norm_eps)[1]
        assert np.array_equal(normed[0].numpy(), ends)
        embedded = base.weights["model.embed_tokens.weight"][ids].numpy()
        assert np.array_equal(alone.by_pooling[Pooling.LAST][0, 0], embedded[-1])
        assert np.allclose(alone.by_pooling[Pooling.MEAN][0, 0], embedded.mean(axis=0), atol=1e-6)
    assert together.layers == base.config.num_layers + 1


def test_a_text_without_a_token_is_refused() -> None:
    with pytest.raises(DataError):
        hidden_states(NANO, [TEXTS[0], ""], unsaid)


def test_the_layer_that_holds_it_is_found_and_the_test_is_scored_with_it(sides: Sides) -> None:
    rng = np.random.default_rng(5)
    pairs = [pair for side in Side for pair in sides[side]]
    states = rng.normal(size=(2 * len(pairs), 4, 6)).astype(np.float32)
    for place, pair in enumerate(pairs):
        states[2 * place + (0 if pair.a_right else 1), 2, 3] += 20
    noise = rng.normal(size=states.shape).astype(np.float32)
    found = HiddenStates("f", {Pooling.MEAN: noise, Pooling.LAST: states})
    choices, chosen, right = probed(found, sides)
    assert (chosen["layer"], chosen["pooling"], chosen["validation"]) == (2, "last", 1.0)
    assert right.all()
    assert len(right) == len(sides[Side.TEST])
    assert len(choices) == len({(one["layer"], one["pooling"], one["strength"]) for one in choices})
    assert min(one["validation"] for one in choices) < 1


def test_a_share_has_its_interval() -> None:
    one = accuracy(np.array([True] * 8 + [False] * 2))
    assert (one["pairs"], one["right"], one["accuracy"]) == (10, 8, 0.8)
    assert one["low"] == pytest.approx(0.4902, abs=1e-4)  # Wilson's, by hand
    assert one["high"] == pytest.approx(0.9433, abs=1e-4)


def test_a_probe_is_measured_beside_the_baselines_and_repeats(folder: Path, tmp_path: Path) -> None:
    written: list[bytes] = []
    for name in ("one", "two"):
        done = probe(data=str(folder), model=NANO, validation_pairs=6, out=tmp_path / name)(unsaid)
        written.append((done / RESULT).read_bytes())
    assert written[0] == written[1]
    found = json.loads(written[0])
    assert set(found["test"]) == {PROBE, *Baseline}
    assert found["pairs"] == {"train": 39, "validation": 6, "test": 9}
    for name, one in found["test"].items():
        by_pair = [each[name] for each in found["right"].values()]
        assert (len(by_pair), sum(by_pair)) == (one["pairs"], one["right"])
    dry: list[str] = []
    probe(data=str(folder), model=NANO, out=tmp_path / "no", dry_run=True)(dry.append)
    assert dry
    assert not (tmp_path / "no").exists()
