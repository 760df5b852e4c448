"""One loop, two servers: embedded, and one that somebody else started and is named by its address.

The embedded server is started with a seed of the run, the other with its own. All three hashes must still be equal:
the loop sends a seed with every request that draws anything, so that a server's own seed decides nothing of a run.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from small_study import PAPERS

from command_line import keys_in
from running import KEY, Running
from tinsmith.cli.registered import find
from tinsmith.lab.experiment.conduct import conduct, embedded_settings
from tinsmith.lab.experiment.experiment import Plan, make_plan
from tinsmith.lab.experiment.materials import with_model
from tinsmith.lab.papers.run_data import PaperData
from tinsmith.lab.runs.files import MANIFEST, METRICS
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.whole

KEYS = keys_in(
    "steps=2 groups_per_batch=3 group_size=4 lora_rank=4 eval_every=1 save_every=0 eval_items=3 test_items=3 "
    "max_tokens=16 learning_rate=2e-3 quiet=true"
)
HASHES = ("weights_sha256", "metrics_sha256", "rollouts_sha256")
OTHER_SEED = 77


def plan(folder: Path, **changes: str) -> Plan:
    return make_plan(find("remedy/exp6"), {**KEYS, "log_path": str(folder), **changes})


def hashes(folder: Path) -> dict[str, Any]:
    messages = json.loads((folder / MANIFEST).read_text())
    assert messages["status"] == "finished"
    return {name: messages["hashes"][name] for name in HASHES}


def run(chosen: Plan) -> None:
    run_data = PaperData(plan=chosen, papers=PAPERS, data={"sha256": "5e" * 32}, source=None)
    materials = with_model(chosen, run_data, unsaid)
    conduct(chosen, say=unsaid, materials=materials)


def test_a_run_on_another_server_ends_with_the_same_bits(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded, elsewhere, reseeded = (tmp_path / name for name in ("a", "b", "c"))
    run(plan(embedded, model_name=str(base)))
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    flags = ("--seed", str(OTHER_SEED))
    with Running(tmp_path / "state", *flags, model=f"base={base}") as server:
        address = {"base_url": server.url, "model_name": "base"}
        chosen = plan(elsewhere, **address)
        assert embedded_settings(chosen, {}, elsewhere).seed != OTHER_SEED
        run(chosen)
        assert len(server.http.get("/api/v1/sessions").json()["sessions"]) == 1
        run(plan(reseeded, seed="1", **address))
    assert hashes(elsewhere) == hashes(embedded)
    # Equal hashes of runs that drew and learnt nothing would say nothing.
    assert not set(hashes(reseeded).values()) & set(hashes(elsewhere).values())
    lines = [json.loads(line) for line in (elsewhere / METRICS).read_text().splitlines()]
    assert any(line.get("optim/grad_norm", 0.0) > 0.0 for line in lines)
