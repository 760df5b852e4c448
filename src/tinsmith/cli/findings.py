"""Findings of `tinsmith doctor` on this machine and on a server: facts by topic, and remedies.

Every probe answers whatever is missing; none of them raises, writes or shows a key.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import msgspec
import torch
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tinsmith.engine.engine import Engine
from tinsmith.lab.experiment.manifest import LIBRARIES, library_version
from tinsmith.lab.service.facts import answer_of
from tinsmith.lab.service.workers import ENDPOINT, read_workers
from tinsmith.models.presets import PRESETS
from tinsmith.models.published.packaged import PREFIX
from tinsmith.ops.extension import module, physical_cores
from tinsmith.ops.processor import cpu_flags, cpu_model
from tinsmith.ops.select import select
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError, DataError, TinsmithError
from tinsmith.types.home import home
from tinsmith.types.json_text import UNREADABLE, parse_json
from tinsmith.types.version import VERSION

LEAST_FREE: Final = 2 << 30  # Bytes; a quickstart leaves a seventh of it.

GPU_ONLY: Final = ("nvidia-", "triton", "cuda-")  # How packages begin that are of no use without a GPU.

COMPILER: Final = "nvidia-cuda-nvrtc"  # Compiles kernels without one, for the tests.


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """State of one topic."""

    topic: str
    text: str
    todo: str | None = None  # What to do about it; None: nothing.
    must: bool = True  # True if something does not work until it is done.
    facts: Mapping[str, object] = field(default_factory=dict[str, object])  # The same for a program.


Probe = Callable[[], Sequence[Finding]]


def examine(probes: Sequence[Probe]) -> list[Finding]:
    """Run probes in order; a failed probe yields its reason."""
    found: list[Finding] = []
    for probe in probes:
        try:
            found += probe()
        except TinsmithError as error:
            what, *_ = str(error).splitlines()
            found.append(Finding(topic=probe.__name__, text=what, todo=error.fix or what))
    return found


def machine() -> list[Finding]:
    """Processor, its share available to this process, and memory."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts: dict[str, object] = {
        "cpu": cpu_model(),
        "usable_cpus": usable,
        "physical_cores": physical_cores(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.machine()}",
        "flags": list(cpu_flags()),
    }
    text = (
        f"{facts['cpu']}, {facts['physical_cores']} cores ({usable} threads usable), "
        f"{memory / 2**30:.1f} GiB, {facts['system']}"
    )
    flags = Finding(topic="CPU flags", text=" ".join(cpu_flags()) or "unknown")
    return [Finding(topic="machine", text=text, facts=facts), flags]


def versions() -> list[Finding]:
    """Versions of Python and libraries, against this package's requirements."""
    wrong: list[Finding] = []
    facts: dict[str, object] = {"tinsmith": VERSION, "python": platform.python_version()}
    try:
        metadata = importlib.metadata.metadata("tinsmith")
    except importlib.metadata.PackageNotFoundError:
        return [Finding(topic="versions", text="tinsmith is not installed", todo="pip install -e .")]
    required_python = str(metadata["Requires-Python"] or "")
    if not SpecifierSet(required_python).contains(platform.python_version(), prereleases=True):
        text = f"Python {platform.python_version()}, but {required_python} is required"
        wrong.append(Finding(topic="Python", text=text, todo=f"install Python {required_python}"))
    for line in importlib.metadata.requires("tinsmith") or []:
        required = Requirement(line)
        if required.marker is not None and not required.marker.evaluate({"extra": ""}):
            continue
        there = library_version(required.name)
        facts[required.name] = there
        if there is None or not required.specifier.contains(there, prereleases=True):
            text = f"{required.name} {there or 'is missing'}, but {required.specifier or 'any version'} is required"
            todo = f"pip install '{required.name}{required.specifier}'"
            wrong.append(Finding(topic="library", text=text, todo=todo))
    shown = ", ".join(f"{name} {library_version(name)}" for name in LIBRARIES)
    text = f"tinsmith {VERSION}, Python {platform.python_version()}, {shown}"
    return [Finding(topic="versions", text=text, facts=facts), *wrong]


def arithmetic() -> list[Finding]:
    """Compiled kernels: their location, instruction set and threads."""
    native = module()
    supported = list(native.supported_isas())
    isa = os.environ.get("TINSMITH_ISA") or supported[-1]
    threads = int(native.num_threads())
    text = f"{isa} (possible: {', '.join(supported)}), {threads} threads"
    facts: dict[str, object] = {"isa": isa, "supported": supported, "threads": threads}
    return [Finding(topic="kernels", text=text, facts={**facts, "file": str(native.__file__)})]


def gpu() -> list[Finding]:
    """CUDA devices, and packages that are useless without one."""
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    if devices:
        return [_gpu(device) for device in devices]
    installed = {(d.metadata["Name"] or "").lower() for d in importlib.metadata.distributions()}
    useless = sorted(name for name in installed - {COMPILER} if name.startswith(GPU_ONLY))
    if not useless:
        return [Finding(topic="GPU", text="none; none is needed", facts={"devices": []})]
    if shutil.which("nvidia-smi") is not None:
        text = "there is one, but this build of torch cannot use it"
        return [Finding(topic="GPU", text=text, todo="install a build of torch for its driver", must=False)]
    text = f"none, but {len(useless)} packages for one: {', '.join(useless[:3])}, ..."
    todo = "install a CPU build of torch to save space"
    return [Finding(topic="GPU", text=text, todo=todo, must=False, facts={"useless": useless})]


def _gpu(device: torch.device) -> Finding:
    name = torch.cuda.get_device_name(device)
    try:
        identity = select(Arithmetic.CANONICAL, str(device)).identity()
    except BackendError as error:
        return Finding(topic="GPU", text=f"{device}: {name}, without canonical arithmetic", todo=str(error), must=False)
    text = f"{device}: {name}, canonical, driver {identity['cuda_driver']}, NVRTC {identity['nvrtc']}"
    return Finding(topic="GPU", text=text, facts={"device": str(device), **identity})


def certificates() -> list[Finding]:
    """Certificate of each preset: the arithmetic's promise on this machine, with figures."""
    findings: list[Finding] = []
    for preset in PRESETS:
        began = time.perf_counter()
        engine = Engine({preset: PREFIX + preset})
        took = time.perf_counter() - began
        sha256 = engine.certificates[preset].sha256
        text = f"{preset}: holds, {sha256[:16]} in {took:.1f} s"
        facts: dict[str, object] = {"preset": preset, "sha256": sha256, "seconds": round(took, 2)}
        findings.append(Finding(topic="certificate", text=text, facts=facts))
    return findings


def disk() -> list[Finding]:
    """Free space in the cache, for checkpoints, and here."""
    findings: list[Finding] = []
    for topic, folder in (("TINSMITH_HOME", home()), ("this folder", Path.cwd())):
        there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        free = shutil.disk_usage(there).free
        low = f"make room: {LEAST_FREE >> 30} GiB are needed" if free < LEAST_FREE else None
        if not os.access(there, os.W_OK):
            low = "choose a folder that can be written"
        text = f"{folder}: {free / 2**30:.1f} GiB free"
        facts: dict[str, object] = {"folder": str(folder), "free_bytes": free}
        findings.append(Finding(topic=topic, text=text, todo=low, facts=facts))
    return findings


_SECONDS = 5.0
_REQUESTS = 5
_UNAVAILABLE = 503


class _Identity(msgspec.Struct):
    version: str | None = None


class _Model(msgspec.Struct):
    model_name: str | None = None
    identity: _Identity | None = None


class _Answer(msgspec.Struct):
    """Fields of a server's answers: the reason why it cannot compute, and its models."""

    reason: str = "it does not say why"
    supported_models: list[_Model] = []


def server(base_url: str | None) -> list[Finding]:
    """Query a server; without one, state that none is named."""
    if base_url is None:
        return [Finding(topic="server", text="none is given; runs start their own")]
    try:
        with httpx.Client(base_url=base_url.rstrip("/"), timeout=_SECONDS) as client:
            return _answered(client, base_url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = f"{base_url} does not answer: {type(error).__name__}"
    except UNREADABLE as error:
        first, *_ = str(error).splitlines()
        text = f"{base_url} does not answer as a Tinker server: {first}"
    return [Finding(topic="server", text=text, todo="start it, or give another --base-url")]


def _answered(client: httpx.Client, base_url: str) -> list[Finding]:
    times: list[float] = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        health = answer_of(client, "GET", "/api/v1/healthz", headers={}, seconds=_SECONDS)
        if health.status == _UNAVAILABLE:
            reason = msgspec.json.decode(health.content, type=_Answer).reason
            text = f"{base_url} answers, but cannot compute: {reason}"
            todo = "try again in a minute; if it has ended by then, start it again: its state is intact"
            return [Finding(topic="server", text=text, todo=todo, facts={"base_url": base_url, "unready": reason})]
        if not health.is_success:
            raise DataError(f"status {health.status} of /api/v1/healthz")
        times.append(time.perf_counter() - began)
    latency = statistics.median(times)
    facts: dict[str, object] = {"base_url": base_url, "latency_s": round(latency, 5)}
    reached = f"{base_url} answers in {1e3 * latency:.1f} ms"
    key = os.environ.get("TINKER_API_KEY")
    if not key:
        return [Finding(topic="server", text=reached, todo="set TINKER_API_KEY to its key", facts=facts)]
    path = "/api/v1/get_server_capabilities"
    answer = answer_of(client, "GET", path, headers={"X-API-Key": key}, seconds=_SECONDS)
    if answer.status in (401, 403):
        text = f"{reached}, but refuses the key in TINKER_API_KEY"
        return [Finding(topic="server", text=text, todo="set TINKER_API_KEY to its key")]
    if not answer.is_success:
        raise DataError(f"status {answer.status} of {path}")
    models = msgspec.json.decode(answer.content, type=_Answer).supported_models
    theirs = next((one.identity.version for one in models if one.identity and one.identity.version), None)
    what = "not tinsmith, or of unknown version" if theirs is None else f"tinsmith {theirs}"
    facts |= {"version": theirs, "models": [model.model_name for model in models]}
    todo = None if theirs in (None, VERSION) else f"it runs tinsmith {theirs} and this is {VERSION}"
    text = f"{reached}: {what}, {len(models)} models"
    return [Finding(topic="server", text=text, todo=todo, must=False, facts=facts), *_workers(client, key)]


def _workers(client: httpx.Client, key: str) -> list[Finding]:
    answer = answer_of(client, "GET", f"/api/v1/{ENDPOINT}", headers={"X-API-Key": key}, seconds=_SECONDS)
    workers = read_workers(parse_json(answer.content)) if answer.is_success else None
    if workers is None:
        return []
    page = f"; {workers.dashboard}" if workers.dashboard else ""
    facts = {name: getattr(workers, name) for name in ("retries", "waiting", "tokens_per_second", "dashboard")}
    alive, wanted = sum(worker.alive for worker in workers.workers), workers.wanted or 1
    short = f"{alive} of {wanted} workers are there: look at the server's messages" if alive < wanted else None
    replaced = workers.wanted is not None and short is None
    width = max(len(worker.node) for worker in workers.workers)
    return [
        Finding(topic="workers", text=f"{workers.words}{page}", todo=short, must=alive == 0, facts=facts),
        *(
            Finding(topic=f"worker {one.name}", text=text, todo=todo, must=False, facts=msgspec.to_builtins(one))
            for one in workers.workers
            for text in [f"{one.node:{width}}  {one.doing}"]
            for todo in [None if one.alive or replaced else f"check worker {one.name} on {one.node}"]
        ),
    ]
