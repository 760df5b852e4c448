"""Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class MetricKind(StrEnum):
    """Kind of a metric in Prometheus."""

    COUNTER = "counter"
    """A count that only grows, starting at 0 with the server."""
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric with its values by labels."""

    name: str
    kind: MetricKind
    help: str
    values: Sequence[tuple[Labels, float]]


def exposition(metrics: Iterable[Metric]) -> str:
    r"""Return metrics in Prometheus's text format.

    >>> odd = Metric("m", MetricKind.GAUGE, "A \\ line.", [({"model": 'a"b\n'}, 2.0)])
    >>> print(exposition([odd]), end="")
    # HELP m A \\ line.
    # TYPE m gauge
    m{model="a\"b\n"} 2
    """
    lines: list[str] = []
    for metric in metrics:
        text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {metric.name} {text}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.values:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{f'{{{shown}}}' if shown else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
