"""CTranslate2's side of sampling: its Generator on the converted folder, fp32."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ctranslate2
from side import Measured, measure, serve


def main() -> None:
    folder = Path(sys.argv[1]) / "ctranslate2"
    words = json.loads((folder / "vocabulary.json").read_text())
    generator = ctranslate2.Generator(str(folder), compute_type="float32", intra_threads=int(sys.argv[2]))

    def work(task: dict[str, Any]) -> Measured:
        """Of its settings: `prompts_at_once`; `topk` 0 draws from the whole distribution."""
        prompts = [[words[token] for token in prompt] for prompt in task["prompts"]]

        def run() -> int:
            results = generator.generate_batch(
                prompts,
                max_batch_size=task["prompts_at_once"],
                num_hypotheses=task["samples"],
                sampling_topk=task["topk"],
                max_length=task["new"],
                min_length=task["new"],
                include_prompt_in_result=False,
            )
            return sum(len(ids) for result in results for ids in result.sequences_ids)

        return measure(run)

    serve(work)


if __name__ == "__main__":
    main()
