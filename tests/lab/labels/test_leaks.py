"""The leak check: a planted leak of every kind stops the run, and honest papers pass."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_cases import item, paper

from cpu_limit import guarded
from tinsmith.lab.labels.task import TASKS, Item, check_prompt, check_text, messages, prompt_messages
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import DataError

TASK = TASKS["disruption"]


def planted(text: str) -> Item:
    return item(abstract=f"We measure gears. {text} They turn.")


@pytest.mark.parametrize("marker", ["cd_index 0.02", "Novelty Score: 0.5", "disruption_label: neutral"])
@pytest.mark.parametrize("where", ["title", "abstract", "field"])
def test_a_score_or_label_in_the_papers_text_names_the_paper_and_the_way_out(marker: str, where: str) -> None:
    leaky = item(**{where: f"Gears {marker}"})
    with pytest.raises(DataError) as caught:
        check_prompt(TASK, leaky, messages(TASK, leaky.paper))
    assert "W1" in str(caught.value)
    assert marker in str(caught.value)
    assert "--leave-out FILE" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cd index = 0.02",
        "cd index = 0.021",
        "A CD index of 0.0213",
        "disruption index is .021",
        "CD-Index (-.02)",
        "NOVELTY SCORE: 0.5",
        "novelty_score=.500",
        "conventionality score 0.001",
        "'cd_index': 2.13e-2",
        "disruption_label: neutral",
        '"Disruption label" is "Neutral"',
        "0.0213471",  # the score of the item
        "-0.021347",  # rounded, with a sign
        ".0213471",
        "(2.13471e-02)",
        "index=0.02134710",
    ],
)
def test_a_score_in_the_papers_text_however_written(text: str) -> None:
    leaky = planted(text)
    with pytest.raises(DataError, match="field: paper W1 = "):
        check_prompt(TASK, leaky, messages(TASK, leaky.paper))


@pytest.mark.parametrize(
    "text",
    [
        "A disruptive, consolidating or neutral novel balance.",
        "We study the CD index and a novelty score of journals.",
        "p = 0.001, and 0.021 of 0.5 is 50.0 %.",  # few digits meet by chance
        "0.0213472",  # another number
        "W0.0213471 and 1.0.0213471",  # a part of a name, a version
        "In 1999, 17 of 21347 gears broke.",
        "We compute the CD index 5 years after publication.",
        "The CD index: a measure of 1 year.",
        "A novelty score (2 variants), a novelty score of 0.8, NOVELTY SCORE: 1.",
        "cd_index, novelty_score and conventionality_score are columns.",
        "CD index = 0.03, CD index 0.0, cd index 0.00.",
        "The disruption_label is one of three; disruption label: disruptive.",
        "Reviews labelled neutral; label: neutral.",
    ],
)
def test_honest_texts_pass(text: str) -> None:
    honest = planted(text)
    check_prompt(TASK, honest, messages(TASK, honest.paper))


def test_a_whole_number_is_a_score_behind_a_colon_only() -> None:
    for text, leaks in (("CD index: 1", True), ("cd_index=1", True), ("CD index 1 year later", False)):
        one = replace(planted(text), hidden=(1.0,))
        if leaks:
            with pytest.raises(DataError):
                check_text(one, text)
        else:
            check_text(one, text)


@pytest.mark.parametrize("caption", ["", '"cd_index": '])
def test_a_score_in_full_precision_is_a_leak_however_small(caption: str) -> None:
    scores = [0.00033535013046647816]  # of every paper whose z_p10 is 8 or more
    pairs = [(k, n) for n in range(1, 9000, 7) for k in (1, -(n // 3), n // 100) if abs(k / n) >= 1e-4]
    scores += [k / n for k, n in pairs]
    for score in scores:
        if caption or len(f"{abs(score)!r}".replace(".", "").strip("0")) >= 5:
            with pytest.raises(DataError):
                check_text(replace(item(), hidden=(score,)), f"was {caption}{score!r} in")


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("addition", ["\nLabel: neutral", " ", "\nThe answer is not disruptive."])
def test_words_that_are_neither_the_files_nor_the_papers(position: int, addition: str) -> None:
    honest = item()
    prompt = list(messages(TASK, honest.paper))
    prompt[position] = replace(prompt[position], content=prompt[position].content + addition)
    with pytest.raises(DataError, match="field: paper W1 = ") as caught:
        check_prompt(TASK, honest, prompt)
    assert repr(addition) in str(caught.value)


def test_messages_too_many_too_few_or_by_another() -> None:
    honest = item()
    system, user = messages(TASK, honest.paper)
    hint = Message(role=Role.ASSISTANT, content="{")
    for wrong in ([user], [system], [system, user, hint], [user, system], []):
        with pytest.raises(DataError):
            check_prompt(TASK, honest, wrong)


def test_another_papers_prompt_is_a_leak_too() -> None:
    with pytest.raises(DataError):
        check_prompt(TASK, item(), messages(TASK, paper(title="Another")))


def run(items: Sequence[Item]) -> list[str]:
    """A run as a loop would do it: what is returned was sent to a model."""
    sent: list[str] = []
    for one in items:
        prompt = prompt_messages(TASK, one)
        sent.append(prompt[-1].content)
    return sent


def test_one_planted_leak_stops_the_run_before_anything_of_it_is_sent() -> None:
    honest = [item(id=f"W{n}") for n in range(3)]
    assert len(run(honest)) == 3
    leaky = replace(planted("Its cd_index is 0.02."), golds=("disruptive",))
    with pytest.raises(DataError, match=r"field: paper W1 = 'cd_index is 0\.02'"):
        run([*honest, leaky])


# Any words without digits, captions and keys, which alone can be a leak.
WORDS = st.text(st.characters(exclude_categories=("Cs", "Nd"), exclude_characters="_:"))


@given(WORDS, WORDS, st.sampled_from(["disruptive", "consolidating", "neutral"]))
def test_the_prompt_does_not_depend_on_gold_and_passes(title: str, text: str, gold: str) -> None:
    one = Item(paper=paper(title=title, abstract=text), golds=(gold,))
    check_prompt(TASK, one, messages(TASK, one.paper))


def test_long_texts_take_linear_time() -> None:
    long = "0." * 400_000 + "1" * 400_000 + "cd index " * 40_000 + "cd" * 200_000
    with guarded():
        check_text(item(), long)
        with pytest.raises(DataError):
            check_text(item(), f"{long} cd_index 0.0213")
