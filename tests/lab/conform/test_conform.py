"""`tinsmith conform`: every row is honoured here, each deliberate fault is found in its row, and nothing hangs."""

import inspect
import json
import warnings
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types

from answering import Quiet, answering
from conform_asked import Patch, answered_otherwise, verdicts
from page_words import Words

from running import HANG_S, KEY, NANO, Running
from tinsmith.cli import main
from tinsmith.lab.conform.subject import Verdict, Word
from tinsmith.lab.conform.suite import ask, checks, open_subject

pytestmark = [
    pytest.mark.whole,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def conform(server: Running, *flags: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["conform", server.url, *flags])
    return ended.value.code


def test_every_row_is_honoured_here(server: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert conform(server, "--json", "--out", str(page)) == 0
    lines = json.loads(capsys.readouterr().out)
    assert lines["model"] == NANO
    assert {row["name"]: row["how"] for row in lines["rows"] if row["verdict"] != "honoured"} == {}
    assert lines["counts"]["honoured"] == len(lines["rows"]) == len(checks())
    read = Words(page.read_text(encoding="utf-8")).text
    assert [row["question"] for row in lines["rows"] if row["question"] not in read] == []
    assert not server.http.get("/api/v1/checkpoints").json()["checkpoints"]


def test_rows_have_names_of_their_own_and_sources() -> None:
    names = [one.name for one in checks()]
    assert len(set(names)) == len(names)
    assert all(one.source for one in checks())


def _asked_otherwise(owner: type, method: str, change: Callable[[dict[str, Any]], None]) -> Patch:
    """Let a method of the SDK send other arguments than it was given."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        original = getattr(owner, method)
        signature = inspect.signature(original)

        def sent(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            change(bound.arguments)
            return original(*bound.args, **bound.kwargs)

        monkeypatch.setattr(owner, method, sent)

    return patch


def _without(name: str, **changes: object) -> Callable[[dict[str, Any]], None]:
    """Change fields of the model that is given as argument `name`."""

    def change(arguments: dict[str, Any]) -> None:
        arguments[name] = arguments[name].model_copy(update=changes)

    return change


def _averaged(output: types.ForwardBackwardOutput) -> types.ForwardBackwardOutput:
    count = len(output.loss_fn_outputs)
    metrics = {name: value / count for name, value in output.metrics.items()}
    return replace(output, metrics=metrics)


def _half_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a loss with advantages, and the gradient of half of them."""
    original = TRAINER.forward_backward

    def halved(self: tinker.TrainingClient, data: list[types.Datum], *rest: Any) -> object:
        if "advantages" not in data[0].loss_fn_inputs:
            return original(self, data, *rest)
        half = []
        for one in data:
            advantages = one.loss_fn_inputs["advantages"].to_numpy() / 2
            inputs = {**one.loss_fn_inputs, "advantages": types.TensorData.from_numpy(advantages)}
            half.append(types.Datum(model_input=one.model_input, loss_fn_inputs=inputs))
        original(self, half, *rest)
        return self.forward(data, *rest)

    monkeypatch.setattr(TRAINER, "forward_backward", halved)


def _thrown_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling from saved weights puts them back into the trainer that saved them."""
    save, sample = TRAINER.save_weights_for_sampler, SAMPLER.sample
    saved: list[tuple[tinker.TrainingClient, str]] = []

    def noted(self: tinker.TrainingClient, name: str, *rest: Any) -> object:
        path = self.save_state(f"{name}-{len(saved)}").result(HANG_S).path
        saved.append((self, path))
        return save(self, name, *rest)

    def sampled(self: tinker.SamplingClient, *args: Any, **kwargs: Any) -> object:
        for client, path in saved:
            client.load_state(path).result(HANG_S)
        return sample(self, *args, **kwargs)

    monkeypatch.setattr(TRAINER, "save_weights_for_sampler", noted)
    monkeypatch.setattr(SAMPLER, "sample", sampled)


def _decay_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step decays every adapter that was ever stepped."""
    step = TRAINER.optim_step
    known: list[tinker.TrainingClient] = []

    def decayed(self: tinker.TrainingClient, adam_params: types.AdamParams, **rest: Any) -> object:
        if adam_params.weight_decay:
            still = adam_params.model_copy(update={"eps": 1e12})
            for other in known:
                step(other, still).result(HANG_S)
        known.append(self)
        return step(self, adam_params, **rest)

    monkeypatch.setattr(TRAINER, "optim_step", decayed)


def _set(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda arguments: arguments.update(changes)


TRAINER, SAMPLER, SERVICE = tinker.TrainingClient, tinker.SamplingClient, tinker.ServiceClient
FAULTS: Mapping[str, tuple[Patch, tuple[str, ...]]] = {
    "prompt log-probabilities one early": (
        answered_otherwise(SAMPLER, lambda v: [None, *v[2:], 0.0], "compute_logprobs"),
        ("scoring/compute_logprobs",),
    ),
    "prompt log-probabilities one late": (
        answered_otherwise(SAMPLER, lambda v: [None, -1.0, *v[1:-1]], "compute_logprobs"),
        ("scoring/compute_logprobs",),
    ),
    "clipping ignored": (
        _asked_otherwise(TRAINER, "optim_step", _without("optim_params", grad_clip_norm=0.0)),
        ("training/grad_clip_norm",),
    ),
    "decay ignored": (
        _asked_otherwise(TRAINER, "optim_step", _without("optim_params", weight_decay=0.0)),
        ("training/weight_decay",),
    ),
    "eps ignored": (_asked_otherwise(TRAINER, "optim_step", _without("optim_params", eps=1e-12)), ("training/eps",)),
    "a rate that is never 0": (
        _asked_otherwise(TRAINER, "optim_step", _without("optim_params", learning_rate=0.01)),
        ("training/learning_rate 0",),
    ),
    "the mean over datums": (
        answered_otherwise(TRAINER, _averaged, "forward_backward"),
        ("losses/cross_entropy", "losses/ppo", "losses/sum over datums"),
    ),
    "half the gradient": (_half_the_gradient, ("losses/cispo",)),
    "settings of losses dropped": (
        _asked_otherwise(TRAINER, "forward", _set(loss_fn_config=None)),
        ("losses/settings of ppo", "mistakes/unknown setting"),
    ),
    "seeds of samples ignored": (
        _asked_otherwise(SAMPLER, "sample", _without("sampling_params", seed=None)),
        ("sampling/seed repeats",),
    ),
    "one seed for all": (
        _asked_otherwise(SAMPLER, "sample", _without("sampling_params", seed=1)),
        ("sampling/seeds differ",),
    ),
    "stops ignored": (
        _asked_otherwise(SAMPLER, "sample", _without("sampling_params", stop=[])),
        ("sampling/stop token", "sampling/stop string"),
    ),
    "temperature ignored": (
        _asked_otherwise(SAMPLER, "sample", _without("sampling_params", temperature=1.0)),
        ("sampling/temperature",),
    ),
    "top_k ignored": (
        _asked_otherwise(SAMPLER, "sample", _without("sampling_params", top_k=-1)),
        ("sampling/top_k and top_p",),
    ),
    "flags of an adapter ignored": (
        _asked_otherwise(SERVICE, "create_lora_training_client", _set(train_mlp=True)),
        ("adapters/train_mlp",),
    ),
    "one seed for all adapters": (
        _asked_otherwise(SERVICE, "create_lora_training_client", _set(seed=3)),
        ("adapters/seeds differ",),
    ),
    "another model trained": (
        _asked_otherwise(SERVICE, "create_lora_training_client", _set(base_model=NANO)),
        ("mistakes/unknown model, training",),
    ),
    "sampling throws a trainer back": (_thrown_back, ("training/sampling leaves the trainer",)),
    "one adapter's decay is everyone's": (_decay_for_all, ("training/other adapters",)),
    "chunks out of order": (
        answered_otherwise(TRAINER, lambda o: replace(o, loss_fn_outputs=o.loss_fn_outputs[::-1]), "forward"),
        ("training/chunks",),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_silent_difference_in_its_row(
    server: Running, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    patch, rows = FAULTS[fault]
    patch(monkeypatch)
    found = verdicts(server, *rows)
    assert {name: one.word for name, one in found.items()} == dict.fromkeys(rows, Word.SILENT), found


def test_seeds_of_adapters_that_are_ignored_spoil_no_other_row(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = iter(range(100, 200))
    patch = _asked_otherwise(SERVICE, "create_lora_training_client", lambda asked: asked.update(seed=next(seeds)))
    patch(monkeypatch)
    others = ("training/accumulation", "training/grad_clip_norm", "adapters/train_mlp")
    found = verdicts(server, "adapters/seed repeats", *others)
    assert found["adapters/seed repeats"].word is Word.SILENT
    assert [found[name].word for name in others] == [Word.HONOURED] * 3


def test_a_silent_difference_ends_with_1(
    server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FAULTS["seeds of samples ignored"][0](monkeypatch)
    assert conform(server, "--only", "sampling/seed repeats") == 1
    assert "silent difference" in capsys.readouterr().out.splitlines()[1]


def test_a_refusal_is_told_in_the_servers_words(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        body = {"detail": "no tinsmith here"}
        response = httpx.Response(400, json=body, request=httpx.Request("POST", server.url))
        raise tinker.BadRequestError("bad request", response=response, body=body)

    monkeypatch.setattr(SAMPLER, "compute_logprobs", refuse)
    found = verdicts(server, "scoring/compute_logprobs")["scoring/compute_logprobs"]
    assert found == Verdict(Word.REFUSED, "no tinsmith here")


def _always(answer: object) -> Callable[..., object]:
    def call(*_: object, **__: object) -> object:
        return answer

    return call


def test_no_answer_is_no_hang(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    never: Future[object] = Future()
    monkeypatch.setattr(SAMPLER, "sample", _always(never))
    rows = ("sampling/greedy", "mistakes/prompt too long")
    for found in verdicts(server, *rows, limit_s=1.0).values():
        assert found.word is Word.DIFFERS
        assert "no answer" in found.how


@contextmanager
def _gone(server: Running) -> Generator[Any]:
    with open_subject(server.url, KEY, None, 1.0) as subject:
        subject.url = "http://127.0.0.1:1"
        yield subject
        subject.url = server.url


def test_a_server_that_is_gone_is_asked_no_more(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    never: Future[object] = Future()
    monkeypatch.setattr(SAMPLER, "sample", _always(never))
    with _gone(server) as subject:
        first, *others = [one.verdict for one in ask(subject, checks()[:4])]
    assert "gone" not in first.how
    assert all(one.word is Word.DIFFERS and "gone" in one.how for one in others)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--model", "no/such"), NANO),
        (("--key", "tml-another"), "TINKER_API_KEY"),
        (("--only", "no such row"), "--only"),
        (("--out", "/no/such/folder/page.html"), "--out"),
    ],
)
def test_a_users_mistake_is_a_few_lines(
    server: Running, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], named: str
) -> None:
    assert conform(server, *flags) == 2
    messages = capsys.readouterr().err
    assert named in messages


class _Other(Quiet):
    """Another program's server."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET


def test_another_programs_server_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(_Other) as url, pytest.raises(SystemExit) as ended:
        main(["conform", url])
    assert ended.value.code == 2
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
def test_no_server_is_a_users_mistake(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conform", url])
    assert ended.value.code == 2
    assert url in capsys.readouterr().err
