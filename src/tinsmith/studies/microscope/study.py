"""`microscope`: what RL changed of a model, token by token, over seeds; or any two policies of finished runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tinsmith.lab.experiment.estimate import pace_of
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.model_pace import Lengths, Pace
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.experiment.reopened import BASE, FINAL, Reopened, plan_again, reopened
from tinsmith.lab.live.progress import Say
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.facts import model_identity, weights_sha256
from tinsmith.lab.study.cells import run_cells, sole_process
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, conduct_study, write_outcome
from tinsmith.lab.study.report import sentences
from tinsmith.lab.study.results import DRAWS, Draws, seconds_in
from tinsmith.lab.study.task_study import OpenSource
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.lab.user_task.subject import UserSubject
from tinsmith.renderers.choose import renderer_for
from tinsmith.studies.microscope.agreement import Pair, Writer
from tinsmith.studies.microscope.looking import Looked, LookSettings, look, save, saved
from tinsmith.studies.microscope.page import microscope_page
from tinsmith.studies.microscope.results import Sight, record_of
from tinsmith.studies.microscope.settings import MicroscopeSettings, Side, microscope_settings
from tinsmith.types.errors import ConfigError

LOOKS: Final = "looks"
"""The folder of the looks, in the study's own."""
_OF_HABIT: Final = 0.14
"""Corrections to a token by all three rules together: of a nano base on `crossroads`."""
_PRETRAINED: Final = 1.4
"""Corrections to a token by all three rules together: of SmolLM2 on sums."""
_POLICIES: Final = 2
"""Each reads every text."""
PlanOf = Callable[[str, Mapping[str, str]], Plan]


def run_microscope(
    overrides: Mapping[str, str],
    say: Say,
    *,
    open_source: OpenSource,
    plan_of: PlanOf,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
) -> Path:
    """Run and look at what has not been, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        BackendError: a server did not start, or does not tell whole distributions.
        LostError: a server was lost; the same call goes on.
    """
    settings = microscope_settings(overrides, open_source)
    if settings.sides is not None:
        return _two(settings, settings.sides, say, plan_of, draws)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(settings.study, settings.study.arms)
        stages.report(tuned)
        (arm,) = tuned.values()
        sights: list[Sight] = []
        for cell in arm.cells:
            plan = make_plan(cell.experiment, cell.overrides)
            file = settings.study.out / LOOKS / f"{cell.folder.name}.json"
            say(f"{cell.folder.name}: looked at")
            with reopened(plan, cell.folder, say) as there:
                looked = _looked(settings, there, there, (BASE, FINAL), file)
            sights.append(Sight(run=read_run(cell.folder), looked=looked, file=file))
        return outcome_of(settings, sights, draws)

    def minutes(plan: Plan) -> float | None:
        return _minutes(plan, settings.samples)

    return conduct_study(settings.study, say, conduct, pace=minutes, run=run)


def outcome_of(settings: MicroscopeSettings, sights: Sequence[Sight], draws: Draws) -> Outcome:
    """Return all that the study has to show.

    Raises:
        DataError: two runs were not looked at on the same items.
    """
    record = record_of(settings, sights, draws)
    seconds = {"training": seconds_in([one.run for one in sights])}
    page = microscope_page(record, [one.looked for one in sights], seconds)
    return Outcome(found=record, sentences=sentences(record), seconds=seconds, page=page)


def _two(settings: MicroscopeSettings, sides: tuple[Side, Side], say: Say, plan_of: PlanOf, draws: Draws) -> Path:
    """Look at two policies that are there."""
    out = settings.study.out
    if settings.study.dry_run:
        say(f"{sides[1]} is looked for in {sides[0]}: two servers, some minutes")
        return out
    kinds = (Kind.TASK, Kind.TASK_SFT)
    with sole_process(out), ExitStack() as servers:
        opened: dict[Path, Reopened] = {}
        for side in sides:
            folder = side.folder.resolve()
            if folder not in opened:
                plan = plan_again(side.folder, kinds, plan_of)
                opened[folder] = servers.enter_context(reopened(plan, side.folder, say))
        first, second = (opened[side.folder.resolve()] for side in sides)
        file = out / LOOKS / "two.json"
        looked = _looked(settings, first, second, (sides[0].when, sides[1].when), file)
        sight = Sight(run=read_run(sides[1].folder), looked=looked, file=file)
        outcome = outcome_of(settings, [sight], draws)
        write_outcome(out, outcome)
    for sentence in outcome.sentences:
        say(sentence)
    return out


def _looked(
    settings: MicroscopeSettings, first: Reopened, second: Reopened, when: tuple[str, str], file: Path
) -> Looked:
    """Look, or read an earlier look at the very same policies.

    Raises:
        ConfigError: their tokens or their task do not go together, or the task has several turns.
    """
    plan = second.plan
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry), "other kinds are refused before"
    data = entry.run_data(plan, print)
    if data.task.talk is not None:
        raise ConfigError(
            "a conversation of several turns is not looked at: corrections are of one reply",
            field="task",
            value=data.opened.name,
        )
    names = (_name(first, when[0]), _name(second, when[1]))
    asked = LookSettings(
        samples=settings.samples,
        max_tokens=plan.settings.max_tokens,
        temperature=plan.settings.temperature,
        threshold=settings.threshold,
        seed=plan.settings.seed,
        data=data.split.sha256,
    )
    before = saved(file, names, asked)
    if before is not None:
        return before
    policies = first.policy(when[0]), second.policy(when[1])
    tokenizers = [one.tokenizer() for one in (first, second)]
    if tokenizers[0].get_vocab() != tokenizers[1].get_vocab():
        raise ConfigError("the two do not have the same tokens", field="first", value=names[0])
    renderer = renderer_for(tokenizers[1])
    items = subset(data.split.held_out or data.split.train, plan.settings.eval_items, lambda one: one.unit)
    found = look(
        Pair(*policies, spelled=lambda token: str(tokenizers[1].decode([token]))),
        UserSubject(task=data.task, split=data.split, renderer=renderer),
        items,
        asked,
        names,
    )
    save(file, asked, found)
    return found


def _name(one: Reopened, when: str) -> str:
    """Return the name of a policy, whatever folder it lies in: its base's fingerprint, or its weights' hash."""
    if when == BASE:
        told = model_identity(one.connection, one.materials.model_name) or {}
        return f"base {told.get('fingerprint', one.materials.model_name)}"
    path = one.policy(when).model
    return weights_sha256(one.connection, path) or path


def _minutes(plan: Plan, samples: int) -> float | None:
    """Return how long a run and the look at it take."""
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry)
    data, pace = entry.run_data(plan, print), pace_of(plan)
    run = data.minutes()
    if run is None or pace is None:
        return None
    longest = replace(data.lengths(), answer=plan.settings.max_tokens)
    pretrained = plan.circumstances.model_name is not None
    return run + look_seconds(longest, samples, pace, pretrained=pretrained) / 60


def look_seconds(lengths: Lengths, samples: int, pace: Pace, *, pretrained: bool) -> float:
    """Return the seconds of a look at two policies, most of which go into computing corrected texts anew."""
    prompt, answer = lengths.prompt, lengths.answer
    answers = lengths.examined * (1 + samples)
    written = prompt * pace.read + answer * pace.written
    told = _POLICIES * (prompt + answer) * pace.read
    # A correction goes on from the prompt and half of the answer, and both say what they think of the whole.
    corrected = prompt * pace.read + answer / 2 * (pace.read + pace.written) + told
    corrections = (_PRETRAINED if pretrained else _OF_HABIT) * answer
    looks = len(Writer) + 1  # each that writes, and the second against itself
    return answers * (looks * (written + told) + corrections * corrected)
