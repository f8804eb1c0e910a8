// The turns of this client in `./dev bench`: for each name on a line of the input its calls are made, then it is printed.
import { createInterface } from "node:readline";
import { Rex } from "rex-rpc";

const rex = await Rex.spawn();
const session = await rex.createSession();
const calls = Number(process.argv[2]);

/** @param {() => Promise<unknown>} call */
async function oneByOne(call) {
  for (let i = 0; i < calls; ++i) await call();
}

/** @type {Record<string, () => Promise<unknown>>} */
const turns = {
  "ping": () => oneByOne(() => rex.call("ping", {})),
  "at once": () => Promise.all(Array.from({ length: calls }, () => rex.call("ping", {}))),
  "run": () => oneByOne(() => session.run("true")),
};

for await (const name of createInterface({ input: process.stdin })) {
  await turns[name]?.();
  console.log(name);
}
await rex.close();
