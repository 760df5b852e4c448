"""Effect of RL on a real model, on this machine: SmolLM2-135M on sums, instructions, and pairs of papers.

    python examples/real_model.py [OUT] [corpus=FOLDER]      OUT: where the runs go (default out/real-model)

One page says what held-out items earned before and after. Then the trained model is exported and answers in
transformers, and the first run is made again and compared bit for bit. Pairs of papers need a corpus (`make real` makes
one); without one they are left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from tinsmith.cli.registered import plan_of, source_of
from tinsmith.engine.export import export
from tinsmith.lab.experiment.replay import replay
from tinsmith.lab.runs.files import ROLLOUTS, STATE
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.study.conduct import run_study
from tinsmith.lab.study.files import STUDY_JSON
from tinsmith.lab.study.keys import SUMS as FEW_TERMS
from tinsmith.lab.study.record import StudyRecord
from tinsmith.lab.study.report import page_of_study
from tinsmith.lab.study.sizes import CELLS
from tinsmith.models.published.package_index import fetch
from tinsmith.models.published.packaged import PACKAGED
from tinsmith.pages.document import Document, Section, note
from tinsmith.pages.page import document_html, write
from tinsmith.pages.tables import table_of, text
from tinsmith.studies.learning import study
from tinsmith.types.errors import TinsmithError

MODEL = PACKAGED["smollm2"]
SHARED = {
    "at": "small",
    "arms": "zero_shot,rl",
    "seeds": "1",
    "looks": "2",
    "eval_samples": "2",
    "eval_items": "60",
    "groups_per_batch": "8",
    "steps": "24",
}
SUMS = {**dict(one.split("=", 1) for one in FEW_TERMS.split()), "generator": "chain_sum", "score": "solved"}
INSTRUCTIONS = {"task": "instructions", "score": "prompt_strict", "most": "1", "max_tokens": "64"}
PAPERS = {
    "task": "taste",
    "score": "right",
    "rl_rates": "5e-4",
    "validation_pairs": "200",
    "eval_items": "400",
    "eval_samples": "1",
    "groups_per_batch": "32",
    "steps": "60",
}
COMPARED = 12
"""Held-out items that transformers answers too."""


def main() -> None:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    named = [argument for argument in sys.argv[1:] if "=" not in argument]
    out = Path(named[0] if named else "out/real-model")
    began = time.perf_counter()

    def say(message: str) -> None:
        print(f"[{time.perf_counter() - began:5.0f} s] {message}", flush=True)

    say(f"{MODEL.served_name}: {'fetched' if fetch(MODEL, lambda _done, _of: None) else 'here'}")
    tasks: dict[str, Mapping[str, str]] = {"Sums": SUMS, "Instructions": INSTRUCTIONS}
    if "corpus" in given:
        tasks["Pairs of papers"] = {**PAPERS, "data": given["corpus"]}
    else:
        say("pairs of papers are left out: corpus=FOLDER names one, make real-model DATA=... makes it")
    found: dict[str, StudyRecord] = {}
    for name, keys in tasks.items():
        say(f"{name}: training")
        folder = out / name.lower().replace(" ", "-")
        asked = {**SHARED, **keys, "out": str(folder)}
        run_study(study, asked, say, open_source=source_of)
        found[name] = msgspec.json.decode((folder / STUDY_JSON).read_bytes(), type=StudyRecord)
    first = next((out / "sums" / CELLS).glob("rl-*"))
    page = Document(
        kind="Report of studies",
        title="What RL teaches a real model on this machine",
        question="SmolLM2-135M-Instruct, from its published weights, trained by RL on rewards that a program computes. "
        "What do held-out items earn before and after?",
        facts=(("Model", MODEL.served_name), ("Tasks", ", ".join(found))),
        sections=(
            *(section for name, one in found.items() for section in _learned(name, one)),
            _in_transformers(first, out, say),
            _again(first, say),
        ),
    )
    write(document_html(page), out / "report.html")
    say(f"wrote {out / 'report.html'}: open it in a browser")


def _learned(name: str, found: StudyRecord) -> list[Section]:
    """Return a study's sentences with its picture, its gains, and its answers."""
    shown = [one for one in page_of_study(found, {}).sections if one.anchor in ("summary", "gains", "answers")]
    return [replace(one, anchor=f"{one.anchor}-{name[:4]}".lower(), title=f"{name}: {one.title}") for one in shown]


def _in_transformers(run: Path, out: Path, say: Callable[[str], None]) -> Section:
    """Export the trained model, and have transformers answer held-out items greedily."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tinsmith.renderers.choose import renderer_for
    from tinsmith.renderers.renderer import Message, Role

    place = out / "exported"
    if not place.exists():
        say("exporting the trained model")
        export(str(run), to="merged", out=place, state=run / STATE)
    say("asking transformers the same")
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    renderer, folder = renderer_for(tokenizer), RunFolder(run)
    prompts = {one["id"]: one["prompt"] for one in folder.read_json("task.json")["items"]}  # type: ignore[attr-defined]
    lines = folder.read_lines(ROLLOUTS)
    last = max(int(str(one["step"])) for one in lines)
    ours = [one for one in lines if one["split"] == "eval_greedy" and one["step"] == last]
    rows: list[tuple[str, str, str]] = []
    for one in ours[:COMPARED]:
        asked = prompts[str(one["prompt_id"])]
        tokens = renderer.build_generation_prompt((Message(role=Role.USER, content=asked),))
        read = torch.tensor([list(tokens)])
        with torch.no_grad():
            written = model.generate(read, attention_mask=torch.ones_like(read), do_sample=False, max_new_tokens=24)
        theirs = renderer.parse_response(written[0, len(tokens) :].tolist()).message.content
        rows.append((asked.splitlines()[0], str(one["text"]), theirs))
    equal = sum(mine == theirs for _, mine, theirs in rows)
    say(f"transformers gives {equal} of {len(rows)} answers in the same words")
    table = table_of(
        "The model after RL on sums, exported as a merged Hugging Face folder in fp32; both answer greedily.",
        rows,
        ("Held-out item", lambda row: text(row[0])),
        (text("tinsmith"), lambda row: text(row[1])),
        (text("transformers"), lambda row: text(row[2])),
    )
    words = f"{equal} of {len(rows)} answers are the same, word for word."
    return Section("transformers", "The same in transformers", (note(words), table))


def _again(run: Path, say: Callable[[str], None]) -> Section:
    """Run the first run again from what its folder says, and compare the two bit for bit."""
    say("running the first run again")
    done = replay(run, plan_of, steps=None, out=None, say=say)
    hashes = RunFolder(run).read_json("manifest.json")["hashes"]
    assert isinstance(hashes, dict)
    equal = done.comparison.equal
    say(f"the same run again: {'every hash is equal' if equal else 'NOT the same'}")
    table = table_of(
        "SHA-256 of what the run left, its first 16 digits.",
        [(str(name).removesuffix("_sha256"), str(value)[:16]) for name, value in hashes.items()],
        ("Of the run's", lambda row: text(row[0])),
        (text("hash"), lambda row: text(row[1])),
    )
    words = (
        "The run of sums was run again from its folder, in another process: weights, rollouts, metrics and the trace "
        f"of every optimizer step {'are equal to the last bit' if equal else 'are NOT equal'}."
    )
    return Section("again", "The same again", (note(words), table))


if __name__ == "__main__":
    try:
        main()
    except TinsmithError as error:
        sys.exit(f"tinsmith: {error}")
