"""Who does what: nothing is lost or done twice, and what takes workers down is given up after the second."""

import itertools
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tinsmith.engine.cluster.schedule import Assignment, Given, Item, Limits, Scheduler, WorkKind

SAMPLE, GRADIENT = WorkKind.SAMPLE, WorkKind.GRADIENT


def sample(id: str, size: int = 100, owner: str = "") -> Item:
    return Item(id=id, kind=SAMPLE, size=size, owner=owner)


def gradient(id: str, size: int = 100) -> Item:
    return Item(id=id, kind=GRADIENT, size=size)


def scheduler(workers: Iterable[str], *items: Item, **limits: float) -> Scheduler:
    made = Scheduler(Limits(**limits))  # type: ignore[arg-type]
    for worker in workers:
        made.join(worker)
    for item in items:
        made.add(item)
    return made


def sent(assignments: Iterable[Assignment]) -> dict[str, list[str]]:
    by_worker: dict[str, list[str]] = {}
    for each in assignments:
        by_worker.setdefault(each.worker, []).append(each.id)
    return by_worker


def test_samples_go_to_the_least_loaded_and_ties_by_name() -> None:
    it = scheduler("ba", sample("1", 50), sample("2", 70), sample("3"), sample("4", 10))
    assert sent(it.assign(0)) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_worker_has_no_more_samples_than_its_room_so_that_who_joins_late_has_a_share() -> None:
    it = scheduler("a", *(sample(str(i)) for i in range(5)), samples=200)
    assert sent(it.assign(0)) == {"a": ["0", "1"]}
    it.join("b")
    assert sent(it.assign(1)) == {"b": ["2", "3"]}
    assert it.waiting == ("4",)
    assert it.under_way == {"a": ("0", "1"), "b": ("2", "3")}


def test_a_sample_larger_than_the_room_goes_to_a_worker_without_any() -> None:
    it = scheduler("a", sample("large", 1000), sample("small", 1), samples=200)
    assert sent(it.assign(0)) == {"a": ["large"]}
    assert it.done("a", "large") == []
    assert sent(it.assign(1)) == {"a": ["small"]}


def test_samples_of_owners_go_in_turn_each_owners_in_order() -> None:
    it = scheduler("a", *(sample(f"many{i}", owner="many") for i in range(5)), samples=200)
    assert sent(it.assign(0)) == {"a": ["many0", "many1"]}
    it.add(sample("few0", owner="few"))
    it.add(sample("few1", owner="few"))
    it.add(sample("one", owner="one"))
    order: list[str] = []
    while works := it.under_way["a"]:
        assert it.done("a", works[0]) == []
        order += [each.id for each in it.assign(1)]
    assert order == ["many2", "few0", "one", "many3", "few1", "many4"]


def test_a_cancelled_sample_takes_no_turn() -> None:
    it = scheduler("", *(sample(f"many{i}", owner="many") for i in range(3)), sample("few", owner="few"))
    assert it.cancel("many0") == []
    assert it.cancel("few") == []
    it.add(sample("again", owner="few"))
    it.join("a")
    assert sent(it.assign(0)) == {"a": ["many1", "again", "many2"]}


def test_gradients_go_one_at_a_time_and_one_ahead_the_largest_first() -> None:
    it = scheduler("ab", *(gradient(str(size), size) for size in (1, 3, 5, 2, 4)))
    assert sent(it.assign(0)) == {"a": ["5", "3"], "b": ["4", "2"]}
    assert it.done("b", "4") == []
    assert sent(it.assign(1)) == {"b": ["1"]}


def test_a_small_gradient_is_not_passed_over_for_ever() -> None:
    it = scheduler("a", gradient("small", 1), ahead=0, passed_over=3)
    given: list[str] = []
    for i in range(6):
        it.add(gradient(str(i), 100))
        given += [each.id for each in it.assign(i)]
        it.done("a", given[-1])
    assert given.index("small") == 3 or given == ["small"]


def test_neither_kind_keeps_the_other_from_being_sent() -> None:
    it = scheduler("a", *(sample(f"s{i}") for i in range(9)), *(gradient(f"g{i}") for i in range(9)))
    assert sorted(sent(it.assign(0))["a"])[:2] == ["g0", "g1"]
    assert any(id.startswith("s") for id in it.under_way["a"])


def test_lost_works_wait_in_their_old_place_and_go_to_others_alone() -> None:
    it = scheduler("ab", *(sample(str(i)) for i in range(4)), samples=200)
    assert sent(it.assign(0)) == {"a": ["0", "2"], "b": ["1", "3"]}
    it.add(sample("4"))
    assert it.lose("a", "killed") == []
    assert it.waiting == ("0", "2", "4")
    assert it.assign(1) == []  # b is emptied
    assert it.done("b", "1") == []
    assert it.assign(2) == []
    assert it.done("b", "3") == []
    assert sent(it.assign(3)) == {"b": ["0"]}
    assert it.done("b", "0") == []
    assert sent(it.assign(4)) == {"b": ["2"]}
    assert it.done("b", "2") == []
    assert sent(it.assign(5)) == {"b": ["4"]}
    assert it.retries == 2


def test_what_takes_two_workers_down_is_given_up_with_both_causes() -> None:
    it = scheduler("abc", sample("poison"))
    assert sent(it.assign(0)) == {"a": ["poison"]}
    assert it.lose("a", "first") == []
    assert sent(it.assign(1)) == {"b": ["poison"]}
    assert it.lose("b", "second") == [Given("poison", ("first", "second"))]
    assert it.assign(2) == []
    assert it.waiting == ()
    assert it.done("b", "poison") is None


def test_a_worker_that_left_blames_nobody() -> None:
    it = scheduler("a", sample("1"), sample("2"), gradient("3", 5), gradient("4", 6))
    it.assign(0)
    assert it.lose("a", "told to leave", blame=False) == []
    assert it.waiting == ("1", "2", "3", "4")
    it.join("b")
    assert sent(it.assign(1)) == {"b": ["1", "2", "4", "3"]}


def test_a_result_counts_once_also_from_a_worker_that_was_lost() -> None:
    it = scheduler("ab", sample("1"))
    it.assign(0)
    it.lose("a", "hung")
    assert sent(it.assign(1)) == {"b": ["1"]}
    assert it.done("a", "1") == ["b"]
    assert it.done("b", "1") is None


def test_what_is_cancelled_is_told_to_its_workers_and_not_sent() -> None:
    it = scheduler("a", sample("1"), sample("2"), samples=100)
    it.assign(0)
    assert it.cancel("1") == ["a"]
    assert it.cancel("2") == []
    assert it.cancel("2") == []
    assert it.assign(1) == []
    assert it.done("a", "1") is None


def test_an_id_is_one_work() -> None:
    it = scheduler("a", sample("1"))
    with pytest.raises(ValueError, match="1"):
        it.add(gradient("1"))


def test_what_takes_long_is_given_to_an_idle_worker_too_and_the_first_one_counts() -> None:
    it = scheduler("abc", *(sample(id) for id in "123"), late=1.5)
    it.assign(0)
    it.done("a", "1")
    it.done("b", "2")
    assert it.assign(10) == []
    assert it.assign(15) == []  # not over 1.5 times what is usual
    assert sent(it.assign(16)) == {"b": ["3"]}  # nothing is known of a yet
    assert it.copies == 1
    assert it.done("b", "3") == ["c"]
    assert it.done("c", "3") is None


def test_a_gradient_that_is_not_begun_is_given_to_an_idle_worker_too() -> None:
    it = scheduler("ab", *(gradient(id) for id in "123"))
    assert sent(it.assign(0)) == {"a": ["1", "3"], "b": ["2"]}
    it.done("b", "2")
    assert sent(it.assign(1)) == {"b": ["3"]}


def test_nothing_is_put_beside_a_copy() -> None:
    it = scheduler("ab", *(gradient(id) for id in "123"))
    it.assign(0)
    it.done("b", "2")
    it.assign(1)
    it.add(sample("4"))
    assert sent(it.assign(2)) == {"a": ["4"]}


def test_a_slow_worker_is_given_less() -> None:
    it = scheduler("abc", *(gradient(id) for id in "123"), samples=1000, late=10.0)
    it.assign(0)
    for name, seconds in (("a", 10), ("b", 11), ("c", 40)):
        it.done(name, it.under_way[name][0])
        it.assign(seconds)
    assert it.paces.slowness("a") == it.paces.slowness("b") == 1
    assert it.paces.slowness("c") > 1.5
    for i in range(30):
        it.add(sample(f"x{i}"))
    shares = {name: len(ids) for name, ids in sent(it.assign(1000)).items()}
    assert shares["a"] == shares["b"] == 10
    assert shares.get("c", 0) <= 6


class Cluster(RuleBasedStateMachine):
    """A scheduler among workers that come, go and are told to drop what others ended."""

    def __init__(self) -> None:
        super().__init__()
        self.it = Scheduler(Limits(samples=300, late=1.0, passed_over=2))
        self.now = 0.0
        self.numbers = itertools.count()
        self.here: dict[str, list[str]] = {}
        self.added: set[str] = set()
        self.ended: set[str] = set()
        self.losses: Counter[str] = Counter()
        self.alone: set[str] = set()

    @rule(size=st.integers(1, 400), kind=st.sampled_from(WorkKind), owner=st.sampled_from("abc"))
    def add(self, size: int, kind: WorkKind, owner: str) -> None:
        id = f"w{next(self.numbers)}"
        self.added.add(id)
        self.it.add(Item(id=id, kind=kind, size=size, owner=owner if kind is SAMPLE else ""))

    @rule()
    def join(self) -> None:
        name = f"n{next(self.numbers)}"
        self.here[name] = []
        self.it.join(name)

    @precondition(lambda self: self.here)
    @rule(data=st.data(), blame=st.booleans())
    def lose(self, data: st.DataObject, blame: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.here)))
        works = self.here.pop(name)
        if not blame:
            assert self.it.lose(name, name, blame=False) == []
            return
        given = self.it.lose(name, name)
        for id in works:
            self.losses[id] += 1
            if len(works) == 1:
                self.alone.add(id)
        assert {each.id for each in given} == {id for id in works if self.losses[id] == 2}
        for each in given:
            assert len(each.lost) == 2
            assert each.id in self.alone
            self.end(each.id)

    @precondition(lambda self: any(self.here.values()))
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, works in self.here.items() if works)))
        id = data.draw(st.sampled_from(self.here[name]))
        others = self.it.done(name, id)
        assert others == sorted(n for n, works in self.here.items() if n != name and id in works)
        self.end(id)
        assert self.it.done(name, id) is None

    @precondition(lambda self: self.added - self.ended)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.added - self.ended)))
        assert self.it.cancel(id) == sorted(n for n, works in self.here.items() if id in works)
        self.end(id)

    @rule(seconds=st.integers(0, 20))
    def assign(self, seconds: int) -> None:
        self.now += seconds
        for each in self.it.assign(self.now):
            assert each.id in self.added - self.ended
            beside = self.here[each.worker]
            if self.losses[each.id] or any(each.id in works for works in self.here.values()):
                assert beside == []
            assert not any(self.losses[id] for id in beside)
            beside.append(each.id)
        fast = [name for name in self.here if self.it.paces.slowness(name) == 1]
        if any(not self.here[name] for name in fast or self.here):
            assert self.it.waiting == ()

    @invariant()
    def every_work_waits_or_is_under_way(self) -> None:
        everywhere = Counter(id for works in self.here.values() for id in works)
        assert self.it.under_way == {name: tuple(self.here[name]) for name in sorted(self.here)}
        assert set(self.it.waiting) | set(everywhere) == self.added - self.ended
        assert not set(self.it.waiting) & set(everywhere)
        assert all(count <= 2 for count in everywhere.values())
        assert all(count <= 2 for count in self.losses.values())

    def end(self, id: str) -> None:
        self.ended.add(id)
        for works in self.here.values():
            if id in works:
                works.remove(id)

    def teardown(self) -> None:
        """With one worker left that is never lost, every work ends."""
        self.join()
        last = list(self.here)[-1]
        for name in sorted(set(self.here) - {last}):
            for id in self.here.pop(name):
                self.losses[id] += 1
            for each in self.it.lose(name, "gone"):
                self.end(each.id)
        while self.added - self.ended:
            self.assign(1)
            id = self.here[last][0]
            self.it.done(last, id)
            self.end(id)


TestCluster = Cluster.TestCase
TestCluster.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
