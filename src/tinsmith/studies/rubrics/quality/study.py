"""`rubric_quality`: what a rubric adds to a weak judge's accuracy on preference pairs, with an exact test.

Run from Python, with the keys of the command line::

    folder = rubric_quality(judge_model="gpt-5-nano", limit=200)(print)

The folder holds config.json, manifest.json, answers.jsonl, quality.json and report.html, the same bytes whenever the
same answers come, from the cache or not; and spent.json, what this run really sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, cast

from tinsmith.lab.experiment.key_text import folder_name
from tinsmith.lab.judge.prompting import VerdictCache, cost_of, estimate_questions, estimate_spent, load_prices
from tinsmith.lab.judge.prompting import shown as dollars
from tinsmith.lab.judge.records import RULES, ChatSettings, Spent
from tinsmith.lab.judge.rules import RuleJudge
from tinsmith.lab.runs.files import CONFIG, MANIFEST, REPORT, Kind, Status
from tinsmith.lab.study.files import write_json, write_text
from tinsmith.lab.study.keys import Measure, at_least
from tinsmith.pages.curves import Dots, Limit, Panel, dots_svg
from tinsmith.pages.document import Document, Section, note, summary
from tinsmith.pages.document import drawn as drawn_or_missing
from tinsmith.pages.drawing import series_mark
from tinsmith.pages.measures import Measure as Figure
from tinsmith.pages.measures import counted, signed
from tinsmith.pages.page import document_html
from tinsmith.pages.tables import Cell, Table, plain, text
from tinsmith.pages.tables import measured as measured_cell
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.rubrics.quality.judged_pairs import (
    Answers,
    Finding,
    PairAnswer,
    PreferencePair,
    answered_by_chat,
    answered_by_rules,
    builtin_pairs,
    complete_pairs,
    drawn_pairs,
    questions_of,
    ratings_of,
    read_pairs,
    showings,
)
from tinsmith.studies.rubrics.quality.judged_pairs import rubric_quality as figures_of
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import file_sha256, sha256_of
from tinsmith.types.home import home
from tinsmith.types.json_text import parse_json
from tinsmith.types.page_names import p_cell, p_words
from tinsmith.types.source import source_sha256
from tinsmith.types.version import VERSION
from tinsmith.types.waits import Say

QUESTION: Final = "What does a rubric add to a weak judge's accuracy on preference pairs, and do these pairs show it?"
LABELS: Final = {"without": "without rubric", "own": "with its own rubric", "other": "with another pair's rubric"}
BUILTIN_PAIRS: Final = "built-in pairs"
_MOST_CRITERIA: Final = 60  # Rows of the table of criteria; quality.json has all.
Found = Mapping[str, Any]  # As `quality.json` has it.


def quality_page(found: Found, data: Found, seed: int, money: str) -> Document:
    """Return the page; the same values, the same bytes."""
    accuracies, once = found["accuracies"], found["asking_once"]
    values = [Figure(one["value"], one["interval"]["low"], one["interval"]["high"]) for one in accuracies]
    labels = [LABELS[one["condition"]] for one in accuracies]
    dots = Dots("accuracy", series_mark(0), values)
    panel = Panel(title="Accuracy on preference pairs", dots=[dots], limits=[Limit(0.5, "a coin")])
    shown = "; ".join(f"{label}: {value.value:.3f}" for label, value in zip(labels, values, strict=True))
    picture = drawn_or_missing(
        dots_svg("accuracy", f"Accuracy. {shown}.", labels, [panel], width=7.2), "Missing: no accuracy."
    )
    shares = plain(
        "The share of pairs of which the judge prefers the better response, with Wilson's 95 % interval, which takes "
        "pairs for independent. Judge by rules: without a rubric it goes by repeated words and length.",
        ("The judge", "accuracy", "right", "pairs"),
        [
            (label, measured_cell(value), f"{one['right']:,}", f"{one['n']:,}")
            for label, value, one in zip(labels, values, accuracies, strict=True)
        ],
    )
    gains, places, criteria = _tables(found)
    costs = plain(
        "What asking everything once takes; what this run really sent is in spent.json.",
        ("Cost", ""),
        [
            ("calls", f"{once['calls']:,}"),
            ("tokens read, estimated", f"{once['prompt_tokens']:,}"),
            ("tokens written, estimated", f"{once['completion_tokens']:,}"),
            ("money", money),
            ("pairs without a rubric in the file", f"{data['without_rubrics']:,}"),
            ("pairs without verdicts on their criteria", f"{found['unrated']:,}"),
            *((f"answers that never came: {why.replace('_', ' ')}", f"{n:,}") for why, n in found["failures"].items()),
        ],
    )
    return Document(
        kind="Report of a rubric's quality",
        title=f"Rubric quality for the judge {found['judge']}",
        question=QUESTION,
        facts=(
            ("Judge", found["judge"]),
            ("Pairs", f"{found['pairs']} of {found['drawn']}, {counted(found['prompts'], 'prompt')}"),
            ("Unit of the tests", found["unit"]),
            ("From", data["source"]),
            ("Pairs' fingerprint", data["fingerprint"][:12]),
            ("Seed", str(seed)),
        ),
        sections=(
            summary(found["story"], limits=found["cannot_be_claimed"]),
            Section("accuracy", "Accuracy", [picture, shares]),
            Section("gains", "Gains", [gains]),
            Section("places", "Places", [places if places.rows else note("This judge does not look at places.")]),
            Section("criteria", "Criteria", [criteria]),
            Section("cost", "Cost and failures", [costs]),
        ),
    )


def _tables(found: Found) -> tuple[Table, Table, Table]:
    gains = plain(
        "On the same pairs. By pairs: McNemar's exact test and Tango's 95 % interval. By prompts, where several pairs "
        "have one: flips of the sign of what each prompt's pairs gained in sum. Needed: units like these that show a "
        "difference of this size four times out of five.",
        ("Gain", "gain", "p", "only the first right", "only the second right", "moved", "needed", text("Finding")),
        [
            (
                _name(one),
                Cell(text=signed(one["gain"]), under=_ends(one), number=True),
                *(p_cell(one["p_value"]), f"{one['helped']:,}", f"{one['hurt']:,}"),
                f"{one['moved']:,} of {counted(one['units'], one['unit'])}",
                "" if one["needed"] is None else f"{one['needed']:,}",
                text(one["finding"]),
            )
            for one in _contrasts(found)
        ],
    )
    places = plain(
        "Every pair was asked in both orders, where the judge looks at places. p tests the pairs whose answer followed "
        "the place, first against second.",
        (
            *("The judge", "answers A|share of all", "same|in both orders", "right|in both orders"),
            *("always A", "always B", "p"),
        ),
        [
            (
                LABELS[one["condition"]],
                f"{at['first_share']:.3f}",
                *(f"{at[name]:,}" for name in ("same", "right_both", "always_first", "always_second")),
                p_cell(at["p_value"]),
            )
            for one in found["accuracies"]
            if (at := one["positions"]) is not None
        ],
    )
    criteria = plain(
        f"How often each criterion holds for one response alone, most frequent first, {_MOST_CRITERIA} at most; never: "
        "it tells none apart. quality.json has all.",
        ("Criterion", "pairs", "for the chosen", "for the rejected", text("Tells apart")),
        [
            (
                one["criterion"],
                *(f"{one[name]:,}" for name in ("pairs", "for_chosen", "for_rejected")),
                text("never" if one["criterion"] in found["idle_criteria"] else ""),
            )
            for one in sorted(found["criteria"], key=lambda each: (-each["pairs"], each["criterion"]))[:_MOST_CRITERIA]
        ],
    )
    return gains, places, criteria


def quality_story(found: Found) -> tuple[str, ...]:
    """Return the sentences of the page's top: each gain with its p, and criteria that tell nothing apart."""
    story: list[str] = []
    for one in _contrasts(found):
        few = "" if one["enough"] else f"; with so few the exact p cannot fall to {ALPHA}"
        needed = "" if one["needed"] is None else f"; about {one['needed']:,} would show such a difference"
        story.append(
            f"{_name(one).capitalize()}: {one['finding']}: {signed(one['gain'])} ({_ends(one)}, exact "
            f"{p_words(one['p_value'])}); {one['moved']:,} of {counted(one['units'], one['unit'])} moved{few}{needed}."
        )
    if found["criteria"]:
        criteria = counted(len(found["criteria"]), "criterion", "criteria")
        story.append(f"{len(found['idle_criteria']):,} of {criteria} tell chosen from rejected in no pair.")
    left_out = counted(found["left_out"], "pair")
    return (*story, f"{left_out} of {found['drawn']:,} left out for a missing answer.")


def limits(found: Found, source: object) -> tuple[str, ...]:
    """Return what the figures do not show, of pairs from a source."""
    gain, beyond = found["gain"], found["beyond_control"]
    lines: list[str] = []
    if gain["finding"] == Finding.CANNOT_TELL:
        lines.append("That the rubric adds nothing: a gain that cannot be shown may still be there.")
    if beyond is None or (gain["finding"] == Finding.ADDS and beyond["finding"] != Finding.ADDS):
        figures = "no other pair's is there"
        if beyond is not None:
            figures = f"{signed(beyond['gain'])}, {p_words(beyond['p_value'])}"
        lines.append(f"That a gain comes from what the rubric says, beyond another pair's rubric ({figures}).")
    if found["unit"] == "prompt":
        lines.append("The intervals of the accuracies, which take pairs of one prompt for independent: too narrow.")
    if source == BUILTIN_PAIRS:
        right = " The judge by rules is then right by construction." if found["judge"] == RULES else ""
        lines.append(
            "That rubrics are good elsewhere: in the built-in pairs the better answer passes its whole rubric and the "
            f"worse one breaks one or two rules.{right}"
        )
    return (*lines, "Anything about another judge, other pairs, or a policy that is trained by this rubric.")


def _contrasts(found: Found) -> list[Found]:
    return [one for name in ("gain", "control", "beyond_control") if (one := found[name]) is not None]


def _name(one: Found) -> str:
    return f"{LABELS[one['first']]}, minus {LABELS[one['second']]}"


def _ends(one: Found) -> str:
    return f"{signed(one['interval']['low'])} to {signed(one['interval']['high'])}"


CACHE: Final = "verdicts"  # Under TINSMITH_HOME: answers that were paid for, by their content.
ANSWERS, QUALITY, SPENT = "answers.jsonl", "quality.json", "spent.json"


def _require_rules(pairs: Sequence[PreferencePair]) -> None:
    for pair in pairs:
        try:
            RuleJudge(pair.task.criteria)
        except DataError as error:
            what = f"pair {pair.pair_id}: {error.what}"
            raise DataError(what, field=error.field, value=error.value, fix=error.fix) from None


def forecast(
    shown: Sequence[PairAnswer], judge: str, cost: Callable[[Spent], str], *, by_rules: bool
) -> tuple[str, ...]:
    """Return what it takes to ask a judge: nothing retried, nothing found in the cache."""
    pairs = len({one.pair.pair_id for one in shown})
    first = f"{pairs} pairs under {len(shown) // pairs} conditions, judge {judge}"
    if by_rules:
        return (f"{first}: no call, no key, no network",)
    spent = estimate_questions(questions_of(shown)) + estimate_spent(ratings_of(shown), response_tokens=0)
    return (
        f"{first}: {spent.calls:,} calls, both orders of each pair; about {spent.prompt_tokens:,} tokens read, "
        f"{spent.completion_tokens:,} written, {cost(spent)}",
        "what is in the cache is not asked again",
    )


def answered_by(chat: ChatSettings | None, shown: Sequence[PairAnswer]) -> Answers:
    """Ask the judge; None: rules."""
    if chat is None:
        return answered_by_rules(shown)
    from tinsmith.lab.judge.chat_judge import (  # its HTTP client takes a tenth of a second to load
        BlockingJudge,
        ChatJudge,
    )

    with BlockingJudge(ChatJudge(chat, cache=VerdictCache(home() / CACHE))) as judge:
        return answered_by_chat(shown, judge)


def write_quality(
    folder: Path, answers: Answers, data: Found, settings: Found, dollars_of: Callable[[Spent], float | None]
) -> tuple[str, ...]:
    """Write the folder, the manifest last, with the hashes of the others; return what may be said."""
    quality = figures_of(complete_pairs(answers.answers), answers.verdicts, seed=settings["seed"])
    found = {
        "schema": 1,
        "judge": settings["judge_model"],
        **quality,
        "drawn": data["pairs"],
        "left_out": data["pairs"] - quality["pairs"],
        "unrated": answers.unrated,
        "failures": answers.failures,
        "asking_once": asdict(answers.once),
    }
    story = quality_story(found)
    found |= {"story": story, "cannot_be_claimed": limits(found, data["source"])}
    (folder / MANIFEST).unlink(missing_ok=True)
    identity = {"tinsmith": VERSION, "experiment": NAME, "settings": settings, "pairs_sha256": data["fingerprint"]}
    head: Mapping[str, object] = {
        "schema": 1,
        "name": NAME,
        "kind": Kind.MEASUREMENT,
        "question": QUESTION,
        "identity_sha256": sha256_of(identity),
    }
    spent = {
        "note": "what this run really sent; another run of the same may find answers in the cache",
        **asdict(answers.spent),
        "dollars": dollars_of(answers.spent),
        "from_cache": answers.from_cache,
        "fields_left_out": answers.left_out_fields,
    }
    rows = [
        {
            "pair_id": one.pair.pair_id,
            "condition": one.condition,
            "rubric_of": one.rubric and one.rubric.pair_id,
            "chosen_first": one.chosen_first,
            "right": one.right,
            "right_turned": one.turned,
            "ground": one.ground,
            "scores": one.scores,
            "rationales": one.rationales,
            "failures": [{"cause": each.cause, "detail": each.detail, "parse": each.parse} for each in one.failures],
        }
        for one in answers.answers
    ]
    page = quality_page(found, data, settings["seed"], dollars(dollars_of(answers.once)))
    write_json({**head, "settings": settings, "data": data}, folder / CONFIG)
    write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), folder / ANSWERS)
    write_json(found, folder / QUALITY)
    write_json(spent, folder / SPENT)
    write_text(document_html(page), folder / REPORT)
    manifest = {
        **head,
        "status": Status.FINISHED,
        "identity": {**identity, "source_sha256": source_sha256()},
        "hashes": {name: file_sha256(folder / name) for name in (ANSWERS, QUALITY, REPORT)},
    }
    write_json(manifest, folder / MANIFEST)
    return story


NAME: Final = "rubric_quality"


class IfExists(StrEnum):
    """Reaction to a folder that holds such a run already."""

    RAISE = "raise"
    DELETE = "delete"


def rubric_quality(
    *,
    data_path: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    log_path: Path | None = None,
    prices: Path | None = None,
    behavior_if_log_dir_exists: IfExists = IfExists.RAISE,
    dry_run: bool = False,
    judge_model: str = RULES,
    **judge: Annotated[object, ChatSettings],
) -> Measure:
    """Return what measures how much a rubric adds to a judge's accuracy.

    Keys that begin with judge_ are of a judge behind an endpoint; OPENAI_API_KEY is its key.

    Args:
        data_path: Preference pairs as JSON Lines; None: the built-in ones.
        limit: Most pairs to judge, drawn by the seed.
        seed: The random seed of the pairs, of the order of their responses, and of the control's rubrics.
        log_path: The folder it is written to; None: named after what was changed, below `runs`.
        prices: A table of prices, laid over the one that comes with the package.
        behavior_if_log_dir_exists: What to do if the folder holds such a run: `raise` or `delete`.
        dry_run: Only say what the run would take.
        judge_model: rules, or a model of an OpenAI-compatible endpoint.
        judge: See ChatSettings.
    """
    if limit is not None:
        at_least(1, limit=limit)
    chat, settings = None, dict[str, object](judge_model=judge_model, seed=seed, limit=limit)
    if judge_model != RULES:
        base_url = judge.get("judge_base_url") or os.environ.get("OPENAI_BASE_URL")
        # A name means one model at one address only: elsewhere the cache must not answer for it.
        identity = f"{judge_model} at {base_url}" if base_url else None
        own = cast("dict[str, Any]", judge)
        chat = ChatSettings(judge_model=judge_model, seed=seed, identity=identity, **own)
        tokens = chat.judge_max_tokens or None
        settings |= {
            "judge_temperature": chat.judge_temperature,
            "judge_max_tokens": tokens,
            "judge_base_url": base_url,
        }
    for key, value in ({} if chat else {**judge, **({} if prices is None else {"prices": prices})}).items():
        what = "judge_model=rules does not use this key"
        raise ConfigError(what, field=key, value=value, fix="name a judge with judge_model=NAME, or leave this key out")
    usual = {"data_path": None, "judge_model": RULES, "limit": None, "seed": 0}
    arguments = {"data_path": data_path, "judge_model": judge_model, "limit": limit, "seed": seed, **judge}
    changes = [f"{key}={value}" for key, value in sorted(arguments.items()) if key not in usual or value != usual[key]]
    folder = log_path or Path("runs") / folder_name(NAME, changes)

    def measure(say: Say) -> Path:
        every, without_rubrics = builtin_pairs() if data_path is None else read_pairs(data_path)
        pairs = drawn_pairs(every, limit, seed=seed)
        if chat is None:
            _require_rules(pairs)
        data = {
            "source": BUILTIN_PAIRS if data_path is None else data_path.name,
            "fingerprint": sha256_of(pairs),
            "pairs": len(pairs),
            "without_rubrics": without_rubrics,
        }
        shown, table = showings(pairs, seed=seed), load_prices(prices)

        def dollars_of(spent: Spent) -> float | None:
            return cost_of(table, judge_model, spent)

        for line in forecast(shown, judge_model, lambda one: dollars(dollars_of(one)), by_rules=chat is None):
            say(line)
        if not dry_run:
            _require_free(folder, delete=behavior_if_log_dir_exists is IfExists.DELETE)
            for line in write_quality(folder, answered_by(chat, shown), data, settings, dollars_of):
                say(line)
        return folder

    return measure


def _require_free(folder: Path, *, delete: bool) -> None:
    """Check that a run may be written there, before a call is paid for."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        config: Any = parse_json((folder / CONFIG).read_bytes())
        ours = config["name"] == NAME
    except (OSError, ValueError, TypeError, KeyError):
        ours = False
    if ours and delete:
        return
    what = "this folder holds such a run already" if ours else "this folder holds something else"
    fix = "behavior_if_log_dir_exists=delete writes over it; paid answers stay in the cache" if ours else None
    raise ConfigError(what, field="log_path", value=str(folder), allowed="an empty or new folder", fix=fix)
