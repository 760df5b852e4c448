"""What a study of pass@k may say, the first thing first: what came out of what was expected, and what did not."""

from __future__ import annotations

from tinsmith.lab.results.claim_tables import claim_sentence
from tinsmith.lab.study.results import limits_of
from tinsmith.lab.study.signs import signs_sentence
from tinsmith.pages.wording import counted, listed, told
from tinsmith.stats.diagnostics.pass_at_k import dyadic
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.pass_at_k.results import PassFound, Swapped
from tinsmith.studies.pass_at_k.settings import BASE, COIN, GRPO, SFT
from tinsmith.studies.pass_at_k.world import Hops


def sentences(found: PassFound) -> tuple[str, ...]:
    """Return all that may be said."""
    return (
        _signs(found),
        _boundary(found),
        _curves(found),
        _ways(found),
        _control(found),
        *(claim_sentence(claim) for claim in (*found.beats, *found.learned)),
        *limits_of(found, {}),
    )


def _signs(found: PassFound) -> str:
    first = signs_sentence(found.signs)
    return f"{first}." if _flat(found) else f"{first}; and the control, paid by a coin, is not flat."


def _boundary(found: PassFound) -> str:
    rl, sft = found.swap(GRPO), found.swap(SFT)
    seeds = counted(len(found.seeds), "seed")
    return (
        f"Of {counted(found.num_two, 'question')} of two hops, {found.samples} samples each, the base solves "
        f"{_of_seeds(rl.of_base, found)} at all, GRPO {_of_seeds(rl.solved, found)} and SFT "
        f"{_of_seeds(sft.solved, found)} (means over {seeds}). Boundaries: GRPO's is {_apart(rl)}, SFT's {_apart(sft)}."
    )


def _of_seeds(count: int, found: PassFound) -> str:
    return f"{count / len(found.seeds):.1f}"


def _apart(swap: Swapped) -> str:
    if swap.p_value >= ALPHA:
        return "not told from the base's"
    return "wider" if swap.gained > swap.lost else "narrower"


def _curves(found: PassFound) -> str:
    ks = dyadic(found.samples)
    ends = "; ".join(
        f"{words} {told(found.at(name, ks[0]))} and {told(found.at(name, ks[-1]))}"
        for name, words in ((BASE, "base"), (SFT, "SFT"), (GRPO, "GRPO"))
    )
    crossed = [k for k in ks if found.at(GRPO, k).value < found.at(BASE, k).value]
    where = f"below the base's at k = {listed([str(k) for k in crossed])}" if crossed else "nowhere below the base's"
    return f"pass@{ks[0]} and pass@{ks[-1]} on two hops: {ends}. GRPO's curve lies {where}."


def _ways(found: PassFound) -> str:
    parts = [
        f"{words} {told(found.way(name).sequences)}" for name, words in ((BASE, "base"), (SFT, "SFT"), (GRPO, "GRPO"))
    ]
    return f"Different sequences of look-ups a question, of {found.samples} samples: {'; '.join(parts)}."


def _flat(found: PassFound) -> bool:
    """Whether the control's boundary is not told from the base's, on one hop and on two."""
    return all(found.swap(COIN, hops).p_value >= ALPHA for hops in Hops)


def _control(found: PassFound) -> str:
    two, one = found.swap(COIN), found.swap(COIN, Hops.ONE)
    gap = found.at(COIN, 1).value - found.at(BASE, 1).value
    flat = "flat" if _flat(found) else "not flat"
    return (
        f"The control, paid by a coin, is {flat}: on two hops {two.gained} gained and "
        f"{two.lost} lost (p = {two.p_value:.2g}), on one hop {one.gained} and {one.lost} (p = {one.p_value:.2g}); "
        f"pass@1 on two hops {gap:+.3f}."
    )
