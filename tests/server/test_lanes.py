"""Order of numbered requests, whatever order they arrive in, and numbers that never come."""

from tinsmith.server.lanes import Job, Lane


def _named(done: list[str], name: str) -> Job:
    return lambda: done.append(name)


def _run(jobs: list[Job]) -> None:
    for job in jobs:
        job()


def test_numbers_run_in_order_however_they_arrive() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (3, 2, 1, 5, 4):
        _run(lane.add(seq, _named(done, str(seq))))
    assert done == ["1", "2", "3", "4", "5"]


def test_a_repeated_number_runs_once() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (2, 2, 1, 1, 2):
        _run(lane.add(seq, _named(done, str(seq))))
    assert done == ["1", "2"]


def test_a_refused_number_is_counted() -> None:
    done: list[str] = []
    lane = Lane(1)
    _run(lane.add(2, _named(done, "2")))
    assert done == []
    _run(lane.skip(1))
    assert done == ["2"]


def test_a_closed_gap_goes_on_from_the_lowest_that_waits() -> None:
    done: list[str] = []
    lane = Lane(1)
    for seq in (5, 3):
        _run(lane.add(seq, _named(done, str(seq))))
    _run(lane.close_gap())
    assert (done, lane.next_seq) == (["3"], 4)


def test_giving_up_drops_what_waits_and_goes_on_after_it() -> None:
    done: list[str] = []
    lane = Lane(2)
    for seq in (5, 3):
        _run(lane.add(seq, _named(done, str(seq))))
    assert [seq for seq, _ in lane.give_up()] == [3, 5]
    _run(lane.add(2, _named(done, "2")))
    _run(lane.add(6, _named(done, "6")))
    assert done == ["6"]


def test_an_excused_number_that_is_given_up_is_excused_no_more() -> None:
    lane = Lane(1)
    assert lane.excuse(2) == []
    lane.give_up()
    assert (lane.excused, lane.add(2, list)) == (set(), [])


def test_giving_up_with_nothing_waiting_changes_nothing() -> None:
    lane = Lane(7)
    assert lane.give_up() == []
    assert lane.next_seq == 7
