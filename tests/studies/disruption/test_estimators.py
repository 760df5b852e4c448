"""SFT and GRPO as scikit-learn knows classifiers: parameters, clones, and what is learned."""

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, cross_validate
from small_slice import Made

import tinsmith
from tinsmith.data.slices.rows import PaperRow
from tinsmith.lab.labels.labelled_papers import Papers
from tinsmith.lab.labels.task import Paper, make_task, paper_of
from tinsmith.lab.papers.labels import LABEL_KINDS, label_task_of
from tinsmith.lab.papers.worlds import LoadedSlice, labelled, split_items, unlabelled
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.service.connect import Connection
from tinsmith.studies.disruption import estimators
from tinsmith.studies.disruption.comparing import drawn_folds
from tinsmith.studies.disruption.estimators import GRPO, SFT, PaperClassifier
from tinsmith.types.errors import ConfigError, DataError, LostError

pytestmark = [pytest.mark.whole, pytest.mark.pictures]

TASK = make_task("disruption", prompt="brief", contract="two_key")


@pytest.fixture(scope="module")
def papers(made: Made) -> LoadedSlice:
    return tinsmith.load_slice(made.data)


def grpo(made: Made, **changes: Any) -> GRPO:
    """One that learns from every paper, also where the base can hardly write."""
    given = {"steps": 2, "groups_per_batch": 3, "lora_rank": 4, "max_tokens": 16, "eval_every": 0}
    return GRPO(**{**given, "gradient": "exact", "model_name": made.base, **changes})


@pytest.fixture(scope="module")
def fitted(made: Made, papers: LoadedSlice) -> Iterator[GRPO]:
    """One that was fitted on a list of rows and their labels."""
    rows = papers.train[:40]
    model = grpo(made, learning_rate=5e-3)
    assert model.fit(rows, [row.disruption_label or "" for row in rows]) is model
    yield model
    model.close()


# Parameters


@pytest.mark.parametrize("kind", [SFT, GRPO])
def test_a_clone_has_the_same_parameters_and_nothing_learned(kind: type[PaperClassifier]) -> None:
    model = kind(steps=3, learning_rate=1e-4, log_path="runs/x", seed=7)
    assert (model.steps, model.learning_rate, model.log_path) == (3, 1e-4, "runs/x")
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(seed=8).seed == 8
    assert model.seed == 7
    assert is_classifier(model)
    with pytest.raises(NotFittedError):
        model.predict([])


@pytest.mark.parametrize("mistyped", [lambda: SFT(stpes=3), lambda: SFT().set_params(stpes=3)])
def test_a_mistyped_parameter_is_refused_with_the_nearest_one(mistyped: Callable[[], SFT]) -> None:
    with pytest.raises(ConfigError) as caught:
        mistyped()
    assert (caught.value.field, caught.value.value) == ("stpes", 3)
    assert caught.value.fix is not None
    assert caught.value.fix.startswith("perhaps steps;")
    assert isinstance(caught.value, TypeError)


def test_a_parameter_without_its_name_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        GRPO(3)
    assert caught.value.value == 3


def test_a_mistyped_score_is_refused_before_any_fit(papers: LoadedSlice) -> None:
    with pytest.raises(ConfigError) as caught:
        tinsmith.cross_val_score(SFT(), papers.train, cv=2, metric="macrof1")
    assert (caught.value.field, caught.value.fix) == ("metric", "perhaps macro_f1")


@pytest.mark.parametrize(("kind", "loop"), [(SFT, Kind.SFT), (GRPO, Kind.RL)])
def test_every_key_of_the_command_line_is_a_parameter(kind: type[PaperClassifier], loop: Kind) -> None:
    names = set(inspect.signature(kind).parameters)
    assert names == set(kind().get_params())
    known = LABEL_KINDS[loop]
    keys = {each.name for part in known.parts for each in fields(part)} | {key.name for key in known.own}
    # The class says the kind, fit takes the data; the rest is for a terminal.
    terminal = {"kind", "data", "dry_run", "check_reward", "stop_after", "quiet"}
    terminal |= {"wandb_project", "wandb_name", "trackio_project", "deviation", "gradient_unit"}
    unused = {"reward"} if kind is SFT else set()
    own = {"held_out", "verbose"} | ({"reward_settings"} if kind is GRPO else set())
    assert names == keys - terminal - unused | own


@pytest.mark.parametrize(
    ("changes", "field"), [({"steps": 0}, "steps"), ({"steps": 1.5}, "steps"), ({"reward": "gold"}, "reward")]
)
def test_parameters_are_checked_in_fit_and_not_before(
    made: Made, papers: LoadedSlice, changes: dict[str, Any], field: str
) -> None:
    model = grpo(made, **changes)
    with pytest.raises(ConfigError) as caught:
        model.fit(papers)
    assert caught.value.field == field


# Papers


def test_a_slice_is_loaded_with_its_rows_and_its_fingerprint(papers: LoadedSlice) -> None:
    assert [len(papers.train), len(papers.validation), len(papers.test)] == [120, 12, 12]
    assert papers.fingerprint == papers.source.card.sha256
    assert "120 train" in repr(papers)
    with pytest.raises(DataError, match="not a slice"):
        tinsmith.load_slice(papers.source.folder.parent)


def test_papers_are_rows_objects_or_mappings(papers: LoadedSlice) -> None:
    rows = papers.test
    golds = [row.disruption_label or "" for row in rows]
    assert labelled(rows, None, TASK) == labelled(rows, golds, TASK)
    plain: list[PaperRow | Paper] = [paper_of(row) for row in rows]
    assert [each.paper for each in labelled(plain, golds, TASK)] == plain
    bare = {"title": "On things", "abstract": "They are.", "concepts": ["a", "b"]}
    (first, again, other) = unlabelled([bare, dict(bare), {**bare, "year": 1999}], TASK)
    assert first.paper.id == again.paper.id != other.paper.id
    assert first.paper.concepts == ("a", "b")


@pytest.mark.parametrize(
    ("given", "y", "what"),
    [
        ([{"title": "t", "abstract": "a"}], None, "without labels"),
        ([{"title": "t", "abstract": "a"}], ["novel"], "no such label"),
        ([{"title": "t", "abstract": "a"}], [], "every paper needs one label"),
        ([{"title": "t", "abstract": "a"}], ["x", "y"], "every paper needs one label"),
        ([{"title": "t"}], ["neutral"], "abstract"),
        (["a title"], ["neutral"], "this is no list of papers"),
        ({"title": "t", "abstract": "a"}, ["neutral"], "this is no list of papers"),
        ([{"title": "t", "abstract": "a", "label": "x"}], ["neutral"], "no such field"),
    ],
)
def test_papers_that_are_none_are_refused(given: Any, y: Any, what: str) -> None:
    with pytest.raises(DataError, match=what):
        labelled(given, y, TASK)


def test_a_whole_slice_is_not_a_list(papers: LoadedSlice) -> None:
    with pytest.raises(DataError, match=r"name one split"):
        labelled(papers, None, TASK)  # type: ignore[arg-type]


def test_what_a_list_holds_out_is_drawn_by_seed(papers: LoadedSlice) -> None:
    items = labelled(papers.train, None, TASK)
    first, again, other = (split_items(items, 0.2, seed, shuffle_seed=None) for seed in (0, 0, 1))
    assert first == again != other
    parts = (first.train, first.validation, first.test)
    assert [len(part) for part in parts] == [96, 12, 12]
    assert {item.paper.id for part in parts for item in part} == {item.paper.id for item in items}
    with pytest.raises(ConfigError, match="leaves none"):
        split_items(items[:4], 0.1, 0, shuffle_seed=None)


def test_papers_of_one_text_are_held_out_together_and_once() -> None:
    texts = [{"title": f"title {i}", "abstract": f"abstract {i}"} for i in range(100)]
    journal = [{"id": f"journal {i}", **text} for i, text in enumerate(texts)]
    items = labelled([*texts, *texts, *journal], ["neutral"] * 300, TASK)
    split = split_items(items, 0.2, 0, shuffle_seed=None)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [240, 10, 10]
    train, validation, test = (
        {item.paper.title for item in part} for part in (split.train, split.validation, split.test)
    )
    assert not train & validation | train & test | validation & test
    assert len(validation | test) == 20
    once = split_items(items[:100], 0.2, 0, shuffle_seed=None)
    assert (split.validation, split.test) == (once.validation, once.test)
    with pytest.raises(ConfigError, match="leaves none"):
        split_items(labelled(texts[:1] * 30, ["neutral"] * 30, TASK), 0.2, 0, shuffle_seed=None)


# What is learned


def test_what_is_learned_ends_in_an_underscore(fitted: GRPO) -> None:
    assert fitted.adapter_.startswith("tinker://")
    assert [line["step"] for line in fitted.history_] == [0, 1, 2]
    assert fitted.fingerprint_ == fitted.config_["identity_sha256"]
    assert fitted.config_["data"] == {
        "fingerprint": fitted.config_["data"]["fingerprint"],
        "train": 32,
        "validation": 4,
        "test": 4,
    }
    assert (fitted.log_path_ / "manifest.json").exists()
    assert list(fitted.classes_) == sorted(TASK.labels)


def test_probabilities_are_exact_and_decide(fitted: GRPO, papers: LoadedSlice) -> None:
    rows = papers.test
    probabilities = fitted.predict_proba(rows)
    assert probabilities.shape == (len(rows), 3)
    assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    predicted = fitted.predict(rows)
    assert list(predicted) == [fitted.classes_[k] for k in probabilities.argmax(axis=1)]
    golds = [row.disruption_label for row in rows]
    expected = f1_score(golds, predicted, average="macro", labels=fitted.classes_, zero_division=0)
    assert fitted.score(rows) == pytest.approx(expected)
    assert fitted.score(rows, golds, metric="label_match") == pytest.approx(np.mean(predicted == golds))
    with pytest.raises(ConfigError, match="there is no such score"):
        fitted.score(rows, metric="auc")
    # Without label and scores, and alone, a paper is answered with the same bits.
    alone = fitted.predict_proba([paper_of(rows[5])])
    assert alone.tolist() == probabilities[5:6].tolist()


def test_offsets_chosen_on_validation_decide(
    fitted: GRPO, papers: LoadedSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = fitted.predict_proba(papers.test[:3])
    last = {**fitted.history_[-1], "offset/neutral": 2.0}
    monkeypatch.setattr(fitted, "history_", [*fitted.history_[:-1], last])
    weights = plain * np.exp([0.0, 0.0, 2.0])  # classes_ are sorted: neutral is the last
    expected = weights / weights.sum(axis=1, keepdims=True)
    assert np.allclose(fitted.predict_proba(papers.test[:3]), expected, atol=1e-12)


def test_answers_are_what_the_contract_reads(fitted: GRPO, papers: LoadedSlice) -> None:
    greedy = fitted.answers(papers.test)
    assert len(greedy) == len(papers.test)
    assert greedy == fitted.answers(papers.test)
    for one in greedy:
        assert one.predicted is None or one.predicted in TASK.labels


def test_models_are_compared_on_the_same_papers(fitted: GRPO, papers: LoadedSlice) -> None:
    found = tinsmith.compare({"one": fitted, "two": [fitted, fitted]}, papers.test, draws=200)
    one, two, always = found.rows
    assert one.difference is None
    assert two.difference.value == 0.0
    assert two.seeds == 2
    assert always.name.startswith("always ")
    assert always.most_frequent[1] == 1.0
    assert always.macro_f1.interval is None  # whatever is drawn, its score is the same
    assert two.difference.interval is None
    assert one.macro_f1.value == pytest.approx(fitted.score(papers.test))
    table = found.to_markdown().splitlines()
    frame = found.to_polars()
    assert frame["model"].to_list() == [row.name for row in found.rows]
    assert frame["macro_f1"].to_list() == [row.macro_f1.value for row in found.rows]
    assert all(f">{row.name}</text>" in found.plot().svg for row in found.rows)
    assert "train/reward/total" in fitted.history_.plot().svg
    assert "metadata" in papers.plot().svg
    assert papers.to_polars()["split"].to_list().count("test") == len(papers.test)
    assert len(table) == 5
    assert len({line.count("|") for line in table}) == 1
    assert str(found).splitlines() == table
    with pytest.raises(ConfigError, match="models are given by name"):
        tinsmith.compare([fitted], papers.test)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="models of the same task"):
        tinsmith.compare({}, papers.test)


def test_five_seeds_are_guarded_by_t_beside_five_others(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, papers = TASK.labels, [{"id": f"p{at}", "title": f"t{at}", "abstract": "a"} for at in range(150)]
    golds, models = [labels[at % 3] for at in range(150)], [SFT(verbose=False) for _ in range(10)]
    right = dict(zip(map(id, models), (30, 60, 90, 120, 45, 75, 90, 105, 135, 60), strict=True))

    def predict(self: SFT, rows: object) -> list[str]:
        del rows
        return [gold if at < right[id(self)] else labels[(at + 1) % 3] for at, gold in enumerate(golds)]

    monkeypatch.setattr(SFT, "fitted_task", lambda _: TASK)
    monkeypatch.setattr(SFT, "predict", predict)
    found = tinsmith.compare({"one": models[:5], "other": models[5:]}, papers, golds, draws=200)
    _, other, always = found.rows
    assert other.difference.over_seeds.name == "Welch's t over 5 and 5 seeds"
    assert always.difference.over_seeds.name == "Student's t over 5 seeds"
    assert other.p_holm > 0.05


def test_a_copy_answers_with_the_same_bits(fitted: GRPO, papers: LoadedSlice) -> None:
    rows = papers.test[:2]
    before = fitted.predict_proba(rows).tolist()
    copy = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(LostError, match="another server uses"):
        copy.predict(rows)
    fitted.close()
    assert copy.predict_proba(rows).tolist() == before
    assert copy.get_params() == fitted.get_params()
    copy.close()


# A second fit, and folds


def test_a_refused_fit_leaves_what_was_learned(
    fitted: GRPO, papers: LoadedSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = papers.test[:2]
    before, learned = fitted.predict_proba(rows).tolist(), {name: vars(fitted)[name] for name in LEARNED}
    with pytest.raises(DataError, match="no such label"):
        fitted.fit(rows, ["wonderful"] * 2)
    with monkeypatch.context() as patch:
        patch.setattr(fitted, "steps", 0)
        with pytest.raises(ConfigError):
            fitted.fit(papers)
    with pytest.raises(ConfigError, match="brings its own labels"):
        fitted.fit(papers, ["neutral"])
    with monkeypatch.context() as patch:
        patch.setattr("tinsmith.studies.disruption.estimators.conduct", lost)
        with pytest.raises(LostError):
            fitted.fit(papers)
    assert {name: vars(fitted)[name] for name in LEARNED} == learned
    assert fitted.predict_proba(rows).tolist() == before


LEARNED = ("adapter_", "history_", "fingerprint_", "base_", "config_", "log_path_")


def lost(*_: object, **__: object) -> None:
    raise LostError("the server was lost")


def test_clones_share_the_base_that_the_first_of_them_builds(
    made: Made, papers: LoadedSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []

    def base(_: object, __: object, papers: Papers, ___: object) -> Path:
        built.append(len(papers.train))
        return made.base

    monkeypatch.setattr("tinsmith.lab.papers.run_data.nano_base", base)
    model = grpo(made, model_name=None, steps=1, groups_per_batch=1)
    rows = papers.train[:36]
    found = cross_validate(model, rows, [row.disruption_label for row in rows], cv=2, return_estimator=True)
    assert len(built) == 1
    assert [each.base_ for each in found["estimator"]] == [str(made.base)] * 2
    first, _ = found["estimator"]
    monkeypatch.setattr("tinsmith.studies.disruption.estimators.conduct", lost)  # once the base is there
    others = (clone(clone(first)), rows[:24]), (clone(first).set_params(contract="four_key"), rows[:24]), (first, rows)
    for count, (model, papers_of_it) in enumerate(others, start=1):
        with pytest.raises(LostError):
            model.fit(papers_of_it)
        assert len(built) == count
    for each in found["estimator"]:
        each.close()


def test_the_price_of_a_fit_has_the_base_until_it_is_there(
    made: Made, papers: LoadedSlice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path))
    rows = papers.train[:60]
    golds = [str(row.disruption_label) for row in rows]
    fit, base = SFT().fit_minutes(rows, golds)
    assert fit is not None
    assert base > 0.0
    assert SFT(model_name=made.base, learning_rate=1e-3).fit_minutes(rows, golds)[1] == 0.0
    monkeypatch.setattr("tinsmith.lab.nano_base.present", lambda _: tmp_path)
    assert SFT().fit_minutes(rows, golds) == (fit, 0.0)


def test_folds_say_their_price_share_a_server_and_score_as_fits_of_their_own(
    made: Made, papers: LoadedSlice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[object] = []
    opened = estimators.open_connection

    def counted(*arguments: Any) -> Connection:
        started.append(arguments)
        return opened(*arguments)

    monkeypatch.setattr(estimators, "open_connection", counted)
    model = grpo(made, steps=1, groups_per_batch=1)
    rows = papers.train[:36]
    labels = [str(row.disruption_label) for row in rows]
    found = tinsmith.cross_val_score(model, rows, labels, cv=2)
    lines = capsys.readouterr().err
    assert "2 fits on one server" in lines
    assert "one fit" not in lines
    assert len(started) == 1
    train, test = next(StratifiedKFold(2, shuffle=True, random_state=model.plan().settings.seed).split(labels, labels))
    quiet = clone(model).set_params(verbose=False)
    alone = quiet.fit([rows[i] for i in train], [labels[i] for i in train])
    assert alone.score([rows[i] for i in test], [labels[i] for i in test]) == found[0]
    assert capsys.readouterr().err == ""
    alone.close()
    with pytest.raises(ConfigError) as raised:
        tinsmith.cross_val_score(model, rows, labels, cv=1)
    assert raised.value.field == "cv"


def test_papers_of_one_text_are_in_one_fold() -> None:
    labels = ["disruptive", "consolidating"] * 12
    rows = [{"id": f"{n}", "title": f"paper {n // 4 if n < 12 else n}", "abstract": ""} for n in range(24)]
    rows = [{**row, "title": f"{row['title']}, {label}"} for row, label in zip(rows, labels, strict=True)]
    items = labelled(rows, labels, label_task_of(SFT().plan()))
    texts = [item.paper.title for item in items]
    assert len(set(texts)) < len(texts)
    for train, test in drawn_folds(items, 3, 0):
        assert sorted([*train, *test]) == list(range(24))
        assert not {texts[place] for place in train} & {texts[place] for place in test}
        assert {labels[place] for place in test} == set(labels)
