"""A task of inspect-ai for the cookbook's adapter: the tiny model's two answers, one of them asked for."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes


@task
def boxed() -> Task:
    """Sums whose answer is 2; the model says 1 or 2."""
    samples = [Sample(input=f"{i} - {i - 2} = ?", target="{2}") for i in range(8)]
    return Task(dataset=MemoryDataset(samples, name="sums"), scorer=includes())
