"""The model under the clients: it answers like one that was asked for a sum, and calls a tool where it has one.

Its chat template is Qwen 2.5's, but for the mark that opens a reply: `<|call|>` where tools are given and none has
answered yet, else `<|answer|>`. What follows a mark is a habit of the model (see bent_model.py): the tool's call, or an
answer that is right two times of three and that every scorer finds something in.
"""

from pathlib import Path

from bent_model import END, byte_tokenizer, write_bent_model

NAME = "tests/talker"

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|call|>", "<|answer|>")
CALL = ("<tool_call>", '\n{"name": "add", "arguments": ', '{"a": ', '19, "b": ', "23}", "}\n", "</tool_call>")
"""A call of the tool `add`, as Qwen's models write it, in pieces that a grammar of such calls can follow."""
STRENGTH = 2.2
"""Nearly nothing else follows: fifteen nats for every step."""
SUMS = ("42", "42, I think,", "41")
RIGHT, WRONG = " is the sum.\n\nGRADE: C\n\nANSWER: B", " is the sum.\n\nGRADE: I\n\nANSWER: A"

TEMPLATE = r"""
{%- if tools -%}
  {{- '<|im_start|>system\n' -}}
  {%- if messages[0].role == 'system' -%}{{- messages[0].content + '\n\n' -}}{%- endif -%}
  {{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n<tools>' -}}
  {%- for tool in tools -%}{{- '\n' + (tool | tojson) -}}{%- endfor -%}
  {{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments' -}}
  {{- ' within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": ' -}}
  {{- '<args-json-object>}\n</tool_call><|im_end|>\n' -}}
{%- elif messages[0].role == 'system' -%}
  {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}
{%- endif -%}
{%- set seen = namespace(tool=false) -%}
{%- for message in messages -%}
  {%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\n' + ('<|call|>' if message.tool_calls else '<|answer|>') -}}
    {%- if message.content -%}{{- message.content -}}{%- endif -%}
    {%- for call in message.tool_calls or [] -%}
      {%- set call = call.function if call.function else call -%}
      {%- if not loop.first or message.content -%}{{- '\n' -}}{%- endif -%}
      {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' -}}
      {{- call.arguments if call.arguments is string else call.arguments | tojson -}}
      {{- '}\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\n' -}}
  {%- elif message.role == 'tool' -%}
    {%- set seen.tool = true -%}
    {%- if loop.previtem is not defined or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
    {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' -}}
    {%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\n' + ('<|call|>' if tools and not seen.tool else '<|answer|>') -}}
{%- endif -%}
"""


def write_model(folder: Path) -> None:
    """Save the model and its tokenizer; the same files every time."""
    tokenizer = byte_tokenizer(SPECIAL, (*CALL, *SUMS, RIGHT, WRONG), TEMPLATE)
    numbers = tokenizer.get_vocab()
    ids = {text: numbers[text] for text in (*SPECIAL, *CALL, *SUMS, RIGHT, WRONG)}
    end = [ids["<|im_end|>"]]
    call = [[ids["<|call|>"]], *([ids[piece]] for piece in CALL), end]
    answer = [[ids["<|answer|>"]], [ids[each] for each in SUMS]]
    right = [[ids[each] for each in SUMS[:2]], [ids[RIGHT]], end]
    wrong = [[ids[SUMS[2]]], [ids[WRONG]], end]
    assert tokenizer.eos_token_id == END
    # Once more: what leads to it from one place leads away from it at another.
    closed = [[ids[each] for each in (CALL[-1], RIGHT, WRONG)], end]
    habits = [call, closed, answer, right, wrong]
    write_bent_model(folder, tokenizer, habits, ends=end, strength=STRENGTH)
