"""Puts into the folder of a fake run what its slice's baselines answered to each test paper."""

import json
from pathlib import Path

import numpy as np

from tinsmith.data.baselines.answers import BASELINE_ANSWERS, AnswersRow, write_answers
from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import arms_of, gather
from tinsmith.lab.runs.reader import read_run
from tinsmith.stats.estimates import Runs
from tinsmith.types.fingerprints import file_sha256


def keep_answers(folder: Path, *, spoilt_every: int = 10) -> dict[str, str]:
    """Let the baselines answer as the run does, but wrongly to every so many papers; return their answers.

    The constant stays constant. The report gets the confusion matrices of these answers, and names their file.
    """
    (arm,) = arms_of([gather(read_run(folder))])
    answers = arm.answers_on()
    codes = _codes(answers, spoilt_every)
    by_baseline = {Baseline.MAJORITY: np.zeros_like(codes), Baseline.METADATA: codes, Baseline.TEXT: codes}
    rows = [
        AnswersRow(
            target="disruption",
            id=item,
            answers={name: answers.labels[each[place]] for name, each in by_baseline.items()},
        )
        for place, item in enumerate(answers.items)
    ]
    write_answers(rows, folder / BASELINE_ANSWERS)
    file = folder / "baselines.json"
    report = json.loads(file.read_text())
    for score in report["targets"][0]["scores"]:
        if score["baseline"] in by_baseline:
            counts = np.zeros((3, 3))
            np.add.at(counts, (answers.golds, by_baseline[score["baseline"]]), 1)
            score["confusion"] = {
                gold: dict(zip(answers.labels, row.tolist(), strict=True))
                for gold, row in zip(answers.labels, counts, strict=True)
            }
    report["answers_sha256"] = file_sha256(folder / BASELINE_ANSWERS)
    file.write_text(json.dumps(report))
    return {row.id: row.answers[Baseline.METADATA] for row in rows}


def _codes(answers: Runs, spoilt_every: int) -> np.ndarray:
    codes = answers.predicted[0].copy()
    codes[codes == 3] = 0  # a baseline has no invalid answer
    codes[::spoilt_every] = (answers.golds[::spoilt_every] + 1) % 3
    return codes
