"""Sources of `verifiers` environments as people install them: one turn, several turns, and what cannot be served."""

SUMS = """\
import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str
    terms: list[int]


class SumTaskConfig(vf.TaskConfig):
    broken: str = ""


class Sum(vf.Task[SumData, vf.State, SumTaskConfig]):
    @vf.reward(priority=1)
    async def right(self, trace: vf.Trace) -> float:
        broken = self.config.broken
        if broken == "always" or (broken and broken in trace.last_reply):
            raise OSError("the checker is not there")
        return float(trace.last_reply.strip() == self.data.answer)

    @vf.reward(weight=0.5)
    async def form(self, trace: vf.Trace) -> dict[str, float]:
        reply = trace.assistant_messages[-1].content
        return {"number": float(reply.isdecimal()), "brief": 1 / max(1, len(reply))}

    @vf.reward(weight=0.0)
    async def total(self, trace: vf.Trace) -> float:
        return float(sum(self.data.terms))

    @vf.metric
    async def num_turns(self, trace: vf.Trace) -> float:
        return trace.num_turns


class SumsConfig(vf.TasksetConfig):
    largest: int = 4
    first: int = 0
    names: list[str] | None = None
    task: SumTaskConfig = SumTaskConfig()


class Sums(vf.Taskset[Sum, SumsConfig]):
    def load(self):
        begins = self.config.first
        for a in range(begins, begins + self.config.largest):
            for b in range(self.config.largest):
                data = SumData(prompt=f"{a} + {b} =", system_prompt="Only a number.", answer=str(a + b), terms=[a, b])
                yield Sum(data, self.config.task)


__all__ = ["Sums"]
"""

GUESSES = """\
import random

import verifiers.v1 as vf


class GuessState(vf.State):
    secret: int = 0


class Guess(vf.Task[vf.TaskData, GuessState]):
    async def setup(self, trace: vf.Trace) -> None:
        trace.state.secret = random.randint(1, 9)

    @vf.reward
    async def found(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(trace.state.secret))

    @vf.reward(weight=0.5)
    async def soon(self, trace: vf.Trace) -> float:
        return await self.found(trace) / trace.num_turns


class GuessesConfig(vf.TasksetConfig):
    count: int = 12


class Guesses(vf.Taskset[Guess, GuessesConfig]):
    def load(self):
        return [
            Guess(vf.TaskData(prompt=f"Game {n}: guess a number from 1 to 9."), self.config.task)
            for n in range(self.config.count)
        ]


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(max_turns=3)


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            while not segment.terminated:
                reply, secret = segment.last_reply, talk.trace.state.secret
                if reply == str(secret):
                    break
                number = int(reply) if reply.isdecimal() else None
                hint = "A number." if number is None else "Higher." if number < secret else "Lower."
                segment = await talk.turn(hint)


__all__ = ["GuessEnv", "Guesses"]
"""

WISHES = """\
import verifiers.v1 as vf


class Wish(vf.Task[vf.TaskData]):
    @vf.stop
    async def thanked(self, trace: vf.Trace) -> bool:
        return "thanks" in trace.last_reply


class Wishes(vf.Taskset[Wish, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        while True:
            yield Wish(vf.TaskData(description="tea"), self.config.task)


class WishesConfig(vf.EnvConfig):
    guest: vf.AgentConfig = vf.AgentConfig()
    greeting: str = "A wish?"


class WishesEnv(vf.Env[WishesConfig]):
    async def run(self, task, agents):
        async with agents.guest.interaction(task) as talk:
            segment = await talk.turn(self.config.greeting)
            while not segment.terminated:
                segment = await talk.turn([{"role": "user", "content": "One"}, {"role": "user", "content": "more?"}])
        talk.trace.record_reward("wishes", talk.trace.num_turns, 2.0)

    async def finalize(self, task, episode):
        (trace,) = episode.traces
        trace.record_metric("Limit!", trace.stop_condition == "max_turns")


__all__ = ["Wishes", "WishesEnv"]
"""

REFUSED = """\
import os

import verifiers.v1 as vf

KIND = os.environ["REFUSED_KIND"]


class Settings(vf.TaskConfig):
    if KIND == "judge":
        grader: vf.JudgeConfig = vf.JudgeConfig()


class Plain(vf.Task[vf.TaskData, vf.State, Settings]):
    NEEDS_CONTAINER = KIND == "container"

    @vf.reward(weight=float(KIND != "nothing"))
    async def right(self, trace: vf.Trace) -> float:
        if KIND == "more" and trace.last_reply:
            trace.record_reward("late", 1.0)
        return 1.0

    @classmethod
    def toolsets(cls, config):
        return [Search(vf.ToolsetConfig())] if KIND == "tools" else []

    if KIND == "runs":

        @vf.metric
        async def tested(self, runtime: vf.Runtime) -> float:
            return 1.0

    if KIND == "asks":

        @vf.stop
        async def long(self, response: vf.Response) -> bool:
            return False

    if KIND == "changes":

        @vf.intercept
        async def redacted(self, request: vf.Request) -> None:
            return None

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if KIND == "sandbox":
            await runtime.write("a", b"b")


class Search(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    def find(self, text: str) -> str:
        return text


class Refused(vf.Taskset[Plain, vf.TasksetConfig]):
    def load(self):
        if KIND == "else":
            raise KeyError(KIND)
        image = "ubuntu" if KIND == "image" else None
        prompt = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        data = vf.TaskData(prompt=prompt if KIND == "picture" else "Which?", image=image)
        return [] if KIND == "empty" else [Plain(data, Settings())]


class RefusedConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(
        harness={"id": "bash"} if KIND == "harness" else None, model="m" if KIND == "model" else None
    )
    if KIND == "group":
        other: vf.AgentConfig = vf.AgentConfig()


class RefusedEnv(vf.Env[RefusedConfig]):
    if KIND == "services":

        async def start(self) -> None:
            return None

    async def run(self, task, agents):
        if KIND == "borrows":
            await agents.player.run(task, tools={"a": 1})
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            if KIND == "says":
                await talk.turn([{"role": "tool", "tool_call_id": "1", "content": "no"}])
        if KIND == "again":
            await agents.player.run(task)


__all__ = ["Refused", "RefusedEnv"]
"""
