"""Rubric trees: gate-then-average as it is defined, its lawsand its JSON form."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.lab.judge.tree import MAX_DEPTH, Branch, Leaf, Node, Strategy, criteria_of, evaluate, pass_rate, tree_of
from tinsmith.types.errors import DataError, InputError

NODE: dict[str, Any] = {
    "type": "object",
    "oneOf": [
        {
            "properties": {"criterion": {"type": "string", "pattern": r"\S"}, "critical": {"type": "boolean"}},
            "required": ["criterion"],
            "additionalProperties": False,
        },
        {
            "properties": {
                "name": {"type": "string"},
                "strategy": {"enum": [strategy.value for strategy in Strategy]},
                "critical": {"type": "boolean"},
                "children": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["children"],
            "additionalProperties": False,
        },
    ],
    "if": {"properties": {"critical": {"const": True}}, "required": ["critical"]},
    "then": {
        "properties": {"children": {"items": {"properties": {"critical": {"const": True}}, "required": ["critical"]}}}
    },
}
TREE_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "rubric tree",
    "$defs": {"node": NODE},
    "$ref": "#/$defs/node",
}
"""The JSON form of a tree. `tree_of` takes what it takes, up to MAX_DEPTH levels."""


def critical(node: Node) -> Node:
    """The node with everything below it critical."""
    if isinstance(node, Leaf):
        return Leaf(criterion=node.criterion, critical=True)
    children = tuple(map(critical, node.children))
    return Branch(name=node.name, children=children, strategy=node.strategy, critical=True)


LEAVES: st.SearchStrategy[Node] = st.builds(Leaf, criterion=st.sampled_from("abc"), critical=st.booleans())


def branches(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    soft = st.builds(
        Branch,
        name=st.sampled_from("xyz"),
        children=st.lists(nodes, min_size=1, max_size=4).map(tuple),
        strategy=st.sampled_from(Strategy),
    )
    return st.one_of(soft, soft.map(critical))


TREES = st.recursive(LEAVES, branches, max_leaves=12)


@st.composite
def judged(draw: st.DrawFn) -> tuple[Node, list[bool]]:
    tree = draw(TREES)
    count = len(criteria_of(tree))
    return tree, draw(st.lists(st.booleans(), min_size=count, max_size=count))


def flat(*criteria: str) -> Branch:
    """Return soft leaves side by side."""
    return Branch(name="", children=tuple(Leaf(criterion=one) for one in criteria))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_flat_tree_is_the_pass_rate_exactly(verdicts: list[bool]) -> None:
    score = evaluate(flat(*["c"] * len(verdicts)), verdicts)
    assert score == pass_rate(verdicts) == sum(verdicts) / len(verdicts)


@given(judged(), st.data())
def test_one_more_leaf_that_holds_never_costs(case: tuple[Node, list[bool]], data: st.DataObject) -> None:
    tree, verdicts = case
    place = data.draw(st.integers(0, len(verdicts) - 1))
    low, high = verdicts[:], verdicts[:]
    low[place], high[place] = False, True
    assert evaluate(tree, low) <= evaluate(tree, high)


@given(judged())
def test_scores_lie_between_0_and_1_and_all_or_nothing_is_1_or_0(case: tuple[Node, list[bool]]) -> None:
    tree, verdicts = case
    found = evaluate(tree, verdicts)
    assert 0 <= found <= 1
    assert evaluate(tree, [True] * len(verdicts)) == 1
    assert evaluate(tree, [False] * len(verdicts)) == 0


@given(judged(), judged())
def test_a_critical_child_below_1_closes_the_gate_and_a_failed_step_ends_a_sequence(
    first: tuple[Node, list[bool]], second: tuple[Node, list[bool]]
) -> None:
    (gate, verdicts), (node, others) = first, second
    whole = evaluate(Branch(name="", children=(critical(gate), node)), [*verdicts, *others])
    assert whole == 0 or evaluate(gate, verdicts) == 1
    steps = Branch(name="", children=(gate, node), strategy=Strategy.SEQUENTIAL)
    if not gate.critical and evaluate(gate, verdicts) < 1:
        assert evaluate(steps, [*verdicts, *others]) <= evaluate(gate, verdicts) / 2


@given(st.lists(st.tuples(judged(), st.booleans()), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_parallel_children_is_no_matter(
    cases: list[tuple[tuple[Node, list[bool]], bool]], random: Any
) -> None:
    def score(parts: list[tuple[Node, list[bool]]]) -> float:
        tree = Branch(name="", children=tuple(node for node, _ in parts))
        return evaluate(tree, [one for _, verdicts in parts for one in verdicts])

    parts = [(critical(node) if gate else node, verdicts) for (node, verdicts), gate in cases]
    before = score(parts)
    random.shuffle(parts)
    assert score(parts) == before


def test_a_sequence_counts_what_came_before_the_first_failure() -> None:
    tree = Branch(name="steps", strategy=Strategy.SEQUENTIAL, children=tuple(Leaf(criterion=one) for one in "abcd"))
    found = evaluate(tree, [True, True, False, True])
    assert found == 0.5


def test_critical_children_alone_make_1_and_stand_outside_the_mean() -> None:
    gate = Leaf(criterion="gate", critical=True)
    assert evaluate(Branch(name="", children=(gate,)), [True]) == 1
    tree = Branch(name="", children=(gate, Leaf(criterion="a"), Leaf(criterion="b")))
    assert evaluate(tree, [True, True, False]) == 0.5
    closed = evaluate(tree, [False, True, True])
    assert closed == 0


def test_easy_leaves_raise_the_flat_rate_but_not_the_gated_score() -> None:
    hard, easy = Leaf(criterion="hard", critical=True), Leaf(criterion="easy")
    rates = [pass_rate([False] + [True] * many) for many in (1, 5, 20)]
    gated = [evaluate(Branch(name="", children=(hard, *[easy] * many)), [False] + [True] * many) for many in (1, 5, 20)]
    assert rates == sorted(set(rates))
    assert gated == [0, 0, 0]


def as_json(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"criterion": node.criterion, "critical": node.critical}
    children = [as_json(child) for child in node.children]
    return {"name": node.name, "strategy": node.strategy.value, "critical": node.critical, "children": children}


@given(TREES)
def test_a_tree_comes_back_from_its_json_and_the_schema_takes_it(tree: Node) -> None:
    assert tree_of(as_json(tree)) == tree
    jsonschema.validate(as_json(tree), TREE_SCHEMA)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (3, "rubric_tree"),
        ({}, "rubric_tree.children"),
        ({"children": []}, "rubric_tree.children"),
        ({"criterion": " "}, "rubric_tree.criterion"),
        ({"criterion": "a", "weight": 2}, "rubric_tree"),
        ({"criterion": "a", "children": [{"criterion": "b"}]}, "rubric_tree"),
        ({"criterion": "a", "critical": 1}, "rubric_tree.critical"),
        ({"children": [{"criterion": "a"}], "strategy": "any"}, "rubric_tree.strategy"),
        ({"children": [{"criterion": "a"}], "name": 3}, "rubric_tree.name"),
        ({"children": [{"criterion": "a"}, {}]}, "rubric_tree.children[1].children"),
        ({"children": [{"criterion": "a"}], "critical": True}, "rubric_tree.children[0]"),
    ],
)
def test_what_is_no_tree_is_refused_by_reader_and_schema(value: Any, field: str) -> None:
    with pytest.raises(DataError) as caught:
        tree_of(value)
    assert caught.value.field == field
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, TREE_SCHEMA)


def test_depth_and_number_of_verdicts_are_checked() -> None:
    value: dict[str, Any] = {"criterion": "a"}
    for _ in range(MAX_DEPTH - 1):
        value = {"children": [value]}
    assert evaluate(tree_of(value), [True]) == 1
    with pytest.raises(DataError, match="levels"):
        tree_of({"children": [value]})
    with pytest.raises(InputError, match="verdict"):
        evaluate(flat("a", "b"), [True])
    with pytest.raises(InputError):
        pass_rate([])
