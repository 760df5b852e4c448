"""Two runs that several files look at."""

from pathlib import Path
from typing import Any

import pytest
from label_runs import AUDITED, manifest, run
from own_task import lines
from small_slice import Made

from tinsmith.lab.run import Run
from tinsmith.lab.runs.files import METRICS


@pytest.fixture(scope="package")
def whole(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run, begun again in the folder of one that was interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    patch = pytest.MonkeyPatch()
    record = Run.record

    def interrupted(self: Run[Any, Any], step: int, metrics: dict[str, float]) -> None:
        record(self, step, metrics)
        raise KeyboardInterrupt

    patch.setattr(Run, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(made, folder, "sft/lora")
    patch.undo()
    assert manifest(folder)["status"] == "interrupted"
    assert [line["step"] for line in lines(folder, METRICS)] == [0]
    assert run(made, folder, behavior_if_log_dir_exists="delete").folder == folder
    return folder


@pytest.fixture(scope="package")
def original(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps that is replayed and audited."""
    return run(made, tmp_path_factory.mktemp("original") / "run", given=AUDITED).folder
