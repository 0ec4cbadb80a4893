"""Makes jinja.json.gz: short templates, and what the environment of transformers makes of them, null for an error.

    pip install transformers==5.24 jinja2
    python jinja.py

Each line of CASES is a template, or several if it has no statements. Their variables are VALUES.
"""
import gzip, json, os, re
from transformers.utils.chat_template_utils import _compile_jinja_template

VALUES = {"s": "Hello World", "e": "", "g": "straße ÉCOLE ﬁn ΑΣ", "n": 7, "f": 2.5, "neg": -7, "t": True, "no": None, "l": [3, 1, 2], "w": ["b", "A", "a", "C"],
          "d": {"b": 1, "a": [1.0, None], "C": {"x": "y"}}, "big": 123456789012345678901234567890, "html": "<a href=\"x\">it's</a>", "m": "one\ntwo\n\nthree",
          "u": [{"name": "Bo", "age": 3, "p": {"q": "z"}}, {"name": "al", "age": 1, "p": {"q": "y"}}, {"name": "Al", "age": 2, "p": {"q": "z"}}, {"age": 3}],
          "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}, {"v": 4, "c": []}]}, {"v": 5, "c": []}]}

CASES = r'''
{{ neg|abs }} {{ f|abs }} {{ big|abs }} {{ (-big)|abs }} {{ t|abs }}
{{ s|attr('upper')() }} {{ d|attr('b') is defined }} {{ d|attr('keys')()|list }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ [1,2,3,4]|batch(2, fill_with=0)|list }} {{ []|batch(3)|list }} {{ 'abcde'|batch(2)|list }}
{{ s|capitalize }} {{ g|capitalize }} {{ 'ǆ'|capitalize }} {{ 5|capitalize }}
[{{ 'ab'|center(7) }}] [{{ 'abc'|center(8) }}] [{{ 'abc'|center(2) }}] [{{ 'a'|center(width=4) }}] {{ 'x'|center|length }}
{{ x|default('q') }} {{ x|d }} {{ e|default('q') }} {{ e|default('q', true) }} {{ no|default('q') }} {{ no|default('q', boolean=true) }} {{ x|default(default_value='k') }} {{ x.y|default(1) }}
{{ d.q.r|default('k') }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(false, 'value') }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value', reverse=true) }}
{{ {'b': 1, 'a': 2}|dictsort(by='nothing') }}
{{ {2: 'b', 1: 'a'}|dictsort }} {{ {'B': 1, 'a': 2, 'C': 3}|dictsort(case_sensitive=true) }} {{ {'B': 1, 'a': 2, 'C': 3}|dictsort }}
{{ html|e }} {{ html|escape }} {{ html|forceescape }} {{ html|safe }} {{ 5|e }} {{ no|e }}
{{ 100|filesizeformat }} {{ 1000|filesizeformat }} {{ 1000000|filesizeformat }} {{ 1000000|filesizeformat(true) }} {{ 1|filesizeformat }} {{ 1024|filesizeformat(binary=true) }} {{ 123456789012|filesizeformat }} {{ '300'|filesizeformat }}
{{ l|first }} {{ 'abc'|first }} {{ d|first }} {{ []|first }} {{ l|last }} {{ 'abc'|last }} {{ ''|last }}
{{ '42'|float }} {{ '4.2e1'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 'x'|float(default=7) }} {{ no|float }} {{ t|float }} {{ '1_0'|float }} {{ ' 3 '|float }} {{ 'inf'|float }} {{ 'nan'|float }} {{ '-Infinity'|float }} {{ 3|float }}
{{ '%s is %d years'|format('Bo', 3) }} {{ '%(a)s-%(b)05d'|format(a='x', b=42) }} {{ '%.2f'|format(3.14159) }} {{ '%5.1f|%-8s|%+d|%x|%X|%o|%e|%g|%%|%r|%c'|format(2.25, 'ab', 5, 255, 255, 8, 12345.678, 0.0001, 'q', 'z') }}
{{ '%s'|format() }}
{{ '%s %s'|format('a') }}
{{ 'a'|format('b') }}
{{ '%d'|format('x') }}
{{ u|groupby('age') }}
{% for g in u|groupby('age') %}{{ g.grouper }}:{{ g.list|length }},{% endfor %}{% for k, v in u|groupby('p.q', default='?') %}{{ k }}={{ v|map(attribute='age')|join('+') }};{% endfor %}
{% for k, v in u[:3]|groupby('name') %}{{ k }}={{ v|length }};{% endfor %}{% for k, v in u[:3]|groupby('name', case_sensitive=true) %}{{ k }}={{ v|length }};{% endfor %}
{{ m|indent }}|{{ m|indent(2) }}|{{ m|indent(2, true) }}|{{ m|indent(2, first=true, blank=true) }}|{{ m|indent('> ') }}|{{ m|indent(width=1) }}|{{ 'a\n'|indent }}|
{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 'x'|int(default=-1) }} {{ '0x1A'|int(base=16) }} {{ '1010'|int(0, 2) }} {{ '0b11'|int(0, 0) }} {{ 'z'|int(0, 36) }} {{ 2.9|int }} {{ -2.9|int }} {{ t|int }} {{ no|int }} {{ '1_000'|int }} {{ ' 12 '|int }} {{ '9'|int(7, 8) }} {{ '123456789012345678901234567890'|int + 1 }} {{ '1e3'|int }} {{ 1e30|int }}
{{ d|items|list }} {{ x|items|list }}
{{ l|items }}
{{ l|join }} {{ l|join(', ') }} {{ u|join(';', attribute='age') }} {{ 'abc'|join('-') }} {{ l|join(d=':') }} {{ d|join(',') }} {{ [1, none, 'x', 2.0]|join('/') }}
{{ l|length }} {{ 'äöü'|count }} {{ d|length }} {{ e|length }} {{ x|length }} {{ range(4)|length }}
{{ 5|length }}
{{ l|select|length }}
{{ 'abc'|list }} {{ d|list }} {{ range(3)|list }} {{ (1, 2)|list }} {{ x|list }}
{{ s|lower }} {{ g|lower }} {{ 'İI'|lower }} {{ 'ΑΣ ΣΑ'|lower }} {{ 5|lower }}
{{ u|map(attribute='age')|list }} {{ u|map(attribute='name', default='?')|list }} {{ w|map('upper')|list }} {{ u|map(attribute='p.q', default=0)|list }} {{ ['1', 'x']|map('int', default=9)|list }} {{ [[1, 2], [3]]|map('first')|list }} {{ [[5, 6], [7, 8]]|map(attribute=1)|list }} {{ ['a b']|map('replace', ' ', '_')|list }}
{{ l|map('nothing')|list }}
{{ l|map|list }}
{{ l|max }} {{ l|min }} {{ w|max }} {{ w|min }} {{ w|min(case_sensitive=true) }} {{ u|max(attribute='age') }} {{ []|max }} {{ w|max(true) }} {{ [1, 2.5]|max }}
{{ l|reject('odd')|list }} {{ l|select('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1, '']|reject|list }} {{ l|select('>', 1)|list }} {{ l|select('in', [1, 2])|list }} {{ l|select('divisibleby', 3)|list }}
{{ u|selectattr('name')|map(attribute='age')|list }} {{ u|selectattr('age', 'equalto', 3)|list|length }} {{ u|rejectattr('name', 'defined')|list }} {{ u|selectattr('age', 'gt', 1)|map(attribute='age')|list }} {{ u|rejectattr('age', 'in', [1, 2])|map(attribute='age')|list }} {{ u|selectattr('p.q', 'eq', 'z')|list|length }}
{{ u|selectattr }}
{{ l|select('nothing')|list }}
{% if []|select %}generators are true{% else %}no{% endif %} {% if []|selectattr('x')|list %}yes{% else %}lists are not{% endif %} {% if []|map('upper') %}yes{% endif %} {% if []|unique %}yes{% endif %} {% if []|batch(2) %}yes{% endif %}
{{ (l|select)[0] is defined }}
{{ no|selectattr('a')|list }} {{ no|rejectattr('a')|list }} {{ no|select|list }} {{ no|reject('odd')|list }} {{ no|map('upper')|list }} {{ no|map(attribute='a')|list }} {{ x|selectattr('a')|list }} {{ 0|map('upper')|list }} {{ ''|select('nothing')|list }} {{ []|map|list }} {{ no|map|list }} {{ no|selectattr|list }}
{% for x in no|selectattr('type', 'equalto', 'function') %}a{% else %}b{% endfor %}
{{ n|select|list }}
{{ no|list }}
{{ no|join }}
{{ no|unique|list }}
{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ s|replace('o', '0', count=1) }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'ab'|replace('', '-') }} {{ 121|replace(1, 'x') }} {{ s|replace(old='l', new='L') }}
{{ l|reverse|list }} {{ 'abc'|reverse }} {{ (1, 2)|reverse|list }}
{{ 42.55|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 42|round }} {{ 2.5|round }} {{ 3.5|round }} {{ -2.5|round }} {{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ 42.4|round(method='ceil') }} {{ 42.55|round|int }} {{ 2.675|round(2) }} {{ 1e20|round }}
{{ 4|round(1, 'nothing') }}
{{ l|slice(2)|list }} {{ [1,2,3,4,5]|slice(3, 'x')|list }} {{ [1,2,3,4,5]|slice(2, fill_with=0)|list }} {{ 'abcdefg'|slice(3)|list }}
{{ l|sort }} {{ l|sort(true) }} {{ l|sort(reverse=true) }} {{ w|sort }} {{ w|sort(case_sensitive=true) }} {{ u[:3]|sort(attribute='name')|map(attribute='age')|list }} {{ u[:3]|sort(attribute='p.q,age')|map(attribute='age')|list }} {{ u[:3]|sort(attribute='age', reverse=true)|map(attribute='name')|list }} {{ d|sort }} {{ 'hello'|sort }} {{ [[2, 1], [1, 5]]|sort }} {{ [(1, 'b'), (1, 'a')]|sort }}
{{ [1, 'a']|sort }}
{{ no|string }} {{ t|string }} {{ 1.0|string }} {{ l|string }} {{ x|string }} {{ [x]|string }} {{ d|string }} {{ (1,)|string }} {{ ()|string }} {{ ['it\'s', "q\"", 'both\'"', 'é\n\x01\u200b']|string }}
{{ html|striptags }} {{ ' a  <b>b</b>\n <!-- no --> c &amp; d &lt;'|striptags }}
{{ l|sum }} {{ u|sum(attribute='age') }} {{ [[1], [2]]|sum(start=[]) }} {{ [1.5, 2]|sum }} {{ []|sum }} {{ u|sum('age', 10) }} {{ [0.1, 0.2, 0.3]|sum }}
{{ s|title }} {{ 'foo-bar (baz) [x] {y} <z>'|title }} {{ "it's"|title }} {{ 'FOO bar'|title }} {{ g|title }} {{ 'ßa'|title }} {{ '1st'|title }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ no|tojson }} {{ t|tojson }} {{ 1.0|tojson }} {{ big|tojson }} {{ html|tojson }} {{ 'é\x7f\x01\n\t"\\/\u2028🙂'|tojson }} {{ 'é\x7f\x01🙂'|tojson(ensure_ascii=true) }} {{ {1: 2, 2.5: 3, none: 4, true: 5}|tojson }} {{ (1, 2)|tojson }}
{{ d|tojson(indent=2) }} {{ d|tojson(indent=0) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=4) }} {{ d|tojson(indent='\t') }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(separators=[', ', '='], indent=1) }} {{ d|tojson(sort_keys=true) }} {{ 1e20|tojson }} {{ 1e-7|tojson }} {{ ('inf'|float)|tojson }} {{ ('nan'|float)|tojson }}
{{ x|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ range(3)|tojson }}
{{ d.items()|tojson }}
{{ ' a '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ '\x1fa\x85\xa0'|trim }}|{{ 5|trim }}|{{ 'xay'|trim(chars='xy') }}|{{ e|trim }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'foo bar baz qux'|truncate(length=5, end='!', leeway=0) }} {{ ('a' * 300)|truncate|length }} {{ 'Grüße aus Köln'|truncate(7, true, '…', 0) }}
{{ 'foo'|truncate(2) }} {{ 'foo bar baz'|truncate(2, leeway=0) }}
{{ [1, 2, 1]|unique|list }} {{ w|unique|list }} {{ w|unique(true)|list }} {{ w|unique(case_sensitive=true)|list }} {{ u|unique(attribute='age')|map(attribute='name', default='?')|list }} {{ u[:3]|unique(attribute='name')|map(attribute='age')|list }} {{ [[1], [1], [2]]|map('join')|unique|list }} {{ [1, true, 1.0]|unique|list }}
{{ s|upper }} {{ g|upper }} {{ 'ŉ'|upper }} {{ 5|upper }} {{ 'ß'|upper }} {{ 'ﬀ'|upper }}
{{ 'a b/c?d=é&f'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('x', 'y z'), (1, 2)]|urlencode }} {{ 5|urlencode }} {{ '-_.~!*'|urlencode }}
{{ 'one two-three four_five, six'|wordcount }} {{ 'a\nb'|wordcount }} {{ e|wordcount }} {{ 'naïve é'|wordcount }}
{{ 'The quick brown fox jumps over the lazy dog'|wordwrap(10) }}|{{ 'aaaaaaaaaaaaaaa b'|wordwrap(5) }}|{{ 'aaaaaaaaaaaaaaa b'|wordwrap(5, false) }}|{{ 'a b c'|wordwrap(3, wrapstring='/') }}|{{ 'x-y-zz www'|wordwrap(4) }}|{{ m|wordwrap(4) }}
{{ {'class': 'my', 'id': 'x"y', 'n': none, 'k': 1}|xmlattr }}|{{ {}|xmlattr }}|{{ {'a': 1}|xmlattr(false) }}
{{ d|pprint }} {{ s|pprint }} {{ [1, 'a']|pprint }}
{{ 1|nothing }}
{% if false %}{{ 1|nothing }}{% endif %}ok
{{ 'x' if true else 1|nothing }}
{{ t is boolean }} {{ 1 is boolean }} {{ d.keys is callable }} {{ s is callable }} {{ range is callable }} {{ x is defined }} {{ s is defined }} {{ no is defined }} {{ 10 is divisibleby 5 }} {{ 10 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is == 1 }}
{{ s is escaped }} {{ (s|e) is escaped }} {{ 2 is even }} {{ 3 is odd }} {{ -3 is odd }} {{ false is false }} {{ 0 is false }} {{ true is true }} {{ 1 is true }} {{ 'upper' is filter }} {{ 'nothing' is filter }} {{ 'odd' is test }} {{ 'nothing' is test }} {{ 1.0 is float }} {{ 1 is float }}
{{ 2 is ge 1 }} {{ 2 is gt(2) }} {{ 2 is greaterthan 1 }} {{ 1 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ 3 is in(l) }} {{ 1 is integer }} {{ t is integer }} {{ 1.0 is integer }} {{ big is integer }} {{ l is iterable }} {{ 5 is iterable }} {{ s is iterable }} {{ x is iterable }} {{ (l|select) is iterable }}
{{ 1 is le 1 }} {{ 1 is lt 1 }} {{ 1 is lessthan 2 }} {{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'a1' is lower }} {{ '1' is lower }} {{ 'ABC' is upper }} {{ 'ßA' is upper }} {{ d is mapping }} {{ l is mapping }} {{ 1 is ne 2 }} {{ no is none }} {{ x is none }} {{ 1 is number }} {{ 1.5 is number }} {{ t is number }} {{ s is number }} {{ big is number }}
{{ no is sameas none }} {{ 1 is sameas true }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ l is sameas l }} {{ l is sameas [3, 1, 2] }} {{ 1 is sameas 1.0 }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ 5 is sequence }} {{ x is sequence }} {{ (l|select) is sequence }} {{ s is string }} {{ 5 is string }} {{ x is undefined }} {{ s is undefined }}
{{ 1 is not odd }} {{ s is not defined }} {{ not x is defined }} {{ 3 is odd and 2 is even }} {{ 'x' is string or y }} {{ x is not none }} {{ 4 is divisibleby 2 and 3 }} {{ [] is defined and 1 }} {{ 1 is nothing }}
{{ 1 is nothing }}
{% if false %}{{ 1 is nothing }}{% endif %}ok
{{ 2**70 }} {{ 2**100 - 1 }} {{ big * big }} {{ -big // 7 }} {{ -big % 7 }} {{ big / 10 }} {{ big // big }} {{ big == big + 0 }} {{ big > 5 }} {{ 5 < big }} {{ big + 0.5 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775808 - 1 }} {{ 9223372036854775807 * 2 }} {{ 99999999999999999999 }} {{ 4294967296 * 4294967296 }} {{ -(2**63) }}
{{ 2**0.5 }} {{ 2**-1 }} {{ (-2)**3 }} {{ -2**2 }} {{ 2**3**2 }} {{ 0**0 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 1 / 3 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 1e-5 }} {{ 0.0001 }} {{ 1.0 }} {{ -0.0 }} {{ 3 * 1.5 }} {{ 10 % 3.5 }} {{ +5 }} {{ -t }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 0 ** -1 }}
{{ 1.0 / 0 }}
{{ 'a' * 3 }} {{ 3 * 'a' }} {{ [1, 2] * 2 }} {{ 2 * [0] }} {{ (1,) * 3 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ 2.0 }} {{ true + 1 }} {{ true * 3 }} {{ [1] * 0 }} {{ [1] * -1 }} {{ 'x' * 0 }}
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'a' - 'b' }}
{{ x + 1 }}
{{ d + d }}
{{ 1 + none }}
{{ '%s-%s' % ('a', 1) }} {{ '%d%%' % 50 }} {{ '%05.1f' % 3.14159 }} {{ '%s' % [1] }} {{ '%(k)s' % {'k': 'v'} }} {{ '%-5s|' % 'a' }} {{ '%5s|' % 'a' }} {{ '%+d % d' % (1, 2) }} {{ '%.3s' % 'abcdef' }} {{ '%*d' % (5, 42) }} {{ '%i' % 3.9 }} {{ '%#x %#o' % (255, 8) }} {{ '%08.3e' % 1234.5 }} {{ '%G' % 1e-10 }} {{ '%a' % 'é' }} {{ '%s' % none }}
{{ '%s' % () }}
{{ 'a' % 1 }}
{{ '%y' % 1 }}
{{ '{} {}'.format(1, 'a') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{a}-{b}'.format(a=1, b=2) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+d} {:,} {:_} {:x} {:#x} {:b} {:o} {:X} {:c}'.format(42, 5, 1234567, 1234567, 255, 255, 5, 8, 255, 65) }} {{ '{:.2f} {:8.3f}| {:e} {:g} {:%} {:.1%} {:n} {:,.2f}'.format(3.14159, 2.5, 12345.678, 0.00001, 0.25, 0.256, 5, 1234567.891) }}
{{ '{!r} {!s} {!a}'.format('a', 'b', 'é') }} {{ '{0[0]} {0[1]}'.format([1, 2]) }} {{ '{0[k]}'.format({'k': 'v'}) }} {{ '{{}} {}'.format(1) }} {{ '{:{}}|'.format('a', 5) }} {{ '{:.3}'.format('abcdef') }} {{ '{:10.3}|'.format('abcdef') }} {{ '{}'.format(none) }} {{ '{}'.format([1, 'a']) }} {{ '{:>{w}}'.format(1, w=4) }} {{ '{:=+6d}'.format(3) }} {{ '{:<06}|'.format(3) }} {{ '{:s}'.format('x') }} {{ '{:d}'.format(true) }} {{ '{}'.format(true) }} {{ '{:5}|'.format(true) }} {{ '{}'.format(1.0) }} {{ '{:.0f}'.format(2.5) }} {{ '{:10}|'.format(2.5) }} {{ '{:.3g}'.format(1234.5) }} {{ '{:}'.format(5) }}
{{ '{}'.format() }}
{{ '{:d}'.format('a') }}
{{ '{:d}'.format(1.5) }}
{{ '{'.format(1) }}
{{ '{a}'.format(1) }}
{{ '{a} {b}'.format_map({'a': 1, 'b': 2}) }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ "it's a1b".title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ 'ßX'.swapcase() }} {{ 'ß'.casefold() }} {{ 'ß'.upper() }} {{ g.upper() }} {{ g.title() }} {{ 'ΑΣ'.lower() }}
[{{ 'ab'.center(6) }}] [{{ 'ab'.center(7, '*') }}] [{{ 'ab'.ljust(5) }}] [{{ 'ab'.rjust(5, '.') }}] [{{ '42'.zfill(5) }}] [{{ '-42'.zfill(5) }}] [{{ '+4'.zfill(4) }}] [{{ 'abc'.zfill(2) }}] [{{ 'a\tb'.expandtabs(4) }}] [{{ 'a\tb'.expandtabs() }}]
{{ s.count('o') }} {{ s.count('o', 5) }} {{ s.count('o', 0, 5) }} {{ 'aaa'.count('') }} {{ s.find('o') }} {{ s.find('o', 5) }} {{ s.find('z') }} {{ s.rfind('o') }} {{ s.rfind('o', 0, 5) }} {{ s.index('W') }} {{ s.rindex('l') }} {{ 'äbc'.find('c') }} {{ s.find('') }} {{ s.find('o', -4) }}
{{ s.index('z') }}
{{ s.startswith('He') }} {{ s.startswith(('x', 'He')) }} {{ s.startswith('W', 6) }} {{ s.endswith('ld') }} {{ s.endswith('lo', 0, 5) }} {{ s.endswith(('a', 'd')) }} {{ s.startswith('') }}
{{ s.startswith(['He']) }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ '12'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ ''.isalpha() }} {{ ' \n'.isspace() }} {{ 'a1'.islower() }} {{ 'A1'.isupper() }} {{ '1'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'AB'.istitle() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'a\n'.isprintable() }} {{ 'é'.isalpha() }} {{ '٣'.isdigit() }}
{{ '-'.join(['a', 'b']) }} {{ ''.join([]) }} {{ ', '.join('abc') }} {{ ','.join({'a': 1, 'b': 2}) }}
{{ ','.join([1, 2]) }}
{{ ' a '.strip() }}|{{ 'xax'.strip('x') }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'abcba'.strip('ab') }}|{{ ' a '.strip(none) }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }} {{ 'prefix-a'.removeprefix('prefix-') }} {{ 'a.txt'.removesuffix('.txt') }} {{ 'a'.removeprefix('b') }}
{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a b c'.rsplit(none, 1) }} {{ ' a '.split(' ') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc\x0bd'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'a, b'.split(sep=', ') }} {{ 'a  b '.split(none, 1) }}
{{ 'a'.split('') }}
{{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }} {{ 'aaa'.replace('a', 'b', -1) }} {{ 'a'.encode is defined }} {{ 'abc'.translate({98: 'X'}) }}
{{ l.index(1) }} {{ l.count(3) }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }} {{ l.copy() }} {{ d.copy() }} {{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ dict.fromkeys(['a', 'b'], 0) }} {{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=2) }} {{ dict([('a', 1), ('b', 2)]) }}
{{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ range(3) }} {{ range(1, 5, 2) }} {{ d.items()|first }}
{{ l.index(9) }}
{{ l.append(1) }}
{{ d.update({'a': 1}) }}
{{ d.pop('a') }}
{{ s.__class__ }}
{{ s.nothing is defined }} {{ d.nothing is defined }} {{ l.nothing is defined }} {{ 5 .nothing is defined }} {{ no.x is defined }} {{ l[10] is defined }} {{ d['zz'] is defined }} {{ s[100] is defined }} {{ l['a'] is defined }}
{{ x.y }}
{{ x['y'] }}
{{ x() }}
{{ s() }}
{{ d.items }}
{{ l[0] }} {{ l[-1] }} {{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ (1, 2, 3)[1:] }} {{ l[5:] }} {{ s[-3:] }} {{ d['b'] }} {{ d.b }} {{ d['C']['x'] }} {{ l.0 }} {{ u[0].p.q }} {{ range(10)[3] }} {{ range(10)[2:5]|list }} {{ l[true] }} {{ [[1, 2], [3, 4]][1][0] }} {{ 'äöü'[1] }} {{ l[1.0] is defined }}
{{ {1: 'a', 2: 'b'}[1] }} {{ {1: 'a'} }} {{ {1.5: 'a', none: 'b', true: 'c'} }} {{ {(1, 2): 'a'}[(1, 2)] }} {{ {1: 'a'}[true] }} {{ {1: 'a'}[1.0] }} {{ 1 in {1: 2} }} {{ {1: 2, 'a': 3}|length }} {{ {'a': 1, 'a': 2} }} {{ {n: s}[7] }} {{ {1: 'a'}.get(1) }} {% for k in {3: 1, 1: 2} %}{{ k }},{% endfor %} {{ {1: 2} == {1.0: 2} }}
{{ {[1]: 2} }}
{{ {}['a'] is defined }} {{ {} }} {{ [] }} {{ () }} {{ (1) }} {{ (1,) }} {{ 1, 2 }} {{ [1, [2, (3,)]] }} {{ {'a': {'b': none}} }} {{ [1, 2,] }} {{ {'a': 1,} }}
{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ [1] == [1.0] }} {{ (1,) == [1] }} {{ {} == {} }} {{ none == none }} {{ x == y }} {{ none == false }} {{ 1 != 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 in l }} {{ 'x' not in s }} {{ 'ell' in s }} {{ 'b' in d }} {{ 2 in range(3) }} {{ x in [1] }} {{ none in [none] }} {{ '' in '' }} {{ 1 < 2.5 }} {{ true < 2 }} {{ 1 in x }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ d < d }}
{{ t and 1 }} {{ t and e }} {{ e or 'z' }} {{ not e }} {{ not not 5 }} {{ none or 0 }} {{ 1 if t }} {{ 1 if no }} {{ 'a' if no else 'b' if no else 'c' }} {{ (1 if no) is defined }} {{ [] or {} }} {{ x or 'd' }} {{ not x }}
{{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 1_0.5 }} {{ 00 }} {{ 2e+2 }}
{{ 'a\tb\\n\'"' }} {{ "\x41\101\u00e9\U0001F642\0" }} {{ 'a' 'b' }} {{ "\q" }} {{ '\a\b\f\v' }} {{ "\7\12\1234" }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }} {{ False }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in l %}{% for y in w %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }},{% endfor %} {% for x in u %}{% if loop.changed(x.age, 1) %}{{ x.age }}{% endif %}{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in tree recursive %}{{ x.v }}({{ loop(x.c) }}){{ loop.depth }}{% endfor %}
{% for x in tree recursive %}{{ '-' * loop.depth0 }}{{ x.v }}{% if x.c %}[{{ loop(x.c) }}]{% endif %}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% else %}none{% endfor %} {% for x in [] %}a{% else %}none{% endfor %} {% for x in l if x > 9 %}a{% else %}none{% endfor %} {% for x in y %}a{% else %}undefined{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %} {% for c in 'abc' %}{{ c }}.{% endfor %} {% for k in d %}{{ k }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %} {% for x in [1, 2, 3, 4] %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% set y = x %}{% endfor %}{{ y is defined }} {% set z = 1 %}{% for x in l %}{% set z = x %}{{ z }}{% endfor %}{{ z }} {% if t %}{% set q = 5 %}{% endif %}{{ q }}
{% for x in l %}{{ x }}{% endfor %}{{ x is defined }} {{ loop is defined }}
{% for x in l %}{{ loop }}{% break %}{% endfor %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set a, b = [3, 4] %}{{ a }}{{ b }} {% set (a, b) = (5, 6) %}{{ a }}{{ b }} {% set x = 1, %}{{ x }} {% set a, (b, c) = (1, (2, 3)) %}{{ a }}{{ b }}{{ c }}
{% set x %}<{{ s }}>{% endset %}{{ x }} {% set x | upper %}a{{ 1 }}b{% endset %}{{ x }} {% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }} {% set x | default('d') %}{% endset %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }} {% set ns2 = namespace({'k': 1}, j=2) %}{{ ns2.k }}{{ ns2.j }} {% set ns.t %}block{% endset %}{{ ns.t }} {% set ns.a, y = 8, 9 %}{{ ns.a }}{{ y }} {{ ns['a'] }}
{% set d.b = 5 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set j = joiner() %}{% for x in l %}{{ j() }}{{ x }}{% endfor %} {% set j = joiner('; ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %} {% set j = joiner(sep='|') %}{{ j() }}a{{ j() }}b
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
{{ cycler() }}
{% macro f(a, b=2, c=none) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(1, c=5) }} {{ f(b=1, a=2) }} {{ f(1, 2, 3, 4, 5) }} {{ f(1, z=9, y=8) }} {{ f() }} {{ f.name }} {{ f.arguments }} {{ f.catch_varargs }} {{ f.catch_kwargs }} {{ f.caller }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, b=2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}
{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {% set y = 3 %}{% macro g2() %}{{ y }}{% endmacro %}{{ g2() }} {% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * fact(n - 1)|int }}{% endif %}{% endmacro %}{{ fact(20) }} {{ fact(25) }}
{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}body{% endcall %} {% macro f2(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b) f2(1) %}{{ a }}-{{ b }}{% endcall %} {% macro f3() %}{{ caller is defined }}{{ caller() if caller }}{% endmacro %}{{ f3() }}{% call f3() %}y{% endcall %} {% call(a, b=5) f2(1) %}{{ a }}{{ b }}{% endcall %}
{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}
{% macro f(x) %}{{ x }}{% endmacro %}{{ l|map('string')|map('upper')|join }} {{ [f(1), f(2)] }} {{ f(f(3)) }} {{ f(1)|upper }} {{ f(1) is string }}
{% block a %}<{{ s }}>{% endblock %} {% block b %}x{% endblock b %} {{ self.a() }} {% set y = 1 %}{% block c %}{{ y }}{% set y = 2 %}{% endblock %}{{ y }} {% for i in l %}{% block d scoped %}{{ i }}{% endblock %}{% endfor %}
{% for i in l %}{% block d %}{{ i }}{% endblock %}{% endfor %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% filter upper %}a{{ 1 }}b{% endfilter %} {% filter replace('a', 'b') %}aa{% endfilter %} {% filter indent(2)|upper %}a
b{% endfilter %} {% filter trim %} x {% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }} {% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }} {% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% autoescape true %}{{ html }}{{ html|safe }}{% endautoescape %} {% autoescape false %}{{ html }}{% endautoescape %}
{{ html|e ~ '<' }} {{ html|e + '<' }} {{ ('<'|safe) ~ '<' }} {{ ('<b>'|safe)|e }} {{ ('<b>'|e)|forceescape }} {{ ['<', '<'|e]|join('&') }} {{ ('<%s>'|safe) % '<' }} {{ ('<'|e)|upper }} {{ ('<'|safe)|replace('<', '<<') }}
{% raw %}{{ x }}{% y %}{# z #}{% endraw %} {%- raw -%} a {%- endraw -%} b
a {#- c -#} b {# d #} c{# e
f #}g
{{- ' a ' -}} b {%- if t -%} c {%- endif -%} d
  {% if t %}
    x
  {% endif %}
 y
  {%+ if t %}x{% endif +%}
z
{{ s }}
{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %} {% if x %}a{% endif %}{% if no is none and not e %}b{% endif %} {% if 0 %}{% elif 0 %}{% else %}c{% endif %}
{{ raise_exception('no') }}
{{ strftime_now('%Y') is string }} {{ namespace }}
{{ range(0) |list }} {{ range(3, 0, -1)|list }} {{ range(0, 10, 3)|list }} {{ range(-2)|list }}
{{ range(3, 0, 0) }}
{{ range() }}
{{ range('a') }}
{{ 5 .bit_length() }} {{ f.is_integer() }} {{ 2.0.is_integer() }} {{ n.real }} {{ n.imag }} {{ n.numerator }} {{ n.denominator }} {{ f.real }} {{ n.bit_length() }} {{ big.bit_length() }} {{ n.conjugate() }}
{{ s|length + 1 }} {{ -l|length }} {{ l|length == 3 and t }} {{ 'a' ~ 'b'|upper }} {{ ('a' ~ 'b')|upper }} {{ 1 + 2|string|length }} {{ not l|length }} {{ -f|abs }} {{ 2 ** 3|int }}
{{ [1, 2, 3]|map('string')|join(',') if t else '' }} {{ l[l|length - 1] }} {{ d['b' if t else 'a'] }} {{ s.split()[0] }} {{ s.split()|map('length')|list }} {{ (s.split())[-1].upper() }} {{ u|map(attribute='age')|sum }} {{ u|selectattr('name', 'defined')|map(attribute='name')|join(' ') }}
{{ lipsum is defined }} {{ dict is defined }} {{ 'a' is eq('a') }} {{ l is eq [3, 1, 2] }} {{ l|first is odd }} {{ 5 is not in [1] }} {{ 5 not in [1] }}
{{ (l|sort)[0] }} {{ (l|reverse|list)[0] }} {{ (d|dictsort)[0][0] }} {{ l|sort|join }} {{ [3, 1]|sort|first }} {{ l|map('float')|list }} {{ [none, 1]|map('default', 'x', true)|list }} {{ ['a', 'b']|map('center', 3)|list }}
{{ u|map(attribute='p')|selectattr('q', 'defined')|list }}
{{ 'a,b'.split(',')|map('trim')|reject('equalto', 'a')|list }} {{ [1, 2, 3, 4]|select('even')|map('string')|join('|') }}
'''.strip("\n").split("\n")

# Templates of several lines.
MULTI = ["a {#- c -#} b {# d #} c{# e\nf #}g", "{{- ' a ' -}} b\n  {%- if t -%}\n c {%- endif -%} d\n", "  {% if t %}\n    x\n  {% endif %}\n y\n", "  {%+ if t %}x{% endif +%}\nz\n", "{% filter indent(2)|upper %}a\nb{% endfilter %}",
         "{% for x in l %}\n- {{ x }}\n{% endfor %}\n", "{% set x %}\n a\n{% endset %}\n[{{ x }}]", "{% macro f(x) %}\n{{ x }}\n{% endmacro %}\n[{{ f(1) }}]", "\r\na\r\n{% if t %}\r\nb{% endif %}\r\n", "{{ s }}\n", "{{ s }}\n\n", "{{ 'a' }}\n{# x #}\nb", "{{ {\n 'a': 1,\n 'b': [1,\n2]\n}|tojson }}",
         "{%- for m in u %}\n    {{- m.name }}\n{%- endfor %}\n end", "x  {%- raw %}  {{ a }}  {% endraw -%}  y", "{% raw %}\n a\n{% endraw %}\n b", "{# c #}{{ 1 }}\n  {# d #}\n{{ 2 }}", "  {{- 1 }}  {{ 2 -}}  3", "a\n\n  {% set y = 1 -%}\n\n b", "{% generation %}x{% endgeneration %}y{%- generation %} z {% endgeneration -%} w"]

skip = {"a {#- c -#} b {# d #} c{# e", "f #}g", "  {% if t %}", "    x", "  {% endif %}", " y", "  {%+ if t %}x{% endif +%}", "z"}
out = []
lines = [c for c in CASES if c not in skip]
parts = [p for c in lines for p in ([c] if "{%" in c else re.split(r"(?<=\}\}) (?=\{\{)", c))]
for src in parts + MULTI:
    try:
        text = _compile_jinja_template(src).render(**json.loads(json.dumps(VALUES)))
        if " object at 0x" in text or "<generator" in text or "<function" in text or "<class" in text or "<built-in" in text or "<bound" in text:
            continue
    except Exception as e:
        text = None
    out.append([src, text])
with gzip.GzipFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps({"values": VALUES, "cases": out}, ensure_ascii=False, separators=(",", ":")).encode())
print(len(out), "templates,", sum(t is None for _, t in out), "errors")
for src, t in out:
    if t is None and "--errors" in os.sys.argv:
        print(src)
