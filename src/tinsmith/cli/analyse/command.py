"""The `tinsmith analyse` verbs: optimal policies of rewards, and confusion counts behind published rates.

Each command imports what it runs when it is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from tinsmith.cli.columns import AsJson, print_json
from tinsmith.types.errors import ConfigError

app = typer.Typer(
    name="analyse",
    help="Before and after training: which policy a reward makes optimal, which counts lie behind published rates.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(short_help="Say which policy a reward makes optimal.")
def incentives(
    reward: Annotated[
        list[str] | None, Option(metavar="NAME", help="A reward by name; repeatable. Default: all of them.")
    ] = None,
    matrix: Annotated[
        Path | None,
        Option(metavar="FILE.json", help="A reward as a table: a row for every true label, a column for every answer."),
    ] = None,
    posteriors: Annotated[
        str,
        Option(
            metavar="FILE",
            help="P(label | paper), a line a paper: .jsonl with a number for every label, or .npy (N, K). "
            "`example`: four kinds of papers worked out by hand.",
        ),
    ] = "example",
    labels: Annotated[
        str | None, Option(metavar="A,B,C", help="The columns' labels, where the file does not name them.")
    ] = None,
    setting: Annotated[
        list[str] | None, Option("--set", metavar="KEY=NUMBER", help="A setting of the reward; repeatable.")
    ] = None,
    class_weight: Annotated[
        list[str] | None,
        Option(metavar="LABEL=FACTOR", help="On the correct task term of soft, strong, exp5; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which policy a reward makes optimal, what it scores, and which labels die in it."""
    from tinsmith.cli.analyse.inputs import read_matrix, read_posteriors, reward_settings
    from tinsmith.cli.analyse.results import print_survey, survey, survey_value

    if matrix is not None and (reward or setting or class_weight):
        what = "--matrix is a reward of its own and takes no other"
        fix = "leave out --reward, --set and --class-weight, or --matrix"
        raise ConfigError(what, field="--matrix", value=str(matrix), fix=fix)
    known = read_posteriors(posteriors, labels)
    table = None if matrix is None else read_matrix(matrix, known.labels)
    found = survey(known, tuple(reward or ()), table, reward_settings(setting, class_weight))
    if as_json:
        print_json(survey_value(known, found))
    else:
        print_survey(known, found, posteriors)


@app.command(short_help="Recover the counts behind published rates.")
def consistency(
    file: Annotated[
        Path | None,
        Option(
            metavar="TABLE.json",
            help='{"labels": [...], "n": 500, "runs": {"NAME": {"label_match": 0.396, "recall/LABEL": ...}}}',
        ),
    ] = None,
    recall: Annotated[
        list[str] | None, Option(metavar="LABEL=RATE", help="As printed, all decimals; repeatable.")
    ] = None,
    share: Annotated[list[str] | None, Option(metavar="LABEL=RATE", help="Predicted share; repeatable.")] = None,
    label_match: Annotated[str | None, Option(metavar="RATE", help="Accuracy.")] = None,
    macro_f1: Annotated[str | None, Option(metavar="RATE")] = None,
    min_class_recall: Annotated[str | None, Option(metavar="RATE")] = None,
    balanced_accuracy: Annotated[str | None, Option(metavar="RATE")] = None,
    invalid_rate: Annotated[str | None, Option(metavar="RATE")] = None,
    labels: Annotated[
        str | None,
        Option(metavar="A,B,C", help="All labels. Default: those of the task that the given ones belong to."),
    ] = None,
    n: Annotated[int | None, Option("--n", help="Number of items, if it is known.")] = None,
    max_n: Annotated[
        int | None, Option("--max-n", help="Largest n to try where it is not known. Default: 3000.")
    ] = None,
    seeds: Annotated[bool, Option("--seeds", help="Check the tables published in the source notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recover the whole numbers behind published rates: class sizes, right answers, n. Exit 1: there are none."""
    from tinsmith.cli.analyse.inputs import check_only, read_table, table_of_options
    from tinsmith.cli.analyse.results import print_recovery, print_seeds, recovery_value, seeds_value
    from tinsmith.stats.consistency import LARGEST_N, recover

    given = {
        "label_match": label_match,
        "macro_f1": macro_f1,
        "min_class_recall": min_class_recall,
        "balanced_accuracy": balanced_accuracy,
        "invalid_rate": invalid_rate,
    }
    rates = {name: text for name, text in given.items() if text is not None}
    some = any((*rates.values(), *(recall or ()), *(share or ())))
    check_only(some, file=file, seeds=seeds, labels=labels, n=n, max_n=max_n)
    if seeds:
        print_json(seeds_value()) if as_json else print_seeds()
        return
    table = table_of_options(rates, recall or (), share or (), labels, n) if file is None else read_table(file, n)
    found = recover(table, LARGEST_N if max_n is None else max_n)
    if as_json:
        print_json(recovery_value(table, found))
    else:
        print_recovery(table, found)
    if not found.solutions:
        raise typer.Exit(code=1)
