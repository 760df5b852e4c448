"""Model, data and server of a plan, checked before heavy imports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.data.slices.card import read_slice_card
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import At, Circumstances
from tinsmith.lab.runs.files import SERVED_NAME, IfExists, Kind, require_room, settle
from tinsmith.models.published.packaged import PREFIX, packaged_model
from tinsmith.models.published.sources import find_model, is_here
from tinsmith.ops.cuda.device import require_gpu
from tinsmith.types.errors import ConfigError, DataError, LostError
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    from tinsmith.lab.papers.run_data import PaperData
    from tinsmith.lab.user_task.run_data import TaskData

RATE: Final = "learning_rate"
CARD: Final = "base.json"  # In the folder of a nano base: what it was built from.

_OF_TASKS: Final = (Kind.RLVR, Kind.TASK, Kind.TASK_SFT, Kind.TASK_SPARSE)
AS_SMALL: Final = ("tinsmith/nano", "tinsmith/tiny", "tinsmith/moe-nano")
"""Built-in models that the rates of `at=nano` are for as well."""


class NoRateError(ConfigError):
    """No learning rate is given for a model that none is known for."""


def served_name(model_name: str | None, base_url: str | None) -> str:
    """Return the served name of a `model_name`."""
    if model_name is None:
        return SERVED_NAME
    if base_url is not None:
        return model_name
    return find_model(model_name, field="model_name").served_name or SERVED_NAME


def is_loaded_here(name: str, where: Circumstances) -> bool:
    """True if this name of a judge or other model means one that the run's own server loads beside the trained one.

    A path always is; a name only where no other server is asked, which may serve it itself, and only if it is not that
    of the trained one.
    """
    if Path(name).exists():
        return True
    if where.base_url is not None or name == where.model_name:
        return False
    return name.startswith(PREFIX) or packaged_model(name) is not None or is_here(name)


def named_model(plan: Plan) -> tuple[str, str] | None:
    """Return the model's served name and its source; None for the nano base, which is built."""
    where = plan.circumstances
    if where.base_url is not None and where.model_name is None:
        what = "base_url is set, but model_name is not"
        raise ConfigError(what, field="model_name", fix="model_name=NAME, as the server lists it")
    if where.model_name is None and plan.frame.at is At.SEED:
        what, named = "at=seed has settings for a large model, and no model is named", "FILE.gguf, smollm2, ORG/NAME"
        fix = f"model_name=FOLDER (or {named}), or base_url=... and model_name=NAME; at=nano builds its own"
        raise ConfigError(what, field="model_name", fix=fix)
    if where.model_name is None:
        return None
    unfetched = packaged_model(where.model_name) if where.dry_run and where.base_url is None else None
    named = unfetched.served_name if unfetched else served_name(where.model_name, where.base_url)
    require_own_rates(plan)
    return named, where.model_name


def require_own_rates(plan: Plan) -> None:
    """Reject the nano base's learning rates for another model, unless they are given explicitly.

    A rate that suits a million parameters is ten times too high for a hundred million: the run would not fail, but end
    in noise. A folder with the card of a nano base is one, wherever it lies.
    """
    named = plan.circumstances.model_name
    if plan.frame.at is not At.NANO or named is None or named in AS_SMALL:
        return
    if plan.circumstances.base_url is None and (Path(named) / CARD).is_file():
        return
    given = {*plan.overrides, *(plan.experiment.delta if plan.frame.kind in _OF_TASKS else ())}
    rates = {RATE: plan.settings.steps, "sft_learning_rate": getattr(plan.settings, "sft_steps", 0)}
    missing = [key for key, steps in rates.items() if steps and key not in given]
    if missing:
        if plan.circumstances.base_url is None and packaged_model(named) is None:
            find_model(named, field="model_name")  # one that is not there has no rate either
        small = "at=small, the settings for a small pretrained model; or " if At.SMALL in plan.entry.places else ""
        what = "no usual learning rate is known for this model, and none is given"
        fix = f"{small}{' '.join(f'{key}=...' for key in missing)} of your own"
        raise NoRateError(what, field="model_name", value=named, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """Plan with everything known before a server is contacted."""

    plan: Plan
    run_data: TaskData | PaperData
    model_name: str  # As the server knows it, without the adapter's suffix.
    models: Mapping[str, str]  # What an embedded server serves; empty where another server is used.


def gather(plan: Plan, say: Say) -> Materials:
    """Find or build the data and the model."""
    named_model(plan)  # what is refused is told before a world is built
    return with_model(plan, plan.experiment.subject.run_data(plan, say), say)


def with_model(plan: Plan, run_data: TaskData | PaperData, say: Say) -> Materials:
    """Find or build the model for this data."""
    named = named_model(plan)
    if plan.circumstances.base_url is not None:
        assert named is not None, "a server at base_url needs a model_name"
        return Materials(plan=plan, run_data=run_data, model_name=named[0], models={})
    return on_base(plan, run_data, *(named or (SERVED_NAME, str(run_data.nano_base(say)))))


def on_base(plan: Plan, run_data: TaskData | PaperData, name: str, source: str) -> Materials:
    """Return the materials of a run whose own server loads its base from `source`."""
    return Materials(plan=plan, run_data=run_data, model_name=name, models={name: source, **run_data.models()})


def require_possible(plan: Plan) -> None:
    """Check a run's requirements quickly: model, data, folder, server and key.

    A dry run needs no folder and no server.
    """
    where = plan.circumstances
    named_model(plan)
    require_own_rates(plan)
    if where.data is not None:
        if not where.data.is_dir():
            what = f"{where.data} is not a slice: there is no such folder"
            allowed = "a folder that `tinsmith data slice CORPUS|FILE` wrote"
            raise DataError(what, field="data", value=str(where.data), allowed=allowed)
        read_slice_card(where.data)
    if where.dry_run:
        return
    if where.device != "cpu" and where.base_url is None:
        require_gpu(where.device)
    chosen = where.behavior_if_log_dir_exists
    if where.log_path is not None and chosen is not IfExists.ASK:  # asked once, by what runs it
        require_room(where.log_path, settle(where.log_path, chosen))
    if where.base_url is not None:
        require_server(where.base_url)


KEY: Final = "TINKER_API_KEY"
_COMMAND: Final = "TINKER_CREDENTIAL_CMD"
_KEY_BEGINS: Final = "tml-"  # The SDK takes no other.
_ANSWER_SECONDS: Final = 10.0
_REFUSED: Final = (401, 403)


def require_server(base_url: str) -> None:
    """Check that a server answers at an address and accepts the configured key.

    A key that a command hands out (TINKER_CREDENTIAL_CMD) is the SDK's to ask for, and is not tried here.
    """
    key = os.environ.get(KEY)
    if not key and not os.environ.get(_COMMAND):
        what = "base_url is set, but TINKER_API_KEY is not"
        raise ConfigError(what, field=KEY, fix="export TINKER_API_KEY=tml-..., the server's key")
    if not base_url.startswith(("http://", "https://")):
        what = "this is not the address of a server"
        raise ConfigError(what, field="base_url", value=base_url, allowed="http://HOST:PORT, or https://...")
    import httpx  # seldom needed, and a tenth of a second to load

    try:
        # Without TLS there is nothing to verify, and to load the certificates takes longer than to ask.
        verify = base_url.startswith("https:")
        with httpx.Client(base_url=base_url.rstrip("/"), timeout=_ANSWER_SECONDS, verify=verify) as client:
            with client.stream("GET", "/api/v1/healthz"):
                pass  # that it answers is all that counts, however much it would say
            if not key:
                return
            with client.stream("GET", "/api/v1/get_server_capabilities", headers={"X-API-Key": key}) as response:
                status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"no server answers ({type(error).__name__})"
        raise LostError(
            what, field="base_url", value=base_url, fix="start the server, or give another address"
        ) from None
    if status in _REFUSED or not key.startswith(_KEY_BEGINS):
        raise wrong_key(base_url)


def wrong_key(base_url: str) -> ConfigError:
    """Return the error of a key that a server refuses; the key itself is not repeated."""
    what, allowed = f"the server at {base_url} refuses this key", "the key that the server was started with, tml-..."
    return ConfigError(what, field=KEY, allowed=allowed, fix="export TINKER_API_KEY=..., then the same command")
