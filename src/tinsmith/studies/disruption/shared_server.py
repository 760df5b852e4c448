"""A server on which several models are fitted, one after another."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.experiment.conduct import embedded_settings
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.service.connect import Connection, open_connection


class SharedServer:
    """One server for fits one after another, opened by the first; what it holds goes with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tinsmith-"))
        self._connection: Connection | None = None

    def open(self, plan: Plan, models: Mapping[str, str]) -> Connection:
        """Return the connection to it."""
        if self._connection is None:
            where = plan.circumstances.base_url
            self._connection = open_connection(where, embedded_settings(plan, models, self.folder))
        return self._connection

    def close(self) -> None:
        """Stop it."""
        if self._connection is not None:
            self._connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)
