"""Export of weights in public formats: PEFT adapters, or whole models if all weights are trained; with download links.

A download link is signed: an HMAC over file and expiry under a secret of this server's process, so that a plain HTTP
client can fetch it without the key. It gives access to the files of one export only.
"""

from __future__ import annotations

import hashlib
import hmac
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tinsmith.engine.tinker_paths import CheckpointKind, TinkerPath
from tinsmith.engine.training import TrainingSession
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.merge import merged_config, merged_weights
from tinsmith.models.peft_format import export_peft
from tinsmith.server.access.caller import is_own
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import InputError

VALID_SECONDS = 3600
ROUTE = "/api/v1/external_files"
KIND = "external_weights"
"""Middle part of an export's tinker:// path, and its folder's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One export on disk."""

    model_id: str
    name: str
    created_at: float
    """Wall clock time in seconds since 1970."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class External:
    """Exports below a state folder, and their signed links."""

    state: Path
    key: str

    def save(self, session: TrainingSession, model_id: str, name: str, base_name: str) -> str:
        """Export a session's current weights; return the tinker:// path.

        Raises:
            InputError: an export of this name exists already.
        """
        folder = self._folder(model_id, name)
        if folder.exists():
            raise InputError(
                "an export of this name exists already", field="name", value=name, fix="choose another name"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        adapter = session.adapter
        if adapter.spec.kind is AdapterKind.FULL:
            write_folder(folder, merged_config(adapter), merged_weights(adapter))
        else:
            export_peft(adapter, folder, base_name=base_name)
        return f"tinker://{model_id}/{KIND}/{name}"

    def exports(self, model_id: str) -> list[Export]:
        """Return the exports of one training run, by name."""
        parent = self._folder(model_id, "x").parent
        if not is_own(model_id) or not parent.is_dir():
            return []
        folders = [f for f in sorted(parent.iterdir()) if f.is_dir() and not f.name.startswith(".")]
        return [
            Export(
                model_id=model_id,
                name=folder.name,
                created_at=folder.stat().st_mtime,
                size_bytes=sum(file.stat().st_size for file in folder.iterdir()),
            )
            for folder in folders
        ]

    def delete(self, model_id: str, name: str) -> None:
        """Delete an export's files.

        Raises:
            InputError: there is no such export.
        """
        folder = self._existing(model_id, name)
        shutil.rmtree(folder)

    def urls(self, model_id: str, name: str, base_url: str) -> dict[str, object]:
        """Return a signed link per file, and their expiry.

        Raises:
            InputError: there is no such export.
        """
        folder = self._existing(model_id, name)
        expires = int(time.time()) + VALID_SECONDS
        files = sorted(file.name for file in folder.iterdir() if file.is_file())
        return {
            "urls": {
                file: f"{base_url.rstrip('/')}{ROUTE}/{quote(model_id)}/{quote(name)}/{quote(file)}"
                f"?expires={expires}&signature={self._sign(model_id, name, file, expires)}"
                for file in files
            },
            "expires": datetime.fromtimestamp(expires, UTC).isoformat(),
        }

    def file(self, model_id: str, name: str, file: str, expires: int, signature: str) -> Path:
        """Return the file of a signed link.

        Raises:
            InputError: the link was not signed here, has expired, or names no file.
        """
        expected = self._sign(model_id, name, file, expires)
        if not hmac.compare_digest(expected.encode(), signature.encode()) or expires < time.time():
            raise InputError("this address is not valid (any more)", fix="ask for the addresses again")
        folder = self._folder(model_id, name)
        found = {entry.name: entry for entry in folder.iterdir()} if folder.is_dir() else {}
        if file not in found:
            raise InputError("there is no such file", field="file", value=file)
        return found[file]

    def _existing(self, model_id: str, name: str) -> Path:
        folder = self._folder(model_id, name)
        if not is_own(model_id) or not folder.is_dir():
            raise InputError("there is no such export", field="path", value=f"{model_id}/{name}")
        return folder

    def _folder(self, model_id: str, name: str) -> Path:
        """Return an export's folder; its name is validated like a checkpoint's, so it stays in the state folder."""
        path = TinkerPath(session=model_id, kind=CheckpointKind.WEIGHTS, name=name)
        return path.folder(self.state).parent.parent / KIND / name

    def _sign(self, model_id: str, name: str, file: str, expires: int) -> str:
        text = "\n".join(("external", model_id, name, file, str(expires)))
        return hmac.new(self.key.encode(), text.encode(), hashlib.sha256).hexdigest()
