"""Chat templates as programs: compiled as in transformers, with errors that name the template's line.

No heavy imports: rendering processes start with this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Never, cast

from jinja2 import Environment, Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from tinsmith.types.errors import InputError

MAX_CHARS = 1 << 24
"""Most characters of a rendered text."""
DATE = "26 Jul 2024"
"""Date for templates that print one: Llama 3.1's own default. No result depends on the clock."""

Variables = Mapping[str, object]
Render = Callable[[Variables], str]
"""Function that renders a template."""

_FAILURES = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Exceptions that a template's code can raise; each is reported as the template's failure."""


def compiled(source: str) -> Render:
    """Compile a template into its renderer.

    Raises:
        InputError: it is not a valid template.
    """
    try:
        template = _environment().from_string(source)
    except _FAILURES as error:
        line = error.lineno if isinstance(error, TemplateSyntaxError) else None
        raise failed(error, line) from error

    def render(variables: Variables) -> str:
        pieces: list[str] = []
        num_chars = 0
        try:
            for piece in template.root_render_func(template.new_context(dict(variables))):
                pieces.append(piece)
                num_chars += len(piece)
                if num_chars > MAX_CHARS:
                    raise InputError(
                        "the chat template makes too long a text of these messages",
                        field="messages",
                        value=f"{num_chars} characters and more",
                        allowed=f"at most {MAX_CHARS}",
                    )
        except _FAILURES as error:
            if isinstance(error, InputError):
                raise
            raise failed(error, _line(template, error)) from error
        return "".join(pieces)

    return render


def failed(error: BaseException | str, line: int | None) -> InputError:
    """Return the error for a template that failed."""
    reason = error if isinstance(error, str) else f"{error}" or type(error).__name__
    where = "" if line is None else f" (line {line} of the template)"
    return InputError(
        f"the chat template refuses these messages: {' '.join(reason.split())[:300]}{where}",
        field="messages",
        fix="give the roles and values that it wants, in its order; its text is in the model's folder",
    )


def _line(template: Template, error: BaseException) -> int | None:
    """Return the line of the template where an error was raised."""
    line, at = None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_globals.get("__jinja_template__") is template:
            line = template.get_corresponding_lineno(at.tb_lineno)
        at = at.tb_next
    return line


class _Generation(Extension):
    """Tag `{% generation %}`, which marks a reply for training; its body is left as it is."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller: Macro) -> str:
        return str(caller())


class _Dict:
    """`dict` for templates, without attributes that lead to Python's internals."""

    def __call__(self, *pairs: object, **values: object) -> dict[str, object]:
        return dict(*pairs, **values)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]


class _Namespace(Namespace):
    """`namespace` for templates, without attributes that lead to Python's internals."""

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a namespace has no names with an underscore before them, such as {name!r}")
        super().__setitem__(name, value)


def _environment() -> Environment:
    """Return the environment of transformers (5.24) for templates, with a fixed date."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    names = cast("dict[str, object]", environment.globals)
    names |= {"raise_exception": _raise, "strftime_now": _today, "dict": _Dict(), "namespace": _Namespace}
    return environment


def _to_json(
    x: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: object) -> Never:
    raise TemplateError(str(message))


def _today(spelled: str) -> str:
    return datetime.strptime(DATE, "%d %b %Y").replace(tzinfo=UTC).strftime(spelled)
