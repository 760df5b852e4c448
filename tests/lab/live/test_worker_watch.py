"""News of a server's workers: how many there are, and each that is lost or joins, once."""

import io
import threading
from collections.abc import Mapping

import pytest

from command_line import Terminal
from tinsmith.lab.live.progress import Standing
from tinsmith.lab.live.teller import Teller
from tinsmith.lab.service.workers import Workers, read_workers, watch_workers


def worker(name: str, *, lost: str | None = None, node: str = "one") -> Mapping[str, object]:
    figures = {"threads": 1, "under_way": 3, "done": 17}
    return {"name": name, "node": node, "alive": lost is None, "lost": lost, **figures}


def answer(*workers: Mapping[str, object], **more: object) -> Workers | None:
    figures = {"retries": 2, "waiting": 5, "tokens_per_second": 812.0, "dashboard": None}
    return read_workers({"workers": workers, **figures, **more})


class Ended(threading.Event):
    """An event that nobody waits for, and that is set when all answers were given."""

    def __init__(self, answers: list[Workers | None]) -> None:
        super().__init__()
        self.left = answers

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        if not self.left:
            self.set()
        return self.is_set()


def watched(*answers: Workers | None) -> tuple[list[str], list[str]]:
    """Return the lines that stay and those shown in place for these answers, one after the other."""
    lines, shown, left = list[str](), list[str](), list(answers)
    watch_workers(lambda: left.pop(0), lines.append, shown.append, Ended(left))
    return lines, shown


@pytest.mark.parametrize(
    "nothing", [None, {}, [], {"workers": []}, {"detail": "Not Found"}, {"workers": [{"name": "a"}]}, "?"]
)
def test_a_server_that_tells_of_no_workers_is_asked_once(nothing: object) -> None:
    assert watched(read_workers(nothing), answer(worker("a"))) == ([], [])


def test_what_is_new_in_an_answer_is_no_hindrance() -> None:
    found = answer({**worker("a"), "memory": 7}, gpu=None)
    assert found.workers[0].name == "a"


def test_each_that_is_lost_or_joins_is_told_once() -> None:
    both = answer(worker("a"), worker("b", node="two"))
    one_lost = answer(worker("a"), worker("b", node="two", lost="killed by SIGKILL"))
    third = answer(worker("a"), worker("b", node="two", lost="killed by SIGKILL"), worker("c"))
    back = answer(worker("a"), worker("b", node="two"), worker("c"))
    lines, shown = watched(both, both, one_lost, one_lost, None, third, back)
    assert len(shown) == 6  # one look came to nothing
    first, lost, joined, again = lines
    assert "2 workers on 2 nodes" in first
    assert ("worker b on two" in lost, "SIGKILL" in lost, "1 lost" in lost) == (True, True, True)
    assert "worker c joined on one" in joined
    assert "worker b joined on two" in again


def test_the_page_of_ray_is_told_where_there_is_one() -> None:
    lines, shown = watched(answer(worker("a"), dashboard="http://127.0.0.1:8265"))
    assert "http://127.0.0.1:8265" in lines[0]
    assert "5 waiting, 812 tokens/s, 2 retries" in shown[0]


def test_it_ends_when_it_is_stopped() -> None:
    lines, stop = list[str](), threading.Event()
    stop.set()
    watch_workers(lambda: answer(worker("a")), lines.append, lines.append, stop)
    assert lines == []


def test_in_a_terminal_they_have_a_line_below_the_table_and_elsewhere_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for out in (Terminal(), io.StringIO()):
        teller = Teller(name="family/rung", steps=4, out=out)
        teller.show_workers("2 workers")
        teller.step(Standing(step=0, steps=4, seconds_left=1.0), {"eval/macro_f1": 0.5}, [])
        teller.show_workers("1 worker, 1 lost")
        teller.show_workers("1 worker, 1 lost")
        teller.close()
        teller.show_workers("0 workers")
        text = out.getvalue()
        assert text.count("2 workers") == int(out.isatty())
        assert "0 workers" not in text
        last = text[text.rindex("step 0/4") :]
        assert ("1 worker, 1 lost" in last) == out.isatty()
        assert last.count("0.500") == 1
