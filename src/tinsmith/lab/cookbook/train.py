"""Trains on environments written for the Tinker cookbook, with the laboratory's loop.

The cookbook itself is not needed: its environments are told by their shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import tinker

from tinsmith.lab.cookbook.subject import CookbookItem, CookbookRollout, CookbookSubject, Earned
from tinsmith.lab.course import Course, Decoding
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.live.watch import Examinee, Judged, Watch
from tinsmith.lab.rl import train as train_run
from tinsmith.lab.rollouts import SEED_BITS, WAIT_SECONDS, Failure
from tinsmith.lab.run import Finished, Run
from tinsmith.lab.runs.files import IfExists
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Score
from tinsmith.lab.settings import RlSettings
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.model_names import ModelName
from tinsmith.types.seeds import derive


class _MeanReward(Watch[CookbookItem, Earned]):
    """The best policy is that of the largest mean reward; among equals the later one."""

    def judge(
        self,
        policy: Examinee,
        groups: Sequence[Sequence[CookbookRollout | Failure[CookbookItem]]],
        metrics: Mapping[str, float],
    ) -> Judged:
        """As of a Watch."""
        del groups
        return Judged(score=Score(metrics.get("eval/reward/total", -math.inf), float(policy.step)))


def train(
    service: tinker.ServiceClient,
    model_name: str,
    subject: CookbookSubject,
    settings: RlSettings,
    folder: Path,
    *,
    quiet: bool = False,
) -> Finished:
    """Train a LoRA adapter on a cookbook dataset by our loop, from its beginning; end the environments' thread.

    Args:
        service: where the model is served.
        model_name: as that server knows it.
        subject: the dataset, with or without held-out groups.
        settings: of the loop; `group_size` is that of the dataset's groups.
        folder: gets the files of a run; there must be none yet.
        quiet: whether nothing is printed.
    """
    told = asdict(settings)
    config = {
        "name": "cookbook",
        "settings": told,
        "identity_sha256": sha256_of({"settings": told, "items": [one.prompt_id for one in subject.train]}),
    }
    opened, _ = RunFolder.begin(folder, config, if_exists=IfExists.RAISE)
    made = service.create_lora_training_client(
        base_model=str(ModelName(base=model_name, kind=settings.adapter, alpha=settings.lora_alpha)),
        rank=settings.lora_rank,
        seed=derive(settings.seed, "adapter") % 2**SEED_BITS,
        train_unembed=settings.train_unembed,
    )
    try:
        run = Run(
            service=service,
            trainer=made.result(WAIT_SECONDS),
            model_name=model_name,
            course=Course(
                subject=subject,
                settings=settings,
                watch=_MeanReward(),
                decodings=(Decoding.SAMPLED,),
                samples=settings.group_size,
            ),
            settings=settings,
            folder=opened,
            teller=Teller(name="cookbook", steps=settings.steps, quiet=quiet),
        )
        try:
            finished = train_run(run)
            assert finished is not None, "nothing stops it before its end"
            return finished
        finally:
            run.teller.close()
    finally:
        opened.close()
        subject.close()
