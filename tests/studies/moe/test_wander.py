"""`moe/wander`: what each side computes, that canonical stands still, and that what moves is seen and told."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.lab.study.keys import measure_of
from tinsmith.models.base import OpenedBase
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.pages.tables import Table
from tinsmith.studies.moe.bench import drawn_texts, is_moved, measured_base, wander_page, wander_story
from tinsmith.studies.moe.sides import (
    Ours,
    Theirs,
    angle,
    coin_advantages,
    compared,
    greedy_parted,
    our_decoder,
    step_ratios,
)
from tinsmith.studies.moe.study import Amounts, Computed, Dtype, Engine, Side, Text, batched, wander
from tinsmith.types.errors import ConfigError
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

MOE_NANO = "tinsmith/moe-nano"
SMALL = Amounts(base_steps=2, prompts=2, samples=2, prompt_tokens=12, tokens=5, batches=(3,), seed=0)
CANONICAL = Side(Engine.CANONICAL, Dtype.FP32)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> OpenedBase:
    return measured_base(MOE_NANO, tmp_path_factory.mktemp("wander"), SMALL, unsaid)


@pytest.fixture(scope="module")
def texts(base: OpenedBase) -> list[Text]:
    return drawn_texts(MOE_NANO, SMALL, base)


@pytest.fixture(scope="module")
def ours(base: OpenedBase) -> Ours:
    return Ours(our_decoder(CANONICAL, base.config, base.weights))


def _same(one: Sequence[Computed], other: Sequence[Computed]) -> bool:
    return all(
        a.logprobs.tobytes() == b.logprobs.tobytes() and np.array_equal(a.routes, b.routes)
        for a, b in zip(one, other, strict=True)
    )


def test_what_is_decoded_is_what_the_sampler_says(ours: Ours, texts: list[Text]) -> None:
    decoder = ours.decoder
    requests = [
        SampleRequest(prompt=text.prompt, params=SamplingParams(temperature=0.0, max_tokens=5, stop=(), seed=0))
        for text in texts
    ]
    results = Sampler(decoder.config, decoder.kernels).sample(requests, [Policy(decoder, {})] * len(requests))
    drawn = [result.sequences[0] for result in results]
    greedy = batched(partial(ours.greedy, tokens=5), [text.prompt for text in texts], 3)
    assert [one.tokens.tolist() for one in drawn] == [one.tolist() for one in greedy]
    again = [Text(prompt=text.prompt, completion=one.tokens) for text, one in zip(texts, drawn, strict=True)]
    followed = batched(ours.decode, again, 2)
    for seen, one in zip(followed, drawn, strict=True):
        assert seen.logprobs.tobytes() == one.logprobs.tobytes()


def test_canonical_stands_still(ours: Ours, texts: list[Text]) -> None:
    alone = batched(ours.forward, texts, 1)
    assert _same(batched(ours.forward, texts, 3), alone)
    assert _same(batched(ours.decode, texts, 1), alone)
    assert _same(batched(ours.decode, texts, 4), alone)
    assert [seen.routes.shape for seen in alone] == [(len(text.tokens) - 1,) for text in texts]


@pytest.mark.parametrize("dtype", Dtype)
def test_transformers_is_asked_about_the_same_tokens(dtype: Dtype, base: OpenedBase, texts: list[Text]) -> None:
    theirs = Theirs(base.folder, dtype)
    canonical = Ours(our_decoder(Side(Engine.CANONICAL, dtype), base.config, base.weights))
    limit, most = (5e-5, 0) if dtype is Dtype.FP32 else (0.2, 12)
    beside = batched(canonical.forward, texts, 1)
    for seen in (batched(theirs.forward, texts, 3), batched(theirs.decode, texts, 3), batched(theirs.decode, texts, 1)):
        found = compared(seen, beside)
        assert found["max_logprob_difference"] <= limit
        assert found["changed_routes"] <= most
        assert found["tokens"] == sum(len(text.tokens) - 1 for text in texts)
    if dtype is Dtype.FP32:
        prompts = [text.prompt for text in texts]
        together = batched(partial(theirs.greedy, tokens=5), prompts, 3)
        for one, other in zip(together, canonical.greedy(prompts, 5), strict=True):
            assert one.tolist() == other.tolist()


def test_the_gradient_of_transformers_is_ours(base: OpenedBase, texts: list[Text], ours: Ours) -> None:
    advantages = [0.5, -0.5, 1.0, -1.0]
    sampled = [seen.logprobs + np.float32(0.01) for seen in batched(ours.forward, texts, 4)]
    own, _ = ours.gradient(texts, advantages, sampled)
    theirs = Theirs(base.folder, Dtype.FP32).gradient(texts, advantages, sampled, 3)
    assert set(theirs) == set(own)
    norm = math.sqrt(sum(float((own[name] ** 2).sum()) for name in own))
    apart = math.sqrt(sum(float(((own[name] - theirs[name]) ** 2).sum()) for name in own))
    assert norm > 0.0
    assert apart <= 1e-4 * norm


ADVANTAGES = [1.0, -1.0, 0.5, -0.5]


def test_a_step_without_a_difference_has_ratios_of_one(texts: list[Text], ours: Ours) -> None:
    seen, exact = batched(ours.forward, texts, 4), partial(ours.gradient, texts, ADVANTAGES)
    own = [one.logprobs for one in seen]
    still = step_ratios(exact, own, sampler=seen, trainer=seen, whole=exact(own)[0])
    assert (still["ratios_not_one"], still["least_ratio"], still["largest_ratio"]) == (0.0, 1.0, 1.0)
    assert (still["unequal_routes"], still["whole_angle_degrees"]) == (0, 0.0)
    assert set(still["angle_degrees"].values()) == {0.0}
    assert set(still["clipped"].values()) == {0.0}


def test_a_step_whose_sampler_differs_is_seen(texts: list[Text], ours: Ours) -> None:
    seen, exact = batched(ours.forward, texts, 4), partial(ours.gradient, texts, ADVANTAGES)
    other = [
        Computed(
            logprobs=one.logprobs + np.float32([-0.5, 0.0, 0.3, 0.0, -2.0]),
            routes=np.where(np.arange(len(one.routes)) == 3, 7, one.routes),
        )
        for one in seen
    ]
    own = [one.logprobs for one in seen]
    found = step_ratios(exact, own, sampler=other, trainer=seen, whole=exact(own)[0])
    assert found["unequal_routes"] == 4
    assert found["ratios_not_one"] == 0.6
    assert found["largest_ratio"] == pytest.approx(math.exp(2.0), rel=1e-5)
    assert found["least_ratio"] == pytest.approx(math.exp(-0.3), rel=1e-5)
    assert found["clipped"]["ppo"] == pytest.approx(0.3)  # a threshold on the side of the advantage
    assert found["clipped"]["cispo"] == pytest.approx(0.2)  # above 4
    assert all(1.0 < each < 90.0 for each in found["angle_degrees"].values())


def test_angles() -> None:
    x, y = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 2.0])
    assert angle({"a": x, "b": y}, {"a": x.clone(), "b": y.clone()}) == 0.0
    assert angle({"a": x}, {"a": y}) == pytest.approx(90.0)
    assert angle({"a": x}, {"a": -x}) == pytest.approx(180.0)
    assert angle({"a": x, "b": y}, {"a": x, "b": 0 * y}) == pytest.approx(math.degrees(math.atan2(2, 3)))
    assert angle({"a": 0 * x}, {"a": x}) == 90.0


def test_advantages_are_a_groups() -> None:
    found = np.array(coin_advantages(40, 4, 1)).reshape(10, 4)
    assert np.abs(found.sum(axis=1)).max() == 0.0
    assert np.abs(found).max() > 0.0
    assert coin_advantages(40, 4, 1) == found.ravel().tolist()


def _seen(changed: Sequence[int], moved: float = 0.0, length: int = 6) -> Computed:
    routes = np.zeros(length, np.int64)
    routes[list(changed)] = 5
    return Computed(logprobs=np.full(3, -1.0 + moved, np.float32), routes=routes)


def test_changed_routes_are_counted_by_token_and_text() -> None:
    one = [_seen([]), _seen([1, 4], 0.25), _seen([])]
    found = compared(one, [_seen([]), _seen([]), _seen([])])
    assert (found["changed_routes"], found["tokens"]) == (2, 18)
    assert (found["changed_texts"], found["texts"]) == (1, 3)
    assert found["unequal_logprob_bits"] == pytest.approx(1 / 3)
    assert found["max_logprob_difference"] == 0.25
    assert found["interval"][0] == 0.0
    assert found["share"] < found["interval"][1] <= 2 / 6
    none = compared([_seen([])], [_seen([])])
    assert (none["share"], none["interval"][0]) == (0.0, 0.0)
    assert none["interval"][1] > 0.1
    assert (is_moved(found), is_moved(none)) == (True, False)
    assert is_moved({**none, "unequal_logprob_bits": 0.5})


def test_greedy_texts_part_where_they_first_differ() -> None:
    alone = [np.array([1, 2, 3]), np.array([4, 5, 6]), np.array([7, 8, 9])]
    together = [np.array([1, 2, 3]), np.array([4, 0, 6]), np.array([0, 8, 0])]
    assert greedy_parted(together, alone) == {"texts": 3, "parted": 2, "first": [0, 1]}


def test_a_dense_model_is_refused(tmp_path: Path) -> None:
    config = replace(PRESETS["nano"], num_layers=1)
    write_folder(tmp_path / "dense", config, initial_weights(config, 0))
    with pytest.raises(ConfigError, match="only a mixture"):
        measured_base(str(tmp_path / "dense"), tmp_path, SMALL, unsaid)


def test_a_text_longer_than_the_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="context"):
        measured_base(MOE_NANO, tmp_path, replace(SMALL, tokens=2000), unsaid)


def test_the_base_is_the_same_again(base: OpenedBase, tmp_path: Path) -> None:
    again = measured_base(MOE_NANO, tmp_path, SMALL, unsaid)
    assert again.identity.fingerprint == base.identity.fingerprint


def _wander(canonical: int, other: int) -> dict[str, Any]:
    """Values of a measurement: tokens that changed their routes, of 200, on each side."""
    sides = {"canonical": canonical, "transformers": other}
    compared = {
        engine: {
            **{"arithmetic": engine, "dtype": "bf16", "changed_routes": changed, "tokens": 200, "share": changed / 200},
            **{"interval": (changed / 400, changed / 100), "changed_texts": min(changed, 8), "texts": 8},
            **{"unequal_logprob_bits": 0.0, "max_logprob_difference": 0.12, "mean_logprob_difference": 0.01},
        }
        for engine, changed in sides.items()
    }
    step: dict[str, Any] = {
        **{"tokens": 200, "unequal_routes": 3, "ratios_not_one": 0.5, "least_ratio": 0.9, "largest_ratio": 1.1},
        **{"clipped": {"ppo": 0.01, "cispo": 0.0}, "whole_angle_degrees": 7.0},
        "angle_degrees": {"importance_sampling": 3.0, "ppo": 4.0, "cispo": 3.0},
    }
    named = {"arithmetic": "transformers", "dtype": "bf16", "batch": 4}
    return {
        **{"model": "tinsmith/moe-nano", "fingerprint": "f" * 64, "settings": {"seed": 0}, "machine": {"cpu": "one"}},
        "rows": [
            {**one, "way": way, "batch": batch}
            for one in compared.values()
            for way, batch in (("decode", 1), ("forward", 4))
        ],
        "from_canonical": [compared["transformers"]],
        "greedy": [{**named, "texts": 8, "parted": 2, "first": [3, 9]}],
        "rl_step": [{**named, **step}],
    }


def test_the_page_has_counts_with_intervals() -> None:
    done = _wander(0, 3)
    story = " ".join(wander_story(done))
    assert "transformers bf16: 3 of 200 tokens (1.50 %, 0.75 to 3.00)" in story
    assert "MOVED" not in story
    assert "MOVED" in " ".join(wander_story(_wander(1, 0)))
    tables = [one for section in wander_page(done).sections for one in section.blocks if isinstance(one, Table)]
    routes, distances, greedy, steps = [[cell.text for cell in one.rows[-1].cells] for one in tables]
    assert routes[:4] == ["forward", "4", "3 of 200", "1.5 %"]
    assert distances[0] == "3 of 200"
    assert greedy == ["4", "2 of 8", "9"]
    assert steps[-4:] == ["3", "4", "3", "7"]


def test_sides_are_computed_in_their_own_order() -> None:
    words: list[str] = []
    measure_of(wander, {"sides": "transformers,canonical", "dry_run": "true"})(words.append)
    assert words[0].endswith("by canonical fp32, canonical bf16, transformers fp32, transformers bf16")
