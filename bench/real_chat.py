"""One conversation with SmolLM2-135M at a time, 64 new tokens after 40: `canonical` against llama.cpp F32.

Both on two threads, loaded and warm. A token reads every weight once: 538 MB, which is the limit on any machine whose
cores can multiply faster than its memory can be read.
"""

from __future__ import annotations

from peers import idle_threads_sleep, report
from real_model import OURS, Way, alternate, arguments, best, median, prompts

WAYS = (
    Way("tinsmith", "tinsmith_samples.py", {"name": "folder", "hold": "fp32"}, OURS),
    Way("llama.cpp, F16 cache", "llama_samples.py", {"cache": "f16", "flash": False, "rows": 512}),
    Way("llama.cpp, flash, F16 cache", "llama_samples.py", {"cache": "f16", "flash": True, "rows": 512}),
)
GOAL = 1.0


def main() -> None:
    parser = arguments(__doc__ or "", length=40, new=64)
    parser.set_defaults(rounds=5, warm=1)
    options = parser.parse_args()
    task = {"prompts": prompts(1, options.length, options.model), "samples": 1, "new": options.new}
    taken = alternate(WAYS, task, options)
    mine = median(taken["tinsmith"])
    for what, unit in (("wall", "s wall"), ("cpu", "CPU-s")):
        other = best(taken, "llama_samples.py", WAYS, what)
        report("one conversation", getattr(mine, what), other, GOAL, unit)


if __name__ == "__main__":
    idle_threads_sleep()
    main()
