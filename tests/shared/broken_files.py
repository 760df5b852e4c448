"""Good files of several formats, broken at random, and what reading them comes to.

`FORMATS` is a table: a format is how one good file is made and how it is read. Equal numbers break a file equally.
"""

import random
import resource
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Final

import folder_sample
import gguf_sample

from tinsmith.types.errors import TinsmithError

SECONDS: Final = 20.0
"""Of processor time: a reading that takes more hangs."""
_NUMBERS: Final = (0, 1, 2, 3, 7, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Good:
    """A file that is read without complaint."""

    data: bytes
    numbers: tuple[tuple[int, int], ...] = ()
    """Places of lengths, counts, kinds and offsets, and widths in bytes."""
    entries: tuple[tuple[int, int, int], ...] = ()
    """Begin and end of keys and records that can be left out or doubled, and where their count lies (8 bytes) or -1."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    make: Callable[[], Good]
    read: Callable[[Path], object]
    name: str
    """Of the file."""
    change: Callable[[random.Random], tuple[bytes, bool]] | None = None
    """Returns a file with its JSON changed, and True if that must be refused; three of four files are broken so."""


def _of_folder(name: str, read: Callable[[Path], object]) -> Format:
    return Format(lambda: Good(folder_sample.files()[name]), read, name, partial(folder_sample.changed, name))


FORMATS: Final[dict[str, Format]] = {
    "gguf": Format(lambda: Good(*gguf_sample.good()), gguf_sample.read, "model.gguf"),
    "gguf_sentencepiece": Format(lambda: Good(*gguf_sample.good(llama=True)), gguf_sample.read, "model.gguf"),
    "safetensors": _of_folder(folder_sample.WEIGHTS, folder_sample.read_shape),
    "config.json": _of_folder("config.json", folder_sample.read_shape),
    "tokenizer.json": _of_folder("tokenizer.json", folder_sample.read_text),
    "tokenizer_config.json": _of_folder("tokenizer_config.json", folder_sample.read_text),
}


@dataclass(slots=True)
class Findings:
    """Outcomes of mutations."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    """`read`, or the error of ours."""
    faults: list[str] = field(default_factory=list[str])
    """Tracebacks, hangs, messages of more than five lines and what is read though it means two things, each with the
    number that makes it again."""


def mutated(format: Format, count: int, folder: Path, *, first: int = 0) -> Findings:
    """Read `count` broken files."""
    good, findings, file = _good(format), Findings(), folder / format.name
    for number in range(first, first + count):
        chosen = random.Random(number)
        content, wrong = _broken(good, chosen), False
        if format.change is not None and number % 4:
            content, wrong = format.change(chosen)
        file.write_bytes(content)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        try:
            format.read(file)
            findings.outcomes["read"] += 1
            if wrong:
                findings.faults.append(f"{number}: read, with a key twice")
        except TinsmithError as error:
            findings.outcomes[type(error).__name__] += 1
            if len(str(error).splitlines()) > 5:
                findings.faults.append(f"{number}: a long message: {error}")
        except BaseException as error:  # a panic of a library is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            findings.faults.append(f"{number}: {type(error).__name__}: {error}")
        took = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
        if took > SECONDS:
            findings.faults.append(f"{number}: {took:.0f} s")
    return findings


@cache
def _good(format: Format) -> Good:
    return format.make()


def _broken(good: Good, chosen: random.Random) -> bytes:
    data = bytearray(good.data)
    for change in _changes(good, chosen):
        change(data)
    return bytes(data)


def _changes(good: Good, chosen: random.Random) -> Iterator[Callable[[bytearray], None]]:
    """One change, now and then several; those that move bytes come last."""
    size = len(good.data)
    for _ in range(chosen.choice((1, 1, 1, 2, 4))):
        at, number = chosen.randrange(size), chosen.choice(_NUMBERS)
        if good.numbers and chosen.random() < 0.5:
            at, width = chosen.choice(good.numbers)
            old = int.from_bytes(good.data[at : at + width], "little")
            value = chosen.choice((number, old + 1, old - 1, old * 2, old ^ (1 << chosen.randrange(8 * width))))
            yield _written(at, (value % 2 ** (8 * width)).to_bytes(width, "little"))
        else:
            yield _written(at, chosen.choice((bytes([chosen.randrange(256)]), struct.pack("<Q", number), b"\xff\xfe")))
    kind = chosen.random()
    if kind < 0.15:
        cut = chosen.randrange(size)
        yield lambda data: data.__delitem__(slice(cut, None))
    elif kind < 0.3:
        begin = chosen.randrange(size)
        end = min(size, begin + chosen.choice((1, 4, 8, 100, 5000)))
        yield lambda data: data.__delitem__(slice(begin, end))
    elif good.entries and kind < 0.6:
        begin, end, counted = chosen.choice(good.entries)
        times = chosen.choice((0, 2))
        if counted >= 0 and chosen.random() < 0.8:
            count = int.from_bytes(good.data[counted : counted + 8], "little") + times - 1
            yield _written(counted, struct.pack("<Q", count))
        yield lambda data: data.__setitem__(slice(begin, end), bytes(data[begin:end]) * times)


def _written(at: int, value: bytes) -> Callable[[bytearray], None]:
    return lambda data: data.__setitem__(slice(at, at + len(value)), value)
