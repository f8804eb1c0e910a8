// What the tests share: the program under test, folders that go, and servers to reach. Knows nothing of what is tested.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Rex } from "rex-rpc";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
export const program = process.env["REX_RPC"] ?? join(root, "build/release/rex-rpc");

/** @typedef {import("node:test").TestContext} Test */

/** @type {WeakMap<Test, (() => unknown)[]>} */
const steps = new WeakMap();

/**
 * What a test does at its end, however it came to that: the last first, for what came later uses what was there before,
 * and each whatever became of the others, for a program that is left keeps all tests from ending.
 * @param {Test} test @param {() => unknown} step
 */
export function after(test, step) {
  const mine = steps.get(test) ?? [];
  if (steps.has(test)) return void mine.push(step);
  steps.set(test, mine);
  mine.push(step);
  test.after(
    async () => {
      /** @type {unknown[]} */
      const failures = [];
      for (const each of mine.reverse()) await Promise.resolve().then(each).catch((error) => failures.push(error));
      if (failures.length > 0) throw new AggregateError(failures, failures.join("; "));
    },
    { timeout: 60_000 },
  );
}

/** A folder of the test's own. @param {Test} test */
export function folder(test) {
  const path = mkdtempSync(join(tmpdir(), "rex-node-"));
  after(test, () => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** An instance that ends with the test. @param {Test} test @param {import("rex-rpc").SpawnOptions} [options] */
export async function instance(test, options = {}) {
  const rex = await Rex.spawn({ command: program, args: ["--private"], ...options });
  after(test, () => rex.kill());
  return rex;
}

/** The process id of the instance. @param {Rex} rex */
export function pid(rex) {
  return Number(rex.info.machine.instance.split("-")[0]);
}

/**
 * A program that ends with the test, once it has said `ready`.
 * @param {Test} test @param {string[]} argv @param {RegExp} ready @param {NodeJS.ProcessEnv} [env]
 */
export async function started(test, argv, ready, env = process.env) {
  const child = spawn(/** @type {string} */ (argv[0]), argv.slice(1), { stdio: "pipe", env });
  after(test, () => void child.kill()); // awaited by nobody: it may wait for what earlier steps are of
  let said = "";
  await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        said += data;
        if (ready.test(said)) resolve(undefined);
      });
    }
    once(child, "exit").then(() => reject(new Error(`${argv[0]} has ended: ${said}`)), reject);
  });
  return { child, said };
}

const sshd = `
import json, signal, subprocess, sys, ssh_server
server = ssh_server.SshServer(sys.argv[1])
subprocess.run(["ssh-keygen", "-p", "-P", "", "-N", "open sesame", "-f", server.folder / "key"], check=True, stdout=sys.stderr)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print(json.dumps(server.client("far")["PATH"]), flush=True)
signal.sigwait({signal.SIGTERM})
server.close()`;

/** A real sshd that an environment knows as \`far\`, whose key has the passphrase "open sesame". @param {Test} test */
export async function sshServer(test) {
  const env = { ...process.env, PYTHONPATH: join(root, "tests/support"), PYTHONDONTWRITEBYTECODE: "1" };
  const { said } = await started(test, ["python3", "-c", sshd, folder(test)], /"\n/, env);
  return { ...process.env, PATH: JSON.parse(/".*"/.exec(said)?.[0] ?? "") };
}
