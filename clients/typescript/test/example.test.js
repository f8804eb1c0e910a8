// What a reader would run: examples/agent.mts, the README, and a program of one's own in either kind of module.
// tests/e2e/test_example_agents.py has the examples in other languages.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import ts from "typescript";
import { folder, program } from "./rig.js";

const here = dirname(fileURLToPath(import.meta.url));

/** @param {string[]} argv @param {string} [cwd] */
const node = async (argv, cwd) =>
  (await promisify(execFile)(process.execPath, argv, { cwd, env: { ...process.env, REX_RPC: program }, timeout: 60_000 })).stdout;

/** Runs a text of TypeScript as it stands. @param {string} name @param {string} source */
async function run(name, source) {
  const script = join(here, `../dist/${name}.mjs`);
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  writeFileSync(script, ts.transpileModule(source, { compilerOptions }).outputText);
  return node([script]);
}

test("the example drives a shell, answers it, and sees it end", async () => {
  const stdout = await run("example-agent", readFileSync(join(here, "../../../examples/agent.mts"), "utf8"));
  assert.deepEqual(stdout.match(/^(?:\[.*|hello.*)$/gm), ["[exited 0]", "[waitingInput null]", "hello an agent", "[exited 0]", "[shellExited 3]"]);
});

test("the README runs as it stands, and ends", async () => {
  const source = /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(here, "../README.md"), "utf8"))?.[1] ?? "";
  assert.equal(await run("readme", source), "3 hello\n\nhello\n");
});

test("a program that installs it compiles strictly and runs, as ES module and as CommonJS", async (t) => {
  const home = folder(t);
  mkdirSync(join(home, "node_modules"));
  symlinkSync(join(here, ".."), join(home, "node_modules/rex-rpc"));
  const body = `import { Rex, type RunResult } from "rex-rpc";
    export async function main(): Promise<void> {
      const rex = await Rex.spawn();
      const ended: RunResult = await (await rex.createSession()).run("echo hello");
      process.stdout.write(ended.output);
      await rex.close();
    }
    void main();`;
  for (const name of ["a.mts", "b.cts"]) writeFileSync(join(home, name), body);
  const options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,esnext.disposable"];
  const types = ["--typeRoots", join(here, "../node_modules/@types"), "--types", "node"];
  await node([join(here, "../node_modules/typescript/bin/tsc"), ...options, ...types, "a.mts", "b.cts"], home);
  for (const name of ["a.mjs", "b.cjs"]) assert.equal(await node([join(home, name)]), "hello\n");
});
