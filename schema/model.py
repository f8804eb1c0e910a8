"""The contract as the emitters see it: methods, structs, enums and unions, resolved from rex-rpc.json.

Understands only the few forms of JSON Schema that the contract uses and stops at any other, so that
nothing in the document can be silently ignored. Knows no output language.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Optional

SAFE = 2**53 - 1  # the largest integer every JSON reader keeps exact
ABSENT = object()  # a member without a default
NO_NUL = "^[^\\u0000]*$"
ENV_NAME = "^[^=\\u0000]+$"
ANNOTATIONS = {"description", "default", "x-limit", "format"}


class SchemaError(Exception):
    """The document says something this generator does not understand, or contradicts itself."""


@dataclasses.dataclass
class Type:
    """kind: bool int string null document const enum struct union array map nullable variant."""

    kind: str
    name: str = ""  # of an enum, a struct or a union
    items: tuple["Type", ...] = ()  # of an array, a map, a nullable, a variant
    low: Optional[int] = None  # of an integer, of a string's length, of an array's size
    high: Optional[int] = None
    os: str = ""  # "os": bytes without NUL; "command": bytes whose NUL is refused elsewhere
    value: Any = None  # of a const
    names: str = ""  # a pattern for the keys of a map

    def os_kind(self) -> str:
        return self.os or next((kind for kind in (item.os_kind() for item in self.items) if kind), "")


@dataclasses.dataclass
class Member:
    name: str
    type: Type
    required: bool
    default: Any = ABSENT
    description: str = ""
    common: bool = False  # shared by many methods

    @property
    def twin(self) -> str:
        """The name under which it travels as base64, or nothing."""
        return self.name + "Bytes" if self.type.os_kind() else ""


@dataclasses.dataclass
class Struct:
    name: str
    members: list[Member]
    description: str = ""
    base: str = ""
    exactly_one: list[list[str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Union:
    """One of several objects, told apart by the first member, which is required and no other one has."""

    name: str
    alternatives: list[list[Member]]
    description: str = ""


@dataclasses.dataclass
class Enum:
    name: str
    values: list[str]
    description: str = ""


@dataclasses.dataclass
class Method:
    name: str
    summary: str
    description: str
    params: Struct
    result: Optional[Type]  # None for a notification
    errors: list[str]
    from_server: bool
    tag: str  # its name in C++


def tag_of(method: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in re.split(r"[^A-Za-z]+", method) if word)


class Contract:
    """Everything in the document; types are in an order in which each follows those it needs."""

    def __init__(self, text: str) -> None:
        self.document = json.loads(text)
        components = self.document["components"]
        self.schemas: dict[str, Any] = components["schemas"]
        self.errors: dict[str, Any] = components["errors"]
        self.limits: dict[str, Any] = self.document["x-limits"]
        self.documents: list[str] = self.document["x-documents"]  # types of files that a user writes
        self.types: dict[str, Any] = {}
        self.methods = [self._method(method) for method in self.document["methods"]]
        for name in self.schemas:
            self.resolve({"$ref": "#/components/schemas/" + name})
        for method in self.methods:
            self._check_bounds(method.params.members, method.name)

    def resolve(self, schema: dict[str, Any]) -> Type:
        """The type of a schema; what it refers to is declared on the way."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/components/schemas/")
            if set(schema) - {"$ref"} - ANNOTATIONS or name not in self.schemas:
                raise SchemaError(f"cannot use {schema}")
            target = self.schemas[name]
            if "enum" in target or "properties" in target or "allOf" in target or self._is_union(target):
                return self._declare(name, target)
            return self.resolve(target)
        known = ANNOTATIONS | {"type", "items", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"}
        known |= {"pattern", "contentEncoding", "x-os-string", "oneOf", "const"}
        known |= {"additionalProperties", "propertyNames"}
        if set(schema) - known:
            raise SchemaError(f"do not know {sorted(set(schema) - known)} in {schema}")
        if "oneOf" in schema:
            return self._choice([self.resolve(option) for option in schema["oneOf"]])
        if "const" in schema:
            return Type("const", value=schema["const"])
        if isinstance(schema["type"], list):
            rest = {key: value for key, value in schema.items() if key != "type"}
            return self._choice([self.resolve({**rest, "type": option}) for option in schema["type"]])
        return self._plain(schema)

    def _plain(self, schema: dict[str, Any]) -> Type:
        kind = schema["type"]
        if kind == "integer":
            return Type("int", low=schema.get("minimum"), high=schema.get("maximum"))
        if kind == "string":
            if schema.get("pattern", NO_NUL) != NO_NUL:
                raise SchemaError(f"no reader checks the pattern {schema['pattern']}")
            os = ("os" if "pattern" in schema else "command") if schema.get("x-os-string") else ""
            return Type("string", low=schema.get("minLength"), high=schema.get("maxLength"), os=os)
        if kind == "array":
            item = self.resolve(schema["items"])
            return Type("array", items=(item,), low=schema.get("minItems"), high=schema.get("maxItems"))
        if kind == "object" and "additionalProperties" in schema:
            names = schema.get("propertyNames", {}).get("pattern", "")
            if names not in ("", ENV_NAME):
                raise SchemaError(f"no reader checks the names {names}")
            return Type("map", items=(self.resolve(schema["additionalProperties"]),), names=names)
        if kind == "object":
            return Type("document")
        return Type({"boolean": "bool", "null": "null"}[kind])

    @staticmethod
    def _choice(options: list[Type]) -> Type:
        rest = [option for option in options if option.kind != "null"]
        inner = rest[0] if len(rest) == 1 else Type("variant", items=tuple(rest))
        return inner if len(rest) == len(options) else Type("nullable", items=(inner,))

    @staticmethod
    def _is_union(schema: dict[str, Any]) -> bool:
        return "oneOf" in schema and all("properties" in option for option in schema["oneOf"])

    def _declare(self, name: str, schema: dict[str, Any]) -> Type:
        kind = "enum" if "enum" in schema else "union" if self._is_union(schema) else "struct"
        if name in self.types:
            return Type(kind, name)
        about = schema.get("description", "")
        if kind == "enum":
            self.types[name] = Enum(name, schema["enum"], about)
        elif kind == "union":
            alternatives = [self._members(option) for option in schema["oneOf"]]
            if not all(members[0].required for members in alternatives):
                raise SchemaError(f"{name}: the first member of each alternative has to be required")
            self.types[name] = Union(name, alternatives, about)
        elif "allOf" in schema and "properties" not in schema:
            base, own = schema["allOf"]
            self.types[name] = Struct(name, self._members(own), about, base=self.resolve(base).name)
        else:
            groups = schema.get("x-exactlyOne", [])
            self.types[name] = Struct(name, self._members(schema), about, exactly_one=groups)
        self.types[name] = self.types.pop(name)  # after what it needs
        return Type(kind, name)

    def _members(self, schema: dict[str, Any]) -> list[Member]:
        groups = [schema["oneOf"]] if "oneOf" in schema else [part["oneOf"] for part in schema.get("allOf", [])]
        either = [[option["required"][0] for option in group] for group in groups]
        required = set(schema.get("required", [])) | {group[0] for group in either}
        properties = schema["properties"].items()
        members = self._pair([(name, part, part.get("description", ""), name in required) for name, part in properties])
        for group in either:
            if not any(group == [member.name, member.twin] for member in members):
                raise SchemaError(f"{group} is no OS string and its twin")
        return members

    def _pair(self, parts: list[tuple[str, dict[str, Any], str, bool]]) -> list[Member]:
        """Members, with each xBytes taken as the other form of x."""
        members: list[Member] = []
        for name, schema, about, required in parts:
            before = members[-1] if members else None
            if before and before.twin == name:
                if self._shape(self.resolve(schema)) != self._shape(before.type):
                    raise SchemaError(f"{name} has not the shape of {before.name}")
                continue
            default = schema.get("default", ABSENT)
            if "x-limit" in schema and self.limits[schema["x-limit"]]["value"] != default:
                raise SchemaError(f"{name}: the default {default} is not that of the limit {schema['x-limit']}")
            members.append(Member(name, self.resolve(schema), required, default, about))
        names = [part[0] for part in parts]
        for member in members:
            if member.twin and member.twin not in names:
                raise SchemaError(f"{member.name} lacks {member.twin}")
        return members

    def _shape(self, type_: Type) -> Any:
        return (type_.kind, [self._shape(item) for item in type_.items])

    def _check_bounds(self, members: list[Member], where: str) -> None:
        """Readers check the bounds of a member, not those of the elements in it."""
        for member in members:
            stack = [(member.type, False)]
            while stack:
                type_, inside = stack.pop()
                if inside and (type_.low is not None or type_.high is not None):
                    raise SchemaError(f"{where}: no reader checks the bounds within {member.name}")
                fixed = type_.kind == "array" and type_.low is not None and type_.low == type_.high
                stack += [(item, type_.kind in ("array", "map") and not fixed) for item in type_.items]
                declared = self.types.get(type_.name)
                parts = [declared.members] if isinstance(declared, Struct) else getattr(declared, "alternatives", [])
                for part in parts:
                    self._check_bounds(part, f"{where}: {type_.name}")

    def _method(self, method: dict[str, Any]) -> Method:
        parts, common, groups = [], [], method.get("x-exactlyOne", [])
        first = {group[0] for group in groups if group == [group[0], group[0] + "Bytes"]}
        for param in method["params"]:
            if "$ref" in param:
                param = self.document["components"]["contentDescriptors"][param["$ref"].rsplit("/", 1)[1]]
                common.append(param["name"])
            needed = param.get("required", False) or param["name"] in first
            parts.append((param["name"], param["schema"], param.get("description", ""), needed))
        tag = tag_of(method["name"])
        name = tag + "Params"
        groups = [group for group in groups if group[0] not in first]
        params = Struct(name, self._pair(parts), exactly_one=groups)
        for member in params.members:
            member.common = member.name in common
        self.types[name] = params
        result = self.resolve(method["result"]["schema"]) if "result" in method else None
        errors = [error["$ref"].rsplit("/", 1)[1] for error in method.get("errors", [])]
        return Method(
            name=method["name"],
            summary=method["summary"],
            description=method.get("description", ""),
            params=params,
            result=result,
            errors=errors,
            from_server=method.get("x-direction") == "server-to-client",
            tag=tag + "Method" if tag in self.schemas else tag,
        )
