# presets: standard,data,open
from typing import Any, List

SCHEMA = {
    "type": "object",
    "required": ["id", "email"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "email": {"type": "string", "contains": "@"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}},
        "role": {"enum": ["admin", "user"]},
    },
}

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}


def validate(value: Any, schema: dict, path: str = "$") -> List[str]:
    errors = []
    if "enum" in schema and value not in schema["enum"]:
        errors.append(f"{path}: {value!r} is not one of {schema['enum']}")
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or isinstance(value, bool)):
        return errors + [f"{path}: expected {kind}, got {type(value).__name__}"]
    if isinstance(value, dict):
        errors += [f"{path}: missing {key!r}" for key in schema.get("required", []) if key not in value]
        for key, item in value.items():
            if key in schema.get("properties", {}):
                errors += validate(item, schema["properties"][key], f"{path}.{key}")
            else:
                errors.append(f"{path}: unknown key {key!r}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            errors += validate(item, schema.get("items", {}), f"{path}[{i}]")
    elif isinstance(value, str):
        if schema.get("contains", "") not in value:
            errors.append(f"{path}: {schema['contains']!r} not in {value!r}")
        if len(value) > schema.get("maxLength", 10**9):
            errors.append(f"{path}: longer than {schema['maxLength']}")
    elif isinstance(value, (int, float)):
        if value < schema.get("minimum", value):
            errors.append(f"{path}: {value} < {schema['minimum']}")
        if value > schema.get("maximum", value):
            errors.append(f"{path}: {value} > {schema['maximum']}")
    return errors


documents = [
    {"id": 1, "email": "a@b.c", "age": 30, "tags": ["x"], "role": "user"},
    {"id": 0, "email": "nobody", "tags": ["short", "toolong", 3], "role": "root"},
    {"email": 7, "id": True, "extra": None, "age": 200},
    ["not", "an", "object"],
]
for document in documents:
    problems = validate(document, SCHEMA)
    print("valid" if not problems else "\n".join(problems))
    print("--")
