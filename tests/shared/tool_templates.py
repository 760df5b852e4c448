"""Chat templates with tools, as Qwen 2.5's and Llama 3.1's are, in the marks of the presets' tokenizers."""

import copy

from transformers import PreTrainedTokenizerFast

from tinsmith.renderers.tokenizer import preset_tokenizer

QWEN = r"""
{%- if tools %}
    {{- '<|system|>\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You help.' }}
    {%- endif %}
    {{- "\n\n# Tools\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\nCall so:\n<tool_call>\n{\"name\": <function-name>, " }}
    {{- "\"arguments\": <args-json-object>}\n</tool_call><|end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|system|>\n' + messages[0]['content'] + '<|end|>\n' }}
    {%- else %}
        {{- '<|system|>\nYou help.<|end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first)
        or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|' + message.role + '|>\n' + message.content + '<|end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|assistant|>' }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|user|>' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
"""Tagged calls; the switch is Qwen 3's."""

LLAMA = r"""
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|system|>\nToday Date: " + date_string + "\n\n" + system_message + "<|end|>" }}
{%- if tools is not none and tools %}
    {%- set first_user_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
    {{- '<|user|>\nRespond with a JSON for a function call: {"name": function name, "parameters": dictionary}\n\n' }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|end|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|' + message['role'] + '|>\n' + message['content'] | trim + '<|end|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|assistant|>\n' }}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|end|>" }}
    {%- else %}
        {{- "<|user|>\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}
"""
"""Bare calls, one in a reply; what a tool gave is printed as JSON."""

XML = QWEN.replace('{"name": "', "<function=").replace("""'", "arguments": '""", "'>'")
"""Calls in a form that is read nowhere here, as Qwen 3's coder has it."""


def tokenizer_with(template: str, preset: str = "nano") -> PreTrainedTokenizerFast:
    """A preset's tokenizer with another chat template."""
    tokenizer = copy.deepcopy(preset_tokenizer(preset))
    tokenizer.chat_template = template
    return tokenizer
