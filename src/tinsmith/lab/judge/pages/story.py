"""What is said of a rubric run: the gain, what it stands beside, what judging took, and what cannot be said."""

from __future__ import annotations

from tinsmith.lab.judge.pages.gains import Constant, Gains, gain_words
from tinsmith.lab.judge.pages.gathering import RubricRun
from tinsmith.lab.judge.prices import shown
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.runs.kinds import Status
from tinsmith.pages.tables import Table, plain
from tinsmith.pages.wording import counted, percent, signed
from tinsmith.stats.paired_means import PairedMeans

FEW: int = 12
"""Prompts below which a page says that they are few."""
_LONGEST = 120


def rubric_story(run: RubricRun, gains: Gains, constant: Constant | None) -> tuple[str, ...]:
    """Return the sentences; the first is the answer."""
    told = (
        _answer(run, gains.sampled),
        _greedy(run, gains.greedy),
        _constant(run, gains.over_constant, constant),
        _distinct(run),
        judge_sentence(run),
        left_out_sentence(run),
        _alarms(run),
    )
    return tuple(sentence for sentence in told if sentence)


def cannot_be_said(run: RubricRun, gains: Gains) -> tuple[str, ...]:
    """Return what the figures do not show, each in a sentence."""
    found, manifest = gains.sampled, run.run.manifest
    made = (
        "were made in the same way as those of training, and ask for the same kinds of things."
        if run.built_in
        else "come from the same data as those of training."
    )
    lost = sum(count for cause, count in run.failures.items() if cause.split != "train")
    told = (
        (
            found is not None and not found.told_apart,
            "That training changed nothing: a gain that cannot be shown may still be there.",
        ),
        (not run.held_out, "Anything about prompts that were not trained on: none were held out."),
        (run.held_out, f"That other instructions are followed better: the held-out prompts {made}"),
        (
            found is not None and found.n < FEW,
            f"Much about prompts in general: there are only {counted(found.n if found else 0, 'prompt')}.",
        ),
        (
            True,
            f"What another seed gives: this is one trained model (seed {_seed(run)}), and the intervals are over "
            "prompts alone.",
        ),
        (
            run.judge == RULES,
            "That the responses are good: rules see words, counts and form, and the rules that measure are those "
            "that were rewarded.",
        ),
        (
            run.judge != RULES,
            "That people would agree: the judge that measures is the judge that rewarded, and what pleases it need "
            "not be better.",
        ),
        (lost > 0, f"Anything about the {counted(lost, 'examined response')} without verdicts."),
        (manifest is None or manifest.status != Status.FINISHED, "How the run ends: it has not come to its end."),
    )
    return tuple(sentence for holds, sentence in told if holds)


def _seed(run: RubricRun) -> str:
    return "not stated" if run.run.config.seed is None else str(run.run.config.seed)


def _answer(run: RubricRun, found: PairedMeans | None) -> str:
    if found is None:
        if not run.sampled:
            return "Nothing can be said about a gain: no prompt was examined."
        last = run.sampled[-1]
        return (
            f"Nothing can be said about a gain: there is only one examination. At step {last.step} the pass rate is "
            f"{last.mean:.3f} on {_prompts(run, len(last.rates))}."
        )
    first, last = run.sampled[0].step, run.sampled[-1].step
    before = "before training" if first == 0 else f"at step {first}"
    moved = "went" if found.gain == 0 else "rose" if found.gain > 0 else "fell"
    counting = "every flip counted" if found.exact else "flips drawn"
    return (
        f"On {_prompts(run, found.n)} the pass rate {moved} from {found.first:.3f} {before} to {found.second:.3f} "
        f"after {counted(last, 'step')}: gain {gain_words(found)}, by a paired bootstrap over prompts and a sign-flip "
        f"test ({counting}). {_verdict(found)}"
    )


def _prompts(run: RubricRun, count: int) -> str:
    if run.held_out:
        return counted(count, "held-out prompt")
    return f"{counted(count, 'prompt')} that {'is' if count == 1 else 'are'} also trained on"


def _verdict(found: PairedMeans) -> str:
    if found.told_apart:
        more = "more" if found.gain > 0 else "less"
        return f"The interval excludes 0: the trained policy fulfils {more} of what prompts like these ask."
    if found.interval is None:
        return "One prompt gives no interval: nothing is claimed."
    if found.apart:
        return "The interval excludes 0, but the test does not, as the prompts are few: nothing is claimed."
    return "The interval includes 0: these prompts do not show whether training changed anything."


def _greedy(run: RubricRun, found: PairedMeans | None) -> str:
    if found is None:
        return ""
    return (
        f"Greedy, one response a prompt: {found.first:.3f} at step {run.greedy[0].step}, {found.second:.3f} at step "
        f"{run.greedy[-1].step}, gain {gain_words(found)}{_unclaimed(found)}."
    )


def _constant(run: RubricRun, found: PairedMeans | None, constant: Constant | None) -> str:
    if constant is None or found is None:
        if run.judge != RULES:
            return (
                "What one text for every prompt would pass is not known: the judge is not a program, and is not asked "
                "again for a page."
            )
        return "What one text for every prompt would pass is not known: the run has no tasks.jsonl to judge by."
    where = "above" if found.gain > 0 else "not above" if found.gain == 0 else "below"
    return (
        f"The best single text for every prompt, chosen with hindsight from {constant.tried:,} that the run wrote, "
        f"passes {constant.mean:.3f} ({_quoted(constant.text)}); the last policy, sampled, is {where} it: "
        f"{gain_words(found)}{_unclaimed(found)}."
    )


def _unclaimed(found: PairedMeans) -> str:
    return "" if found.told_apart else ", which cannot be distinguished from none"


def _quoted(words: str) -> str:
    one_line = " ".join(words.split())
    return f'"{one_line if len(one_line) <= _LONGEST else one_line[: _LONGEST - 3] + "..."}"'


def _distinct(run: RubricRun) -> str:
    if not run.sampled:
        return ""
    first, last = run.sampled[0], run.sampled[-1]
    moved = f" ({signed(last.distinct - first.distinct)})" if first is not last else ""
    return (
        f"Of {counted(last.responses, 'sampled response')} {len(last.texts):,} are distinct texts, a share of "
        f"{last.distinct:.3f}{moved}; {last.all_passed:,} fulfil every rubric."
    )


def _alarms(run: RubricRun) -> str:
    alarms = run.run.alarms
    if not alarms:
        return "No alarm was raised: no text answers most prompts, and the judge did not fail often."
    return f"{counted(len(alarms), 'alarm')} raised; see below."


def money_words(run: RubricRun) -> str:
    """Say what was paid."""
    dollars = run.ledger.dollars
    about = "about " if run.ledger.estimated and dollars else ""
    return "price not known" if dollars is None else f"{about}{shown(dollars)}"


def cost_words(run: RubricRun) -> str:
    """Say calls, tokens and money, in short."""
    spent = run.ledger
    if not spent.judged + spent.failed:
        return "not known: judge.jsonl has no line"
    if run.judge == RULES and not spent.calls:
        return "nothing: rules take no calls"
    tokens = f"{spent.prompt_tokens:,} tokens read, {spent.completion_tokens:,} written"
    cached = f", {spent.from_cache:,} answers from the cache" if spent.from_cache else ""
    return f"{counted(spent.calls, 'call')}, {tokens}{cached}: {money_words(run)}"


def failed_words(run: RubricRun) -> str:
    """Say how many responses got no verdicts."""
    failed, asked = run.ledger.failed, run.ledger.failed + run.ledger.judged
    if not asked:
        return "not known"
    share = f" ({percent(failed / asked)})" if failed else ""
    return f"{failed:,} of {counted(asked, 'response')}{share}"


def judge_sentence(run: RubricRun) -> str:
    """Say who judged, what that took, and how often it failed."""
    spent = run.ledger
    if not spent.judged + spent.failed:
        return f"The judge was {run.judge}; what that took is not known, as judge.jsonl has no line."
    who = "The judge was a program, by rules" if run.judge == RULES else f"The judge was {run.judge}"
    failed = "every response got its verdicts"
    if spent.failed:
        failed = f"{failed_words(run)} got no verdicts and are in no reward and no score"
    asked = counted(spent.judged + spent.failed, "response")
    cost = cost_words(run).replace("nothing: rules take no calls", "no calls, no cost")
    return f"{who}: {asked} judged, {cost}; {failed}."


def left_out_sentence(run: RubricRun) -> str:
    """Say what of the training was not learned from."""
    trained = run.trained
    groups = len(trained.groups)
    if not groups:
        return ""
    told = (
        f"{trained.failed:,} of {counted(trained.responses, 'training response')} left out because they have no "
        f"reward, {trained.too_few:,} of {counted(groups, 'group')} dropped whole because fewer than two were left"
    )
    return f"{told}; in {trained.alike:,} groups all rewards were equal, which teaches nothing."


def cost_table(run: RubricRun) -> Table:
    """Return the ledger's sums."""
    spent = run.ledger
    estimated = " Some token counts are estimated: the endpoint reported none." if spent.estimated else ""
    return plain(
        f"From judge.jsonl. Interrupted runs count too, including what they asked twice.{estimated}",
        ("Judging", ""),
        (
            ("responses judged", f"{spent.judged:,}"),
            ("without verdicts", f"{spent.failed:,}"),
            ("answered from the cache", f"{spent.from_cache:,}"),
            ("calls, failed attempts included", f"{spent.calls:,}"),
            ("tokens read", f"{spent.prompt_tokens:,}"),
            ("tokens written", f"{spent.completion_tokens:,}"),
            ("money", money_words(run)),
        ),
    )
