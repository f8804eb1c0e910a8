// `resume: true`: the instance in front is killed, and who asked for what may be asked again does not notice.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test as anyTest } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Keys, Rex, RexError } from "rex-rpc";
import { patienceMs } from "../dist/resuming.js";
import { after, folder, pid, program } from "./rig.js";

/** @param {string} name @param {(t: import("node:test").TestContext) => unknown} body */
const test = (name, body) => void anyTest(name, { timeout: 60_000 }, async (t) => void (await body(t)));

/** @param {() => unknown} holds */
async function until(holds) {
  while (!holds()) await sleep(10);
}

/** @param {Promise<unknown>} promise @returns {Promise<RexError>} */
async function refused(promise) {
  const error = await promise.then(
    () => assert.fail("it was not refused"),
    (/** @type {unknown} */ thrown) => thrown,
  );
  assert.ok(error instanceof RexError, String(error));
  return error;
}

/** A client of its own, a daemon session, and a command that runs until its gate is passed. @param {import("node:test").TestContext} t */
async function world(t, command = program) {
  const path = folder(t);
  mkdirSync(join(path, "run"), { mode: 0o700 });
  const env = { ...process.env, XDG_RUNTIME_DIR: join(path, "run"), XDG_STATE_HOME: join(path, "state") };
  const rex = await Rex.spawn({ command, args: ["serve", "--stdio"], env, resume: true, stderr: "ignore" });
  after(t, async () => {
    rex.kill();
    for (const { id, name } of processes(env.XDG_RUNTIME_DIR)) {
      try {
        if (/rex-session/.test(name)) process.kill(id);
      } catch {
        // It has gone meanwhile.
      }
    }
    await until(() => processes(env.XDG_RUNTIME_DIR).length === 0);
  });
  execFileSync("mkfifo", [join(path, "gate")]);
  const count = () => (existsSync(join(path, "count")) ? readFileSync(join(path, "count"), "utf8").length / 2 : 0);
  const gated = `echo x >>${path}/count; read x <${path}/gate; echo done; (exit 4)`;
  return { rex, path, env, count, gated, begun: () => until(() => count() === 1), pass: () => writeFileSync(join(path, "gate"), "go\n") };
}

/** What still lives of a runtime directory. @param {string} run */
function processes(run) {
  return readdirSync("/proc").flatMap((entry) => {
    try {
      if (!/^\d+$/.test(entry) || !readlinkSync(`/proc/${entry}/exe`)) return [];
      if (!readFileSync(`/proc/${entry}/environ`, "utf8").split("\0").includes(`XDG_RUNTIME_DIR=${run}`)) return [];
      return { id: Number(entry), name: readFileSync(`/proc/${entry}/comm`, "utf8") };
    } catch {
      return [];
    }
  });
}

/** And waits until that is known. @param {Rex} rex */
async function kill(rex) {
  const old = pid(rex);
  process.kill(old, "SIGKILL");
  while (pid(rex) === old) await rex.call("ping", {});
}

const daemon = /** @type {const} */ ({ session: "kept", shell: "bash", lifetime: "daemon" });

test("what has a key runs once, what reads is asked again, all else fails as unknown", async (t) => {
  const { rex, count, gated, begun, pass } = await world(t);
  const session = await rex.createSession(daemon);
  const key = new Keys().next();
  let live = "";
  const onProgress = (/** @type {import("rex-rpc").ProgressValue} */ value) => {
    if ("data" in value) live += Buffer.from(value.data, value.encoding === "base64" ? "base64" : "utf8");
  };
  const pending = session.run(`echo first; ${gated}`, { key }, { onProgress });
  await begun();
  const waiting = session.wait([{ exit: true }]);
  const unknown = refused(rex.call("process/run", { command: "sleep 1000" }));
  await until(() => live);
  for (let i = 0; i < 3; i += 1) await kill(rex);
  const { type, executed } = await unknown;
  assert.deepEqual([type, executed], ["ConnectionClosed", "unknown"]);
  pass();
  const result = await pending;
  assert.deepEqual([result.output, result.exitCode, count(), live], ["first\ndone\n", 4, 1, "first\ndone\n"]);
  assert.equal((await waiting).result?.exitCode, 4);
  await session.close();
  await rex.close();
});

test("output goes on byte by byte, events and changes say that some may be missing", async (t) => {
  const { rex, path } = await world(t);
  const session = await rex.createSession(daemon);
  await session.run("true");
  /** @type {string[]} */
  const heard = [];
  await rex.subscribe({ session: "kept" }, ({ event }) => void heard.push(event));
  await rex.watch({ path }, ({ overflow }) => void heard.push(`overflow ${overflow}`));
  const keys = new Keys();
  const expected = Array.from({ length: 200_000 }, (_, i) => `${i + 1}\n`).join("");
  for (const window of [4096, 1 << 20]) {
    const attachment = await session.attach({ window });
    const run = session.run("seq 200000", { key: keys.next(), maxOutputBytes: 100 });
    let data = "";
    let [at, killed] = [-1, 0];
    for await (const piece of attachment) {
      assert.deepEqual([piece.offset, piece.gap], [at < 0 ? piece.offset : at, undefined]);
      at = piece.next;
      data += piece.text;
      if (data.length >= expected.length) break;
      if (data.length > (killed + 1) * 300_000) {
        killed += 1;
        await kill(rex);
      }
    }
    assert.ok(data === expected && killed === 4);
    assert.equal((await run).totalBytes, expected.length);
  }
  assert.ok(heard.includes("stateChanged") && heard.includes("overflow true"), String(heard));
});

test("what the journal lost takes up no window of a reader who goes on", async (t) => {
  const { rex } = await world(t);
  const session = await rex.createSession({ ...daemon, journalBytes: 65536 });
  let at = (await session.info()).next;
  const attachment = await session.attach({ offset: at, window: 4096 });
  let arrived = 0;
  rex.on("session/output", () => void (arrived += 1));
  const has = async (/** @type {number} */ count) => {
    while (arrived < count) await rex.call("ping", {});
  };
  for (const count of [1, 2]) { // half a window each
    await session.run("head -c 2048 /dev/zero | tr '\\0' x");
    await has(count);
  }
  await session.run("seq 100000");
  for (let i = 0; i < 2; ++i) { // that the first is consumed makes room for what is behind the gap
    const { value } = await attachment.next();
    assert.deepEqual([value.offset, value.next], [at, at + 2048]);
    at = value.next;
  }
  await has(3);
  await kill(rex);
  const end = (await session.info()).next;
  for await (const piece of attachment) {
    if (piece.gap) assert.equal(piece.gap.from, at);
    else assert.equal(piece.offset, at);
    at = piece.next;
    if (at >= end) break;
  }
});

test("hosts are connected again; sessions of the connection are gone, and that is said", async (t) => {
  const { rex, count, gated, begun, pass } = await world(t);
  await rex.call("host/connect", { name: "a", argv: [program] });
  await rex.call("host/connect", { name: "b", host: "a", argv: [program] });
  const session = await rex.createSession({ ...daemon, host: "a/b" });
  const own = await rex.createSession({ session: "own" });
  const attachment = await own.attach();
  const pending = session.run(gated, { key: new Keys().next() });
  await begun();
  await kill(rex);
  pass();
  assert.deepEqual([(await pending).host, count()], ["a/b", 1]);
  assert.equal((await refused(own.info())).type, "SessionNotFound");
  assert.equal((await refused(attachment.next())).type, "SessionNotFound");
});

test("where nothing can be opened any more, the first error comes", async (t) => {
  const command = join(folder(t), "program");
  symlinkSync(program, command);
  const { rex, gated, begun } = await world(t, command);
  const session = await rex.createSession(daemon);
  const attachment = await session.attach();
  const pending = refused(session.run(gated, { key: new Keys().next() }));
  await begun();
  unlinkSync(command);
  after(t, () => (patienceMs.value = 30_000));
  patienceMs.value = 500;
  process.kill(pid(rex), "SIGKILL");
  for (const error of [await pending, await refused(attachment.next())]) {
    assert.deepEqual([error.type, error.executed], ["ConnectionClosed", "unknown"]);
    assert.match(error.message, /SIGKILL/);
  }
  assert.match(await rex.closed, /SIGKILL/);
  assert.equal((await refused(rex.call("ping", {}))).executed, "no");
});

test("closing ends the resuming at once", async (t) => {
  for (const sick of ["", "#!/bin/sh\nexec sleep 1000\n"]) {
    const command = join(folder(t), "program");
    symlinkSync(program, command);
    const { rex, env } = await world(t, command);
    unlinkSync(command);
    if (sick) writeFileSync(command, sick, { mode: 0o755 });
    process.kill(pid(rex), "SIGKILL");
    const pending = refused(rex.call("ping", {}));
    if (sick) await until(() => processes(env.XDG_RUNTIME_DIR).some(({ name }) => /^sleep/.test(name)));
    const started = Date.now();
    await rex.close();
    assert.ok(Date.now() - started < 5000);
    assert.equal((await pending).type, "ConnectionClosed");
    await until(() => processes(env.XDG_RUNTIME_DIR).length === 0);
  }
});
