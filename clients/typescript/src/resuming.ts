// What of a lost connection may go on over the next one. Sends nothing.
import { setTimeout as sleep } from "node:timers/promises";
import type * as wire from "./wire.gen.js";

type Params = Readonly<Record<string, unknown>>;

/** Their repetition changes nothing. What is followed (attach, subscribe, watch) ends with its connection. */
const reads: ReadonlySet<string> = new Set([
  "file/list", "file/read", "file/realpath", "file/search", "file/stat", "file/watch", "forward/list", "host/info",
  "host/list", "ping", "rpc.discover", "session/attach", "session/info", "session/list", "session/read",
  "session/screen", "session/subscribe", "session/wait",
]);
/** What they name was the lost connection's, and may be another's by now. */
const bound: ReadonlySet<string> = new Set([
  "file/unwatch", "forward/close", "session/detach", "session/unsubscribe", "shutdown",
]);

/** Whether a request can be sent over another connection. `isNew`: it was not sent before; else it may have taken place. */
export function mayRepeat(method: string, params: Params, isNew: boolean): boolean {
  if (isNew) return !bound.has(method);
  const any = params["any"];
  if (Array.isArray(any) && any.some((condition) => condition?.changed)) return false; // counts from when it was asked
  return reads.has(method) || Boolean(params["key"]);
}

/** For a new connection and what was there; then the old error. */
export const patienceMs = { value: 30_000 };

/** How long and how often to try. Passive. */
export class Patience {
  private until = 0;
  private heldSince = -Infinity;
  private pauseMs = 0;

  lost(): void {
    if (Date.now() - this.heldSince < 5000) return; // that was no success: it goes on where it was
    this.until = Date.now() + patienceMs.value;
    this.pauseMs = 50;
  }

  held(): void {
    this.heldSince = Date.now();
  }

  left(): number {
    return Math.max(this.until - Date.now(), 0);
  }

  async pause(signal: AbortSignal): Promise<void> {
    await sleep(Math.min(this.pauseMs, this.left()), undefined, { signal }).catch(() => {});
    this.pauseMs = Math.min(this.pauseMs * 2, 2000);
  }
}

/** The hosts that were connected, by the params that did it. Passive. */
export class Hosts {
  private readonly params = new Map<string, wire.HostConnectParams>();

  /** A request has succeeded. What a deployment made is not kept: another machine would be in its place. */
  answered(method: string, params: Params): void {
    if (method !== "host/connect" && method !== "host/disconnect") return;
    const path = params["host"] ? `${params["host"]}/${params["name"]}` : `${params["name"]}`;
    if (method === "host/disconnect") {
      for (const each of [...this.params.keys()]) if (`${each}/`.startsWith(`${path}/`)) this.params.delete(each);
    } else if (!("deployment" in params)) {
      this.params.set(path, params as unknown as wire.HostConnectParams);
    }
  }

  /** Each needs those before it. */
  levels(): wire.HostConnectParams[][] {
    const levels: wire.HostConnectParams[][] = [];
    for (const [path, params] of this.params) (levels[path.split("/").length - 1] ??= []).push(params);
    return levels.map((level) => level ?? []);
  }
}

/** Tells of a run's output what was not told yet: a run that is sent again has all of it again. */
export function unseen(listener: (value: wire.ProgressValue) => void): (value: wire.ProgressValue) => void {
  let told = -1;
  return (value) => {
    if (!("next" in value)) return listener(value);
    if (value.next <= told) return;
    const bytes = Buffer.from(value.data, value.encoding === "base64" ? "base64" : "utf8");
    const seen = told - value.from;
    told = value.next;
    if (seen <= 0 || bytes.length !== value.next - value.from) return listener(value); // no plain cut of the journal
    const data = bytes.subarray(seen).toString("base64");
    listener({ ...value, data, encoding: "base64", from: value.from + seen });
  };
}
