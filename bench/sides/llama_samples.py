"""llama.cpp's side of sampling: its batches of sequences on the F32 file, a prompt decoded once and copied.

ids are drawn by numpy from the whole distribution, which takes half the time of llama.cpp's own sampler.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import llama_cpp as llama
import numpy as np
from side import Measured, measure, serve

BATCH = 2048
TYPES = {"f32": 0, "f16": 1}


@llama.llama_log_callback
def quiet(*_: object) -> None:
    """It says much at loading."""


class Sequences:
    """A context of several sequences, and the batch that feeds it."""

    def __init__(self, model: Any, length: int, task: dict[str, Any], threads: int) -> None:
        count = len(task["prompts"]) * task["samples"]
        params = llama.llama_context_default_params()
        params.n_seq_max, params.kv_unified = count, False
        params.n_ctx = count * ((length + 31) // 16 * 16)
        params.n_batch, params.n_ubatch = BATCH, task["rows"]
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = TYPES[task["cache"]]
        params.flash_attn_type = int(task["flash"])
        self.context = llama.llama_init_from_model(model, params)
        assert self.context, "llama.cpp refuses these settings"
        self.batch = llama.llama_batch_init(BATCH, 0, 1)
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        self.random = np.random.default_rng(0)

    def close(self) -> None:
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.context)

    def decode(self, rows: Sequence[tuple[int, int, int, bool]]) -> None:
        """Feed rows of (token, position, sequence, whether its logits are wanted)."""
        for i, (token, position, sequence, wanted) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = wanted
        self.batch.n_tokens = len(rows)
        assert llama.llama_decode(self.context, self.batch) == 0

    def draw(self, row: int, count: int = 1) -> list[int]:
        """Ids from one row's distribution."""
        pointer = llama.llama_get_logits_ith(self.context, row)
        logits = np.ctypeslib.as_array(pointer, (self.vocabulary,))
        mass = np.cumsum(np.exp(logits - logits.max()))
        return np.searchsorted(mass, self.random.random(count) * mass[-1]).tolist()

    def copy(self, source: int, target: int) -> None:
        memory = llama.llama_get_memory(self.context)
        llama.llama_memory_seq_cp(memory, source, target, -1, -1)


def generate(sequences: Sequences, task: dict[str, Any]) -> int:
    prompts, samples = task["prompts"], task["samples"]
    last: list[int] = []
    rows: list[tuple[int, int, int, bool]] = []
    for i, prompt in enumerate(prompts):
        rows += [(t, p, i * samples, p + 1 == len(prompt)) for p, t in enumerate(prompt)]
        following = len(prompts[i + 1]) if i + 1 < len(prompts) else BATCH
        if len(rows) + following > BATCH:
            sequences.decode(rows)
            last += [t for j, r in enumerate(rows) if r[3] for t in sequences.draw(j, samples)]
            rows = []
    for i in range(len(last)):
        if i % samples:
            sequences.copy(i - i % samples, i)
    for step in range(task["new"] - 1):
        at = [len(prompts[i // samples]) + step for i in range(len(last))]
        sequences.decode([(t, at[i], i, True) for i, t in enumerate(last)])
        last = [sequences.draw(i)[0] for i in range(len(last))]
    return len(last) * task["new"]


def main() -> None:
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    file = (sys.argv[1] if sys.argv[1].endswith(".gguf") else f"{sys.argv[1]}/f32.gguf").encode()
    model = llama.llama_model_load_from_file(file, llama.llama_model_default_params())

    def work(task: dict[str, Any]) -> Measured:
        """Of its settings: `cache` type, `flash` attention, `rows` of a micro-batch."""
        length = max(map(len, task["prompts"])) + task["new"]
        sequences = Sequences(model, length, task, int(sys.argv[2]))
        done = measure(lambda: generate(sequences, task))
        sequences.close()
        return done

    serve(work)


if __name__ == "__main__":
    main()
