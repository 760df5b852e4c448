"""A task of lm-eval by one of its models; prints the metrics, and what each item was answered with.

    python with_lm_eval.py KIND ARGUMENTS FOLDER TASK        # and OPENAI_API_KEY

KIND is the name of an lm-eval model, ARGUMENTS what it is made with; FOLDER has TASK. A chat is given chats.
"""

import json
import sys
from typing import Any

import lm_eval
from lm_eval.tasks import TaskManager


def main(kind: str, arguments: str, folder: str, task: str) -> Any:
    done = lm_eval.simple_evaluate(
        model=kind,
        model_args=arguments,
        tasks=[task],
        task_manager=TaskManager(include_path=folder, include_defaults=False),
        batch_size=1 if "chat" in kind else 8,
        apply_chat_template="chat" in kind,
        device="cpu",
        bootstrap_iters=0,
    )
    return {
        "metrics": {name: value for name, value in done["results"][task].items() if name.startswith(("acc", "exact"))},
        "items": [sample["filtered_resps"] for sample in sorted(done["samples"][task], key=lambda s: s["doc_id"])],
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
