from pathlib import Path

from fake_runs import LADDER, write_run

from tinsmith.lab.results.arms import arms_of
from tinsmith.lab.results.standings import standing_words, standings
from tinsmith.lab.runs.reader import read_run
from tinsmith.stats.estimates import Bootstrap


def test_each_arm_but_the_control_is_held_against_three_baselines(tmp_path: Path) -> None:
    stories = {name: LADDER[name] for name in ("exp5", "exp6", "shuffled")}
    runs = [read_run(write_run(tmp_path / name, story)) for name, story in stories.items()]
    found = standings(arms_of(runs), Bootstrap(draws=200))
    assert [(one.arm, one.baseline) for one in found] == [
        (arm, baseline)
        for arm in ("ladder/exp5@1", "remedy/exp6@1")
        for baseline in ("Constant", "Metadata only", "TF-IDF")
    ]
    # Exp5 answers one class nearly always, as the constant does: below whatever reads, above nothing by much.
    of_exp5 = standing_words(found[:3])
    assert of_exp5.startswith("ladder/exp5@1 is ")
    assert "below Metadata only (-" in of_exp5
    assert "above Constant (+" in standing_words(found[3:])
    assert standing_words(found[3:]).count("remedy/exp6@1 is") == 1


def test_where_nothing_was_compared_nothing_is_said(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "one", LADDER["exp6"]))
    (tmp_path / "one" / "baselines.json").unlink()
    alone = read_run(run.folder)
    assert standings(arms_of([alone]), Bootstrap(draws=200)) == ()
    assert standing_words(()) == ""
