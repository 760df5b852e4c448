"""The claim gate: what allows a claim, and that every missing or failing piece of evidence refuses it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sentences import missing
from tinsmith.stats.estimates import Bootstrap, Runs
from tinsmith.stats.gate import (
    Beats,
    CheckName,
    Claim,
    ClaimKind,
    Finding,
    Learned,
    ParityRecord,
    Training,
    Verdict,
    judge_beats,
    judge_learned,
)
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import ConfigError

LABELS = ("a", "b", "c")
QUICK = Bootstrap(draws=1000)
N = 900
GOLDS = np.arange(N) % 3


def system(name: str, accuracy: float, *, seeds: int = 1, lost: int | None = None) -> Runs:
    """Return a system right with the given chance; it never says the lost label."""
    rng = np.random.Generator(np.random.PCG64([len(name), seeds, round(1000 * accuracy)]))
    right = rng.random((seeds, N)) < accuracy
    text = np.where(right, GOLDS, (GOLDS + rng.integers(1, 3, (seeds, N))) % 3)
    if lost is not None:
        text = np.where(text == lost, (lost + 1) % 3, text)
    return Runs(name, LABELS, tuple(map(str, range(N))), GOLDS, text)


SAME = Training("slice", 640)
PARITY = ParityRecord(steps=100, unequal_bits=0)
BEATS = {CheckName.ITEMS, CheckName.TRAINING, CheckName.DIFFERENCE, CheckName.RECALL, CheckName.PARITY}
LEARNED = {
    CheckName.ITEMS,
    CheckName.CONSTANT,
    CheckName.METADATA,
    CheckName.CHANCE,
    CheckName.CONTROL,
    CheckName.PARITY,
}


def beats() -> Beats[Runs]:
    """Return a claim of the first kind with everything in its favour."""
    return Beats(first=system("better", 0.65), second=system("plain", 0.5), training=(SAME, SAME), parity=PARITY)


def learned() -> Learned:
    """Return a claim of the second kind with everything in its favour."""
    return Learned(
        system=system("better", 0.65),
        metadata=system("metadata", 0.45),
        control=system("shuffled", 1 / 3),
        parity=PARITY,
    )


def one(claimed: Beats[Runs] | Learned) -> Claim:
    """Judge a single claim."""
    (claim,) = judge_beats([claimed], QUICK) if isinstance(claimed, Beats) else judge_learned([claimed], QUICK)
    return claim


def refusals(claim: Claim) -> list[CheckName]:
    """Return the checks that stand in the way."""
    return [check.name for check in claim.checks if not check.passed]


@pytest.mark.parametrize(
    ("claimed", "kind", "checks"), [(beats(), ClaimKind.BEATS, BEATS), (learned(), ClaimKind.LEARNED, LEARNED)]
)
def test_a_claim_with_all_its_evidence_is_allowed(
    claimed: Beats[Runs] | Learned, kind: ClaimKind, checks: set[CheckName]
) -> None:
    claim = one(claimed)
    assert (claim.verdict, claim.kind) == (Verdict.ALLOWED, kind)
    assert {check.name for check in claim.checks} == checks
    assert re.match(r"better .*\bmacro_f1: \+0\.[12].*\bn = 900\b", claim.sentence())
    assert len(claim.reasons) == len(checks)


def test_the_two_kinds_share_no_reason_but_the_items_and_the_one_model() -> None:
    assert {CheckName.ITEMS, CheckName.PARITY} == BEATS & LEARNED
    of_means = {CheckName.BEFORE, CheckName.BASELINE}
    assert set(CheckName) == BEATS | LEARNED | of_means
    assert not (BEATS | LEARNED) & of_means


def test_one_may_beat_the_other_though_both_lie_below_the_metadata() -> None:
    claimed = replace(learned(), metadata=system("metadata", 0.8))
    assert one(beats()).verdict is Verdict.ALLOWED
    assert refusals(one(claimed)) == [CheckName.METADATA]


def test_one_may_have_learned_something_and_not_beat_the_other() -> None:
    assert one(learned()).verdict is Verdict.ALLOWED
    claim = one(replace(beats(), second=system("plain", 0.64)))
    assert refusals(claim) == [CheckName.DIFFERENCE]


def test_five_seeds_a_side_speak_for_the_method() -> None:
    claimed = replace(beats(), first=system("better", 0.65, seeds=5), second=system("plain", 0.5, seeds=5))
    claim = one(claimed)
    assert claim.verdict is Verdict.ALLOWED
    assert claim.seeds == (5, 5)
    assert missing(claim.sentence(), "method", "5 and 5 seeds") == []
    assert "the method" in one(replace(learned(), system=system("better", 0.65, seeds=5))).scope


def test_a_control_that_leaks_has_its_own_name() -> None:
    claim = one(replace(learned(), control=system("shuffled", 0.5), control_words="the control 'B'"))
    (leak,) = [check.sentence for check in claim.checks if check.name is CheckName.CONTROL]
    assert leak.startswith("the control 'B' scores ")


@pytest.mark.parametrize(
    ("claimed", "change", "name", "words"),
    [
        (learned(), {"metadata": None}, CheckName.METADATA, "no metadata-only baseline"),
        (learned(), {"control": None}, CheckName.CONTROL, "no run on shuffled labels"),
        (learned(), {"parity": None}, CheckName.PARITY, "were not compared"),
        (beats(), {"parity": None}, CheckName.PARITY, "were not compared"),
        (beats(), {"parity": ParityRecord(0, 0)}, CheckName.PARITY, "were not compared"),
        (beats(), {"parity": ParityRecord(9, 4)}, CheckName.PARITY, "in 4 log-probabilities"),
        (learned(), {"metadata": system("metadata", 0.7)}, CheckName.METADATA, "not beat the meta"),
        (learned(), {"control": system("shuffled", 0.5)}, CheckName.CONTROL, "labels leak"),
        (beats(), {"second": system("plain", 0.64)}, CheckName.DIFFERENCE, "may be zero"),
        (beats(), {"second": system("plain", 0.8)}, CheckName.DIFFERENCE, "better is worse"),
        (beats(), {"training": None}, CheckName.TRAINING, "not known"),
        (beats(), {"training": (SAME, Training("x", 640))}, CheckName.TRAINING, "different data"),
        (beats(), {"training": (SAME, Training("slice", 320))}, CheckName.TRAINING, "640"),
    ],
)
def test_one_failing_or_missing_piece_refuses_with_its_reason(
    claimed: Beats[Runs] | Learned, change: dict[str, object], name: CheckName, words: str
) -> None:
    claim = one(replace(claimed, **change))
    assert claim.verdict is Verdict.REFUSED
    assert name in refusals(claim)
    assert any(words in reason for reason in claim.reasons)
    assert re.match(r"not .*\bbetter\b", claim.sentence())
    missing = change[next(iter(change))] in (None, ParityRecord(0, 0))
    found = next(check.finding for check in claim.checks if check.name is name)
    assert found is (Finding.MISSING if missing else Finding.FAILED)


@pytest.mark.parametrize("examples", [0, 640, 641, None])
def test_what_is_beaten_may_have_had_more_or_no_training(examples: int | None) -> None:
    claim = one(replace(beats(), training=(SAME, Training("slice", examples))))
    assert claim.verdict is Verdict.ALLOWED


def test_a_lost_label_refuses_a_gain_in_accuracy() -> None:
    first = system("better", 0.8, lost=0)
    claim = one(replace(beats(), first=first, metric=Metric.LABEL_MATCH))
    assert CheckName.RECALL in refusals(claim)
    assert any("smallest recall 0.000" in reason for reason in claim.reasons)


def test_from_shuffled_labels_nothing_is_learned() -> None:
    shuffled, control = system("shuffled", 1 / 3), system("another", 1 / 3)
    family = [
        replace(learned(), system=shuffled, control=control, metric=metric)
        for metric in (Metric.MACRO_F1, Metric.LABEL_MATCH, Metric.BALANCED_ACCURACY)
    ]
    claims = judge_learned(family, QUICK)
    assert {claim.verdict for claim in claims} == {Verdict.REFUSED}
    assert all(CheckName.CHANCE in refusals(claim) for claim in claims)
    # Against a collapsed system the difference itself is real: balance alone raises the macro-F1.
    collapsed = Runs.constant(system("x", 0.5), "a")
    assert one(replace(beats(), first=shuffled, second=collapsed)).verdict is Verdict.ALLOWED


@pytest.mark.parametrize("kind", ClaimKind)
def test_holm_widens_the_intervals_of_a_family(kind: ClaimKind) -> None:
    if kind is ClaimKind.BEATS:
        close = replace(beats(), second=system("closer", 0.6))
        alone = one(close)
        hopeless = replace(close, second=system("plainer", 0.655))
        family = judge_beats([close, *[hopeless] * 9], QUICK)
    else:
        near = replace(learned(), metadata=system("metadata", 0.6))
        alone = one(near)
        above = replace(near, metadata=system("higher", 0.655))
        family = judge_learned([near, *[above] * 9], QUICK)
    assert family[0].interval.low < alone.interval.low
    assert family[0].p_holm >= 9 * alone.p_value
    assert family[0].value == alone.value


def test_by_chance_a_family_of_nulls_is_seldom_claimed() -> None:
    """Whoever answers as the metadata does has learned nothing: at most one family in twenty may say otherwise."""
    rng = np.random.Generator(np.random.PCG64(7))
    quick, wrong = Bootstrap(draws=200), 0
    items = tuple(map(str, range(240)))
    golds = np.arange(240) % 3

    def drawn(name: str, accuracy: float) -> Runs:
        right = rng.random((1, 240)) < accuracy
        answer = np.where(right, golds, (golds + rng.integers(1, 3, (1, 240))) % 3)
        return Runs(name, LABELS, items, golds, answer)

    for _ in range(40):
        family = [
            Learned(
                system=drawn("one", 0.5),
                metadata=drawn("metadata", 0.5),
                control=drawn("shuffled", 1 / 3),
                parity=PARITY,
            )
            for _ in range(4)
        ]
        wrong += any(claim.verdict is Verdict.ALLOWED for claim in judge_learned(family, quick))
    assert wrong <= 4


def test_unanswered_items_are_left_out_and_many_refuse() -> None:
    whole = beats()
    few = replace(whole, second=whole.second.on(whole.second.items[10:]))
    assert one(few).verdict is Verdict.ALLOWED
    assert one(few).num_items == N - 10
    many = replace(whole, second=whole.second.on(whole.second.items[100:]))
    assert refusals(one(many)) == [CheckName.ITEMS]
    assert any("100 of 900 items" in reason for reason in one(many).reasons)
    control = system("shuffled", 1 / 3)
    unanswered = replace(learned(), control=control.on(control.items[100:]))
    assert refusals(one(unanswered)) == [CheckName.ITEMS]


def test_the_order_of_items_and_a_rerun_change_nothing() -> None:
    whole = beats()
    turned = replace(whole, second=whole.second.on(whole.second.items[::-1]))
    assert one(turned) == one(whole)
    assert one(learned()) == one(learned())


def test_less_is_better_is_no_claim() -> None:
    with pytest.raises(ConfigError, match="invalid_rate"):
        Beats(first=system("f", 0.5), second=system("s", 0.5), metric=Metric.INVALID_RATE)
    with pytest.raises(ConfigError, match="invalid_rate"):
        Learned(system=system("f", 0.5), metric=Metric.INVALID_RATE)


def test_the_figure_beside_chance_is_named_by_its_own_metric() -> None:
    far = {"metadata": system("metadata", 0.1), "control": system("shuffled", 0.2)}
    claim = one(replace(learned(), **far))
    assert (claim.second, claim.metric, claim.judged_on) == ("chance", Metric.BALANCED_ACCURACY, Metric.MACRO_F1)
    assert claim.value == pytest.approx(learned().system.score(Metric.BALANCED_ACCURACY) - 1 / 3)
    assert missing(claim.sentence(), "on macro_f1: ", " in balanced accuracy beside chance") == []
    near = one(learned())
    assert (near.metric, near.judged_on, near.unit) == (Metric.MACRO_F1, "", "")
    alike = one(replace(learned(), metric=Metric.BALANCED_ACCURACY, **far))
    assert (alike.value, alike.metric, alike.judged_on) == (claim.value, Metric.BALANCED_ACCURACY, "")


def test_what_is_better_gives_no_small_p_and_is_the_nearest() -> None:
    worse = replace(learned(), metadata=system("metadata", 0.9), control=system("shuffled", 0.66))
    first, second = judge_learned([worse, learned()], QUICK)
    assert (first.second, first.p_value, first.p_holm) == ("the metadata-only baseline", 1.0, 1.0)
    assert first.value < -0.2
    assert refusals(first) == [CheckName.METADATA, CheckName.CONTROL]
    assert second.p_holm == 2 * second.p_value


def test_items_that_no_seed_answered_are_left_out_too() -> None:
    for given, refused in ((N, []), (N + 47, []), (N + 48, [CheckName.ITEMS])):
        both = (replace(system, num_given=given) for system in (beats().first, beats().second))
        claim = one(replace(beats(), **dict(zip(("first", "second"), both, strict=True))))
        assert (refusals(claim), claim.num_items) == (refused, N)
    assert "48 of 948 items" in claim.reasons[0]
