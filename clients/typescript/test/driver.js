// The driver of tests/conformance/client.py for Node: makes the calls it is told, prints what became of them.
import { createInterface } from "node:readline";
import { Rex, RexError } from "rex-rpc";

/** @param {object} line */
const say = (line) => void process.stdout.write(`${JSON.stringify(line)}\n`);

/** @param {unknown} error */
function told(error) {
  if (!(error instanceof RexError)) throw error;
  const { code, type, message, executed, retryable, data } = error;
  return type === "ConnectionClosed" ? { lost: executed } : { error: { code, type, message, executed, retryable, data } };
}

/** @type {Map<number, AbortController>} */
const aborts = new Map();

/** @param {Rex} rex @param {any} order */
async function call(rex, { tag, call: method, params, progress }) {
  const abort = new AbortController();
  aborts.set(tag, abort);
  const onProgress = progress && ((/** @type {unknown} */ value) => say({ tag, progress: value }));
  try {
    say({ tag, result: await rex.call(method, params, { signal: abort.signal, onProgress }) });
  } catch (error) {
    say({ tag, ...told(error) });
  }
}

/** @param {Rex} rex @param {any} order */
async function follow(rex, { tag, follow: { session, ...params } }) {
  try {
    for await (const { offset, text } of await rex.session(session).attach(params)) say({ tag, offset, data: text });
    say({ tag, ended: true });
  } catch (error) {
    say({ tag, ...told(error) });
  }
}

async function main() {
  let rex;
  try {
    rex = await Rex.spawn({ onPrompt: (prompt) => (say({ prompt }), "open sesame") });
  } catch (error) {
    return say({ opened: false, ...told(error) });
  }
  say({ opened: true, can: ["progress", "cancel", "follow", "prompt"] });
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if ("cancel" in order) aborts.get(order.cancel)?.abort();
    else void ("follow" in order ? follow(rex, order) : call(rex, order));
  }
  await rex.close();
}

await main();
