"""Small nets at equal FLOPs: texts, masks, FLOPs beside torch's count, and equal values of equal runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.measured import MeasuredSize
from tinsmith.studies.nets.blocks import Decoder, causal_mask
from tinsmith.studies.nets.prompt_masked_pretraining import (
    APPLICATIONS,
    HELD_OUT,
    NODES,
    SIZES,
    TOKENS,
    VOCABULARY,
    maps,
    recur,
    recurrent_net,
    step_flops,
    texts,
)
from tinsmith.types.seeds import derive
from tinsmith.types.waits import unsaid

AMOUNTS = replace(SIZES[MeasuredSize.NANO], batch=2)
SHAPE = VOCABULARY, TOKENS, AMOUNTS.width, AMOUNTS.heads
NAME = "prompt_masked_pretraining"


@pytest.mark.parametrize("recorded", [2, 3, 5, APPLICATIONS])
def test_the_flops_of_a_step_are_those_that_torch_counts(recorded: int) -> None:
    batch, mask = texts(AMOUNTS.batch, 1, held_out=False), causal_mask(TOKENS)
    net, plain = recurrent_net(AMOUNTS.width, AMOUNTS.heads), Decoder(*SHAPE, APPLICATIONS)
    for is_plain in {False, recorded == APPLICATIONS}:
        with FlopCounterMode(display=False) as counter:
            logits = plain(batch[:, :-1], mask) if is_plain else recur(net, batch[:, :-1], mask, recorded)
            functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        assert counter.get_total_flops() == step_flops(AMOUNTS, recorded)


def test_a_text_ends_where_its_hops_lead_and_held_out_maps_are_never_trained_on() -> None:
    held, train = texts(200, 1, held_out=True), texts(4000, 2, held_out=False)
    for text in held[:50].tolist():
        at = text[NODES]
        for _ in range(text[NODES + 1] - NODES + 1):
            at = text[at]
        assert text[-1] == at
    assert not {tuple(one) for one in held[:, :NODES].tolist()} & {tuple(one) for one in train[:, :NODES].tolist()}


def test_held_out_maps_are_all_different_and_no_place_of_theirs_tells_them_from_others() -> None:
    held, others = maps(held_out=True), maps(held_out=False)
    assert len(held) + len(others) == NODES**NODES
    assert len(held) == pytest.approx(NODES**NODES / HELD_OUT, rel=0.05)
    for place in range(NODES):
        shares = held[:, place].bincount(minlength=NODES) / len(held)
        assert shares.tolist() == pytest.approx([1 / NODES] * NODES, abs=0.03)
    questions = texts(512, derive(0, "held out"), held_out=True)
    assert len(questions[:, :NODES].unique(dim=0)) == 512
    assert (questions[:, -1].bincount(minlength=NODES) / 512).tolist() == pytest.approx([1 / NODES] * NODES, abs=0.05)


@pytest.mark.parametrize("prefix", [0, 4])
def test_a_token_depends_on_later_ones_within_the_prefix_alone(prefix: int) -> None:
    torch.manual_seed(1)
    net, tokens = Decoder(*SHAPE, 2), torch.zeros(1, TOKENS, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 3] = 1
    mask = causal_mask(TOKENS, prefix)
    moved = (net(tokens, mask) - net(changed, mask)).abs().amax(-1)[0] > 0
    assert moved.tolist() == [prefix > 3] * 3 + [True] * (TOKENS - 3)


@pytest.mark.parametrize("recorded", [1, 2])
def test_gradients_reach_the_last_applications_alone(recorded: int) -> None:
    net, tokens = recurrent_net(AMOUNTS.width, AMOUNTS.heads), torch.zeros(2, TOKENS, dtype=torch.long)
    recur(net, tokens, causal_mask(TOKENS), recorded).sum().backward()
    reached = {name.partition(".")[0] for name, one in net.named_parameters() if one.grad is not None}
    assert reached == {"ends", "slow"} | ({"fast", "norm"} if recorded > 1 else set())


def test_a_smallest_run_and_what_is_made_again_of_it_have_equal_values(tmp_path: Path) -> None:
    kept: list[dict[str, object]] = []
    for _ in range(2):
        folder = STUDIES[NAME].run({"size": "smallest", "seeds": "1", "out": str(tmp_path / "out")}, unsaid)
        kept.append(json.loads((folder / "study.json").read_text()))
        for file in sorted((folder / "cells").glob("*"))[::2]:
            file.unlink()
    assert kept[0] == kept[1]
    figures = kept[0]["figures"]
    assert all(0.8 * 2.0 < arm["gflops"]["value"] <= 2.0 for arm in figures.values())
