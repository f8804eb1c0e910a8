// examples/agent.mts, as its reader would run it; tests/e2e/test_example_agents.py has the other languages.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import ts from "typescript";
import { program } from "./rig.js";

test("the example drives a shell, answers it, and sees it end", async () => {
  const here = dirname(fileURLToPath(import.meta.url));
  const source = readFileSync(join(here, "../../../examples/agent.mts"), "utf8");
  const script = join(here, "../dist/example-agent.mjs");
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  writeFileSync(script, ts.transpileModule(source, { compilerOptions }).outputText);
  const { stdout } = await promisify(execFile)(process.execPath, [script], { env: { ...process.env, REX_RPC: program } });
  assert.deepEqual(stdout.match(/^(?:\[.*|hello.*)$/gm), ["[exited 0]", "[waitingInput null]", "hello an agent", "[exited 0]", "[shellExited 3]"]);
});
