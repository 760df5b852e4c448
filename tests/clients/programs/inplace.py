"""The `null` harness of `verifiers` with the packages that are installed: its own has `uv` fetch them for every run."""

import sys

import verifiers.v1 as vf
from verifiers.v1 import graph
from verifiers.v1.harnesses.null.harness import NullHarness
from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE

graph.RECORD_FLOAT_DECIMALS = None  # every digit that a trainer is given; `traces.jsonl` has four otherwise


class Inplace(NullHarness):
    """Runs the same program by this interpreter."""

    async def setup(self, runtime: vf.Runtime) -> None:
        """Nothing is fetched."""

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        tool_interception_url: str | None = None,
    ) -> vf.ProgramResult:
        """Run the program until it has an answer; it has no tools."""
        del trace, mcp_urls, tool_interception_url
        program = "program.py"
        await runtime.write(program, CHAT_PROGRAM_SOURCE.encode())
        requests = [f"--base-url={endpoint}", f"--api-key={secret}", f"--model={ctx.model}", f"--prompt={data.prompt}"]
        return await runtime.run_program([sys.executable, program, *requests], {})


__all__ = ["Inplace"]
