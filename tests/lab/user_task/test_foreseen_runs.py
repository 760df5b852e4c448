"""Whole runs with a loss on what the environment answers: one model, the same bits again, and nothing at weight 0."""

from pathlib import Path

from own_task import lines

from command_line import Run

TASK = """\
from tinsmith import Task


def long(item, text):
    return len(text) / 100


task = Task(
    items=[{"id": f"item-{n}", "n": n} for n in range(8)],
    prompt="Item {n}:",
    held_out=0.5,
    reward=long,
    reply=lambda item, said: f"heard {len(said)} of {item['n']}" if len(said) < 3 else None,
)
"""


def test_what_is_answered_is_learned_under_the_policy_that_read_it(run: Run, tmp_path: Path) -> None:
    for name, weight in (("none", "0"), ("some", "0.5")):
        run(log_path=name, env_loss_coef=weight, watch="environment", max_tokens="5", steps="2", code=0)
    none, some = (lines(tmp_path / name, "metrics.jsonl") for name in ("none", "some"))
    first = some[0]
    assert first["train/env_tokens"] > 0
    assert first["train/env_nll"] > 0.0
    # The environment's tokens are among those that are compared: the ratio of each is exactly 1.
    assert first["optim/unequal_logprob_bits"] == first["optim/kl_sample_train"] == 0.0
    assert "train/env_nll" not in none[0]
    assert none[0]["train/reward/total"] == first["train/reward/total"]
    assert none[0]["optim/grad_norm"] != first["optim/grad_norm"]
    assert none[0]["watch/env_nll"] == first["watch/env_nll"]
    assert some[-1]["watch/env_nll"] < none[-1]["watch/env_nll"]
