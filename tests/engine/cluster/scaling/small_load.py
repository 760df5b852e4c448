"""Seconds of a small cluster, and what it is given to do."""

from tinsmith.engine.cluster.scaling.costs import Network, Workload
from tinsmith.engine.cluster.scaling.token_costs import Times

TIMES = Times(
    prompt_token=0.002,
    new_token=0.0025,
    decode_step=0.025,
    gradient_row=0.01,
    adapter_bytes=20_000_000,
    join=0.001,
    optimizer=0.003,
)
LOAD = Workload(groups=128, samples=4, prompt=64, median=64, spread=0.5, longest=256, at_once=4, blocks=8)
NETWORK = Network(bandwidth=1.25e9)
