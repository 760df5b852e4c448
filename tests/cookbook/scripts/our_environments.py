"""The adversarial pair in the cookbook's own rollouts, and the cookbook's own Env in ours; prints what came of it.

    python our_environments.py PACKAGES MODEL FOLDER        # and TINKER_BASE_URL, TINKER_API_KEY

Runs in this project's environment. PACKAGES, where the cookbook is installed, comes last on the path: of what both
have, ours is taken. FOLDER has the model's tokenizer.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tinker

from tinsmith.lab.cookbook.environments import TaskDataset
from tinsmith.lab.cookbook.subject import CookbookItem, CookbookSubject
from tinsmith.lab.cookbook.types import Env as OurEnv
from tinsmith.lab.cookbook.types import EnvGroupBuilder as OurBuilder
from tinsmith.lab.labels.task import Item, Paper
from tinsmith.lab.rollouts import Failure, Sampling, sample_groups
from tinsmith.renderers.choose import renderer_for
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.studies.debate.task import debate

sys.path.append(sys.argv[1])

from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

TEXT = "Gears turn in oil. We introduce a new class of gears. We extend earlier work on mills."


class Doubted(Env):
    """Two tries at one question, paid by the parity of their tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.seen: list[int] = tokenizer.encode("User: One or two?\n\nAssistant:")
        self.doubt: list[int] = tokenizer.encode("\n\nUser: Sure?\n\nAssistant:")
        self.stop = [tokenizer.eos_token_id]
        self.turns = 2

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        return tinker.ModelInput.from_ints(self.seen), self.stop

    async def step(self, action: list[int], *, extra: Any = None) -> StepResult:
        assert extra["stop_reason"] in ("stop", "length")
        self.turns -= 1
        self.seen = [*self.seen, *action, *(self.doubt if self.turns else [])]
        return StepResult(
            reward=float(sum(action) % 2),
            episode_done=self.turns == 0,
            next_observation=tinker.ModelInput.from_ints(self.seen),
            next_stop_condition=self.stop,
            metrics={"length": len(action)},
        )


class DoubtedGroup(EnvGroupBuilder):
    """Three of them; rewards of the group are the cookbook's own, which are 0."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    async def make_envs(self) -> Sequence[Env]:
        return [Doubted(self.tokenizer) for _ in range(3)]


async def theirs(client: tinker.SamplingClient, tokenizer: Any) -> dict[str, Any]:
    """Play our conversations by the cookbook's rollouts, and make its datums of them."""
    item = Item(paper=Paper(id="W1", title="Gears", abstract=TEXT), golds=("disruptive",))
    dataset = TaskDataset(
        task=debate(), items=[item], renderer=renderer_for(tokenizer), groups_per_batch=1, group_size=3
    )
    policy = TinkerTokenCompleter(client, max_tokens=24, temperature=1.0)
    [group] = dataset.get_batch(0)
    done = await do_group_rollout(group, policy)
    data = [trajectory_to_data(one, 1.0) for one in done.trajectories_G]
    return {
        "turns": [len(one.transitions) for one in done.trajectories_G],
        "rewards": done.get_total_rewards(),
        "errors": len(done.rollout_errors),
        "datums": [len(each) for each in data],
        "trained": [sum(each[0].loss_fn_inputs["mask"].data) for each in data],
        "sampled": [sum(len(t.ac.tokens) for t in one.transitions) for one in done.trajectories_G],
    }


def ours(client: tinker.SamplingClient, tokenizer: Any) -> dict[str, Any]:
    """Play the cookbook's environments by our rollouts."""
    builder = DoubtedGroup(tokenizer)
    ground = CookbookSubject(decode=tokenizer.decode, stop_condition=[tokenizer.eos_token_id])
    sampling = Sampling(samples=3, max_tokens=12, temperature=1.0, seed=1)
    [group] = sample_groups(client, ground, [CookbookItem("doubted", builder)], sampling)
    ground.close()
    kept = [one for one in group if not isinstance(one, Failure)]
    return {
        "fits": isinstance(builder, OurBuilder) and isinstance(Doubted(tokenizer), OurEnv),
        "turns": [len(one.turns) for one in kept],
        "steps": [list(one.answer.steps) for one in kept],
        "parity": [[float(sum(turn.tokens) % 2) for turn in one.turns] for one in kept],
    }


def main() -> None:
    model, folder = sys.argv[2:]
    tokenizer = load_tokenizer(Path(folder))
    client = tinker.ServiceClient().create_sampling_client(base_model=model).result()
    lines = {"theirs": asyncio.run(theirs(client, tokenizer)), "ours": ours(client, tokenizer)}
    print(json.dumps(lines))


if __name__ == "__main__":
    main()
