"""Where metrics go beside the run folder, when it is asked for: Weights & Biases, trackio."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinsmith.lab.live.teller import Sink
from tinsmith.types.errors import ConfigError


class _Tracker:
    """wandb and trackio share one way to be talked to."""

    def __init__(self, package: str, project: str, name: str, folder: Path) -> None:
        try:
            self._module: Any = importlib.import_module(package)
        except ImportError:
            raise ConfigError(
                f"{package} is not installed",
                field=f"{package}_project",
                value=project,
                fix=f"pip install 'tinsmith[{'track' if package == 'trackio' else package}]'",
            ) from None
        options = {"dir": str(folder)} if package == "wandb" else {}
        self._run: Any = self._module.init(project=project, name=name, **options)

    def log(self, step: int, metrics: Mapping[str, object]) -> None:
        """Hand one step's metrics over."""
        values = {key: value for key, value in metrics.items() if key != "step"}
        self._module.log(values, step=step)

    def close(self) -> None:
        """Say that the run is over."""
        self._module.finish()


def sinks_for(*, name: str, wandb_project: str | None, trackio_project: str | None, folder: Path) -> Sequence[Sink]:
    """Open the sinks that were asked for; none by default."""
    asked = (("wandb", wandb_project), ("trackio", trackio_project))
    return [_Tracker(package, project, name, folder) for package, project in asked if project]
