"""A Tinker server under test: `tinsmith serve` started as a user starts it, or any other by its address."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tinker

MODEL = "conformance/llama"
VOCAB, END, MAX_POSITIONS = 320, 256, 8192
HANG_S, LOOK_S = 120.0, 0.05

_READY = re.compile(r"^tinsmith serve: (http://\S+) key=(tml-\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Address of a server, and what it serves."""

    url: str
    key: str
    model: str
    exact: bool
    """True if it promises equal bits; else numbers are compared with a tolerance."""
    process: subprocess.Popen[bytes] | None = None

    def service(self) -> tinker.ServiceClient:
        """A client with a session of its own."""
        return tinker.ServiceClient(base_url=self.url, api_key=self.key)

    def rest(self) -> tinker.RestClient:
        """A client without a session."""
        return tinker.RestClient(base_url=self.url, api_key=self.key)

    def stop(self) -> None:
        """Ask the server to end, as a service manager does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a power cut does."""
        self._end(signal.SIGKILL)

    def _end(self, sign: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(sign)
        try:
            self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


FreshServer = Callable[[Path, int], Server]
"""Start another server of the same model on this state folder, with this seed."""


def start(folder: Path, state: Path, *, seed: int) -> Server:
    """Start `tinsmith serve` on a free port and wait for its line; its key is one it makes."""
    state.mkdir(parents=True, exist_ok=True)
    log = state / f"serve-{len(list(state.glob('serve-*.log')))}.log"
    command = [sys.executable, "-m", "tinsmith", "serve", "--model", f"{MODEL}={folder}"]
    command += ["--port", "0", "--state", str(state), "--seed", str(seed)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if not k.startswith("TINKER_")},
        )
    looks = iter(range(int(HANG_S / LOOK_S)))
    while (found := _READY.search(log.read_text(encoding="utf-8"))) is None:
        try:
            code: object = process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if next(looks, None) is not None:
                continue
            process.kill()
            code = "killed: it never said where it listens"
        raise RuntimeError(f"the server did not start ({code}): {log.read_text(encoding='utf-8')}")
    return Server(url=found[1], key=found[2], model=MODEL, exact=True, process=process)


def from_environment() -> Server | None:
    """The server that TINKER_BASE_URL names, if it is set."""
    url = os.environ.get("TINKER_BASE_URL")
    if not url:
        return None
    missing = [name for name in ("TINKER_API_KEY", "TINSMITH_CONFORMANCE_MODEL") if name not in os.environ]
    if missing:
        raise RuntimeError(f"TINKER_BASE_URL is set: set {' and '.join(missing)} too, or unset it")
    return Server(
        url=url,
        key=os.environ["TINKER_API_KEY"],
        model=os.environ["TINSMITH_CONFORMANCE_MODEL"],
        exact=os.environ.get("TINSMITH_CONFORMANCE_EXACT") == "1",
    )


def write_model(folder: Path) -> None:
    """Save a random Llama of two layers and a tokenizer of bytes, made by their own libraries."""
    from bent_model import byte_tokenizer, fill
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=None,
        eos_token_id=END,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    fill(model)
    model.save_pretrained(folder)
    byte_tokenizer(["<|end|>"]).save_pretrained(folder)
