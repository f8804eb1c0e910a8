// The command line of the official inspector: what `npx @modelcontextprotocol/inspector@1 --cli` runs. Its second line
// wants a newer Node than Debian 12 has.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const program = path.resolve(process.env.REX_RPC ?? "../../build/release/rex-rpc");
const here = path.dirname(fileURLToPath(import.meta.url));
const folder = path.join(here, "node_modules/@modelcontextprotocol/inspector-cli");
const inspector = path.join(folder, JSON.parse(fs.readFileSync(path.join(folder, "package.json"))).bin["mcp-inspector-cli"]);

// In its own folder, because without the packages of its graphical half it finds its name only by `../package.json`.
const options = { encoding: "utf8", cwd: path.join(folder, "build"), stdio: ["ignore", "pipe", "pipe"] };

const inspect = (...request) =>
  JSON.parse(execFileSync(process.execPath, [inspector, "--cli", program, "mcp", ...request], options));

test("the inspector lists the tools", () => {
  const { tools } = inspect("--method", "tools/list");
  assert.equal(tools.length, 15);
  assert.equal(tools[0].inputSchema.additionalProperties, false);
});

test("the inspector calls a tool", () => {
  const result = inspect("--method", "tools/call", "--tool-name", "run", "--tool-arg", "command=echo $((6 * 7))");
  assert.match(result.content[0].text, /^42\n\[exit 0 after /);
  assert.equal(result.structuredContent.exitCode, 0);
});

test("the inspector lists resources and templates", () => {
  assert.deepEqual(inspect("--method", "resources/list").resources, []);
  assert.equal(inspect("--method", "resources/templates/list").resourceTemplates.length, 1);
});
