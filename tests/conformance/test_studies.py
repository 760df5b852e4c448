"""Requirements on every study that is a value: its arms, keys, cells, claims, values and page."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from made_studies import FROZEN_DRAWS, MADE, Maker, figures_in

from command_line import keys_in
from tinsmith.cli.registered import STUDIES, source_of
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import SECONDS_JSON, STUDY_JSON, TABLES
from tinsmith.lab.study.record import Draws, Seconds, StudyRecord
from tinsmith.lab.study.report import page_of_study
from tinsmith.lab.study.sizes import cells_of, keys_of, planned, usual_size
from tinsmith.lab.study.study import Study
from tinsmith.pages.markdown import document_markdown
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import CheckName, Verdict
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import unsaid

pytestmark = pytest.mark.usefixtures("without_pictures")
FEW = Draws(claims=Bootstrap(draws=100), tables=Bootstrap(draws=100))
UNMET: Mapping[str, set[int]] = {
    "alignment_collapse": {6, 8},
    "barrier": {6},
    "coupled_agents": {0, 3},
    "dead_groups": {0, 1, 2},
    "environment_loss": {3},
    "metacognition": {5},
    "pass_at_k": {1, 2, 3},
    "recursion": {5, 6},
    "sparse_select": {0, 1, 2},
    "template_collapse": {3},
}
"""Places of the expectations that are not met by the runs that are made up here, with so few draws."""
REFUSED: Mapping[str, str] = {
    "study/adapters": "rates=1,2,3,4 rates=1,2,3,4,4 rates=0,1,2,3,4 rates.qdora=1,2,3,4,five seeds=1,2 seeds=1,2,2 "
    "seeds=a,b,c seeds=1,2,-3 tuning_seed=0,4 tuning_seed=-1 adapters=qdora adapters=lora,full learning_rate=1 seed=1 "
    "adapter=dora log_path=x rate=1,2,3,4,5 rates.full=1,2,3,4,5 group_size=4 dry_run=flase select_by=last "
    "stop_after=2 steps=0",
    "study/sft_vs_rl": "seeds=0,1 seeds=1,1 rl_rates=1e-3,2e-3 rl_rates=1e-3,x world=nowhere world=planted+data=a "
    "sft_steps=100 learning_rate=1e-3 group_size=1 select_by=last stop_after=2 search_gate=2 "
    "search_gate=0+prompt_search=true prompt_search=maybe prompt_lines=brief",
    "microscope": "size=huge task=nothing seed=3 threshold=-1 samples=0 stepz=3 second=final second=nowhere@final "
    "steps=3+second=nowhere@final generator=basic_arithmetic",
    "moe/wander": "batches=1,4 batches=4,4 batches=four sides=canonical,vllm sides= sides=fast,fast samples=1 tokens=0 "
    "base_steps=-1 dry_run=perhaps promts=4",
    "prompt_search": "size=large proposer=nobody task=sandbagger gate=0 most_edits=none learning_rate=fast seed=1",
    "sparse_select": "task=nothing generator=chain_sum asked_items=3 sparse_rates=0 sparse_steps=0",
}
"""Requests of studies, the first key of each of which is refused."""
FIGURES = json.loads((Path(__file__).parents[1] / "golden" / "figures.json").read_text())


@pytest.fixture(scope="module", params=MADE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def study(name: str) -> Study:
    found = STUDIES[name].value()
    assert isinstance(found, Study)
    return found


@pytest.fixture(scope="module")
def whole(study: Study) -> Study:
    return planned(study, {}, source_of)[0]


@pytest.fixture(scope="module")
def folder(study: Study, name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp(name) / "out"
    given = {**MADE[name].keys, "out": str(out)}
    return run_study(study, given, unsaid, open_source=source_of, run=Maker(MADE[name]), draws=FROZEN_DRAWS)


@pytest.fixture(scope="module")
def values(folder: Path) -> StudyRecord:
    return msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)


def test_names_and_labels_are_unique_and_every_named_arm_exists(whole: Study, name: str) -> None:
    study, names = whole, [arm.name for arm in whole.arms]
    assert study.name == name
    assert len(set(names)) == len(names) == len({arm.label for arm in study.arms})
    assert {study.control, study.against, study.untrained} - {""} <= set(names)
    assert all(set(size.without) < set(names) for size in study.sizes.values())


def test_it_is_registered_with_its_question_and_says_its_keys(study: Study, name: str) -> None:
    assert STUDIES[name].question == study.question
    keys = keys_of(study)
    assert {key.name: key.default for key in keys.own}["size"] == usual_size(study) == "nano"
    assert {"seeds", "out", "dry_run", "tuning_seed"} <= {key.name for key in keys.own}
    assert all(key.words for key in keys.own)


def test_what_is_given_goes_before_the_size_and_mistakes_are_refused_by_their_key(study: Study) -> None:
    given = cells_of(study, {"steps": "9", "max_tokens": "5"}, source_of)
    own = {"0", *(str(value) for arm in study.arms for key, value in arm.keys.items() if key == "steps")}
    assert "9" in {arm.keys["steps"] for arm in given.arms if arm.keys.get("steps") not in own}
    assert {arm.keys["max_tokens"] for arm in given.arms} == {"5"}
    set_by_all = set.intersection(*(set(arm.keys) for arm in study.arms)) if study.arms else study.fixed
    wrong = [("size", "huge"), ("seed", "1"), ("stepz", "3"), ("seeds", "1,1")]
    for key, value in [*wrong, *((key, "1") for key in sorted(set_by_all))]:
        with pytest.raises(ConfigError) as refused:
            cells_of(study, {key: value}, source_of)
        assert refused.value.field == key
    with pytest.raises(ConfigError) as refused:
        cells_of(study, {"tuning_seed": "1"}, source_of)
    assert refused.value.field == "seeds"  # the seed that chooses rates is not reported


def test_the_size_small_is_that_of_a_pretrained_model(study: Study) -> None:
    if "small" in study.sizes:
        by_size, by_place = (cells_of(study, given, source_of) for given in ({"size": "small"}, {"at": "small"}))
        assert by_size.shared == by_place.shared
        assert [arm.keys for arm in by_size.arms] == [arm.keys for arm in by_place.arms]
        return
    with pytest.raises(ConfigError) as refused:
        cells_of(study, {"size": "small"}, source_of)
    assert refused.value.field == "size"


@pytest.mark.golden
def test_figures_of_made_up_runs_are_what_was_committed(folder: Path, name: str) -> None:
    now, frozen = json.loads(json.dumps(figures_in(folder))), FIGURES[name]
    assert now["gains"].items() >= frozen["gains"].items()
    assert now["claims"] == frozen["claims"]
    for row, cells in frozen["cells"].items():
        shown = now["cells"][row]
        lost = [one for one in cells if one not in shown and not any(each.startswith(f"{one} (") for each in shown)]
        assert not lost, row


def test_expectations_come_out_as_the_runs_were_made(values: StudyRecord, name: str) -> None:
    assert {place for place, one in enumerate(values.expectations) if not one.met} == UNMET.get(name, set())


def test_every_learned_claim_has_a_control(values: StudyRecord, name: str) -> None:
    assert len(values.learned) == sum(kind == "learned" for kind, *_ in FIGURES[name]["claims"].values())
    for claim in values.learned:
        assert any(check.name is CheckName.CONTROL for check in claim.checks)


def test_claims_count_items_and_not_steps(values: StudyRecord, name: str) -> None:
    steps = int(MADE[name].keys["steps"])
    counted = [check.sentence for claim in values.beats for check in claim.checks if check.name is CheckName.TRAINING]
    assert counted
    assert not any(f" {steps} examples" in one for one in counted)


def test_a_page_follows_from_the_kept_values_alone(folder: Path, values: StudyRecord) -> None:
    seconds = msgspec.json.decode((folder / SECONDS_JSON).read_bytes(), type=dict[str, Seconds])
    labels = {label: seconds[label] for label in values.arms}
    shown = document_markdown(page_of_study(values, labels))
    assert shown == (folder / TABLES).read_text(encoding="utf-8")
    assert "nan" not in shown
    assert all(label in shown for label in values.arms)
    assert len(values.expectations) >= 3
    assert all(one.figures for one in values.expectations)


def test_no_arm_is_said_to_beat_another_where_all_are_alike(study: Study, tmp_path: Path) -> None:
    made = MADE[study.name]
    alike = replace(next(iter(made.arms.values())), right=(0.25, 0.25))
    given = {**made.keys, "out": str(tmp_path / "out")}
    maker = Maker(made, dict.fromkeys(made.arms, alike))
    out = run_study(study, given, unsaid, open_source=source_of, run=maker, draws=FEW)
    found = msgspec.json.decode((out / STUDY_JSON).read_bytes(), type=StudyRecord)
    assert not [one.words for one in found.beats if one.verdict is Verdict.ALLOWED]


@pytest.mark.parametrize(("of", "asked"), [(name, one) for name, some in REFUSED.items() for one in some.split()])
def test_a_mistake_is_refused_by_its_key(of: str, asked: str) -> None:
    given = keys_in(asked.replace("+", " "))
    with pytest.raises(ConfigError) as refused:
        STUDIES[of].read(given)
    assert refused.value.field == next(iter(given))


def test_a_first_checkpoint_without_a_second_is_refused_by_the_second() -> None:
    with pytest.raises(ConfigError, match=r"field: second\b"):
        STUDIES["microscope"].read({"first": "nowhere@final"})
