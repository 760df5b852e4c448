"""Rule for the number of workers that hold one base together."""

from __future__ import annotations

from tinsmith.types.errors import ConfigError


def check_shards(shards: int, workers: int, *, prefix: str = "") -> None:
    """Reject a number of shards that does not divide the workers evenly, as each shard is a stage of one base.

    Errors prefix the names with `prefix`: `--` for flags.

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
