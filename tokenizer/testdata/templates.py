"""Writes templates.json.gz: chat templates with the constructs of published ones,
conversations, and what apply_chat_template of transformers makes of them.

    pip install transformers jinja2 && python templates.py
"""

import gzip
import json

import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

TEMPLATES = {
    "turns": """{%- for message in messages -%}
    {%- if loop.first and message['role'] != 'system' -%}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' -}}
    {%- endif -%}
    {{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
""",
    "white space": """{# a comment #}
{% for m in messages %}
    {% if m.role == 'user' %}
    U: {{ m.content }}
    {% elif m.role == "assistant" %}
  A: {{ m.content | trim }}  
    {%+ else %}
  other {{ m.role }}
    {%- endif +%}
{% else %}
nobody
{% endfor %}

{% set x = 1 %}

end {{ x }}

""",
    "inst": """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate: ' ~ message['role']) }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'].strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}""",
    "tools": """{%- if tools %}
    {{- '<|system|>\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n" }}
    {%- for tool in tools | map(attribute='function') %}
{{ tool.name }}({% for name, p in tool.parameters.properties.items() %}{{ name }}: {{ p.type }}{% if name in tool.parameters.required %}!{% endif %}{{ ", " if not loop.last else "" }}{% endfor %})
    {% endfor %}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls is defined and message.tool_calls is not none %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '<tool_call>{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments | tojson if call.arguments is mapping else call.arguments }}
            {{- '}</tool_call>\\n' }}
        {%- endfor %}
    {%- elif message.role == "tool" %}
        {{- '<tool_response>' ~ message.content ~ '</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<end>\\n' }}{%- endif %}
    {%- elif message.content is string %}
        {{- message.role ~ ': ' ~ message.content ~ '\\n' }}
    {%- else %}
        {%- for part in message.content %}{%- if part.type == 'text' %}{{- part.text }}{%- elif 'image' in part or part['type'] == 'image' %}{{- '<image>' }}{%- endif %}{%- endfor %}
    {%- endif %}
{%- endfor %}""",
    "namespace": """{%- set ns = namespace(found=false, last=messages|length - 1, text='', tool=none) -%}
{%- for message in messages[::-1] -%}
    {%- set index = (messages|length - 1) - loop.index0 -%}
    {%- if not ns.found and message.role == "user" and not (message.content is string and message.content.startswith('<tool_response>')) -%}
        {%- set ns.found = true -%}
        {%- set ns.last = index -%}
    {%- endif -%}
{%- endfor -%}
{{- ns.last }} {{ ns.found }} {{ ns.tool }}
{%- for m in messages if m.role != 'system' -%}
    {%- set ns.text = ns.text ~ m.role[0] -%}
    {%- if '</think>' in (m.content or '') -%}
        {%- set reasoning = m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') -%}
        {{- '\\n(' + reasoning + ')' + m.content.split('</think>')[-1].lstrip('\\n') -}}
    {%- endif -%}
{%- endfor %}
{{ ns.text }}""",
    "macros": """{%- macro show(value, depth=0, mark='-') -%}
{%- if value is mapping -%}
{%- for k, v in value|dictsort -%}{{ '\\n' ~ '  ' * depth ~ mark ~ ' ' ~ k ~ ':' }}{{ show(v, depth + 1, mark=mark) }}{%- endfor -%}
{%- elif value is string -%}{{ ' "' ~ value ~ '"' }}
{%- elif value is iterable -%}{%- for v in value -%}{{ '\\n' ~ '  ' * depth ~ mark }}{{ show(v, depth + 1) }}{%- endfor -%}
{%- else -%}{{ ' ' ~ value }}{%- endif -%}
{%- endmacro -%}
{{ show(messages) }}
{{ show(tools, mark='*') if tools else 'no tools' }}""",
    "filters": """{{ messages | map(attribute='role') | join(', ') }}
{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | tojson }}
{{ messages | rejectattr('role', 'in', ['user', 'system']) | list | length }}
{{ messages | selectattr('tool_calls', 'defined') | list | count }}
{{ (messages | first).role }} {{ (messages | last)['role'] }} {{ messages[-1].role | upper }} {{ 'tool use' | title }} {{ 'ABC def' | capitalize }}
{{ [3, 1, 2] | sort | join('-') }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ [1, 2, 2, 1] | unique | list }} {{ [1, 2, 3] | sum }} {{ [1, 5, 3] | max }}{{ [4, 2] | min }}
{{ missing | default('d') }} {{ '' | default('e', true) }} {{ none | d('f') }} {{ '7' | int + 1 }} {{ '2.5' | float }} {{ 'x' | int }} {{ -3 | abs }}
{{ 'a\\nb\\n\\nc' | indent(2) }} {{ 'abc' | replace('b', 'x') }} {{ 'abc' | list }} {{ 'abc' | reverse }} {{ 'abc' | length }}
{{ {'z': 1, 'a': [true, none, 1.5, 'é<>&\\u2028'], 'n': {}} | tojson }} {{ {'z': 1, 'a': []} | tojson(indent=2) }} {{ [1, {'k': 'v'}] | tojson(indent=4) }} {{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }}
{{ 'x y' | e }} {{ '<b>' | escape }} {{ '<b>' | safe }} {{ {'a': 1}.items() | list }} {{ {'a': 1} | items | list }}""",
    "expressions": """{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 1.0 }} {{ 1e0 if false else 0.1 + 0.2 }} {{ 10 / 5 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'ab' * 2 }} {{ 'x' + 'y' }} {{ [1] + [2] }} {{ (1, 'a') }} {{ (1,) }} {{ [1, 'it\\'s', none, true, 1.0] }} {{ {'k': 'v "q"', 'l': [1]} }}
{{ 1 < 2 }} {{ 1 < 2 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ 'a' == "a" }} {{ 1 != 2 }} {{ not true }} {{ not 1 == 2 }} {{ 1 in [1, 2] }} {{ 'b' not in 'abc' }} {{ 'k' in {'k': 1} }}
{{ none is none }} {{ 1 is number }} {{ 'a' is string }} {{ true is boolean }} {{ 2 is even }} {{ 3 is odd }} {{ 6 is divisibleby 3 }} {{ 1 is not defined }} {{ foo is undefined }} {{ 'yes' if (foo is defined) else 'no' }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is iterable }} {{ 1 is sameas 1 }} {{ 2 is eq 2 }} {{ 2 is in [1, 2] }} {{ true is true }}
{{ 'abc'[0] }} {{ 'abc'[-1] }} {{ 'abc'[1:] }} {{ 'abc'[:-1] }} {{ 'abcdef'[::2] }} {{ 'abc'[::-1] }} {{ [1, 2, 3][1:] }} {{ [1, 2, 3][-2:] }} {{ 'abc'[5:] }}
{{ '' or 'x' }} {{ 0 and 1 }} {{ 'a' and 'b' }} {{ none or none }} {{ 'y' if 1 else 'n' }} [{{ 'y' if 0 }}] [{{ foo }}] [{{ none.x }}] [{{ messages[0].nothing }}] {{ 'a' 'b' }} {{ 1 if foo else 2 }}
{{ 'A b'.lower() }} {{ ' x '.strip() }} {{ 'xxaxx'.strip('x') }} {{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1)[0] }} {{ ' a  b '.split() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.find('c') }} {{ 'a-b'.replace('-', '+') }} {{ 'x'.join(['1', '2']) }} {{ 'aXb'.title() }} {{ '12'.isdigit() }} {{ 'a\\nb'.splitlines() }} {{ 'hello world'.capitalize() }} {{ 'aba'.count('a') }} {{ 'pre-x'.removeprefix('pre-') }}
{{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.keys() | list }} {{ {'a': 1, 'b': 2}.values() | list }} {{ {'items': 3}['items'] }} {{ dict(a=1)['a'] }} {{ range(3) | list }} {{ range(1, 6, 2) | list }} {{ '%s is %d%%' % ('x', 5) }} {{ 1_000 }} {{ "\\u00e9\\x41\\t|" }}""",
    "control": """{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{{ ',' if not loop.last }}{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ loop.cycle('x', 'y') }} {{ loop.previtem is defined }} {{ loop.nextitem[0] if loop.nextitem is defined }};{% endfor %}
{% for x in [] %}x{% else %}empty{% endfor %}
{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set block %}in {{ a }}{% endset %}{{ block | upper }}{% set trimmed | trim %}  t {% endset %}[{{ trimmed }}]
{% filter upper %}shout {{ a }}{% endfilter %}{% with c = 5, d = 6 %}{{ c + d }}{% endwith %}{{ c is defined }}
{% raw %}{{ not this }} {% nor this %}{% endraw %} {%- raw -%}  {{ x }}  {%- endraw -%} {{ '{{' }} {{ "%}" }}
{% generation %}written{% endgeneration %}{% for m in messages %}{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% endfor %}
{% if tools is not none and tools | length > 0 %}{{ tools[0].function.name }}{% endif %}{{- "\\n" -}}
   {%- if add_generation_prompt %} go {%- endif %}
{% for c in 'añ' %}{{ c }}.{% endfor %}{% for k in {'p': 1, 'q': 2} %}{{ k }}{% endfor %}{{ loop is defined }}""",
    "thinking": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% if not thinking is defined %}{% set thinking = true %}{% endif %}{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt %}<A>{% if thinking %}<think>{% else %}</think>{% endif %}{% endif %}{{ pad_token is defined }}""",
    "bad attribute": "one\n{{ messages[0].role }}\n{{ foo.bar }}",
    "bad add": "{{ 1 + 'a' }}",
    "bad call": "{{ messages() }}",
    "bad append": "{{ messages.append(1) }}",
    "bad function": "{{ nosuch('x') }}",
    "bad order": "{{ 1 < 'a' }}",
    "bad syntax": "{% if %}x{% endif %}",
    "bad end": "{% for x in messages %}",
    "bad filter": "{{ 1 | nosuch }}",
    "bad test": "{{ 1 is nosuch }}",
    "bad statement": "{% nosuch %}",
    "bad tuple": "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "bad division": "{{ 1 // 0 }}",
    "bad length": "{{ 5 | length }}",
    "bad loop": "{% for x in 5 %}{% endfor %}",
    "bad none": "{{ none + 'a' }}",
    "bad json": "{{ foo | tojson }}",
}

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather in a <city> & \"more\"",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "wo? größe"}, "days": {"type": "integer"}}, "required": ["city"]},
    },
}

CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "Hi there"}], "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "Be kind.\n"}, {"role": "user", "content": "  Grüße 👍🏽 \n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello!"}, {"role": "user", "content": "More?"}], "add_generation_prompt": False},
    {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "add_generation_prompt": True, "thinking": False},
    {
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "1", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2, "x": 1.0, "ok": True, "no": None}}}]},
            {"role": "tool", "content": "{\"temp\": 20}", "name": "weather"},
            {"role": "tool", "content": "wet"},
            {"role": "assistant", "content": "It's 20 degrees."},
        ],
        "tools": [TOOL, TOOL],
        "add_generation_prompt": True,
    },
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "image": "x.png"}]}], "add_generation_prompt": True},
]


def main():
    tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    cases = []
    for name, template in TEMPLATES.items():
        results = []
        for c in CONVERSATIONS:
            try:
                results.append(tok.apply_chat_template(c["messages"], chat_template=template, tokenize=False, **{k: v for k, v in c.items() if k != "messages"}))
            except Exception as e:
                if not name.startswith("bad") and "alternate" not in str(e):
                    print(name, CONVERSATIONS.index(c), repr(e))
                results.append(None)
        cases.append({"name": name, "template": template, "results": results})
    out = {"transformers": transformers.__version__, "conversations": CONVERSATIONS, "cases": cases}
    with open("templates.json.gz", "wb") as f:
        f.write(gzip.compress(json.dumps(out, ensure_ascii=False).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
