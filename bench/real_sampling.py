"""Sampling from SmolLM2-135M, 16 prompts x 8 samples x 48 new tokens: `canonical` against three others.

`--bf16 --prompts 1`: a small batch of `published.gguf` in MODEL against transformers in bf16, in this environment.
All draw from the whole distribution at temperature 1, fp32 weights, two threads, no token ends a sample. Peers in
their best setting: transformers and llama.cpp compute a prompt once and copy its cache, CTranslate2 repeats it itself;
a row of the table is one setting, and the best counts. CTranslate2 is also timed
drawing from the 50 likeliest, which is another law.

Limit: 16 x 250 prompt tokens x 212 MFLOP and 6,144 new ones x 269 MFLOP = 2.50 TFLOP.
"""

from __future__ import annotations

from peers import idle_threads_sleep, report
from real_model import OURS, Way, alternate, arguments, best, median, prompts

TINSMITH = "tinsmith_samples.py"
GOALS = {
    "transformers": ("transformers_samples.py", 0.2),
    "llama.cpp": ("llama_samples.py", 0.8),
    "CTranslate2": ("ctranslate2_samples.py", 0.8),
}
TRANSFORMERS, LLAMA, CTRANSLATE2 = (script for script, _ in GOALS.values())
FP32, BF16 = {"dtype": "float32"}, {"dtype": "bfloat16"}
WAYS = (
    Way("tinsmith", TINSMITH, {"name": "folder", "hold": "fp32"}, OURS),
    Way("transformers, 128 rows, prompts shared", TRANSFORMERS, {"rows": 128, "share": True, **FP32}),
    Way("transformers, 32 rows, prompts shared", TRANSFORMERS, {"rows": 32, "share": True, **FP32}),
    Way("transformers, 128 rows, `generate` alone", TRANSFORMERS, {"rows": 128, "share": False, **FP32}),
    Way("llama.cpp, flash, F16 cache", LLAMA, {"cache": "f16", "flash": True, "rows": 512}),
    Way("llama.cpp, F32 cache", LLAMA, {"cache": "f32", "flash": False, "rows": 512}),
    Way("CTranslate2, 2 prompts", CTRANSLATE2, {"prompts_at_once": 2, "topk": 0}),
    Way("CTranslate2, 2 prompts, topk 50", CTRANSLATE2, {"prompts_at_once": 2, "topk": 50}),
)
NARROW = (
    Way("tinsmith", TINSMITH, {"name": "published.gguf", "hold": "published"}, OURS),
    Way("transformers in bf16, prompts shared", TRANSFORMERS, {"rows": 128, "share": True, **BF16}, OURS),
    Way("transformers in bf16, `generate` alone", TRANSFORMERS, {"rows": 128, "share": False, **BF16}, OURS),
)
NARROW_GOALS = {"transformers in bf16": (TRANSFORMERS, 0.3)}


def main() -> None:
    parser = arguments(__doc__ or "", prompts=16, length=250, samples=8, new=48)
    parser.add_argument("--bf16", action="store_true", help="against transformers in bf16")
    options = parser.parse_args()
    ways, goals = (NARROW, NARROW_GOALS) if options.bf16 else (WAYS, GOALS)
    task = {
        "prompts": prompts(options.prompts, options.length, options.model),
        "samples": options.samples,
        "new": options.new,
    }
    print(f"{options.prompts} prompts of {options.length} x {options.samples} x {options.new}")
    taken = alternate(ways, task, options)
    mine = median(taken["tinsmith"])
    for peer, (script, goal) in goals.items():
        for what, unit in (("cpu", "CPU-s"), ("wall", "s wall")):
            other = best(taken, script, ways, what)
            report(f"sampling against {peer}", getattr(mine, what), other, goal, unit)


if __name__ == "__main__":
    idle_threads_sleep()
    main()
