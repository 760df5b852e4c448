"""What a study of learning reads of made-up runs: gains, claims, controls, forgetting, and the same bytes again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import TASK, Maker, Shares

from tinsmith.cli import main
from tinsmith.cli.registered import source_of
from tinsmith.lab.study.files import PAGE, STUDY_JSON, TABLES
from tinsmith.lab.study.results import Draws
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import CheckName, Finding
from tinsmith.studies.learning.study import run_learning

DRAWS = Draws(claims=Bootstrap(draws=400), tables=Bootstrap(draws=200))
SHARES = {"sft-": 0.6, "sft_then_rl-": 1.0, "rl-": 1.0, "shuffled-": 0.25, "shuffled_sft-": 0.25}
ARMS = "zero_shot,sft,rl,sft_then_rl,shuffled"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("made.py").write_text(TASK)


def study(out: str, shares: Shares = SHARES, *, general: bool = True, **keys: str) -> Maker:
    maker = Maker(shares, [], general=general)
    given = {"task": "made.py", "out": out, "score": "right", "arms": ARMS, **keys}
    run_learning({}, given, lambda _: None, open_source=source_of, run=maker, draws=DRAWS)
    return maker


def values(out: str) -> dict[str, Any]:
    return json.loads((Path(out) / STUDY_JSON).read_text())


def arm(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in found["arms"] if one["arm"] == name)


def moved(one: dict[str, Any], name: str, *, greedy: bool = False) -> dict[str, Any]:
    return next(each for each in one["moved"] if (each["name"], each["greedy"]) == (name, greedy))


def claim(found: list[dict[str, Any]], first: str, second: str = "") -> dict[str, Any]:
    return next(one for one in found if one["first"] == first and second in one["second"])


def refused(one: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["finding"] for check in one["checks"] if check["finding"] != Finding.PASSED}


def test_gains_are_told_of_every_arm_and_measure() -> None:
    study("one", seeds="1,2,3,4,5")
    found = values("one")
    assert [one["arm"] for one in found["arms"]] == ["sft", "rl", "sft_then_rl", "shuffled"]
    assert (found["num_items"], found["num_clusters"], found["seeds"]) == (12, 6, [1, 2, 3, 4, 5])
    rl, control = arm(found, "rl"), arm(found, "shuffled")
    gain = moved(rl, "metric/right")
    assert gain["after"]["value"] == 1.0
    assert gain["gain"]["value"] == pytest.approx(1.0 - gain["before"]["value"])
    assert gain["gain"]["low"] > 0.0
    # Of four arms, two rise to 1; the others' p are larger. Greedy answers are another family.
    assert gain["p_holm"] == pytest.approx(4 * gain["p_value"])
    assert moved(control, "metric/right")["gain"]["value"] == 0.0
    assert moved(rl, "total")["after"]["value"] == pytest.approx(1.1)
    # Reward, a term, and a metric that is the other term too, sampled and greedy, of four arms.
    assert sum(len(one["moved"]) for one in found["arms"]) == 4 * 2 * 3
    assert found["untrained"]["value"] == gain["before"]["value"]
    assert found["baselines"][0]["score"]["value"] == 0.5
    assert [look["items_seen"] for look in rl["looks"]] == [0, 8, 16, 24, 32]
    assert arm(found, "sft")["effort"]["supervised"] == 32


def test_the_gate_asks_for_equal_effort_a_control_and_pairs() -> None:
    study("one", seeds="1,2,3,4,5")
    found = values("one")
    beats, learned = found["beats"], found["learned"]
    # Six pairs, every one of which rises: two of 2^6 flips, corrected over the family.
    over_zero = claim(beats, "RL", "zero-shot")
    assert over_zero["p_value"] >= 2 / 2**6
    assert over_zero["p_holm"] > over_zero["p_value"]
    assert {one["second"] for one in beats if one["first"] == "SFT then RL"} == {
        "zero-shot",
        "the baseline always a",
        "SFT",
        "RL",
    }
    for one in beats:
        assert CheckName.TRAINING not in refused(one)
        assert CheckName.PARITY not in refused(one)
    assert refused(claim(learned, "SFT"))[CheckName.CONTROL] == Finding.MISSING
    assert refused(claim(learned, "RL")).get(CheckName.CONTROL) != Finding.MISSING


def test_with_a_control_of_its_own_sft_is_held_against_it() -> None:
    study("one", arms="sft,shuffled_sft")
    found = values("one")
    (learned,) = found["learned"]
    checks = {one["name"]: one["finding"] for one in learned["checks"]}
    assert checks[CheckName.CONTROL] != Finding.MISSING
    assert {one["second"] for one in found["beats"]} == {"zero-shot", "the baseline always a"}


def test_what_is_forgotten_is_told_or_missing() -> None:
    study("one")
    found = values("one")
    told = arm(found, "rl")["forgotten"]
    assert told["num_texts"] == 5
    assert told["change"]["value"] == pytest.approx(-0.1)
    assert arm(found, "sft")["forgotten"]["change"]["value"] == pytest.approx(-0.5)
    study("two", general=False)
    assert [one["forgotten"] for one in values("two")["arms"]] == [None] * 4
    assert "watch_forgetting" in (Path("two") / PAGE).read_text()


def test_the_rate_is_chosen_on_validation_and_taken_by_the_arms_after_it() -> None:
    shares = {"sft-validation-rate=0.004": 0.9, "sft-validation": 0.3, **SHARES}
    ran = study("one", shares, sft_rates="1e-3,4e-3", seeds="1")
    assert ran.asked[:2] == ["sft-validation-rate=0.001-seed=0", "sft-validation-rate=0.004-seed=0"]
    found = values("one")
    assert (arm(found, "sft")["rate"], arm(found, "sft_then_rl")["sft_rate"]) == (4e-3, 4e-3)
    tried = found["rates"]["SFT"]
    assert [one["rate"] for one in tried] == [1e-3, 4e-3]
    assert tried[1]["behind"] is None
    assert tried[0]["behind"]["value"] > 0.0


def test_numbers_of_items_are_swept_at_the_chosen_rates() -> None:
    ran = study("one", arms="sft,rl", sizes="4,8", seeds="1,2")
    sized = [name for name in ran.asked if "items=" in name]
    assert len(sized) == 2 * 2 * 2
    found = values("one")["sized"]
    assert [(one["arm"], one["size"]) for one in found] == [
        (name, size) for size in (4, 8, 12) for name in ("sft", "rl")
    ]


def test_the_same_runs_give_the_same_bytes_and_a_page() -> None:
    study("one")
    study("two")
    for name in (STUDY_JSON, PAGE, TABLES):
        assert (Path("one") / name).read_bytes() == (Path("two") / name).read_bytes()
    page = (Path("one") / PAGE).read_text()
    assert "://" not in page.replace("http://www.w3.org", "")
    for told in ("Which? 6", "rl-rate", "SFT then RL, after", "always a"):
        assert told in page


def test_a_report_of_the_study_is_its_page_in_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    study("one")
    with pytest.raises(SystemExit) as caught:
        main(["report", "one", "--to", "md"])
    assert not caught.value.code
    text = (Path("one") / "report.md").read_text()
    found = values("one")
    assert "## Gains" in text
    assert f"{moved(arm(found, 'rl'), 'metric/right')['gain']['value']:+.3f}" in text
    assert "rl-rate=0.0006-seed=1" in text
    assert "report.md" in capsys.readouterr().out
