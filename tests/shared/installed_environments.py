"""Sources of `verifiers` environments as people install them: one turn, several turns, and what cannot be served."""

SUMS = """\
import verifiers as vf
from datasets import Dataset


def load_environment(largest: int = 4, broken: str = "", names: list | None = None):
    def row(a, b):
        return {"question": f"{a} + {b} =", "answer": str(a + b)}

    rows = [row(a, b) for a in range(largest) for b in range(largest)]
    apart = [row(a, b) for a in range(largest, largest + 2) for b in range(2)]
    parser = vf.Parser()

    def right(completion, answer, parser):
        if broken == "always" or (broken and broken in completion[-1].content):
            raise OSError("the checker is not there")
        return float(parser.parse_answer(completion).strip() == answer)

    async def rare(completions) -> list[float]:
        texts = [one[-1].content for one in completions]
        return [1 / texts.count(text) for text in texts]

    rubric = vf.Rubric(funcs=[right, rare], weights=[1.0, 0.5], parser=parser)
    rubric.add_metric(lambda completion, **kwargs: float(len(completion[-1].content)))
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list([*apart, rows[0]]),
        system_prompt="Only a number.",
        parser=parser,
        rubric=rubric,
    )
"""

GUESSES = """\
import random

import verifiers as vf
from datasets import Dataset


class Guess(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["secret"] = random.randint(1, 9)

    async def env_response(self, messages, state, **kwargs):
        said = messages[-1].content.strip()
        if said == str(state["secret"]):
            state["final_env_response"] = [{"role": "user", "content": "Right."}]
            return state["final_env_response"]
        if not said.isdecimal():
            return [{"role": "user", "content": "A number."}]
        return [{"role": "user", "content": "Higher." if int(said) < state["secret"] else "Lower."}]


def load_environment(count: int = 12, turns: int = 3):
    rows = [{"question": f"Game {n}: guess a number from 1 to 9."} for n in range(count)]

    async def found(state):
        state["seen"] = state["final_env_response"] is not None
        return float(state["seen"])

    def soon(state):
        return state["seen"] / len(state["trajectory"])

    rubric = vf.Rubric(funcs=[found, soon], weights=[1.0, 0.5])
    return Guess(dataset=Dataset.from_list(rows), rubric=rubric, max_turns=turns)
"""

REFUSED = """\
import verifiers as vf
from datasets import Dataset


def load_environment(kind: str = "tools"):
    data = Dataset.from_list([{"question": "What is it?", "answer": "tea"}])

    def right(completion, answer):
        return 1.0

    def judged(judge, completion):
        return 1.0

    def of_all(states) -> list[float]:
        return [1.0] * len(states)

    class Own(vf.Rubric):
        async def score_rollout(self, state):
            state["reward"] = 1.0

    class Several(vf.MultiTurnEnv):
        async def env_response(self, messages, state, **kwargs):
            return [{"role": "tool", "tool_call_id": "1", "content": "no"}]

    class Asks(vf.SingleTurnEnv):
        async def get_model_response(self, state, prompt, **kwargs):
            return None

    rubric = vf.Rubric(funcs=[right])
    if kind == "tools":
        return vf.ToolEnv(tools=[], dataset=data, rubric=rubric)
    if kind == "group":
        one = vf.SingleTurnEnv(dataset=data, rubric=rubric)
        return vf.EnvGroup(envs=[one, one], env_names=["a", "b"])
    if kind == "judge":
        return vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric(funcs=[judged]))
    if kind == "rubric":
        return vf.SingleTurnEnv(dataset=data, rubric=Own(funcs=[right]))
    if kind == "nothing":
        return vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric(funcs=[right], weights=[0.0]))
    if kind == "of_all":
        return Several(dataset=data, rubric=vf.Rubric(funcs=[of_all]))
    if kind == "asks":
        return Asks(dataset=data, rubric=rubric)
    if kind == "says":
        return Several(dataset=data, rubric=rubric)
    if kind == "empty":
        return vf.SingleTurnEnv(eval_dataset=data, rubric=rubric)
    raise KeyError(kind)
"""
