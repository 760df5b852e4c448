"""Listings of the REST endpoints: capabilities, training runs, checkpoints, sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tinsmith.engine.bases import Bases
from tinsmith.engine.checkpoint_files import ADAPTER
from tinsmith.engine.checkpoints import read
from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.models.config import Mixture
from tinsmith.server.access.caller import is_own
from tinsmith.server.database.records import CheckpointRecord, TrainingRun
from tinsmith.server.database.store import Store
from tinsmith.server.external import KIND as EXTERNAL_KIND
from tinsmith.server.external import Export, External
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import InputError
from tinsmith.types.fingerprints import tensors_sha256
from tinsmith.types.version import VERSION

Answer = dict[str, object]


@dataclass(frozen=True, slots=True)
class Listing:
    """Listings from the store and the files."""

    store: Store
    engine: Bases
    state: Path
    external: External

    def capabilities(self) -> Answer:
        """Return the served models, each also with the adapters' suffixes."""
        models: list[Answer] = []
        for name in self.engine.names:
            for kind in AdapterKind:
                shown = name if kind is AdapterKind.LORA else f"{name}:{kind}"
                models.append(
                    {
                        "model_name": shown,
                        "max_context_length": self.engine.config(name).max_positions,
                        "trainable": True,
                        "sampleable": True,
                        "identity": self._identity(name),
                    }
                )
        return {"supported_models": models}

    def _identity(self, name: str) -> Answer:
        """Return the model identity that determines its answers; not part of Tinker's API."""
        identity: Answer = {
            "fingerprint": self.engine.base(name).fingerprint,
            "arithmetic": self.engine.kernels.arithmetic.value,
            "certificate": self.engine.certificate_sha256(name),
            "deviation": self.engine.parts.deviation.value,
            "gradient_unit": self.engine.gradient_unit.value,
            "version": VERSION,
        }
        mixture = self.engine.config(name).mixture
        if mixture is not None:
            identity["routes"] = _routes(mixture, self.engine.kernels.arithmetic)
        return identity

    def training_runs(self, limit: int, offset: int, project_id: str | None = None) -> Answer:
        """Return a page of training runs (of one project's sessions), newest first."""
        runs, count = self.store.training_runs_page(limit=limit, offset=offset, project_id=project_id)
        return {"training_runs": [*map(self._run, runs)], "cursor": _cursor(offset, limit, count)}

    def training_run(self, model_id: str) -> Answer:
        """Return one training run."""
        run = self.store.training_run(model_id)
        if run is None:
            raise InputError("there is no such training run", field="training_run_id", value=model_id)
        return self._run(run)

    def run_checkpoints(self, model_id: str) -> Answer:
        """Return the checkpoints of one training run."""
        self.training_run(model_id)
        records = self.store.checkpoints(model_id=model_id)
        exports = self.external.exports(model_id)
        return {"checkpoints": [*map(_checkpoint, records), *map(_export, exports)]}

    def checkpoints(self, limit: int, offset: int) -> Answer:
        """Return a page of all checkpoints, newest first."""
        exports = [e for run in self.store.training_runs() for e in self.external.exports(run.model_id)]
        found = [*map(_checkpoint, self.store.checkpoints()), *map(_export, exports)]
        found.sort(key=lambda one: str(one["time"]), reverse=True)
        page = found[offset : offset + limit]
        return {"checkpoints": page, "cursor": _cursor(offset, limit, len(found))}

    def storage(self, project_id: str | None) -> Answer:
        """Return the number of checkpoints and their bytes by project; nothing is billed."""
        projects = self.store.projects()
        sizes: dict[str | None, list[int]] = {}
        for run in self.store.training_runs():
            project = projects.get(run.session_id)
            if project_id is None or project == project_id:
                records = self.store.checkpoints(model_id=run.model_id)
                sizes.setdefault(project, []).extend(one.size_bytes for one in records)
        data = [
            {
                "project_id": project,
                "checkpoint_count": len(found),
                "size_bytes": sum(found),
                "size_gigabytes": sum(found) / 1e9,
            }
            for project, found in sorted(sizes.items(), key=lambda item: item[0] or "")
            if found
        ]
        return {"data": data}

    def delete(self, model_id: str, kind: str, name: str) -> Answer:
        """Delete the files of a checkpoint or an export."""
        if kind == EXTERNAL_KIND:
            self.external.delete(model_id, name)
            return {}
        path = self._existing(model_id, kind, name)
        if not self.store.delete_checkpoint(path):
            raise _missing(path)
        return {}

    def set_ttl(self, model_id: str, kind: str, name: str, ttl_s: int | None) -> Answer:
        """Set or clear the expiry of a checkpoint."""
        path = self._existing(model_id, kind, name)
        if not self.store.set_ttl(path, ttl_s):
            raise _missing(path)
        return {}

    def set_public(self, model_id: str, kind: str, name: str, *, public: bool) -> Answer:
        """Publish a checkpoint to every key of this server, or withdraw it."""
        self.store.set_public(self._existing(model_id, kind, name), public)
        return {}

    def weights_info(self, text: str) -> Answer:
        """Return the facts that a client needs to load a checkpoint."""
        path = TinkerPath.parse(text)
        checkpoint = read(self.store.require_checkpoint(path))
        spec = checkpoint.spec
        record = self.store.checkpoint(path)
        lora = spec.kind is not AdapterKind.FULL
        return {
            "base_model": record.base_model if record else "",
            "is_lora": lora,
            "lora_rank": spec.rank if lora else None,
            "train_unembed": spec.train_unembed,
            "train_mlp": spec.train_mlp,
            "train_attn": spec.train_attn,
            "weights_sha256": tensors_sha256(
                {name: t.cpu().numpy() for name, t in checkpoint.tensors(ADAPTER).items()}
            ),
        }

    def sessions(self, limit: int, offset: int) -> Answer:
        """Return a page of session ids, newest first."""
        return {"sessions": [*self.store.session_ids(limit=limit, offset=offset)]}

    def session(self, session_id: str) -> Answer:
        """Return one session's training runs and sampling sessions."""
        session = self.store.session(session_id)
        if session is None:
            raise InputError("there is no such session", field="session_id", value=session_id)
        runs = self.store.training_runs(session_id=session_id)
        samplers = self.store.sampling_sessions(session_id=session_id)
        return {
            "training_run_ids": [run.model_id for run in runs],
            "sampler_ids": [sampler.sampling_session_id for sampler in samplers],
            "user_metadata": _metadata(session.user_metadata),
            "display_name": session.display_name,
        }

    def _existing(self, model_id: str, kind: str, name: str) -> TinkerPath:
        path = TinkerPath.parse(f"tinker://{model_id}/{kind}/{name}")
        if not is_own(model_id) or self.store.checkpoint(path) is None:
            raise _missing(path)
        return path

    def _run(self, run: TrainingRun) -> Answer:
        lora = run.spec.kind is not AdapterKind.FULL
        records = self.store.checkpoints(model_id=run.model_id)
        last = {
            kind: next((_checkpoint(r) for r in reversed(records) if r.kind is kind), None) for kind in CheckpointKind
        }
        return {
            "training_run_id": run.model_id,
            "base_model": run.base_model,
            "model_owner": "local",
            "is_lora": lora,
            "lora_rank": run.spec.rank if lora else None,
            "last_request_time": _time(run.last_request_at),
            "last_checkpoint": last[CheckpointKind.WEIGHTS],
            "last_sampler_checkpoint": last[CheckpointKind.SAMPLER_WEIGHTS],
            "user_metadata": _metadata(run.user_metadata),
        }


def _missing(path: TinkerPath) -> InputError:
    return InputError("there is no such checkpoint", field="path", value=str(path))


def _checkpoint(record: CheckpointRecord) -> Answer:
    training = record.kind is CheckpointKind.WEIGHTS
    return {
        "checkpoint_id": f"{record.kind}/{record.path.name}",
        "checkpoint_type": "training" if training else "sampler",
        "time": _time(record.created_at),
        "tinker_path": str(record.path),
        "size_bytes": record.size_bytes,
        "public": record.public,
        "user_metadata": _metadata(record.user_metadata),
        "expires_at": None if record.expires_at is None else _time(record.expires_at),
    }


def _export(export: Export) -> Answer:
    return {
        "checkpoint_id": f"{EXTERNAL_KIND}/{export.name}",
        "checkpoint_type": "external",
        "time": _time(export.created_at),
        "tinker_path": f"tinker://{export.model_id}/{EXTERNAL_KIND}/{export.name}",
        "size_bytes": export.size_bytes,
        "public": False,
    }


def _metadata(metadata: Mapping[str, object] | None) -> Answer | None:
    return None if metadata is None else dict(metadata)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _cursor(offset: int, limit: int, total: int) -> Answer:
    return {"offset": offset, "limit": limit, "total_count": total}


def _routes(mixture: Mixture, arithmetic: Arithmetic) -> str:
    """Return a description of a mixture's routing in sampler and trainer, and its guarantee."""
    rule = f"{mixture.num_active} of {mixture.num_experts} experts, equal logits to the lower one"
    if arithmetic is Arithmetic.FAST:
        return f"{rule}; a token's may differ between batches"
    return f"{rule}; a token's are the same in every batch, sampled and trained"
