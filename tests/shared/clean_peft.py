"""What plain PEFT and transformers say of an exported adapter: in a process that knows only them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = """
import json, sys
import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

answers = {}
for name, case in json.load(open(sys.argv[1])).items():
    base = AutoModelForCausalLM.from_pretrained(case["base"])
    model = PeftModel.from_pretrained(base, case["adapter"]).eval()
    with torch.no_grad():
        rows = [model(torch.tensor([ids])).logits[0].double() for ids in case["tokens"]]
    answers[name] = torch.log_softmax(torch.cat(rows), -1)
save_file(answers, sys.argv[2])
"""


def clean_answers(folder: Path, questions: Mapping[str, object]) -> Path:
    """Ask of each case's `base`, `adapter` and `tokens`; return the file of its log-probabilities, (positions, V)."""
    (folder / "script.py").write_text(_SCRIPT)
    (folder / "questions.json").write_text(json.dumps(questions))
    answers = folder / "answers.safetensors"
    command = ["-I", "script.py", "questions.json", answers.name]
    ran = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "missing adapter keys" not in ran.stderr
    assert "unexpected adapter keys" not in ran.stderr
    return answers
