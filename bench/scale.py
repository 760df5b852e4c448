"""Scaling of a cluster: a simulated run with the real scheduler, and the closed form for models of 1B, 8B and 70B.

Prints Markdown. A step is one of GRPO: all groups are sampled, then come their gradients, the optimizer, and the
adapter's way to the workers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tinsmith.engine.cluster.scaling.costs import Limit, Network, Workload, best_blocks, step_costs
from tinsmith.engine.cluster.scaling.simulation import Conditions, Report, ideal_seconds, simulate
from tinsmith.engine.cluster.scaling.token_costs import Machine, Server, Times, times_of
from tinsmith.models.config import DecoderConfig, Family
from tinsmith.types.adapters import AdapterKind, AdapterSpec

GOAL = 0.8

SERVER = Server(adds=5.1e9, updates=2.2e9)
"""Measured on one core of the machine of LOG.md, 100,000,000 numbers: `a += b`, and the optimizer's kernel."""


def llama(width: int, hidden: int, layers: int, heads: int, kv: int, head: int) -> DecoderConfig:
    return DecoderConfig(
        family=Family.LLAMA,
        vocab_size=128_256,
        hidden_size=width,
        intermediate_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv,
        head_dim=head,
        max_positions=131_072,
        norm_eps=1e-5,
        rope_theta=500_000.0,
        tied=layers == 16,
    )


SMOLLM2 = replace(llama(576, 1536, 30, 9, 3, 64), vocab_size=49_152, max_positions=8192, tied=True)
MODELS = {
    "1B": llama(2048, 8192, 16, 32, 8, 64),
    "8B": llama(4096, 14_336, 32, 32, 8, 128),
    "70B": llama(8192, 28_672, 80, 64, 8, 128),
}
"""Shapes of Llama-3.2-1B, Llama-3.1-8B and Llama-3.1-70B."""

CORE = Machine(name="one core", flops=1e11, bytes_per_second=1.5e10)
NODE = Machine(name="64 cores", flops=6.4e12, bytes_per_second=3e11)
GPU = Machine(name="GPU", flops=4e14, bytes_per_second=2.7e12, weight_bytes=2)
EIGHT = Machine(name="8 GPUs", flops=3.2e15, bytes_per_second=2.2e13, weight_bytes=2)

SLOW_LINE, FAST_LINE = Network(bandwidth=1.25e9), Network(bandwidth=1.25e10)
"""10 and 100 Gbit/s."""

LARGE = Workload(groups=1024, samples=8, prompt=256, median=256, spread=0.6, longest=1024, at_once=8)
SMALL = replace(LARGE, groups=64)
REASONING = Workload(groups=4096, samples=8, prompt=512, median=1024, spread=0.6, longest=4096, at_once=32)

NOISE = Conditions(noise=0.2)
SLOW = replace(NOISE, slow_share=0.05)
ALL = replace(SLOW, loss_every=60.0)
CONDITIONS = {
    "nothing": Conditions(),
    "times vary (log-normal, 0.2)": NOISE,
    "... and 5 % of the workers are 3x slower": SLOW,
    "... and others every minute": replace(SLOW, slow_for=60.0),
    "times vary, one loss a minute": replace(NOISE, loss_every=60.0),
    "**all: slow workers and losses**": ALL,
    "all, others slow every minute": replace(ALL, slow_for=60.0),
    "all, and no work is blamed": replace(ALL, blamed=False),
}


@dataclass(frozen=True, slots=True)
class Runs:
    """The same run from several seeds."""

    reports: list[Report]
    efficiencies: list[float]

    @property
    def efficiency(self) -> float:
        return statistics.fmean(self.efficiencies)

    @property
    def seconds(self) -> float:
        return statistics.fmean(report.mean for report in self.reports)

    def total(self, name: str) -> int:
        return sum(getattr(report, name) for report in self.reports)


def run(times: Times, load: Workload, conditions: Conditions, workers: int, options: argparse.Namespace) -> Runs:
    reports: list[Report] = []
    efficiencies: list[float] = []
    for seed in range(options.seeds):
        report = simulate(times, load, SLOW_LINE, conditions, workers=workers, steps=options.steps, seed=seed)
        ideal = [ideal_seconds(times, load, workers, seed=seed)] * options.steps
        reports.append(report)
        efficiencies.append(sum(ideal) / sum(report.seconds))
    return Runs(reports, efficiencies)


def table(title: str, head: str, rows: Iterable[str]) -> None:
    print(f"\n{title}\n\n| {head} |\n|{'---|' * (head.count('|') + 1)}", flush=True)
    for row in rows:
        print(f"| {row} |", flush=True)


def told(load: Workload) -> str:
    return (
        f"{load.groups:,} groups x {load.samples} answers, prompts of {load.prompt} tokens, answers of "
        f"{load.median} in the median (log-normal, {load.spread}) and {load.longest:,} at most, "
        f"{load.at_once} groups a worker at once"
    )


def go_wrong(times: Times, options: argparse.Namespace) -> float:
    """Print what conditions cost 64 workers; return the efficiency asked for."""
    efficiency = 0.0
    rows: list[str] = []
    for name, conditions in CONDITIONS.items():
        runs = run(times, LARGE, conditions, 64, options)
        worst = min(runs.efficiencies)
        rows.append(
            f"{name} | {runs.seconds:.0f} s | {runs.efficiency:.1%} | {worst:.1%} | {runs.total('losses')} | "
            f"{runs.total('retries')} | {runs.total('copies')} | {runs.total('given_up')}"
        )
        if conditions is ALL:
            efficiency = runs.efficiency
    table(
        f"64 workers, {told(LARGE)}; {options.seeds} seeds, {options.steps} steps each",
        "what goes wrong | a step | of ideal | worst seed | losses | given again | second copies | given up",
        rows,
    )
    return efficiency


def more_workers(times: Times, options: argparse.Namespace) -> None:
    for load in (LARGE, SMALL):
        rows: list[str] = []
        for workers in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            formula = step_costs(times, load, SLOW_LINE, workers)
            clean = run(times, load, Conditions(), workers, argparse.Namespace(seeds=1, steps=1))
            wrong = run(times, load, ALL, workers, options) if workers >= 16 else None
            rows.append(
                f"{workers} | {formula.seconds:.0f} s | {clean.seconds:.0f} s | {clean.efficiency:.0%} | "
                + (f"{wrong.seconds:.0f} s | {wrong.efficiency:.0%}" if wrong else "- | -")
            )
        table(
            told(load), "workers | closed form | simulated | of ideal | with slow workers and losses | of ideal", rows
        )


def models(cases: list[tuple[str, Machine, Network, Workload]], spec: AdapterSpec) -> None:
    rows: list[str] = []
    for name, machine, network, load in cases:
        times = times_of(MODELS[name], spec, machine, SERVER, context=load.prompt + load.median // 2)
        cells: list[str] = []
        for workers in (8, 64, 256):
            best = best_blocks(times, load, network, workers)
            costs = step_costs(times, best, network, workers)
            cells.append(f"{_seconds(costs.seconds)}, {costs.efficiency:.0%}, {_bytes(costs.gradient_bytes)}")
        half, limit = half_way(times, load, network)
        size = _bytes(times.adapter_bytes)
        rows.append(f"{name}, {machine.name} | {size} | {' | '.join(cells)} | {half} | {limit}")
    table(
        f"{spec.kind}" + ("" if spec.kind is AdapterKind.FULL else f", rank {spec.rank}"),
        "model, a worker | adapter | 8 workers | 64 | 256 | half of ideal from | because of",
        rows,
    )


def half_way(times: Times, load: Workload, network: Network) -> tuple[str, str]:
    """From how many workers on (a power of two) half of their time is lost, and to what."""
    for workers in (1 << power for power in range(15)):
        costs = step_costs(times, best_blocks(times, load, network, workers), network, workers)
        if costs.efficiency < 0.5:
            others = [limit for limit in Limit if limit is not Limit.COMPUTE]
            return f"{workers:,}", str(max(others, key=lambda limit: costs.waits[limit]))
    return "-", "-"


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"


def _bytes(value: float) -> str:
    return f"{value / 1e9:,.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--flops", type=float, help="FLOP/s of a worker of your own, in products")
    parser.add_argument("--memory", type=float, default=1e11, help="bytes/s at which it reads")
    parser.add_argument("--line", type=float, default=1.25e9, help="bytes/s of its network")
    options = parser.parse_args()
    lora = AdapterSpec()
    if options.flops:
        own = Machine(name="yours", flops=options.flops, bytes_per_second=options.memory)
        line = Network(bandwidth=options.line)
        models([(name, own, line, REASONING) for name in MODELS], lora)
        return 0
    times = times_of(SMOLLM2, lora, CORE, SERVER, context=384)
    efficiency = go_wrong(times, options)
    more_workers(times, options)
    print(f"\nThe next tables: {told(REASONING)}.")
    cases = [
        ("1B", NODE, SLOW_LINE, REASONING),
        ("8B", NODE, SLOW_LINE, REASONING),
        ("70B", NODE, SLOW_LINE, REASONING),
        ("1B", GPU, FAST_LINE, REASONING),
        ("8B", GPU, FAST_LINE, REASONING),
        ("70B", EIGHT, FAST_LINE, REASONING),
    ]
    for kind in (AdapterKind.LORA, AdapterKind.QDORA, AdapterKind.FULL):
        models(cases, AdapterSpec(kind=kind))
    models(cases, AdapterSpec(rank=8))
    reached = "reached" if efficiency >= GOAL else "NOT reached"
    print(f"\n64 workers, 5 % 3x slower, one loss a minute: {efficiency:.1%} (goal {GOAL:.0%}: {reached})")
    return 0 if efficiency >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
