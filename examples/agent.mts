// An agent's loop in TypeScript: what the model wants goes into one shell session, what comes of it goes back.
import { Rex, type RunResult } from "rex-rpc";

// Stands for yours, which would choose by what it saw.
const moves = ["cd /usr && pwd", "read -p 'Who is there? ' who && echo hello $who", "an agent", "ls /no/such 2>&1 | wc -l; exit 3"];
async function model(seen: string[]): Promise<string | undefined> {
  return moves[seen.length];
}

const rex = await Rex.spawn();
const session = await rex.createSession({ session: "agent" });
const seen: string[] = [];
let last: RunResult | undefined;
for (let move = await model(seen); move !== undefined; move = await model(seen)) {
  // A program that waits for input is typed to; whatever takes longer than a minute is looked at again, not killed.
  const interactive = last?.state === "waitingInput" || last?.state === "running";
  last = await session.run(move, { interactive, waitMs: 60_000 });
  seen.push(`> ${move}\n${last.output.replace(/\n$/, "")}\n[${last.state} ${last.exitCode}]`);
  console.log(seen.at(-1));
}
await rex.close();
