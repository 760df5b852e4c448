"""The cookbook's verifiers_rl.train as it is meant: 0.5.8 gives its rollouts an argument that they lack, on any server.

python verifiers_train.py OPTION=VALUE ...        # any option of tinker_cookbook.recipes.verifiers_rl.train
"""

import asyncio
from typing import Any

import chz
from tinker_cookbook.recipes.verifiers_rl.train import CLIConfig, cli_main
from tinker_cookbook.rl import rollouts, train

start = train.main


async def main(config: train.Config) -> None:
    """Begin once the recipe has put its own rollouts in place, with those made to take the argument."""
    own: Any = rollouts.do_group_rollout

    async def rollout(builder: Any, policy: Any, **_: Any) -> Any:
        return await own(builder, policy)

    rollouts.do_group_rollout = rollout
    await start(config)


if __name__ == "__main__":
    train.main = main
    asyncio.run(cli_main(chz.entrypoint(CLIConfig), None))
