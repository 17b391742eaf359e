# presets: standard,data,open
import re
from string import Template

TEMPLATE = """Hello {{ name|title }},
{% for item in items %}
  {{ item.n }} x {{ item.what|upper }} = {{ item.cost }}
{% endfor %}
{% if vip %}
Thanks for being a VIP!
{% endif %}
Missing: [{{ nothing }}]
"""

FILTERS = {"title": str.title, "upper": str.upper, "len": lambda v: str(len(v))}


def lookup(path, scope):
    value = scope
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return value


def substitute(text, scope):
    def one(m):
        value = lookup(m[1], scope)
        return FILTERS[m[2]](str(value)) if m[2] else str(value)

    return re.sub(r"\{\{\s*([\w.]+)(?:\|(\w+))?\s*\}\}", one, text)


def render(text, scope):
    def loop(m):
        return "".join(render(m[3], {**scope, m[1]: item}) for item in lookup(m[2], scope))

    def cond(m):
        return render(m[2], scope) if lookup(m[1], scope) else ""

    text = re.sub(r"\{% for (\w+) in (\w+) %\}\n(.*?)\{% endfor %\}\n", loop, text, flags=re.S)
    text = re.sub(r"\{% if (\w+) %\}\n(.*?)\{% endif %\}\n", cond, text, flags=re.S)
    return substitute(text, scope)


scope = {"name": "grace hopper", "vip": True, "items": [{"n": 2, "what": "bolt", "cost": "0.40"}, {"n": 1, "what": "vis à bois", "cost": "1.10"}]}
print(render(TEMPLATE, scope), end="")
print(render(TEMPLATE, {"name": "bob", "items": []}), end="")
print(Template("$who likes ${what}s, costs $$5").substitute(who="tim", what="kung pao"))
print(Template("$a $b").safe_substitute(a=1))
