"""Export of a checkpoint for other programs: as PEFT's adapter, or merged into a model folder or GGUF file.

The written files are read back and compared with the trained model, on every token's log-probability at probe
positions. Adapter and merged weights compute the same sums in two ways, which fp32 rounds differently, more so in
deeper models. So the difference is compared with that of another order of the sums on the same model.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np
from torch import Tensor

from tinsmith.engine.checkpoints import Checkpoint, is_checkpoint, load_adapter, read
from tinsmith.engine.tinker_paths import SCHEME, TinkerPath
from tinsmith.models.adapter import Adapter
from tinsmith.models.base import OpenedBase, open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.folders.folder import read_weights, write_folder
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.gguf.file import SUFFIX, Value, read_gguf
from tinsmith.models.gguf.model import read_model
from tinsmith.models.gguf.same_tokens import check_same_tokens, first_difference, other_tokens
from tinsmith.models.gguf.tokenizer import file_tokenizer
from tinsmith.models.gguf.tokens import COMPOSES
from tinsmith.models.gguf.vocabulary import vocabulary
from tinsmith.models.gguf.writing import StoredAs, stored_values, write_gguf
from tinsmith.models.merge import max_logprob_difference, merged_config, merged_weights, probe_sequences
from tinsmith.models.peft_format import export_peft, import_peft
from tinsmith.models.published.packaged import PREFIX
from tinsmith.models.published.sources import find_model, is_here
from tinsmith.models.rounding import rounding_difference
from tinsmith.models.staging import is_taken, present, staged
from tinsmith.ops.native import NativeKernels
from tinsmith.renderers.tokenizer import load_tokenizer, preset_tokenizer, save_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError
from tinsmith.types.home import bases_folder
from tinsmith.types.json_text import parse_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ExportFormat = Literal["peft", "merged", "gguf"]

TIMES_ROUNDING: Final = 4.0
"""Limit on a merged model's difference, as a multiple of that of another order of its sums: both are maxima of noise of
one kind, and a weight that was merged wrongly differs by thousands of times."""

RUN_CHECKPOINTS = "checkpoints.jsonl"
RUN_MANIFEST = "manifest.json"
RUN_STATE = "checkpoints"
"""Folder inside a run's folder with the state of the run's own server."""

_NOT_COMPOSED: Final = (
    "llama.cpp does not compose letters (NFC) before it makes tokens: text with accents apart gets others there"
)
_COMPOSED: Final = (
    "transformers composes letters (NFC) before it makes tokens for a qwen2 folder, unlike the base's file: text with "
    "accents apart gets others there"
)
_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "chat_template.jinja"),
    *("chat_template.json", "generation_config.json"),
)
_MORE_TEMPLATES: Final = "additional_chat_templates"
"""Folder of named chat templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Written files, and their difference from the trained model."""

    out: Path
    files: tuple[str, ...]
    checkpoint: Checkpoint
    difference: float
    """Largest difference of a log-probability in nats; NaN where one is not finite."""
    limit: float
    """Largest difference that counts as the same model: 0 for an adapter, whose arithmetic does not change."""
    moved: float | None
    """Same difference for stored weights that were rounded further, as in a GGUF file of fp16; None elsewhere."""
    num_positions: int
    vocab_size: int
    note: str | None = None
    """Known deviation of other programs that read the file; None if none is known."""

    @property
    def within_limit(self) -> bool:
        """True if the difference is at most the limit; False for NaN."""
        return self.difference <= self.limit


def _built_here(name: str) -> str | None:
    """Return the folder of a small base that was built here, which a packed checkpoint names by its last part."""
    if "/" in name or is_here(name):
        return None  # a path or a full name, of which it is said how to get the model
    if (place := present(bases_folder() / name)).is_dir():
        return str(place)
    raise ConfigError(
        "the base model of this checkpoint is not here",
        field="--base",
        value=name,
        allowed="a folder, a .gguf file or a name of the model that it was trained on",
        fix="name it with --base MODEL; `tinsmith audit DIR` of a run builds a small base of its own again",
    )


def export(
    checkpoint: str,
    *,
    to: ExportFormat,
    out: Path,
    state: Path,
    base: str | None = None,
    stored_as: StoredAs | None = None,
) -> Exported:
    """Write a checkpoint for other programs into the new folder `out`, or as the new file `out` for `gguf`.

    `checkpoint` is a checkpoint's folder, a run's folder (its last checkpoint), or a `tinker://` path below `state`.
    `base` names the base model, if it is not the one named in the checkpoint. `stored_as` is the type of the matrices
    in a GGUF file, fp32 by default.

    Raises:
        ConfigError: something is at `out`, there is no such checkpoint or base, or all weights were
            trained and an adapter is requested.
        InputError: a path that is not one of a checkpoint.
        CheckpointError: the checkpoint is damaged, or of another base model.
    """
    if is_taken(out):
        raise ConfigError(
            "there is already something at this place", field="--out", value=str(out), fix="name a new place"
        )
    if to == "gguf" and out.suffix != SUFFIX:
        raise ConfigError(
            "the name of a GGUF file must end in .gguf", field="--out", value=str(out), allowed=f"FILE{SUFFIX}"
        )
    if to != "gguf" and stored_as is not None:
        raise ConfigError("this choice exists for GGUF files only", field="--stored-as", value=stored_as.value)
    saved = read(find_checkpoint(checkpoint, state))
    base = base or _built_here(saved.base.name)
    opened = open_base(base or saved.base.name, seed=saved.base.seed)
    kernels = NativeKernels()
    decoder = build_decoder(opened.config, opened.weights, kernels, quantised=saved.spec.kind.quantised)
    adapter = load_adapter(decoder, saved, base=opened.identity)
    note: str | None = None
    if to == "peft":
        # Name by which PEFT can find the base: its current path, else its original name.
        named = str(Path(base).resolve()) if base and Path(base).exists() else base
        export_peft(adapter, out, base_name=named or saved.base.name)
        difference, limit = max_logprob_difference(adapter, import_peft(out, decoder)), 0.0
        moved = None
    elif to == "merged":
        tokens_note = _write_merged(adapter, opened, out)
        difference, limit = _merged_difference(adapter, read_weights(out, read_config(out)))
        moved, note = None, _notes(tokens_note, _context_note(opened))
    else:
        tokenizer = _gguf_vocabulary(opened, merged_config(adapter), out)
        difference, limit, moved = _export_gguf(adapter, tokenizer, out, stored_as or StoredAs.F32)
        note = _notes(_NOT_COMPOSED if COMPOSES in tokenizer else None, _context_note(opened))
    return Exported(
        out=out,
        files=tuple(sorted(file.name for file in out.iterdir())) if out.is_dir() else (out.name,),
        checkpoint=saved,
        difference=difference,
        limit=limit,
        moved=moved,
        num_positions=sum(len(s) for s in probe_sequences(opened.config, seed=0)),
        vocab_size=opened.config.vocab_size,
        note=note,
    )


def find_checkpoint(text: str, state: Path) -> Path:
    """Return the checkpoint folder for a `tinker://` path, a run's folder or a checkpoint's folder.

    Raises:
        InputError: a `tinker://` path of another form.
        CheckpointError: there is no such checkpoint.
    """
    if text.startswith(SCHEME):
        return _below_state(text, state)
    folder = Path(text)
    if is_checkpoint(folder):
        return folder
    if (folder / RUN_CHECKPOINTS).is_file():
        own = folder / RUN_STATE
        return _last_of_run(folder / RUN_CHECKPOINTS, own if own.is_dir() else state)
    raise CheckpointError(
        "there is no such checkpoint",
        field="CHECKPOINT",
        value=text,
        allowed=f"a checkpoint's folder, a run's folder with {RUN_CHECKPOINTS}, or {SCHEME}SESSION/weights/NAME",
    )


def _below_state(text: str, state: Path) -> Path:
    folder = TinkerPath.parse(text).folder(state)
    if not is_checkpoint(folder):
        raise CheckpointError(
            "there is no such checkpoint",
            field="CHECKPOINT",
            value=text,
            allowed=f"one that is below {state}",
            fix="give the server's state folder: --state DIR",
        )
    return folder


def _last_of_run(file: Path, state: Path) -> Path:
    """Checkpoint of the last row, or without rows the one chosen by the run; the first existing one of two paths."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    manifest = file.with_name(RUN_MANIFEST)
    try:
        row: object = parse_json(lines[-1]) if lines else None
        if not lines and manifest.is_file():
            row = cast("dict[str, object]", parse_json(manifest.read_text(encoding="utf-8"))).get("selected")
    except ValueError:
        row = None
    values = cast("dict[str, object]", row) if isinstance(row, dict) else {}
    paths = [path for path in (values.get("sampler_path"), values.get("state_path")) if isinstance(path, str)]
    if not paths:
        raise CheckpointError(
            f"{file}: the last row names no checkpoint",
            field=f"line {len(lines)}",
            value=lines[-1] if lines else "",
            allowed="a JSON object with state_path or sampler_path",
            fix=f"give the {SCHEME} path of a checkpoint instead of the run's folder",
        )
    for path in paths:
        if path.startswith(SCHEME) and is_checkpoint(TinkerPath.parse(path).folder(state)):
            return TinkerPath.parse(path).folder(state)
    return _below_state(paths[0], state)


def _write_merged(adapter: Adapter, opened: OpenedBase, out: Path) -> str | None:
    """Write the folder; return the known deviation of its tokenizer, if any."""
    with staged(out) as whole:
        write_folder(whole, merged_config(adapter), merged_weights(adapter))
        if opened.folder is None:
            preset = opened.identity.name.removeprefix(PREFIX)
            save_tokenizer(preset_tokenizer(preset), whole)
            return None
        for name in _TOKENIZER_FILES:
            if (opened.folder / name).is_file():
                shutil.copyfile(opened.folder / name, whole / name)
        if (opened.folder / _MORE_TEMPLATES).is_dir():
            shutil.copytree(opened.folder / _MORE_TEMPLATES, whole / _MORE_TEMPLATES)
        return _tokens_note(opened.folder, whole, out)


def _tokens_note(base: Path, whole: Path, out: Path) -> str | None:
    """Check that the tokenizer beside the new config.json makes the base's tokens; note if it composes letters first.

    transformers rebuilds the tokenizer of some types of model by rules of their own, whatever tokenizer.json says.

    Raises:
        CheckpointError: it makes others.
    """
    try:
        wanted = load_tokenizer(base)
    except ConfigError:
        return None  # without a usable tokenizer there is nothing to compare
    written = load_tokenizer(whole)
    marks = [each.content for which in (wanted, written) for each in which.added_tokens_decoder.values()]
    found = first_difference(wanted.encode, written.encode, marks)
    if found is None:
        return None
    if first_difference(lambda text: wanted.encode(unicodedata.normalize("NFC", text)), written.encode, marks) is None:
        return _COMPOSED
    raise other_tokens(found, file=out, fix="export --to gguf, or --to peft for the base as it is")


def _notes(*notes: str | None) -> str | None:
    return "\n".join(each for each in notes if each is not None) or None


def _context_note(opened: OpenedBase) -> str | None:
    """Note that the export has a shorter context than its base's config.json, whose sliding window is left out."""
    file = None if opened.folder is None else opened.folder / "config.json"
    if file is None or not file.is_file():
        return None
    published = cast("Mapping[str, object]", parse_json(file.read_text(encoding="utf-8")))
    positions, written = published.get("max_position_embeddings"), opened.config.max_positions
    if positions == written:
        return None
    return (
        f"its context is {written} tokens, not {positions}: a sliding window has no effect up to there, and is left out"
    )


def _merged_difference(adapter: Adapter, weights: Mapping[str, Tensor]) -> tuple[float, float]:
    """Return the difference of the merged weights from the adapter on its base, and its limit for the same function."""
    config, kernels = merged_config(adapter), adapter.decoder.kernels
    difference = max_logprob_difference(adapter, build_decoder(config, weights, kernels))
    return difference, TIMES_ROUNDING * rounding_difference(config, weights, kernels)


def _gguf_vocabulary(opened: OpenedBase, config: DecoderConfig, out: Path) -> Mapping[str, Value]:
    """Return the keys of the tokenizer, provided that they read back as the same tokenizer."""
    keys = vocabulary(find_model(opened.identity.name), config.vocab_size, config.end_tokens)
    preset = opened.identity.name.removeprefix(PREFIX)
    wanted = preset_tokenizer(preset) if opened.folder is None else load_tokenizer(opened.folder)
    backend = cast("PreTrainedTokenizerFast", wanted).backend_tokenizer
    check_same_tokens(backend, file_tokenizer(keys, out).backend_tokenizer, rows=config.vocab_size, file=out)
    return keys


def _export_gguf(
    adapter: Adapter, tokenizer: Mapping[str, Value], out: Path, stored_as: StoredAs
) -> tuple[float, float, float | None]:
    """Write the file, and check that it reads back as the merged weights, bit for bit up to the requested rounding."""
    config, weights = merged_config(adapter), merged_weights(adapter)
    difference, limit = _merged_difference(adapter, weights)
    write_gguf(out, config, weights, tokenizer, stored_as=stored_as, name=out.stem)
    written = read_gguf(out)
    read_config_back, read_back = read_model(written)
    pairs = (
        (name, stored_values(name, tensor.cpu().numpy(), stored_as), read_back[name])
        for name, tensor in weights.items()
    )
    wrong = [key for key, value in tokenizer.items() if written.metadata.get(key) != value]
    wrong += [name for name, stored, read in pairs if not np.array_equal(stored.astype("float32"), read.numpy())]
    if wrong:
        out.unlink()
        raise CheckpointError("the file does not hold what was written", field=wrong[0], value=str(out))
    if stored_as is StoredAs.F32:
        return difference, limit, None
    other = build_decoder(read_config_back, read_back, adapter.decoder.kernels)
    return difference, limit, max_logprob_difference(adapter, other)
