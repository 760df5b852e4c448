"""The `null` harness of `verifiers` with the packages that are installed: its own has `uv` fetch them for every run."""

from __future__ import annotations

import sys
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.harnesses.null.harness import PROGRAM_SOURCE, NullHarness


class Inplace(NullHarness):
    """Runs the same program by this interpreter."""

    async def setup(self, runtime: vf.Runtime) -> None:
        """Nothing is fetched."""

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: Any,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: Any,
        data: Any,
    ) -> vf.ProgramResult:
        """Run the program until it has an answer; it has no tools."""
        del trace, mcp_urls
        program = "program.py"
        await runtime.write(program, PROGRAM_SOURCE.encode())
        asked = [f"--base-url={endpoint}", f"--api-key={secret}", f"--model={ctx.model}", f"--prompt={data.prompt}"]
        return await runtime.run_program([sys.executable, program, *asked], {})


__all__ = ["Inplace"]
