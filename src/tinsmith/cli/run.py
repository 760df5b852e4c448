"""The verbs `run` (a task, a study or an experiment, changed by key=value), `quickstart` and `new`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from tinsmith.cli.columns import Open, open_console, rows, tell_page, terminal_width, wrapped
from tinsmith.cli.completion import complete_keys, complete_names
from tinsmith.types.errors import ConfigError, near
from tinsmith.types.visible import visible
from tinsmith.types.waits import loading, tell, ticking, unsaid

if TYPE_CHECKING:
    from tinsmith.cli.registered import StudyEntry
    from tinsmith.lab.experiment.experiment import KeyHelp, Plan
    from tinsmith.lab.study.sizes import Cell

INTERRUPTED: Final = 130  # Exit code after Ctrl-C, as shells have it.
TERMINATED: Final = 143  # Exit code after SIGTERM, as shells have it.
_FIRST: Final = (
    ("  tinsmith quickstart", "labels of papers: SFT and three rewards on one base, compared on one page"),
    ("  tinsmith run crossroads", "a small task: what RL teaches a small model, in minutes"),
    ("  tinsmith run rlvr at=small", "a real model learns to follow instructions (after tinsmith base fetch smollm2)"),
    ("  tinsmith new my_task.py", "a task of your own, in one file that runs as it is"),
)


def run(
    context: typer.Context,
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Name of a task, study or experiment, or your own FILE.py; without it, the list of names.",
            autocompletion=complete_names,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        Argument(metavar="key=value ...", help="Keys to change, such as steps=20.", autocompletion=complete_keys),
    ] = None,
    wants_help: Annotated[bool, Option("--help", help="With NAME: its keys, with their values and meanings.")] = False,
    opened: Open = False,
    config: Annotated[
        Path | None,
        Option(
            metavar="FILE.toml",
            help='File with lines key = value; run = "NAME" says what to run. Keys on the command line win.',
        ),
    ] = None,
    exit_with_stdin: Annotated[
        bool, Option("--exit-with-stdin", help="End when standard input closes.", hidden=True)
    ] = False,
) -> None:
    """Run a task, a study or an experiment; `tinsmith run` lists them; dry_run=true prints what a run would take."""
    named, settings = (None, {}) if config is None else _of_file(config)
    if name is not None and _is_change(name):  # the file names what to run
        changes, name = [name, *(changes or [])], None
    name = name or named
    overrides = {**settings, **changed_keys([*(changes or []), *context.args], name or "")}
    if name is None:
        _require_nothing(overrides, config is not None)
        print(context.get_help()) if wants_help else _list()
        return
    if exit_with_stdin:
        from tinsmith.server.parent_watch import ParentWatch

        ParentWatch()
    if wants_help:
        _keys(name, overrides)
        return
    above = context.find_root().command
    if isinstance(above, TyperGroup) and name in above.list_commands(context):
        raise ConfigError("this is a command of its own", field="NAME", value=name, fix=f"tinsmith {name}")
    with loading(), _named_in_errors(name, config, settings):
        from tinsmith.cli.registered import plan_of, study_named
        from tinsmith.lab.experiment.experiment import with_default_log_path
        from tinsmith.lab.experiment.materials import require_possible

        study, plan = study_named(name), None
        if study is not None:
            study.read(overrides)  # a mistake is refused before what is heavy is imported
        else:
            plan = with_default_log_path(plan_of(name, overrides))
            require_possible(plan)
    if study is not None:
        _study(name, study, overrides, opened)
        return
    assert plan is not None, "a name is that of a study, or has a plan"
    try:
        _conduct(plan, opened)
    except KeyboardInterrupt as interrupt:
        from tinsmith.lab.experiment.conduct import how_to_go_on

        print(f"\ntinsmith: interrupted; {how_to_go_on(plan)}", file=sys.stderr)
        terminated = interrupt.args == (signal.SIGTERM,)
        raise typer.Exit(code=TERMINATED if terminated else INTERRUPTED) from None


@contextmanager
def _named_in_errors(name: str, file: Path | None, settings: Mapping[str, str]) -> Generator[None, None, None]:
    """Name in an error what was to be run, and the file of settings where the mistake is a key of it."""
    try:
        yield
    except ConfigError as error:
        of_file = settings.get(error.field or "") == error.value
        named = error.located_at(file.name) if file and of_file else error
        raise named.with_fix(error.fix and error.fix.replace("run NAME ", f"run {name} ")) from None


def _conduct(plan: Plan, opened: bool) -> None:
    if plan.circumstances.dry_run:
        with loading():
            from tinsmith.lab.experiment.estimate import dry_run

        with ticking("calling the task's functions once"):
            lines = dry_run(plan)
        for line in lines:
            _print_wrapped(line)
        return
    with loading():
        from tinsmith.lab.page.live_page import conduct_with_page

    done, drawn = conduct_with_page(plan, unsaid if plan.circumstances.quiet else tell)
    for line in drawn.ending:
        print(visible(line))
    tell_page(drawn.page or done.folder, opened)


def _study(name: str, study: StudyEntry, overrides: Mapping[str, str], opened: bool) -> None:
    from tinsmith.lab.experiment.key_text import truth

    dry, lines = truth("dry_run", overrides.get("dry_run", "false")), list[str]()
    try:
        with ticking(f"planning {name}" if dry else name):
            done = study.run(overrides, lines.append if dry else tell)
    except KeyboardInterrupt:
        print("\ntinsmith: interrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(code=INTERRUPTED) from None
    for line in lines:
        _print_wrapped(line)
    if not dry:
        tell_page(next((file for file in (done / "index.html", done / "report.html") if file.is_file()), done), opened)


def _keys(name: str, given: Mapping[str, str]) -> None:
    from tinsmith.cli.registered import find, source_of, study_named

    study = study_named(name)
    if study is not None:
        _print_wrapped(f"{name}: {study.question}\n")
        keys = study.all_keys()
        own = [(key.name, key.default, key.words) for key in keys.own]
        print("\n".join(rows([("key", "default", "meaning"), *own], terminal_width())))
        if keys.more:
            _print_wrapped("\n" + keys.more)
        return
    source = source_of(name, given)
    if source is not None:
        from tinsmith.lab.user_task.entry import task_help

        _key_table(*task_help(source, given))
        return
    from tinsmith.lab.experiment.experiment import key_help

    experiment = find(name)
    _key_table(f"{experiment.full_name}: {experiment.question}", key_help(experiment, given))


def _key_table(title: str, keys: Sequence[KeyHelp]) -> None:
    _print_wrapped(f"{title}\n")
    table: list[tuple[str, ...]] = [("key", *(f"at={at}" for at in keys[0].values), "meaning")]
    table += [(each.name, *each.values.values(), each.words) for each in keys]
    apart = next(i for i, each in enumerate(keys) if each.circumstance) + 1
    table[apart:apart] = [("",), ("where and how fast to compute (no part of the run's identity):",)]
    print("\n".join(rows(table, terminal_width())))


def _list() -> None:
    from tinsmith.cli.registered import EXPERIMENTS, STUDIES, TASKS

    table: list[tuple[str, ...]] = [("start here",), *_FIRST, ("",), ("tasks",)]
    for name, task in TASKS.items():
        presets = f" Also {', '.join(f'{name}/{one}' for one in task.presets)}." if task.presets else ""
        package = f" ({task.package})" if task.package else ""
        table.append((f"  {name}", f"{task.question}{package}{presets}"))
    table += [("",), ("studies: several arms compared over seeds",)]
    table += [(f"  {name}", study.question) for name, study in STUDIES.items()]
    table += [("",), ("experiments on labels of papers, and the keys that each changes",)]
    for one in EXPERIMENTS.values():
        delta = " ".join(f"{key}={value}" for key, value in one.delta.items())
        what = delta if one.parent is None else f"{one.parent.name} with {delta}"
        table.append((f"  {one.full_name}", f"{one.question} ({what})"))
    print("\n".join(rows(table, terminal_width())))
    print()
    _print_wrapped(
        "tinsmith run NAME [key=value ...]; dry_run=true prints what it would take; NAME --help lists its keys"
    )


def _print_wrapped(text: str) -> None:
    print(wrapped(text, terminal_width()))


def _is_change(word: str) -> bool:
    """Return True for KEY=VALUE or an option, and not for a file whose path has such a sign."""
    key, equals, _ = word.partition("=")
    is_key = bool(equals) and key.replace(".", "_").isidentifier()
    return word.startswith("-") or (is_key and not Path(word.rpartition(":")[0] or word).is_file())


def changed_keys(changes: Sequence[str], name: str = "", listed_by: str = "") -> dict[str, str]:
    """Return key=value texts by key; `name` is what they change, `listed_by` says which keys there are."""
    overrides: dict[str, str] = {}
    for place, change in enumerate(changes):
        key, equals, value = change.partition("=")
        split = not value and place + 1 < len(changes) and "=" not in changes[place + 1]
        if not equals or not key or key.startswith("-") or split:
            meant = _meant(changes[place:], name)
            fix = f"write {meant}" if meant else listed_by or f"tinsmith run {name or 'NAME'} --help lists the keys"
            raise ConfigError("a change must be written as key=value", field="changes", value=change, fix=fix)
        if key in overrides:
            raise ConfigError("this key is given twice", field=key, value=value)
        overrides[key] = value
    return overrides


def _meant(parts: Sequence[str], run: str) -> str | None:
    """Return key=value for `--steps 5`, `--steps=5`, `steps = 5` and `--dry-run`; None where that cannot be told."""
    from tinsmith.cli.registered import STUDIES
    from tinsmith.lab.experiment.key_text import Circumstances, field_kinds, meant_key
    from tinsmith.lab.study.files import defines_study

    option, *rest = " ".join(parts[:3]).replace("=", " ").split()[:2] or [""]
    key = option.lstrip("-").replace("-", "_")
    if not key.isidentifier():
        return None
    if option.startswith("-"):  # of another tool's habits
        key = meant_key(key, ["out"] if run in STUDIES or defines_study(Path(run)) else ["log_path"])
    value = rest[0] if rest and not rest[0].startswith("-") else None
    if value is None and field_kinds(Circumstances).get(key) is bool:
        value = "true"
    return None if value is None else f"{key}={value}"


def _require_nothing(overrides: Mapping[str, str], of_file: bool) -> None:
    """Refuse keys where nothing says what is to be run; a file may only have misspelled the key that does."""
    if overrides:
        shown = " ".join(f"{key}={value}" for key, value in overrides.items())
        meant = next((key for key in overrides if near(key, [_NAMED_BY])), None) if of_file else None
        fix = f"perhaps {_NAMED_BY} in place of {meant}" if meant else f"tinsmith run NAME {shown}"
        fix += "; tinsmith run lists the names"
        raise ConfigError("keys are given, but no name of what to run", field="NAME", fix=fix)


_NAMED_BY: Final = "run"  # The key of a settings file that says what is to be run.


def _of_file(file: Path) -> tuple[str | None, dict[str, str]]:
    """Return the name that a file of settings has under `run`, and its keys."""
    from tinsmith.lab.experiment.key_text import shown_value
    from tinsmith.types.toml_files import read_toml

    keys = read_toml(file, field="--config")
    nested = next((key for key, value in keys.items() if isinstance(value, dict | list)), None)
    if nested is not None:
        what = "a settings file may only have lines key = value"
        raise ConfigError(what, field=nested, value=keys[nested], fix="steps = 20").located_at(file.name)
    texts = {key: shown_value(value) for key, value in keys.items()}
    return texts.pop(_NAMED_BY, None), texts


def new(
    file: Annotated[Path, Argument(metavar="FILE.py", help="The file to write.")],
    study: Annotated[
        bool, Option("--study", help="Write a study instead: a task, arms, sizes and expectations.")
    ] = False,
) -> None:
    """Write a starting point for a task of your own, or with --study for a study, in one file that runs as it is."""
    if file.suffix != ".py":
        fix = f"tinsmith new {file}.py"
        raise ConfigError("a task or a study is a Python file", field="FILE.py", value=str(file), fix=fix)
    if not file.parent.is_dir():
        what = "there is no such folder to write to"
        raise ConfigError(what, field="FILE.py", value=str(file), fix=f"mkdir -p {file.parent}")
    package = "tinsmith.lab.study" if study else "tinsmith.lab.user_task"
    text = (resources.files(package) / "start.py.txt").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text.replace("@FILE@", file.name).replace("@NAME@", file.stem))
    except FileExistsError:
        raise ConfigError("this file exists already", field="FILE.py", value=str(file), fix="name another") from None
    print(f"wrote {file}; next: tinsmith run {file} dry_run=true, then tinsmith run {file}")


AUDITED: Final = {"save_every": "1"}
"""Keys of the run that pays for macro-F1, at its smallest size: an audit of drawn steps computes those alone."""


def quickstart(
    changes: Annotated[
        list[str] | None,
        Argument(metavar="key=value ...", help="Keys for every run, such as data=SLICE.", autocompletion=complete_keys),
    ] = None,
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the runs and compare.html.")] = Path("out/quickstart"),
    opened: Open = False,
) -> None:
    """Run a small study: a base model, SFT, three rewards and a control, and one page that compares them.

    Without data=SLICE a synthetic world of 30,000 papers is built, whose labels come from its citation graph.
    With ray=local, or the address of a Ray, the runs are that Ray's tasks.
    """
    given = changed_keys(changes or [], listed_by="tinsmith run remedy/exp6 --help lists the keys")
    with loading():
        from tinsmith.cli.bar import interruptible
        from tinsmith.lab.experiment.key_text import truth
        from tinsmith.lab.live.progress import minutes_now, other_work
        from tinsmith.lab.page.report import COMPARISON, compare
        from tinsmith.lab.papers.run_data import minutes, world_minutes
        from tinsmith.lab.study.cells import runner, seconds_of, shared_cores, side_by_side, sole_process
        from tinsmith.lab.study.keys import CLUSTER_KEYS, cluster_of
        from tinsmith.ops.extension import physical_cores
        from tinsmith.pages.page import document_html, ending, write

    began = time.perf_counter()

    def say(message: str) -> None:
        print(visible(f"[{time.perf_counter() - began:4.0f} s] {message}"), flush=True)

    dry = truth("dry_run", given.pop("dry_run", "false"))
    own = {key: value for key, value in given.items() if all(key != one.name for one in CLUSTER_KEYS)}
    cells = quickstart_cells(own, out)
    at_once, threads = shared_cores([physical_cores()], len(cells), 0)
    base, taken = world_minutes(), seconds_of(cells, threads, minutes)  # what a base is measured by, runs are
    seconds = dict(zip((one.folder for one in cells), taken or [0.0] * len(cells), strict=True))
    if taken is not None:
        forecast = side_by_side(sorted(taken, reverse=True), at_once) / 60 + base
        say(f"{len(cells)} runs and a base model: about {minutes_now(forecast, other_work())}")
    if dry:
        return
    with interruptible(resumes=True), sole_process(out), runner(cluster_of(given), minutes) as run:
        run(sorted(cells, key=lambda one: -seconds[one.folder]), say)  # so that the last wave is short
    with ticking("comparing", say):
        compared = compare([cell.folder for cell in cells])
    page = out / COMPARISON
    write(document_html(compared.page), page)
    open_console().print(compared.table)
    for sentence in (*compared.sentences[1:], *ending(compared.page)):
        print(visible(sentence))
    tell_page(page, opened)


def quickstart_cells(keys: Mapping[str, str], out: Path) -> list[Cell]:
    """Return the runs, each in its folder of `out`; the one that pays for macro-F1 can be audited at little cost."""
    from tinsmith.lab.experiment.key_text import At
    from tinsmith.lab.study.sizes import Cell
    from tinsmith.studies.disruption.experiments import CONTROL, QUICKSTART, REMEDY_EXP6

    audited = REMEDY_EXP6 if keys.get("at", At.NANO) == At.NANO else None
    return [
        Cell(
            experiment=one,
            overrides={**(AUDITED if one is audited else {}), **keys},
            folder=out / one.name.replace("/", "-"),
        )
        for one in (*QUICKSTART, CONTROL)
    ]
