"""`rubric_quality` by rules: what the built-in pairs show, its folder, its keys; it needs no key and no network."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from pages_of import report_of
from scipy.stats import binomtest

from tinsmith.lab.study.keys import keys_of, measure_of
from tinsmith.pages.markdown import document_markdown
from tinsmith.studies.rubrics.quality.study import QUESTION, quality_page, rubric_quality
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256
from tinsmith.types.waits import unsaid

PUBLISHED = Path(__file__).parents[3] / "docs" / "results" / "rubric-quality.md"
FILES = {"answers.jsonl", "config.json", "manifest.json", "quality.json", "report.html", "spent.json"}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
    def refuse(*_: object) -> None:
        raise AssertionError("a call to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("TINSMITH_HOME", str(tmp_path / "home"))


def read(folder: Path) -> Any:
    return json.loads((folder / "quality.json").read_text())


def pairs_file(path: Path, *rows: Mapping[str, object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_on_the_built_in_pairs_the_rubric_adds_and_the_control_does_not(tmp_path: Path) -> None:
    text: list[str] = []
    folder = measure_of(rubric_quality, {"log_path": str(tmp_path / "out")})(text.append)
    found = read(folder)
    assert [each["right"] for each in found["accuracies"]] == [48, 96, 43]
    gain, control = found["gain"], found["control"]
    assert (gain["gain"], gain["helped"], gain["hurt"], gain["finding"]) == (0.5, 48, 0, "adds")
    assert gain["p_value"] == 2 * 2.0**-48
    assert control["finding"] == "inconclusive"
    assert control["p_value"] == pytest.approx(binomtest(5, 15).pvalue)
    assert "adds: +0.500" in text[1]
    assert any("by construction" in each for each in found["cannot_be_claimed"])
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert len(lines) == 3 * 96
    control_lines = [line for line in lines if line["condition"] == "other"]
    assert not any(line["rubric_of"] == line["pair_id"] for line in control_lines)
    assert len({line["chosen_first"] for line in lines}) == 2
    assert str(escape(QUESTION)) in (folder / "report.html").read_text()
    assert not (tmp_path / "home").exists()
    data = json.loads((folder / "config.json").read_text())["data"]
    assert PUBLISHED.read_text().startswith(document_markdown(quality_page(found, data, 0, "$0.00")))


def test_the_folder_is_whole_and_the_same_again(tmp_path: Path) -> None:
    one, other = (measure_of(rubric_quality, {"log_path": str(tmp_path / name)})(unsaid) for name in ("a", "b"))
    assert {file.name for file in one.iterdir()} == FILES
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes()
    manifest = json.loads((one / "manifest.json").read_text())
    config = json.loads((one / "config.json").read_text())
    assert manifest["identity_sha256"] == config["identity_sha256"]
    for name, digest in manifest["hashes"].items():
        assert file_sha256(one / name) == digest
    assert str(tmp_path) not in "".join((one / name).read_text() for name in FILES)


def test_report_leaves_a_measurement_and_its_page_alone(tmp_path: Path) -> None:
    folder = measure_of(rubric_quality, {"log_path": str(tmp_path / "out"), "limit": "4"})(str)
    page = (folder / "report.html").read_bytes()
    with pytest.raises(DataError, match="has its page already"):
        report_of(folder, None)
    assert (folder / "report.html").read_bytes() == page


def test_seed_and_limit_decide_what_is_asked_and_are_told(tmp_path: Path) -> None:
    keys = {"limit": "20", "seed": "5", "log_path": str(tmp_path / "a")}
    folder = measure_of(rubric_quality, keys)(unsaid)
    assert read(folder)["pairs"] == read(folder)["drawn"] == 20
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"] == {"judge_model": "rules", "seed": 5, "limit": 20}
    other = measure_of(rubric_quality, {**keys, "seed": "6", "log_path": str(tmp_path / "b")})(unsaid)
    assert config["identity_sha256"] != json.loads((other / "config.json").read_text())["identity_sha256"]  # fmt: skip


def test_a_folder_that_is_taken_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    keys = {"log_path": str(out), "limit": "8"}
    measure_of(rubric_quality, keys)(unsaid)
    before = (out / "quality.json").read_bytes()
    with pytest.raises(ConfigError, match="holds such a run already"):
        measure_of(rubric_quality, {**keys, "limit": "9"})(unsaid)
    assert (out / "quality.json").read_bytes() == before
    measure_of(rubric_quality, {**keys, "limit": "9", "behavior_if_log_dir_exists": "delete"})(unsaid)
    assert read(out)["drawn"] == 9
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"name": "disruption/exp4"}')
    with pytest.raises(ConfigError, match="something else"):
        measure_of(rubric_quality, {"log_path": str(tmp_path / "mine"), "behavior_if_log_dir_exists": "delete"})(unsaid)


def test_several_pairs_of_a_prompt_are_tested_by_prompt_and_one_prompt_has_no_control(tmp_path: Path) -> None:
    rows = [
        {
            "pair_id": str(i),
            "prompt": "Say tin.",
            "chosen": "tin",
            "rejected": f"say it {i} times",
            "rubrics": ["rule: contains 'tin'"],
        }
        for i in range(12)
    ]
    data = pairs_file(tmp_path / "pairs.jsonl", *rows)
    folder = measure_of(rubric_quality, {"data_path": data, "log_path": str(tmp_path / "out")})(unsaid)
    found = read(folder)
    assert (found["unit"], found["prompts"], found["pairs"]) == ("prompt", 1, 12)
    assert (found["control"], found["beyond_control"]) == (None, None)
    assert (found["gain"]["p_value"], found["gain"]["finding"]) == (1.0, "inconclusive")


def test_rules_do_not_judge_prose(tmp_path: Path) -> None:
    row = {"pair_id": "p7", "prompt": "Say tin.", "chosen": "tin", "rejected": "no"}
    data = pairs_file(tmp_path / "pairs.jsonl", {**row, "rubrics": ["It is kind."]})
    with pytest.raises(DataError, match="pair p7: the rule judge cannot judge prose"):
        measure_of(rubric_quality, {"data_path": data, "log_path": str(tmp_path / "out")})(unsaid)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"sed": "1"}, "perhaps seed"),
        ({"judge_modle": "x"}, "perhaps judge_model"),
        ({"seed": "one"}, "a whole number"),
        ({"limit": "0"}, "1 or more"),
        ({"dry_run": "maybe"}, "true or false"),
        ({"behavior_if_log_dir_exists": "resume"}, "raise, delete"),
        ({"judge_rpm": "10"}, "judge_model=rules does not use this key"),
        ({"judge_model": "m", "judge_rpm": "-1"}, ">= 0"),
        ({"judge_model": "m", "judge_temperature": "warm"}, "a number"),
        ({"judge_model": ""}, "no judge model is named"),
    ],
)
def test_a_wrong_key_or_value_is_told_in_a_few_lines(keys: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        measure_of(rubric_quality, keys)
    assert words in str(error.value)


def test_the_folder_is_named_after_what_was_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {"limit": "3", "judge_model": "m", "judge_rpm": "7", "dry_run": "true"}
    folder = measure_of(rubric_quality, keys)(unsaid)
    assert str(folder) == "runs/rubric_quality-judge_model=m-judge_rpm=7-limit=3"
    assert {"judge_rpm", "judge_timeout_s", "judge_base_url"} <= {key.name for key in keys_of(rubric_quality).own}
