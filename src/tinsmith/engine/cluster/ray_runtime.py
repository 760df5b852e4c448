"""Start of a local Ray or connection to a cluster; the only module that knows Ray's settings.

Ray is imported on first use. A Ray started here listens on the loopback address only, requires a random token, stores
its files in a folder of its own, and leaves neither process nor file behind, however its parent ends: see
`ray_guardian`.
"""

from __future__ import annotations

import atexit
import importlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from tinsmith.engine.cluster import ray_guardian
from tinsmith.engine.cluster.ray_parts import RayParts
from tinsmith.engine.cluster.ray_start import NEEDED, watched_start
from tinsmith.types.errors import BackendError, ConfigError, LostError, TinsmithError

LEAST_OBJECT_STORE: Final = 80 << 20
"""Smallest object store that Ray accepts, in bytes."""

_FOLDERS: Final = "/tmp"
"""Parent of Ray's socket folder: a socket's path is limited to about a hundred characters, and TMPDIR may be long."""
_LOOPBACK_ONLY: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes Ray use the loopback address for its node, on every system despite the name."""
_AS_NICE: Final = ("RAY_worker_niceness", "0")
"""Default niceness. Ray starts its workers 15 nicer than their parent: a step would take many times as long beside
other programs."""
_ANSWER_SECONDS: Final = 5.0
_END_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Live machine of a cluster."""

    id: str
    name: str
    """Host name."""
    cores: int
    """Cores available to Ray; 0 if nothing is computed there."""
    memory: int
    """Bytes of memory available to Ray."""


@dataclass(slots=True)
class Cluster:
    """Ray cluster that this process is part of; close it after use."""

    dashboard: str | None
    """Address of Ray's dashboard; None if it has none."""
    _ray: ModuleType = field(repr=False)
    _guardian: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    """Guardian of a Ray started here."""
    _parts: RayParts | None = field(default=None, repr=False)
    """Processes of a Ray started here."""
    _closed: bool = False

    def nodes(self) -> tuple[Node, ...]:
        """Return the live machines by id."""
        entries = cast(list[Mapping[str, object]], self._ray.nodes())
        return tuple(sorted(map(_node, filter(_alive, entries)), key=lambda node: node.id))

    def ended(self) -> str | None:
        """Describe the part of a local Ray that has ended; None if all run or it was not started here. Never blocks."""
        return None if self._parts is None else self._parts.ended()

    def abandon(self) -> None:
        """Kill what is left of a dead Ray without calling it."""
        self._closed = True
        atexit.unregister(self.close)
        if self._guardian is not None:
            _let_go(self._guardian)

    def close(self) -> None:
        """Disconnect; also end Ray with all its processes if it was started here. Harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._ray.shutdown()
        if self._guardian is not None:
            _let_go(self._guardian)


def start_local(num_cpus: int, object_store_bytes: int = LEAST_OBJECT_STORE) -> Cluster:
    """Start a Ray on this machine with `num_cpus` cores and an object store of this many bytes.

    It ends with this process, and with the thread that called this: Linux takes the end of a thread that started
    processes for that of the process. Where it cannot start and Ray does not say so, this process ends: exit code 3.

    Raises:
        ConfigError: Ray is not installed, or this system does not list the children of a process.
        BackendError: this process is part of a Ray already.
        LostError: Ray did not start.
    """
    if sys.platform != "linux":
        raise ConfigError(
            "a Ray of its own is started on Linux only, where what it leaves behind can be found and ended",
            field="ray",
            value="local",
            allowed="the address of a Ray that runs already; without workers, one process computes everything",
        )
    os.environ |= {"RAY_AUTH_MODE": "token", **_LOOPBACK_ONLY}
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray keeps the first it sees
    os.environ.setdefault(*_AS_NICE)
    ray = _ray()
    folder = Path(tempfile.mkdtemp(prefix="tinsmith-ray-", dir=_FOLDERS))
    mark = ray_guardian.MARK + folder.name.rpartition("-")[2].upper()
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", ray_guardian.__file__, mark, str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is not for it
    )
    try:
        with _marked(mark), _own_sigterm(), watched_start():
            context = ray.init(
                address="local",
                num_cpus=num_cpus,
                num_gpus=0,
                object_store_memory=max(LEAST_OBJECT_STORE, object_store_bytes),
                log_to_driver=False,
                logging_level="ERROR",
                _temp_dir=str(folder / "ray"),  # Ray opens its folder to everybody: the one around it is this user's
            )
        cluster = Cluster(_dashboard(context), ray, guardian, _parts(ray))
        _require_loopback(ray)
    except BaseException as error:
        ray.shutdown()
        _let_go(guardian)
        if isinstance(error, Exception) and not isinstance(error, TinsmithError):  # Ray raises bare ones
            raise LostError(f"Ray did not start: {error}", fix="start it again") from error
        raise
    atexit.register(cluster.close)
    return cluster


def join(address: str) -> Cluster:
    """Join the cluster at `HOST:PORT`, or with `auto` the one that this machine is part of.

    Where the cluster asks for a token, RAY_AUTH_MODE and RAY_AUTH_TOKEN are those of the caller.

    Raises:
        ConfigError: Ray is not installed, nothing answers there, or the cluster refuses.
        BackendError: this process is part of a Ray already.
    """
    _require_answer(address)
    ray = _ray()
    from ray.exceptions import RayError

    try:
        with _own_sigterm():
            context = ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        ray.shutdown()
        reason, *_ = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(
            f"this Ray cannot be joined: {reason}",
            field="ray",
            value=address,
            fix="start tinsmith on a machine of the cluster, with its RAY_AUTH_TOKEN if it has one",
        ) from None
    cluster = Cluster(_dashboard(context), ray)
    atexit.register(cluster.close)
    return cluster


def _ray() -> ModuleType:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ConfigError("Ray is not installed", fix='pip install "tinsmith[ray]"') from None
    if ray.is_initialized():
        raise BackendError("this process is part of a Ray already", fix="ray.shutdown() first")
    _silence()
    return ray


def _silence() -> None:
    """Suppress Ray's own messages about lost processes on standard output; tinsmith reports them itself."""

    def nothing(*_: object, **__: object) -> None:
        return

    vars(importlib.import_module("ray._private.worker"))["print_to_stdstream"] = nothing


def _require_answer(address: str) -> None:
    """Check that something listens: Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdecimal() or "/" in host:
        raise ConfigError("this is no address of a Ray", field="ray", value=address, allowed="HOST:PORT, auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"no Ray answers there: {error}", field="ray", value=address, fix="ray start --head prints the address"
        ) from None


def _require_loopback(ray: ModuleType) -> None:
    addresses = {node["NodeManagerAddress"] for node in ray.nodes()}
    if addresses != {"127.0.0.1"}:
        raise BackendError(
            "Ray would listen to other machines",
            field="address",
            value=", ".join(sorted(addresses)),
            fix="do not import ray before tinsmith starts it",
        )


def _dashboard(context: object) -> str | None:
    url = cast(str | None, getattr(context, "dashboard_url", None))
    return f"http://{url}" if url else None


def _parts(ray: ModuleType) -> RayParts:
    started: Mapping[str, list[Any]] = ray._private.worker._global_node.all_processes
    return RayParts({name: started[name][0].process for name in NEEDED})


def _alive(entry: Mapping[str, object]) -> bool:
    return bool(entry["Alive"])


def _node(entry: Mapping[str, object]) -> Node:
    resources = cast(Mapping[str, float], entry["Resources"])
    return Node(
        id=str(entry["NodeID"]),
        name=str(entry["NodeManagerHostname"]),
        cores=int(resources.get("CPU", 0)),
        memory=int(resources.get("memory", 0)),
    )


@contextmanager
def _marked(mark: str) -> Generator[None, None, None]:
    """Mark all processes started in the body, and their descendants."""
    # The second: Ray's processes rename themselves, which would overwrite their environment with the name.
    own = {mark: "1", "SPT_NOENV": "1"}
    os.environ |= own
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


@contextmanager
def _own_sigterm() -> Generator[None, None, None]:
    """Preserve this process's SIGTERM handler, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _let_go(guardian: subprocess.Popen[bytes]) -> None:
    assert guardian.stdin is not None
    with suppress(OSError):
        guardian.stdin.close()
    try:
        guardian.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        guardian.kill()
        guardian.wait()
