"""Words of the scripted challenger, and those no challenger may say."""

import math

import pytest
from debate_cases import ABSTRACT, BRIEF, PLAIN, TASK, C, D, N, answer, heard, item, items, only

from tinsmith.lab.labels.task import Paper
from tinsmith.studies.debate.challenge import (
    WORLD_CUES,
    Arm,
    Cue,
    Cues,
    Script,
    Stance,
    arguable,
    check_challenge,
    learned_cues,
    load_script,
    pieces_of,
    quotes,
)
from tinsmith.types.errors import ConfigError, DataError

TRUTHFUL, MISLEADING = only(Arm.TRUTHFUL), only(Arm.MISLEADING)


def test_a_truthful_challenger_quotes_what_speaks_for_gold() -> None:
    for first in (answer(D), answer(C), "{}"):  # also where the answer has the gold label
        words = heard(item(D), TRUTHFUL, first)
        assert words.stance.label == D
        assert words.stance.grounded is True
        assert '"We introduce a new class of gears for"' in words.text
    assert '"We extend earlier work on oil in mills"' in heard(item(C), TRUTHFUL).text


def test_a_misleading_challenger_has_no_such_words() -> None:
    for seed in range(20):
        sentence = heard(item(N), MISLEADING, seed=seed)
        assert sentence.stance.label in (D, C)
        assert sentence.stance.grounded is False
        quote = sentence.text.split('"')[1]
        assert quote in ABSTRACT
        assert WORLD_CUES.support(quote)[sentence.stance.label] <= 0


def test_where_nothing_speaks_for_gold_both_quote_alike() -> None:
    truthful = {heard(item(N), TRUTHFUL, seed=seed).text.split('"')[1] for seed in range(40)}
    assert heard(item(N), TRUTHFUL).stance.grounded is False
    heads = {piece.text for piece in pieces_of(ABSTRACT) if piece.place == 0}
    assert truthful == heads  # quotes stand where cues stand, at the head of a sentence


def test_the_form_does_not_depend_on_the_arm_or_the_answer() -> None:
    texts: dict[Arm, set[str]] = {}
    for arm in (Arm.TRUTHFUL, Arm.MISLEADING):
        found = [heard(one, only(arm), answer(D), seed=3) for one in items(60)]
        texts[arm] = {said.text.replace(str(said.stance.label), "L").split('"')[0] for said in found}
    assert texts[Arm.TRUTHFUL] == texts[Arm.MISLEADING] == {"I say L. It says: ", "My label is L. Read: "}


def test_without_evidence_only_the_label_is_named() -> None:
    said = heard(item(C), only(Arm.TRUTHFUL, evidence=0.0))
    assert said.text in (f"I say {C}.", f"My label is {C}.")
    assert not said.stance.with_evidence
    assert said.stance.grounded is None
    assert heard(item(C), only(Arm.NULL)).text in ("Are you sure?", "Is it so?")


def test_papers_a_truthful_challenger_can_argue_about() -> None:
    some = [*items(3), item(D, id="W9", abstract="Gears turn.")]
    assert [one.gold for one in arguable(some)] == [D, C]
    assert all(heard(one, TRUTHFUL).stance.grounded for one in arguable(some))


def test_nothing_to_quote_is_no_evidence() -> None:
    said = heard(item(D, abstract="", title=""), TRUTHFUL)
    assert not said.stance.with_evidence
    assert '"' not in said.text
    assert '"Gears of tin"' in heard(item(D, abstract=""), MISLEADING).text


@pytest.mark.parametrize("script", [BRIEF, PLAIN])
@pytest.mark.parametrize("arm", list(Arm))
def test_challenges_are_short(script: Script, arm: Arm) -> None:
    for seed in range(10):
        said = heard(item(D), only(arm), seed=seed, script=script)
        assert len(said.text.split()) <= 25
        assert said == heard(item(D), only(arm), seed=seed, script=script)


def test_what_a_model_is_asked_does_not_say_which_arm_it_is() -> None:
    requests = {
        PLAIN.request(Stance(arm=arm, label=C, with_evidence=True), item(D).paper, "{x}").content
        for arm in (Arm.TRUTHFUL, Arm.MISLEADING)
    }
    [text] = requests
    assert f"the label is {C}" in text
    assert "Their answer: {x}" in text
    bare = PLAIN.request(Stance(arm=Arm.TRUTHFUL, label=C, with_evidence=False), item(D).paper, "")
    assert "quote nothing" in bare.content
    null = PLAIN.request(Stance(arm=Arm.NULL, label=None, with_evidence=False), item(D).paper, "")
    assert not any(label in null.content for label in (D, C, N))
    with pytest.raises(ConfigError, match="field: script = 'brief'"):
        BRIEF.request(Stance(arm=Arm.NULL, label=None, with_evidence=False), item(D).paper, "")
    with pytest.raises(ConfigError, match="field: script = 'long'"):
        load_script("long")


ARGUES = {
    arm: Stance(arm=arm, label=label, with_evidence=True)
    for arm, label in ((Arm.TRUTHFUL, D), (Arm.MISLEADING, C), (Arm.NULL, None))
}


@pytest.mark.parametrize(
    ("arm", "text"),
    [
        (Arm.TRUTHFUL, "It is disruptive, not neutral."),  # the label it argues for, and the answer's
        (Arm.MISLEADING, 'Consolidating: "We extend earlier  work on oil".'),
        (Arm.NULL, "Are you sure that it is neutral?"),
        (Arm.TRUTHFUL, "No index of 0.5 is a score."),
    ],
)
def test_a_challenge_that_may_pass(arm: Arm, text: str) -> None:
    check_challenge(item(D), N, ARGUES[arm], text, TASK.labels)


@pytest.mark.parametrize(
    ("arm", "text", "found"),
    [
        (Arm.MISLEADING, "It is consolidating, not disruptive.", "disruptive"),  # names gold
        (Arm.MISLEADING, 'I read "it is disruptive".', "disruptive"),  # no words of the record
        (Arm.NULL, "Are you sure? I say Disruptive.", "disruptive"),
        (Arm.TRUTHFUL, "Not consolidating.", "consolidating"),
        (Arm.TRUTHFUL, "Its score is 0.0213471.", "0.0213471"),
        (Arm.TRUTHFUL, "cd_index", "cd_index"),
        (Arm.NULL, "The disruption_label?", "disruption_label"),
    ],
)
def test_a_challenge_that_says_too_much(arm: Arm, text: str, found: str) -> None:
    with pytest.raises(DataError) as caught:
        check_challenge(item(D), N, ARGUES[arm], text, TASK.labels)
    assert repr(found) in str(caught.value)
    assert "W1" in str(caught.value)


def test_words_of_the_record_may_hold_any_label() -> None:
    seen = item(D, abstract="A disruptive gear turns.")
    check_challenge(seen, None, ARGUES[Arm.NULL], 'What of "A disruptive gear"?', TASK.labels)


def test_pieces_of_a_text() -> None:
    text = 'One two three four five six seven eight nine ten eleven. Short. He says "no" here. A b c d e f g h i.'
    assert [(piece.text, piece.place) for piece in pieces_of(text)] == [
        ("One two three four five six seven eight", 0),
        ("nine ten eleven", 1),
        ("Short", 0),
        ("A b c d e f g h", 0),
    ]
    assert pieces_of(" ") == []


def test_support_is_what_the_other_labels_do_not_have() -> None:
    cues = Cues({"x": (Cue(("red", "oak"), 2.0),), "y": (Cue(("oak",), 0.5), Cue(("elm",)))})
    assert cues.support("A red Oak, and an elm") == {"x": 0.5, "y": -0.5}
    assert cues.support("red, red") == {"x": 0.0, "y": 0.0}
    with pytest.raises(ConfigError, match=r"field: cues\.x = ''"):
        Cues({"x": (Cue(()),)})


def test_cues_can_be_learnt() -> None:
    texts = {D: "mill mill gear", C: "tower gear", N: "night gear"}
    some = [one for one in items(30)]
    papers = [item(one.gold, id=one.paper.id, abstract=texts[one.gold]) for one in some]
    cues = learned_cues(papers, (D, C, N))
    assert [[cue.words for cue in cues.by_label[label]] for label in (D, C, N)] == [
        [("mill",)],
        [("tower",)],
        [("night",)],
    ]
    assert cues == learned_cues(papers[::-1], (D, C, N))
    odds = math.log(10.5 / 0.5) - math.log(0.5 / 20.5)
    assert cues.by_label[D][0].weight == pytest.approx(odds, rel=1e-14)
    with pytest.raises(DataError, match="every label"):
        learned_cues([one for one in papers if one.gold != N], (D, C, N))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [('See "a new\nclass".', True), ('See "words that stand nowhere".', False), ("I doubt it.", False), ('"" ', False)],
)
def test_a_challenge_quotes_where_words_of_the_paper_stand_in_quotes(text: str, quoted: bool) -> None:
    assert quotes(Paper(id="W1", title="Gears", abstract="We show a new class of gears."), text) is quoted
