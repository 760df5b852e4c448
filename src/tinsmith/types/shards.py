"""Limit on the number of workers that hold one base together."""

from __future__ import annotations

from tinsmith.types.errors import ConfigError


def check_shards(shards: int, workers: int, *, prefix: str = "") -> None:
    """Refuse shards that do not share the workers evenly: each of them is a stage of one base, and none is left over.

    Names begin with `prefix`, as they do where they were told: `--` for flags.

    Raises:
        ConfigError: naming the numbers that do.
    """
    fitting = [n for n in range(1, max(1, workers) + 1) if max(1, workers) % n == 0]
    if shards not in fitting:
        raise ConfigError(
            "a base is spread over workers of the server's own, and each has a share",
            field=f"{prefix}shards",
            value=shards,
            allowed=f"{', '.join(map(str, fitting))}, with {prefix}workers={workers}",
        )
