"""Prompt files: what they may ask for, what they say, and that their words are their identity."""

from dataclasses import replace

import pytest
from task_cases import item, paper

from tinsmith.lab.labels.contracts import NOVELTY_TWO_KEY, Subject
from tinsmith.lab.labels.prompt_files import load_prompt, parse_sections
from tinsmith.lab.labels.task import TASKS, Task, check_prompt, make_task, messages
from tinsmith.renderers.renderer import Role
from tinsmith.types.errors import ConfigError


def test_the_brief_prompt_word_for_word() -> None:
    task = make_task("disruption", prompt="brief", contract="two_key")
    [user] = messages(task, paper())
    assert user.role is Role.USER
    assert user.content == (
        "Title: Gears of {tin}\n"
        "Abstract: We measure 12 gears with p < 0.001 and a slope of 0.5.\n"
        "Year: 1999  Citations: 17  Field: Engineering\n"
        "Return JSON only."
    )
    [bare] = messages(replace(task, with_metadata=False), paper())
    assert bare.content == (
        "Title: Gears of {tin}\n"
        "Abstract: We measure 12 gears with p < 0.001 and a slope of 0.5.\n"
        "Field: Engineering\n"
        "Return JSON only."
    )


def test_what_is_missing_is_said_to_be_unknown() -> None:
    task = make_task("disruption", prompt="brief")
    [user] = messages(task, paper(year=None, citations=0, field=None))
    assert "Year: unknown  Citations: 0  Field: unknown" in user.content


def test_each_prompt_adds_to_the_one_before() -> None:
    for name in TASKS:
        plain, ontology, checklist = (
            messages(make_task(name, prompt=prompt), paper())[0].content
            for prompt in ("plain", "ontology", "checklist")
        )
        start, answer = plain.split("\n\n")
        assert ontology.startswith(start)
        assert ontology.endswith(answer)
        assert checklist.startswith(ontology.removesuffix(answer))
        assert checklist.endswith(answer)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("hello\n# user\nx", "one section"),
        ("# user\nx\n# user\ny", "one section"),
        ("# user\n{title", "brace"),
        ("# user\n{title.__class__}", "bare name"),
        ("# user\n{title!r}", "bare name"),
        ("# user\n{title:>9}", "bare name"),
        ("# user\n{}", "bare name"),
        ("# user\n{0}", "bare name"),
        ("# user\n{cd_index}", "must not have"),
        ("# user\n{disruption_label}", "must not have"),
        ("# user\n{label_key}", "must not have"),
        ("# user_without_metadata\n{citations}", "must not have"),
        ("# system\n{title}", "must not have"),
        ("# assistant\n{title}", "one section"),
    ],
)
def test_a_broken_file_is_named(text: str, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        parse_sections(text, "made/up.md")


def test_sections_and_braces() -> None:
    sections = parse_sections("\n# system\n\na {{b}} {labels}\n\n# user\n{abstract}!\n", "x.md")
    assert sections["system"].format_map({"labels": "{abstract}"}) == "a {b} {abstract}"
    assert sections["user"].format_map({"abstract": ""}) == "!"


def test_unknown_names_and_foreign_contracts() -> None:
    with pytest.raises(ConfigError, match="plain, ontology, checklist, brief"):
        make_task("disruption", prompt="plane")
    with pytest.raises(ConfigError, match="disruption, novelty"):
        make_task("joint")
    assert Task(contract=NOVELTY_TWO_KEY).subjects == (Subject.NOVELTY,)
    with pytest.raises(ConfigError, match=r"field: prompt = '\.\./novelty/plain'"):
        load_prompt("../novelty/plain", NOVELTY_TWO_KEY, with_metadata=True)


def test_lines_stand_before_the_paper_and_are_part_of_what_the_prompt_is() -> None:
    task = make_task("disruption", prompt="checklist", contract="two_key")
    after = replace(task, prompt_lines=("Be {brief}.", "Look twice."))
    (system, user), (same, more) = messages(task, paper()), messages(after, paper())
    assert same == system
    assert more.content == f"Be {{brief}}.\nLook twice.\n{user.content}"
    turned = replace(task, prompt_lines=("Look twice.", "Be {brief}."))
    assert len({one.prompt_sha256 for one in (task, after, turned)}) == 3
    assert replace(after, prompt_lines=()).prompt_sha256 == task.prompt_sha256
    check_prompt(after, item(), messages(after, item().paper))
