"""Requests that are wrong in every way a seeded generator can think of, over all routes of an application.

Nothing in them makes a server compute for long: numbers of training requests are far ahead, so that they only wait, and
whoever sends them has a key with small limits.
"""

import copy
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote

from fastapi import FastAPI
from hostile_graphs import graph
from starlette.routing import Route
from training_requests import forward_backward

from tinsmith.server.access.limits import Limits

NANO = "tinsmith/nano"
FAR = 10**9
LIMITS = Limits(max_tokens=32, max_samples=64, max_models=3, max_requests=4096)
CONTENT_TYPES = (
    "application/json",
    "application/x-protobuf",
    "text/plain; charset=utf-16",
    "multipart/form-data",
    "application/json; charset=\xff",
    "",
)
ODD_TEXTS = ("", "x", "a" * 5000, "\ud800", "\x00", "../x", "%", "ä" * 40, "tinker://a/weights/b")
ODD_NUMBERS = (0, -1, 1, 2, 3, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, -0.0)
ADDED = (
    *("new", "tools", "logit_bias", "echo", "top_k", "stop_token_ids", "chat_template_kwargs", "add_generation_prompt"),
    *("guided_grammar", "guided_regex", "guided_json", "guided_choice", "structured_outputs", "response_format"),
)
"""Fields that are put into bodies that do not have them."""
ODD_GRAMMARS: tuple[object, ...] = (
    "start: start",
    "start: /(/",
    "start: A0\n" + "".join(f"A{k}: A{k + 1} A{k + 1}\n" for k in range(12)) + 'A12: "x"',
    "(a|b)*a(a|b){99}",
    "[",
    '{"$ref": "#"}',
    {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nothing"}}},
    {"regex": "a{1,100000}"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ["a" * 40_000],
    {"messages": None, "tools": 1, "bos_token": [[]]},
    [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": 1}}}],
)
NOT_FINITE = (float("nan"), float("inf"), -float("inf"), 1e308)


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """(method, pattern) of every route, but for HEAD, which comes with GET."""
    return {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }


@dataclass(frozen=True)
class Bad:
    """One request."""

    method: str
    path: str
    """As it is sent: quoted, with its query."""
    headers: Mapping[str, str]
    content: bytes
    signed: bool
    """True if it has the right key."""


def bodies(session: str, model: str, sampler: str, request: str) -> dict[str, dict[str, Any]]:
    """A right body by route; one for all that is not among them."""
    far = {"model_id": model, "seq_id": FAR}
    words = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    talk = {"model": NANO, "max_tokens": 2, "seed": 1, "temperature": 1.0, "stop": ["x"], "n": 1}
    return {
        "/api/v1/create_session": {"tags": ["a"], "user_metadata": {"a": 1}, "sdk_version": "1"},
        "/api/v1/session_heartbeat": {"session_id": session},
        "/api/v1/sessions/{session_id}/finish": {"reason": {"type": "success"}, "detail": None},
        "/api/v1/create_model": {
            "session_id": session,
            "model_seq_id": 1,
            "base_model": NANO,
            "lora_config": {"rank": 4, "seed": 1, "train_mlp": True},
        },
        "/api/v1/get_info": {"model_id": model},
        "/api/v1/unload_model": {"model_id": model},
        "/api/v1/optim_step": far | {"adam_params": {"learning_rate": 1e-4, "beta1": 0.9}},
        "/api/v1/save_weights": far | {"path": "x", "ttl_seconds": 3600, "overwrite": False},
        "/api/v1/save_weights_for_sampler": far | {"path": "x"},
        "/api/v1/save_weights_external": far | {"path": "x"},
        "/api/v1/load_weights": far | {"path": f"tinker://{model}/weights/x", "optimizer": True},
        "/api/v1/create_sampling_session": {"session_id": session, "sampling_session_seq_id": 0, "base_model": NANO},
        "/api/v1/asample": {
            "sampling_session_id": sampler,
            "seq_id": 0,
            "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
            "sampling_params": {"max_tokens": 2, "seed": 1, "temperature": 1.0, "top_k": -1},
            "num_samples": 1,
            "topk_sample_logprobs": 0,
        },
        "/api/v1/retrieve_future": {"request_id": request},
        "/api/v1/weights_info": {"tinker_path": f"tinker://{model}/weights/x"},
        "/v1/chat/completions": talk | {"messages": words, "stream": True, "logprobs": True},
        "/v1/completions": talk | {"prompt": ["a", "b"], "stream": False, "logprobs": 2},
        "/inference/v1/generate": {
            "model": NANO,
            "token_ids": [1, 2],
            "sampling_params": {"max_tokens": 2, "n": 1, "seed": 1, "logprobs": 1, "stop": ["x"]},
        },
        "/tokenize": {"model": NANO, "prompt": "a", "messages": words},
        "/detokenize": {"model": NANO, "tokens": [70, 71]},
        "/v1/messages": {"model": NANO, "max_tokens": 2, "messages": words, "system": "a"},
        "/v1/messages/count_tokens": {"model": NANO, "messages": words},
        "/v1/responses": {"model": NANO, "input": words, "max_output_tokens": 16, "stream": True},
        "/api/v1/create_custom_loss": {
            "session_id": session,
            "custom_loss_seq_id": 0,
            "name": "summed",
            "inputs": [{"name": "logprobs", "rank": 1}],
            "graph": {"format": 1, "nodes": graph()},
        },
        "/api/v1/sessions/search": {
            "project_ids": None,
            "user_metadata": {},
            "owner": {"type": "own"},
            "statuses": [{"type": "active", "reasons": None}],
            "limit": 5,
            "cursor": {"last_created_at": "x", "last_session_id": session},
        },
        "/api/v1/cancel_future": {"request_id": request},
        "/api/v1/join_sampling_session": {"sampling_session_id": sampler},
        "": talk
        | far
        | {
            "session_id": session,
            "request_id": request,
            "sampling_session_id": sampler,
            "prompt": "a",
            "input": "a",
            "messages": words,
        },
    }


@dataclass
class BadRequests:
    """Draws requests: the same ones from the same seed."""

    routes: list[tuple[str, str]]
    ids: tuple[str, str, str, str]
    """Of a session, a model, a sampling session and a request that are there."""
    key: str
    seed: int
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Start from the seed."""
        self.rng = random.Random(self.seed)

    def draw(self) -> Bad:
        """The next one."""
        rng = self.rng
        method, route = rng.choice(self.routes)
        if rng.random() < 0.03:
            method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
        signed = rng.random() > 0.05
        headers = {"content-type": rng.choice(CONTENT_TYPES)} if rng.random() < 0.3 else {}
        if rng.random() < 0.05:
            headers["content-encoding"] = rng.choice(["gzip", "zstd", "nonsense"])
        wrong = rng.choice(["", "tml-wrong", self.key[:-1], self.key + "x", "\xff" * 9])
        headers["x-api-key"] = self.key if signed else wrong
        shown = {k: v.encode("latin-1").decode("latin-1") for k, v in headers.items()}
        return Bad(method, self._path(route), shown, self._content(route), signed)

    def _path(self, route: str) -> str:
        rng = self.rng
        session, model, sampler, _ = self.ids
        right = {"session_id": session, "model_id": model, "sampler_id": sampler, "name": "x"}
        parts: list[str] = []
        for part in route.split("/"):
            name = part.strip("{}").removesuffix(":path")
            if part == name:
                parts.append(part)
            elif rng.random() < 0.5 and name in right:
                parts.append(right[name])
            else:
                odd = rng.choice([*ODD_TEXTS, "weights", "sampler_weights", "external_weights"])
                parts.append(quote(odd[:300].encode("utf-8", "surrogatepass"), safe=""))
        query = ""
        if rng.random() < 0.3:
            name = rng.choice(["limit", "offset", "after", "expires", "signature", "cursor", "project_id"])
            value = str(rng.choice([*ODD_NUMBERS[:-3], "x", "", "nan", "-1", "1e3", "0x1", "\u0661", "1" * 5000]))[
                :4000
            ]
            query = f"?{name}={quote(value)}"
        return "/".join(parts) + query

    def _content(self, route: str) -> bytes:
        rng = self.rng
        how = rng.random()
        if how < 0.06:
            return rng.randbytes(rng.randrange(80))
        if how < 0.10:
            depth = rng.choice([50, 1000, 30_000])
            return b'{"prompt": ' + b"[" * depth + b"]" * (depth if rng.random() < 0.5 else 3) + b"}"
        if how < 0.14:
            return json.dumps(self._value(3)).encode()
        if "forward_backward" in route or how < 0.16:
            return self._protobuf()
        known = bodies(*self.ids)
        body = copy.deepcopy(known.get(route, known[""]))  # other tests have parts of it
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            self._change(body)
        text = json.dumps(body).encode()
        if how < 0.22:  # cut, or with a byte that is no text
            at = rng.randrange(len(text) + 1)
            return text[:at] + (b"" if rng.random() < 0.5 else b"\xff" + text[at:])
        return text

    def _protobuf(self) -> bytes:
        rng = self.rng
        body = bytearray(forward_backward(self.ids[1], FAR))
        for _ in range(rng.choice([0, 1, 1, 3])):
            at = rng.randrange(len(body)) if body else 0
            match rng.randrange(3):
                case 0:
                    del body[at:]
                case 1:
                    body.insert(at, rng.randrange(256))
                case _:
                    body[at:at] = body[at : at + rng.randrange(20)]
        return bytes(body)

    def _change(self, body: dict[str, Any]) -> None:
        """Put something else in one place, take it away, or add a field that nobody knows."""
        rng, place = self.rng, body
        while True:
            name = rng.choice(sorted(place)) if place else "new"
            inner = place.get(name)
            if isinstance(inner, list) and inner and isinstance(inner[0], dict) and rng.random() < 0.6:
                inner = cast("object", inner[0])
            if not isinstance(inner, dict) or rng.random() < 0.3:
                break
            place = cast("dict[str, Any]", inner)
        match rng.randrange(10):
            case 0:
                place.pop(name, None)
            case 1:
                added = copy.deepcopy(rng.choice(ODD_GRAMMARS)) if rng.random() < 0.5 else self._value(2)
                place[rng.choice(ADDED)] = added  # a copy: it may be changed too
            case _:
                place[name] = self._value(2)

    def _value(self, depth: int) -> object:
        rng = self.rng
        match rng.randrange(9 if depth else 6):
            case 0:
                return rng.choice([None, True, False])
            case 1 | 2:
                return rng.choice(ODD_NUMBERS)
            case 3:
                return rng.choice(NOT_FINITE)
            case 4:
                return rng.choice(ODD_TEXTS)
            case 5:
                return rng.choice([*self.ids, f"tinker://{self.ids[1]}/weights/x", NANO])
            case 6:
                return [self._value(depth - 1) for _ in range(rng.randrange(4))]
            case 7:
                return {str(i): self._value(depth - 1) for i in range(rng.randrange(3))}
            case _:
                return [rng.choice(ODD_NUMBERS)] * rng.choice([1, 300])
