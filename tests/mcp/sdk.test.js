// The official SDK as a client, its first line (@modelcontextprotocol/sdk: revisions with `initialize`) and its second
// (@modelcontextprotocol/client: 2026-07-28): both list, call every tool, are told of progress, cancel and read logs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

const program = path.resolve(process.env.REX_RPC ?? "../../build/release/rex-rpc");
const node = Number(process.versions.node.split(".")[0]);

// What differs between the two lines of the SDK.
const lines = {
  "sdk 1, 2025-11-25": {
    async connect(options) {
      const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
      const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
      const client = new Client({ name: "test", version: "1" });
      await client.connect(new StdioClientTransport(options));
      return client;
    },
    call: (client, params, options) => client.callTool(params, undefined, options),
  },
  "sdk 2, 2026-07-28": {
    skip: node < 20 && `this node is ${process.versions.node}; @modelcontextprotocol/client wants 20`,
    async connect(options) {
      const { Client } = await import("@modelcontextprotocol/client");
      const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
      const client = new Client(
        { name: "test", version: "1" },
        { versionNegotiation: { mode: { pin: "2026-07-28" } } },
      );
      await client.connect(new StdioClientTransport(options));
      return client;
    },
    call: (client, params, options) => client.callTool(params, options),
  },
  "sdk 2, as it finds the server": {
    skip: node < 20 && `this node is ${process.versions.node}; @modelcontextprotocol/client wants 20`,
    async connect(options) {
      const { Client } = await import("@modelcontextprotocol/client");
      const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
      const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
      await client.connect(new StdioClientTransport(options));
      return client;
    },
    call: (client, params, options) => client.callTool(params, options),
  },
};

/** Each tool with arguments that it takes, in an order in which all of them can be done, and a word of its answer. */
const calls = [
  ["run", { command: "read -rp 'Name? ' name; echo hello $name" }, /waits for a line of input, after "Name\? "/],
  ["write", { data: "world", submit: true }, /6 bytes typed/],
  ["wait", {}, /hello world\n\[exit 0 after/],
  ["read_output", {}, /hello world/],
  ["screen", {}, /hello world/],
  ["sessions", {}, /^main {2}ready/],
  ["interrupt", {}, /nothing was running/],
  ["write_file", { path: "a.txt", data: "one\n" }, /created, 4 bytes/],
  ["edit_file", { path: "a.txt", edits: [{ old: "one", new: "two" }] }, /-one\n\+two/],
  ["read_file", { path: "a.txt" }, /^two\n$/],
  ["list_files", { path: "." }, /a\.txt {2}4 bytes/],
  ["search", { path: ".", pattern: "t.o" }, /a\.txt:1:two/],
  ["connect_host", { name: "far", argv: [program] }, /far is ready/],
  ["hosts", {}, /^far {2}ready/],
  ["close_session", { session: "main" }, /closed/],
];

for (const [name, { connect, call, skip = false }] of Object.entries(lines)) {
  test(name, { skip }, async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "rex-mcp-"));
    let client;
    t.after(async () => {
      await client?.close(); // first: a program that is left keeps all tests from ending
      fs.rmSync(folder, { recursive: true, force: true });
    });
    client = await connect({ command: program, args: ["--private", "mcp"], cwd: folder });

    await t.test("knows whom it talks to", () => {
      assert.equal(client.getServerVersion().name, "rex-rpc");
      assert.deepEqual(Object.keys(client.getServerCapabilities()).sort(), ["resources", "tools"]);
      assert.match(client.getInstructions(), /Shells that persist/);
    });

    await t.test("calls every tool that is listed", async () => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name).sort(), calls.map(([tool]) => tool).sort());
      for (const [tool, args, expected] of calls) {
        const result = await call(client, { name: tool, arguments: args });
        assert.equal(result.isError, false, `${tool}: ${result.content[0].text}`);
        assert.match(result.content[0].text, expected, tool);
        assert.equal(typeof result.structuredContent, "object");
      }
    });

    await t.test("tells errors of tools from errors of the protocol", async () => {
      const result = await call(client, { name: "run", arguments: { cmd: "true" } });
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, /cmd is not known here/);
      await assert.rejects(call(client, { name: "no_such_tool", arguments: {} }), { code: -32602 });
    });

    await t.test("is told of progress", async () => {
      execFileSync("mkfifo", [path.join(folder, "fifo")]);
      let release;
      const told = new Promise((resolve) => {
        release = resolve;
      });
      const running = call(
        client,
        { name: "run", arguments: { command: "echo compiling; read -r x < fifo" } },
        { onprogress: release },
      );
      const progress = await told;
      assert.deepEqual([progress.progress, progress.message], [10, "compiling"]);
      fs.writeFileSync(path.join(folder, "fifo"), "\n");
      assert.match((await running).content[0].text, /^compiling\n\[exit 0/);
    });

    await t.test("cancels a call, which ends the command", async () => {
      const abort = new AbortController();
      const running = call(
        client,
        { name: "run", arguments: { command: "echo begun; sleep 1000; touch never", waitMs: 600000 } },
        { signal: abort.signal, onprogress: () => abort.abort("enough") },
      );
      await assert.rejects(running);
      await call(client, { name: "wait", arguments: {} });
      const next = await call(client, { name: "run", arguments: { command: "ls -1" } });
      assert.match(next.content[0].text, /^a\.txt\nfifo\n\[exit 0/);
    });

    await t.test("reads the log of a session as a resource", async () => {
      const { resources } = await client.listResources();
      assert.deepEqual(resources.map((resource) => resource.uri), ["rex:///session/main"]);
      const { contents } = await client.readResource({ uri: resources[0].uri });
      assert.match(contents[0].text, /compiling\n/);
      const { resourceTemplates } = await client.listResourceTemplates();
      assert.equal(resourceTemplates.length, 1);
      await assert.rejects(client.readResource({ uri: "rex:///session/none" }));
    });
  });
}
