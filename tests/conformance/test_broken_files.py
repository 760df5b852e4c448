"""Files broken at random: each is read, or refused by an error of ours, in bounded time and memory."""

import resource
from pathlib import Path

import pytest
from broken_files import FORMATS, mutated

COUNT = 150
MOST_MEBIBYTES = 512


@pytest.mark.parametrize("name", FORMATS)
def test_a_broken_file_is_an_error_of_ours_or_read(name: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    findings = mutated(FORMATS[name], COUNT, tmp_path)
    assert findings.faults == []
    assert findings.outcomes["CheckpointError"] + findings.outcomes["ConfigError"] > 0
    assert findings.outcomes["read"] > 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 <= MOST_MEBIBYTES
