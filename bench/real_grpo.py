"""One GRPO step on SmolLM2-135M, 16 prompts of 250 tokens x 8 answers of 20, LoRA of rank 16: against TRL with peft.

Every row is a process of its own, so that its peak memory is its own. TRL in the best of its settings; it computes
logits of the answers alone. The last two rows are our forward and backward alone, as prefix trees and datum by datum.

Limit: sampling 4,000 prompt tokens x 212 MFLOP and 2,560 new ones x 269 MFLOP; training 6,560 rows of trees, forward
and the gradient of the rows, x 538 MFLOP: 5.1 TFLOP (19 TFLOP datum by datum).
"""

from __future__ import annotations

from peers import idle_threads_sleep, report
from real_model import OURS, Side, Way, arguments, best, median, prompts, show
from sides.side import Measured

STEP, TRL = "tinsmith_grpo.py", "trl_grpo.py"
WAYS = (
    Way("tinsmith", STEP, {"whole": True, "gradient_unit": "tree"}, OURS),
    Way("TRL, 8 rows", TRL, {"rows": 8, "checkpointing": False}, OURS),
    Way("TRL, 8 rows, checkpointing", TRL, {"rows": 8, "checkpointing": True}, OURS),
    Way("TRL, 32 rows", TRL, {"rows": 32, "checkpointing": False}, OURS),
)
TREE = Way("forward + backward, tree", STEP, {"whole": False, "gradient_unit": "tree"}, OURS)
DATUM = Way("forward + backward, datum", STEP, {"whole": False, "gradient_unit": "datum"}, OURS)
GOAL_STEP, GOAL_MEMORY, GOAL_TREE = 0.2, 0.4, 0.25


def main() -> None:
    parser = arguments(__doc__ or "", prompts=16, length=250, samples=8, new=20)
    parser.add_argument("--only", default="", help="ways whose title has this in it")
    parser.set_defaults(rounds=1)
    options = parser.parse_args()
    task = {
        "prompts": prompts(options.prompts, options.length, options.model),
        "samples": options.samples,
        "new": options.new,
    }
    taken: dict[str, list[Measured]] = {}
    for _ in range(options.rounds):
        for way in (TREE, DATUM, *WAYS):
            if options.only in way.title:
                side = Side(way, options)
                taken.setdefault(way.title, []).append(side.run({**task, **way.setting}))
                side.close()
    print(f"{options.prompts} prompts of {options.length} x {options.samples} answers of {options.new}")
    show(taken)
    if TREE.title in taken and DATUM.title in taken:
        tree, datum = median(taken[TREE.title]), median(taken[DATUM.title])
        report("tree against datum", tree.cpu, datum.cpu, GOAL_TREE, "CPU-s")
    run = [way for way in WAYS if way.title in taken]
    if "tinsmith" in taken and len(run) > 1:
        mine = median(taken["tinsmith"])
        report("GRPO step", mine.cpu, best(taken, TRL, run, "cpu"), GOAL_STEP, "CPU-s")
        report("GRPO step, memory", mine.peak, best(taken, TRL, run, "peak"), GOAL_MEMORY, "MB")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
