#!/usr/bin/env python3
"""Writes what is generated from rex-rpc.json: C++, TypeScript and Python types, and the reference page.

With --check writes nothing and exits 1 if a committed file is not what would be written, naming it.
"""

from __future__ import annotations

import pathlib
import sys

import emit_cpp
import emit_python
import emit_python_client
import emit_reference
import emit_typescript
from model import Contract, SchemaError

ROOT = pathlib.Path(__file__).resolve().parent.parent


def outputs() -> dict[str, str]:
    """Every generated file, by its path from the root."""
    contract = Contract((ROOT / "schema/rex-rpc.json").read_text(encoding="utf-8"))
    return {
        "src/methods/wire.gen.h": emit_cpp.header(contract),
        "src/methods/wire.gen.cc": emit_cpp.source(contract),
        "src/methods/openrpc.gen.cc": emit_cpp.document(contract),
        "src/methods/deployments.gen.cc": emit_cpp.deployments(ROOT / "src/hosts/deployments"),
        "clients/typescript/src/wire.gen.ts": emit_typescript.module(contract),
        "clients/python/rex_rpc/wire_gen.py": emit_python.module(contract),
        "clients/python/rex_rpc/methods_gen.py": emit_python_client.methods(contract),
        "clients/python/rex_rpc/errors_gen.py": emit_python_client.errors(contract),
        "schema/reference.md": emit_reference.page(contract, ROOT / "schema/examples"),
    }


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    try:
        texts = outputs()
    except SchemaError as error:
        print(f"schema/rex-rpc.json: {error}", file=sys.stderr)
        return 1
    stale = []
    for name, text in texts.items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name} is stale: run schema/generate.py" if arguments else f"wrote {name}")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
