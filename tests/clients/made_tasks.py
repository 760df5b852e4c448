"""Tasks of lm-eval made on the spot: sums and sequences with four choices each, drawn from a seed."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from talking_model import RIGHT, WRONG

SEQUENCES = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "January February March April May June July August September October November December",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune",
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu",
    "do re mi fa so la ti",
    "hydrogen helium lithium beryllium boron carbon nitrogen oxygen fluorine neon sodium",
    "red orange yellow green blue indigo violet",
)

Row = dict[str, object]


def write_tasks(folder: Path, count: int, seed: int = 0) -> None:
    """Write the tasks `made` (choices, of which `count` items), `ended` (choices of the talking model) and `said`."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    makers: Sequence[Callable[[random.Random], Row]] = (_sum, _sequence)
    _choices(folder, "made", [makers[i % 2](draw) for i in range(count)], delimiter=" ")
    ended = [
        {"text": f"What is {i} + {42 - i}?<|answer|>{answer}", "choices": [WRONG, RIGHT], "gold": 1}
        for i, answer in enumerate(("42", "41", "42, I think,"))
    ]
    _choices(folder, "ended", ended, delimiter="")
    _write(folder, "said", [{"text": f"What is {i} + {42 - i}?"} for i in range(4)])
    (folder / "said.yaml").write_text(
        f"""task: said
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{folder / "answer.jsonl"}"}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "42 is the sum."
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 16, do_sample: false, temperature: 0}}
metric_list: [{{metric: exact_match}}]
""",
        encoding="utf-8",
    )


def _choices(folder: Path, name: str, rows: Sequence[Row], *, delimiter: str) -> None:
    _write(folder, name, rows)
    (folder / f"{name}.yaml").write_text(
        f"""task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{folder / f"{name}.jsonl"}"}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{gold}}}}"
target_delimiter: "{delimiter}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
""",
        encoding="utf-8",
    )


def _sum(draw: random.Random) -> Row:
    a, b = draw.randint(2, 99), draw.randint(2, 99)
    choices = [a + b, *draw.sample([n for n in range(a + b - 12, a + b + 12) if n != a + b], 3)]
    return _mixed(draw, f"Question: What is {a} + {b}?\nAnswer:", [str(each) for each in choices])


def _sequence(draw: random.Random) -> Row:
    words = draw.choice(SEQUENCES).split()
    begin = draw.randint(0, len(words) - 4)
    shown, wanted = words[begin : begin + 3], words[begin + 3]
    others = draw.sample([word for word in words if word not in (*shown, wanted)], 3)
    return _mixed(draw, ", ".join(shown) + ",", [wanted, *others])


def _mixed(draw: random.Random, text: str, choices: list[str]) -> Row:
    order = draw.sample(range(4), 4)
    return {"text": text, "choices": [choices[i] for i in order], "gold": order.index(0)}


def _write(folder: Path, name: str, rows: Sequence[Row]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
