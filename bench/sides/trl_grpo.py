"""TRL's side of a GRPO step: GRPOTrainer with a LoRA of peft on the folder, fp32, no reference model."""

from __future__ import annotations

import sys
import tempfile
import warnings
from typing import Any

import torch
import transformers
from datasets import Dataset
from peft import LoraConfig
from side import Measured, measure, serve
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

LORA = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


def trainer(folder: str, task: dict[str, Any], out: str) -> GRPOTrainer:
    """It takes one step of the task's size; `rows` of it at once."""
    count, samples, new = len(task["prompts"]), task["samples"], task["new"]
    rows = min(task["rows"], count * samples)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [tokenizer.decode(ids) for ids in task["prompts"]]
    tokenizer.add_special_tokens({"eos_token": "<|never|>"})  # an id that the model does not have

    def rewards(completion_ids: list[list[int]], **_: Any) -> list[float]:
        assert all(len(ids) == new for ids in completion_ids)
        return [sum(token % 2 == 0 for token in ids) / new for ids in completion_ids]

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    made = GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=GRPOConfig(
            output_dir=out,
            use_cpu=True,
            bf16=False,
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            max_steps=1,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=count * samples // rows,
            gradient_checkpointing=task["checkpointing"],
            num_generations=samples,
            max_completion_length=new,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            scale_rewards="none",
            beta=0.0,
        ),
        train_dataset=Dataset.from_list([{"prompt": text} for text in texts]),
        processing_class=tokenizer,
        peft_config=LORA,
    )
    made.remove_callback(PrinterCallback)
    return made


def main() -> None:
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(int(sys.argv[2]))

    def work(task: dict[str, Any]) -> Measured:
        with tempfile.TemporaryDirectory() as out:
            made = trainer(f"{sys.argv[1]}/folder", task, out)

            def step() -> int:
                made.train()
                return len(task["prompts"]) * task["samples"] * task["new"]

            return measure(step)

    serve(work)


if __name__ == "__main__":
    main()
