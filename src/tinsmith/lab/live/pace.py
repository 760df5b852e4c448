"""How long a run will take, from what its own first steps took: said before anything long happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.lab.live.progress import duration
from tinsmith.lab.schedule import due
from tinsmith.lab.settings import CommonSettings, RlSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is left of a run after one of its steps."""

    seconds: float
    words: str


def outlook(settings: CommonSettings, step: int, timings: Mapping[str, float], last_look: float) -> Outlook:
    """Return what is left after step `step`, if all that follows takes as long as it did in this one.

    `last_look` is how many examinations the test is worth. Where this step had no examination their time is not known,
    and is left out by name. Supervised steps before RL are told by themselves: an RL step takes another time.
    """
    a_step = timings["step_s"] - timings.get("eval_s", 0.0)
    supervised = settings.sft_steps if isinstance(settings, RlSettings) else 0
    by_example = step < supervised
    end = supervised if by_example else settings.steps
    steps = end - step - 1
    seconds = steps * a_step
    what = "supervised step" if by_example else "step"
    parts = [f"{steps} {what}{'' if steps == 1 else 's'} of {duration(a_step)}"]
    examined = timings.get("eval_s")
    looks = sum(due(each, settings.eval_every) for each in range(step + 1, end))
    if not by_example:
        looks += 1  # that of the end
    if examined is None:
        parts.append("evaluations, which were not measured yet")
    elif looks:
        seconds += looks * examined
        parts.append(f"{looks} evaluation{'' if looks == 1 else 's'} of {duration(examined)}")
    if examined is not None and not by_example and last_look > 0.0:
        seconds += last_look * examined
        parts.append(f"a test of up to {duration(last_look * examined)}")
    if by_example:
        parts.append(f"then {settings.steps - end} steps of RL, which are timed when they begin")
    return Outlook(seconds=seconds, words=f"about {duration(seconds)} to go: {', '.join(parts)}")


def worth_telling(settings: CommonSettings, step: int, first: int) -> bool:
    """Whether step `step` is one to measure by: a process's first one, or its first of RL after supervised ones."""
    supervised = settings.sft_steps if isinstance(settings, RlSettings) else 0
    return step < settings.steps and step in {first, max(first, supervised)}
