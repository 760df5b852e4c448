"""Grammar of an answer, read from the fields of OpenAI's and vLLM's clients."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

from tinsmith.server.wire.settings import GrammarSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

FORMATS = "{'type': 'text'}, {'type': 'json_object'}, or {'type': 'json_schema', 'json_schema': {'schema': ...}}"


def grammar_of(given: Mapping[str, JsonValue]) -> tuple[str, GrammarSettings] | None:
    """Return the name of the parameter that requests a grammar, and the grammar; None if none does.

    Their names: `response_format`, `structured_outputs`, `guided_json`, `guided_regex`, `guided_choice`,
    `guided_grammar`.

    Raises:
        InputError: for an invalid grammar, or two grammars for one answer.
    """
    found: list[tuple[str, GrammarSettings]] = []
    for name, value in given.items():
        if value is None:
            continue
        if name == "response_format":
            grammar = _of_format(value)
        elif name == "structured_outputs":
            grammar = _of_structured(value)
        else:
            grammar = _of_guided(name, name.removeprefix("guided_"), value)
        if grammar is not None:
            found.append((name, grammar))
    if len(found) > 1:
        raise InputError("two grammars for one answer", field=found[1][0], allowed=f"only {found[0][0]}")
    return found[0] if found else None


def as_parameter_error(error: InputError, name: str) -> InputError:
    """Rename the field of the engine's grammar error to the client's parameter."""
    if error.field not in ("grammar", "response_format"):
        return error
    return InputError(error.what, field=name, value=error.value, allowed=error.allowed, fix=error.fix)


def _of_format(value: JsonValue) -> GrammarSettings | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return GrammarSettings(kind=GrammarKind.JSON_OBJECT)
    if kind == "json_schema" and isinstance(value, dict):
        inner = value.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if schema is not None:
            return _schema("response_format.json_schema.schema", schema)
        raise InputError(
            "a JSON schema is missing",
            field="response_format.json_schema",
            value=inner,
            allowed="{'name': ..., 'schema': {...}}",
        )
    raise InputError("there is no such format here", field="response_format", value=value, allowed=FORMATS)


def _of_structured(value: JsonValue) -> GrammarSettings | None:
    """Return the grammar of vLLM's `structured_outputs`, which has one of several keys."""
    given = {name: each for name, each in value.items() if each not in (None, False)} if isinstance(value, dict) else {}
    if len(given) == 1:
        ((name, inner),) = given.items()
        return _of_guided(f"structured_outputs.{name}", name, inner)
    raise InputError(
        "the form of the answer is given more than once, or not at all",
        field="structured_outputs",
        value=value,
        allowed="exactly one of json, json_object, regex, choice and grammar",
    )


def _of_guided(field: str, kind: str, value: JsonValue) -> GrammarSettings:
    if kind == "json":
        return _schema(field, value)
    if kind == "json_object" and value is True:
        return GrammarSettings(kind=GrammarKind.JSON_OBJECT)
    if kind == "regex" and isinstance(value, str):
        return GrammarSettings(kind=GrammarKind.REGEX, text=value)
    if kind == "grammar" and isinstance(value, str):
        return GrammarSettings(kind=GrammarKind.LARK, text=value)
    if kind == "choice" and isinstance(value, list):
        texts = [each for each in value if isinstance(each, str)]
        if texts and len(texts) == len(value):
            pattern = "|".join(re.escape(each) for each in texts)
            return GrammarSettings(kind=GrammarKind.REGEX, text=f"({pattern})")
    raise InputError(
        "this grammar cannot be compiled",
        field=field,
        value=value,
        allowed="a JSON schema (json), true (json_object), a pattern (regex), texts (choice), Lark (grammar)",
    )


def _schema(field: str, value: JsonValue) -> GrammarSettings:
    """Return a schema as JSON; vLLM accepts it as a text too."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InputError("a JSON schema is not JSON", field=field, value=value, allowed=str(error)) from None
    if not isinstance(value, (dict, bool)):
        raise InputError("this is not a JSON schema", field=field, value=value, allowed="an object")
    return GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(value))
