"""Studies that are values, on made-up runs that come out otherwise than those of tests/conformance/test_studies.py."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_studies import MADE, MadeArm, Maker

from tinsmith.cli.registered import STUDIES
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.record import Draws, StudyRecord
from tinsmith.lab.study.study import Study
from tinsmith.stats.estimates import Bootstrap
from tinsmith.types.errors import DataError
from tinsmith.types.waits import unsaid


def values(name: str, out: Path, **arms: MadeArm) -> StudyRecord:
    few = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=400))
    given = {**MADE[name].keys, "out": str(out / name)}
    study = STUDIES[name].value()
    assert isinstance(study, Study)
    folder = run_study(study, given, unsaid, run=Maker(MADE[name], arms), draws=few)
    return msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)


def met(found: StudyRecord) -> list[bool]:
    return [one.met for one in found.expectations]


def changed(name: str, arm: str, **fields: Any) -> MadeArm:
    return replace(MADE[name].arms[arm], **fields)


def test_fixed_failure_has_an_index_of_one_and_random_failure_none_to_speak_of(tmp_path: Path) -> None:
    found = values("dead_groups", tmp_path)
    assert met(found)[1:] == [True, False, True, True], "one remedy does not help"
    figures: Mapping[str, Any] = found.figures
    assert figures["always"]["index"].value == 1.0
    assert abs(figures["chance"]["index"].value) < 0.2
    assert (figures["always"]["alarms"].value, figures["chance"]["alarms"].value) == (2, 0)


def test_a_control_that_learns_and_remedies_that_help_are_seen(tmp_path: Path) -> None:
    better = MadeArm(right=(0.25, 0.95))
    found = values("dead_groups", tmp_path, shuffled=better, hotter=better)
    assert met(found)[2:] == [True, True, False]


def test_where_every_answer_is_right_there_is_no_index(tmp_path: Path) -> None:
    found = values("dead_groups", tmp_path, chance=MadeArm(right=(1.0, 1.0)))
    assert found.figures["chance"]["index"] is None


def test_a_tie_is_no_more_success_whatever_its_last_digit(tmp_path: Path) -> None:
    none = MADE["environment_loss"].arms["lambda-0"]
    tie = changed("environment_loss", "lambda-0.05", right=(none.right[0], none.right[1] + 0.01))
    assert met(values("environment_loss", tmp_path, **{"lambda-0.05": tie}))[1] is False


def test_a_filter_that_prevents_nothing_and_costs_answers_is_seen(tmp_path: Path) -> None:
    moved = {"watch/mutual_information": (3.0, 1.0), "watch/entropy_given_prompt": (4.0, 8.0)}
    bad = {name: changed("template_collapse", name) for name in ("filtered", "shuffled")}
    arms = {name: replace(one, evaluated={**one.evaluated, **moved}, right=(0.5, 0.1)) for name, one in bad.items()}
    found = values("template_collapse", tmp_path, **arms)
    assert met(found) == [True, False, True, False, True, False]
    assert found.figures["bonus"]["groups"] != found.figures["filtered"]["groups"]


def test_a_filter_is_held_against_plain_rl_where_the_bonus_leaves_nothing(tmp_path: Path) -> None:
    for end, met_by in ((0.3, False), (1.0, True)):
        ends = {"bonus": 0.0, "filtered": end, "plain": 0.8}
        arms = {name: changed("template_collapse", name, right=(0.5, right)) for name, right in ends.items()}
        assert met(values("template_collapse", tmp_path / str(end), **arms))[3] is met_by


def test_exploration_that_helps_no_more_than_chance_does_is_seen(tmp_path: Path) -> None:
    arms = {"5-1": MADE["exploration"].arms["none"], "chance": MADE["exploration"].arms["5-1"]}
    found = met(values("exploration", tmp_path, **arms))
    assert (found[0], *found[2:]) == (False, False, True, False, False)


def test_a_boundary_moves_only_where_it_is_told_from_chance(tmp_path: Path) -> None:
    same = values("pass_at_k", tmp_path, grpo=MADE["pass_at_k"].arms["base"])
    assert same.expectations[0].met is False


def test_answers_that_were_believed_and_teach_as_much_are_seen(tmp_path: Path) -> None:
    arms = {"believed": MADE["backchain"].arms["observed"], "shuffled": MADE["backchain"].arms["observed"]}
    sft = {"sft-believed": MADE["backchain"].arms["sft-observed"]}
    assert met(values("backchain", tmp_path, **arms, **sft)) == [True, True, True, True, False, False, False]


def test_students_that_look_as_long_whatever_was_shown_are_seen(tmp_path: Path) -> None:
    arms = {name: MADE["patience"].arms["all"] for name in ("long", "found", "circles", "again")}
    more = changed("patience", "short", trained={"train/learned_tokens": 180.0}, metrics={"looks": (1.5, 9.0)})
    found = values("patience", tmp_path, **arms, short=replace(more, evaluated={"eval/metric/looks": (1, 9)}))
    assert met(found) == [False, False, True, True, False, False, False, False]


def test_confidence_is_higher_with_the_penalty_by_more_than_its_seeds_differ(tmp_path: Path) -> None:
    alike = changed("confidence", "plain", trained=MADE["confidence"].arms["shaped"].trained)
    found = values("confidence", tmp_path, shaped=alike)
    assert [met(found)[place] for place in (0, 2, 4)] == [False, False, False]


def test_a_stamp_that_is_not_learned_and_a_barrier_that_does_not_help_are_seen(tmp_path: Path) -> None:
    arms = {"open": MADE["barrier"].arms["closed"], "shuffled": MADE["barrier"].arms["closed"]}
    assert met(values("barrier", tmp_path, **arms)) == [True, True, True, True, False, False, False]


def test_process_rewards_that_do_less_than_the_answers_are_seen(tmp_path: Path) -> None:
    best, worse = MADE["metacognition"].arms["all"], MADE["metacognition"].arms["outcome"]
    arms = {"no_knowledge": best, "no_regulation": best, "no_right": worse, "recall": worse}
    found = values("metacognition", tmp_path, **arms)
    assert met(found) == [True, False, False, False, False, False]
    terms = next(table for table in found.tables if table.names == "Arm, term")
    assert [name.partition("|")[2] for name, _ in terms.rows] == ["right"] * 7


def test_an_order_that_helps_only_while_the_rate_falls_is_told_from_one_that_always_helps(tmp_path: Path) -> None:
    always = changed("curriculum", "descending-constant", metrics={"sound": (0.2, 0.9), "end": (0.3, 0.9)})
    found = met(values("curriculum", tmp_path, **{"descending-constant": always}))
    assert found == [True, True, False, False, *[True] * 7]


def test_a_policy_that_its_reward_model_pays_too_much_is_seen(tmp_path: Path) -> None:
    same = MADE["alignment_collapse"].arms["myopic"]
    found = values("alignment_collapse", tmp_path, exact=same)
    assert met(found) == [False, False, True, True, True, True, False, True, False]


@pytest.mark.parametrize(("name", "arm"), [("confidence", "plain"), ("template_collapse", "plain")])
def test_a_run_that_did_not_measure_what_is_read_is_refused(name: str, arm: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="watch"):
        values(name, tmp_path, **{arm: changed(name, arm, evaluated={})})
