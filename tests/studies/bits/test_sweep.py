"""A sweep: which cells it has, what they show on canonical and on fast, and that a broken promise is told."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from command_line import command
from loopback import KEPT
from tinsmith.engine.engine import Engine
from tinsmith.lab.difference.runs import Phase
from tinsmith.models.base import open_base
from tinsmith.studies.bits import study as sweep_module
from tinsmith.studies.bits.cells import (
    FACTORS,
    NO_PADDING,
    ONLY_CANONICAL,
    ONLY_FAST,
    Cell,
    Completion,
    Outcome,
    Size,
    cannot,
    cell_texts,
    changed,
    plan,
    promised,
)
from tinsmith.studies.bits.laboratory import compute, random_tokens, serve
from tinsmith.studies.bits.measures import Verdict, apart, peers, sampled, trained
from tinsmith.studies.bits.study import sweep
from tinsmith.types.deviation import Deviation
from tinsmith.types.errors import BackendError, ConfigError
from tinsmith.types.sampling import SampleRequest, SamplingParams
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

NANO = "tinsmith/nano"
SMALL = Size(completions=4, prompt=12, tokens=6, steps=2, prompts=2, rank=4)
Look = Callable[..., Outcome]


def with_values(**values: object) -> Cell:
    return changed(Cell(), ((name, str(value)) for name, value in values.items()))


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Computes a cell in this process, each once."""
    base, folder = open_base(NANO), tmp_path_factory.mktemp("sweep")

    @cache
    def computed(cell: Cell, number: int) -> Outcome:
        return compute(number, cell, base, SMALL, folder)

    numbers: dict[Cell, int] = {}

    def of(**values: object) -> Outcome:
        cell = with_values(**values)
        return computed(cell, numbers.setdefault(cell, len(numbers)))

    return of


def test_a_mixtures_routes_are_compared(tmp_path: Path) -> None:
    base = open_base("tinsmith/moe-nano")
    reference = compute(0, with_values(), base, SMALL, tmp_path)
    batched = compute(1, with_values(batch=3, prefill=5), base, SMALL, tmp_path)
    for each in sampled(batched, reference):
        assert (each.against.unequal_routes, each.trainer.unequal_routes) == (0.0, 0.0)
        assert each.against.same
    first, *rest = reference.completions[1]
    other = replace(first, routes=tuple(route + 1 for route in first.routes))
    found = apart([first, *rest], other, spread=[first])
    assert found.unequal_routes == 1.0
    assert not found.same


def test_the_default_sweep_varies_every_factor() -> None:
    variations = plan()
    assert variations[0].cell == Cell()
    assert variations[0].changes == ()
    assert {factor for each in variations for factor, _ in each.changes} == set(FACTORS)
    assert len({each.cell for each in variations}) == len(variations)
    bf16 = [each for each in variations if ("dtype", "bf16") in each.changes]
    assert bf16
    assert all(cannot(each.cell) is None for each in bf16)


def test_named_factors_are_varied_alone_and_pairs_together() -> None:
    variations = plan({"batch": ["1", "3"], "threads": ["2"]}, [["batch", "threads"]], (("neighbours", "0"),))
    pairs = ["batch=1 threads=2", "batch=3 threads=2"]
    assert [each.title for each in variations] == ["reference", "batch=1", "batch=3", "threads=2", *pairs]
    assert all(each.cell.neighbours == 0 for each in variations)


@pytest.mark.parametrize(
    ("factor", "value"), [("batch", "0"), ("batch", "two"), ("order", "up"), ("isa", "mmx"), ("deviation", "x")]
)
def test_a_value_that_a_factor_cannot_have_is_refused(factor: str, value: str) -> None:
    with pytest.raises(ConfigError, match=factor):
        changed(Cell(), [(factor, value)])


def test_a_cell_survives_as_texts() -> None:
    cell = with_values(batch=3, order="shuffled", cache=80, isa="scalar", deviation="shared_rng")
    assert changed(Cell(), cell_texts(cell).items()) == cell


def test_what_is_promised_and_what_there_is_not() -> None:
    reference = Cell()
    for changes in ({"batch": 1}, {"threads": 2}, {"resume": 1}, {"cache": "least"}):
        assert promised(reference, with_values(**changes)) is True
    for changes in ({"seed": 1}, {"adapter": "merged"}, {"arithmetic": "fast"}):
        assert promised(reference, with_values(**changes)) is None
    assert promised(reference, with_values(deviation="stock_silu")) is False
    assert cannot(with_values(padding="left")) == NO_PADDING
    assert cannot(with_values(dtype="bf16")) == ONLY_FAST
    assert cannot(with_values(arithmetic="fast", deviation="stock_silu")) == ONLY_CANONICAL


def test_a_load_decides_nothing_and_results_keep_the_order() -> None:
    engine = Engine({NANO: NANO}, certificate_store=KEPT)
    policy = engine.base_policy(NANO)
    requests = [
        SampleRequest(prompt=random_tokens(i, 3 + 5 * i, 512), params=SamplingParams(seed=i, max_tokens=5, stop=()))
        for i in range(6)
    ]
    alone = [engine.sample(NANO, [one], [policy])[0].sequences[0] for one in requests]
    for seed, order in enumerate(("given", "reversed", "shuffled")):
        load = with_values(batch=3, neighbours=5, order=order)
        served = serve(engine.sampler(NANO), policy, requests, load, seed=seed)
        for one, result in zip(alone, served, strict=True):
            assert result.sequences[0].tokens.tolist() == one.tokens.tolist()
            assert result.sequences[0].logprobs.tobytes() == one.logprobs.tobytes()
        assert not engine.sampler(NANO).busy


def completion(tokens: list[int], logprobs: list[float], *, top: list[int]) -> Completion:
    values = tuple(float(np.float32(x)) for x in logprobs)
    return Completion(tokens=tuple(tokens), logprobs=values, scored=values, top_tokens=tuple(top), top_logprobs=values)


def test_completions_are_compared_as_far_as_they_agree() -> None:
    usual = completion([1, 2, 3, 4], [-1.0, -1.0, -1.0, -1.0], top=[1, 2, 3, 4])
    other = completion([1, 2, 9, 4], [-1.0, -1.5, -1.0, -7.0], top=[1, 2, 9, 5])
    found = apart([usual, other], usual, spread=[usual, other])
    assert found.div_index == 2
    assert found.tokens == 4 + 2
    assert found.unequal_bits == pytest.approx(1 / 6)
    assert found.max_difference == 0.5
    assert found.mean_difference == pytest.approx(0.5 / 6)
    # Of four and three positions after the same tokens one has another most probable token.
    assert found.flip_rate == pytest.approx(1 / 7)
    spread = (np.exp(-1.0) - np.exp(-1.5)) / 2 / 2
    assert found.avg_std_top1_prob == pytest.approx(spread)
    assert not found.same


def test_equal_completions_have_no_distance_at_all() -> None:
    usual = completion([1, 2], [-0.1, -0.7], top=[1, 2])
    found = apart([usual] * 3, usual, spread=[usual] * 3)
    assert found.same
    assert (found.max_difference, found.kl_k3, found.avg_std_top1_prob) == (0.0, 0.0, 0.0)


def test_completions_that_part_at_once_have_no_token_to_compare() -> None:
    one, two = (completion([token, 1], [-1.0, -1.0], top=[1, 1]) for token in (1, 2))
    found = apart([two], one, spread=[one, two])
    assert (found.div_index, found.tokens, found.max_difference) == (0, 0, None)
    assert not found.same


def test_the_names_of_others_are_about_sampler_and_trainer() -> None:
    exact = completion([1, 2], [-1.0, -2.0], top=[1, 2])
    off = replace(exact, scored=(-1.0, float(np.float32(-2.5))))
    assert set(peers(Outcome(number=0, completions=((exact,),))).values()) == {0.0}
    found = peers(Outcome(number=0, completions=((off,),)))
    assert found["train_rollout_logprob_abs_diff"] == 0.25
    assert found["bit_wise/logprob_diff/max"] == 0.5
    assert found["rollout_probs_diff_max"] == pytest.approx(np.exp(-2.0) - np.exp(-2.5))
    k3 = (np.exp(-0.5) - 1 + 0.5) / 2
    for name in ("k3_kl", "gen_kl_error", "mismatch_kl"):
        assert found[name] == pytest.approx(k3)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 1, "neighbours": 0},
        {"order": "shuffled", "neighbours": 9},
        {"cache": "least", "prefill": 5},
        {"micro_batch": 1},
        {"resume": 1},
        {"repeat": 1},
    ],
    ids=str,
)
def test_nothing_of_this_changes_a_bit(look: Look, changes: dict[str, object]) -> None:
    reference, found = look(), look(**changes)
    assert all(one.one and one.against.same for one in sampled(found, reference))
    assert trained(found, reference).equal
    assert trained(found, reference).weight_difference == 0.0


@pytest.mark.parametrize("deviation", [each for each in Deviation if each is not Deviation.NONE], ids=str)
def test_every_fault_is_seen_and_its_tensor_named(look: Look, deviation: Deviation) -> None:
    reference, found = look(), look(deviation=deviation)
    done = trained(found, reference)
    assert (done.first.step, done.first.phase) == (0, Phase.GRADIENT)
    assert done.first.tensor in reference.steps[0][0]
    assert done.weight_difference > 0.0
    cold, warm = sampled(found, reference)
    uniform = (cold.unique, warm.unique) == (1, 1)
    assert uniform == (deviation is not Deviation.SHARED_RNG)
    apart_from_trainer = not (cold.trainer.same and warm.trainer.same)
    assert apart_from_trainer == (deviation in (Deviation.MERGED_ADAPTER, Deviation.STOCK_SILU))


def test_another_seed_samples_another_completion(look: Look) -> None:
    cold, warm = sampled(look(seed=1), look())
    assert cold.against.same
    assert warm.against.div_index is not None
    assert warm.one


def test_a_broken_promise_is_told_and_fails(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = look()
    first = sound.completions[0][0]
    nudged = replace(first, logprobs=(*first.logprobs[:-1], first.logprobs[-1] * (1 + 2**-20)))
    broken = replace(sound, number=1, completions=((nudged, *sound.completions[0][1:]), sound.completions[1]))

    def outcomes(*_: object) -> list[Outcome]:
        return [replace(sound, number=0), broken]

    monkeypatch.setattr(sweep_module, "_outcomes", outcomes)
    ran = command(capsys, "sweep", "batch=1", "--out", tmp_path, code=1)
    assert "Broken: batch=1: 1 unique of" in ran.out
    verdict = json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))["cells"][1]["verdict"]
    assert verdict == Verdict.BROKEN


def test_a_fault_that_nothing_shows_fails(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = look()

    def outcomes(*_: object) -> list[Outcome]:
        return [replace(sound, number=0), replace(sound, number=1)]

    monkeypatch.setattr(sweep_module, "_outcomes", outcomes)
    done = sweep(plan({"deviation": ["stock_silu"]}), tmp_path, unsaid)
    assert [cell.verdict for cell in done.wrong] == [Verdict.UNSEEN]


def test_a_process_that_dies_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "_CHILD", "this_module_is_not_there")
    with pytest.raises(BackendError, match="this_module_is_not_there"):
        sweep(plan(), tmp_path, unsaid)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["bach=1"], "bach"),
        (["batch"], "factor=v1,v2"),
        (["--pair", "batch"], "--pair"),
        (["--model", "mine=/nowhere"], "/nowhere"),
        (["--reference", "padding=left"], "pad"),
    ],
)
def test_a_mistake_is_told_in_a_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    lines = command(capsys, "sweep", *arguments, "--out", tmp_path, code=2).err
    assert named in lines
