"""A run on a Ray cluster of unequal machines, one of which joins after two steps: the hashes of a run on one machine.

    python bench/joining.py [STEPS] [key=value ...]

The model is SmolLM2: `tinsmith base fetch smollm2`.

The machines are Ray's own stand-ins: raylets of one computer, with one and two cores to give away. Prints the hashes
of both runs and which workers took part; exit 1 where they differ.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, cast

HASHES = ("weights_sha256", "rollouts_sha256", "metrics_sha256")
MODEL = "tinsmith/smollm2"
KEY = "tml-joining"
JOINS_AFTER = 2
"""Steps."""


def run(folder: Path, *settings: str) -> subprocess.Popen[bytes]:
    """Start a short RL run."""
    command = [sys.executable, "-m", "tinsmith", "run", "rlvr", *settings, f"log_path={folder}"]
    key = {"TINKER_API_KEY": KEY}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **key})


def hashes(folder: Path) -> tuple[str, ...]:
    """Return a run's short hashes."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found = cast("dict[str, str]", manifest["hashes"])
    return tuple(found[name][:16] for name in HASHES)


def workers_of(url: str) -> list[dict[str, Any]]:
    """Return the server's list of workers; empty while it does not answer."""
    asked = urllib.request.Request(f"{url}/api/v1/tinsmith/workers", headers={"X-API-Key": KEY})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return cast("list[dict[str, Any]]", json.load(answer)["workers"])
    except OSError:
        return []


def steps_done(folder: Path) -> int:
    """Steps that a run has recorded."""
    try:
        return len((folder / "trace.jsonl").read_text(encoding="utf-8").splitlines())
    except OSError:
        return 0


def on_a_cluster(folder: Path, settings: tuple[str, ...]) -> list[dict[str, Any]]:
    """Run on two machines of one core, and from the third step on one of two cores more; return the workers."""
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    serve = [sys.executable, "-m", "tinsmith", "serve", "--model", MODEL, "--ray", cluster.address]
    serve += ["--port", str(port), "--state", str(folder / "state")]
    server = subprocess.Popen(
        serve, env={**os.environ, "TINKER_API_KEY": KEY, "TINSMITH_API_KEY": KEY}, stdout=subprocess.DEVNULL
    )
    try:
        while len(workers_of(url)) < 2:
            if server.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.5)
        process = run(folder / "run", f"base_url={url}", *settings)
        while steps_done(folder / "run") < JOINS_AFTER and process.poll() is None:
            time.sleep(0.1)
        cluster.add_node(num_cpus=2)
        if process.wait():
            sys.exit("the run failed")
        return workers_of(url)
    finally:
        server.terminate()
        server.wait()
        cluster.shutdown()


def main(steps: int, given: tuple[str, ...]) -> int:
    """Return 1 where the hashes differ."""
    settings = ("at=small", f"model_name={MODEL}", f"steps={steps}", "eval_every=0", "quiet=true", *given)
    with tempfile.TemporaryDirectory() as scratch:
        alone = Path(scratch) / "alone"
        run(alone, *settings).wait()
        workers = on_a_cluster(Path(scratch), settings)
        found, expected = hashes(Path(scratch) / "run"), hashes(alone)
    print("alone:     ", *expected)
    print("on cluster:", *found)
    for worker in workers:
        print(worker)
    return int(found != expected)


if __name__ == "__main__":
    counts = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    sys.exit(main(counts[0] if counts else 3, tuple(each for each in sys.argv[1:] if "=" in each)))
