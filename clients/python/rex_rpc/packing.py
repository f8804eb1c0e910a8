"""From Python's values to the wire's: absent members, bytes, and strings that are no UTF-8. Knows no method."""

from __future__ import annotations

import base64
import os
import typing as t

# A path, name, argument or value as the system has it. Bytes need not be UTF-8; a str may be one of os.fsdecode.
OsStr = t.Union[str, bytes]
Params = t.Dict[str, t.Any]


def pack(plain: Params, os: t.Optional[Params] = None, data: t.Tuple[str, t.Union[str, bytes, None]] = ("", None)) -> Params:
    """The params of a request without what is None.

    A member of `os` that has bytes in it travels in base64 as its twin `…Bytes`; `data` that is bytes travels in base64
    beside an `encoding` that says so.
    """
    params = {name: value for name, value in plain.items() if value is not None}
    for name, value in (os or {}).items():
        if value is not None:
            needs = needs_bytes(value)
            params[name + "Bytes" if needs else name] = each_string(value, to_base64) if needs else each_string(value, str)
    name, value = data
    if isinstance(value, bytes):
        params.update({name: base64.b64encode(value).decode(), "encoding": "base64"})
    elif value is not None:
        params[name] = value
    return params


def needs_bytes(value: t.Any) -> bool:
    if isinstance(value, bytes):
        return True
    if isinstance(value, str):
        return any("\udc80" <= character <= "\udcff" for character in value)
    if isinstance(value, t.Mapping):
        return any(map(needs_bytes, value.values()))
    return value is not None and any(map(needs_bytes, value))


def each_string(value: t.Any, change: t.Callable[[OsStr], str]) -> t.Any:
    if value is None or isinstance(value, (str, bytes)):
        return value if value is None else change(value)
    if isinstance(value, t.Mapping):
        return {name: each_string(member, change) for name, member in value.items()}
    return [each_string(item, change) for item in value]


def to_base64(value: OsStr) -> str:
    return base64.b64encode(os.fsencode(value)).decode()


def data_of(message: t.Mapping[str, t.Any], member: str = "data") -> bytes:
    """The bytes that a result or notification carries in `member` (data, output, stdout …), by its `encoding`."""
    text: str = message[member]
    return base64.b64decode(text) if message["encoding"] == "base64" else text.encode()
