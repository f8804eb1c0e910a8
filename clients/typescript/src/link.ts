// One connection to an instance: spawned, or reached by a socket. Knows requests, notifications and ends, and of methods
// only those of the connection itself.
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import * as rpc from "vscode-jsonrpc/node";
import { RexError } from "./error.js";
import type * as wire from "./wire.gen.js";

/** How long a process may take to end after `exit` before it is killed. */
const exitPatienceMs = 5000;
/** How long the pipes of a process that has ended are read on. */
const pipePatienceMs = 1000;

export interface ConnectOptions {
  /** Answers what a host asks while it is dialled: a password, an OTP, whether a host key is right. A throw refuses. */
  onPrompt?: (prompt: wire.HostPromptParams) => string | Promise<string>;
  /** Who this is; shown to people. */
  clientInfo?: wire.PeerInfo;
  /** The token of `serve --token-file`, for TCP. */
  token?: string;
  /** Gives up the connecting. */
  signal?: AbortSignal;
  /**
   * When the connection is lost, opens another by the same means, connects the hosts again and goes on: attachments from
   * where they were, requests that only read or have a `key` once more. All else that is under way is rejected; sessions
   * of the connection are gone, and forwards are to be opened anew.
   */
  resume?: boolean;
}

export interface SpawnOptions extends ConnectOptions {
  /** The program; absent: $REX_RPC, else `rex-rpc` of the PATH. */
  command?: string;
  args?: string[];
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** Where its log goes. */
  stderr?: "inherit" | "ignore" | ((text: string) => void);
}

type Progressing = { progressToken?: number | string };

export interface CallOptions {
  /** Stops what the request started, and rejects with RequestCancelled, which has the partial `result`. */
  signal?: AbortSignal | undefined;
  /** News of a run, a dial or a copy. */
  onProgress?: ((value: wire.ProgressValue) => void) | undefined;
}

type Hear = (method: string, params: unknown) => void;

class CountingReader extends rpc.StreamMessageReader {
  count = 0;

  override listen(callback: rpc.DataCallback): rpc.Disposable {
    return super.listen((message) => {
      this.count += 1;
      callback(message);
    });
  }
}

/** Waits for a promise, but not for ever. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([promise, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Passive but for what it hears; `hear` gets every notification. */
export class Link {
  /** What `initialize` gave: the machine, the version, the limits in force. */
  readonly info!: wire.InitializeResult;
  /** Settles, and never rejects, when the connection has ended: with why. */
  readonly closed: Promise<string>;

  private readonly connection: rpc.MessageConnection;
  private ended: string | undefined;
  private broken: string | undefined; // what came that is no message

  private constructor(
    private readonly input: Readable,
    private readonly output: Writable,
    private readonly child: ChildProcess | undefined,
    private readonly whyEnded: () => string,
    options: ConnectOptions,
    hear: Hear,
  ) {
    const reader = new CountingReader(input);
    reader.partialMessageTimeout = 0; // nobody asks, and its timer outlives a connection that breaks within a message
    reader.onError((error) => {
      if ("errno" in error) return; // of the stream, which closes by itself
      this.broken ??= `the connection broke: ${error.message}`; // behind what is no message nothing can be one
      this.end();
    });
    input.once("data", (data: Buffer) => {
      if (/^c/i.test(data.toString("latin1", 0, 1))) return;
      this.broken = `no rex-rpc answers but ${JSON.stringify(data.toString("utf8", 0, 200))}`; // and no header may ever end
      this.end();
    });
    let handled = 0;
    this.connection = rpc.createMessageConnection(reader, new rpc.StreamMessageWriter(output), rpc.NullLogger, {
      messageStrategy: {
        handleMessage: (message, next) => {
          handled += 1;
          return next(message);
        },
      },
    });
    this.closed = new Promise((resolve) => {
      this.connection.onClose(async () => {
        // The two directions end by themselves, and what was read is queued: no answer that came may become "closed".
        if (!input.destroyed) await once(input, "close").catch(() => {});
        output.destroy(); // an instance whose output has ended shall end
        while (handled < reader.count) await turn();
        if (child && !hasExited(child) && !this.broken) await within(pipePatienceMs, once(child, "exit"));
        this.ended = this.broken ?? this.whyEnded();
        this.connection.dispose();
        resolve(this.ended);
      });
    });
    this.connection.onRequest("host/prompt", async (prompt: wire.HostPromptParams) => {
      if (!options.onPrompt) throw new rpc.ResponseError(-32601, "nobody is here to ask");
      return { answer: await options.onPrompt(prompt) };
    });
    this.connection.onNotification((method, params) => {
      hear(method, params);
    });
    this.connection.listen();
    child?.on("error", () => {}); // of a kill; that it could not start was told to whoever spawned it
    // Something that it started may hold its pipes open.
    child?.once("exit", () => setTimeout(() => this.end(), pipePatienceMs).unref());
  }

  /** Starts an instance of one's own, which ends with this connection. */
  static async spawn(options: SpawnOptions, hear: Hear): Promise<Link> {
    const command = options.command ?? process.env["REX_RPC"] ?? "rex-rpc";
    const log = options.stderr ?? "inherit";
    const child = spawn(command, options.args ?? [], {
      cwd: options.cwd,
      env: options.env,
      stdio: ["pipe", "pipe", typeof log === "string" ? log : "pipe"],
    });
    if (typeof log === "function") child.stderr?.setEncoding("utf8").on("data", log);
    try {
      await once(child, "spawn");
    } catch (error) {
      throw RexError.closed(`cannot start ${command}: ${(error as Error).message}; $REX_RPC or \`command\` names the program`);
    }
    const why = () => {
      if (!hasExited(child)) return `${command} has closed its output`;
      return `${command} has ended ${child.signalCode ? `by ${child.signalCode}` : `with ${child.exitCode}`}`;
    };
    return Link.greet(new Link(child.stdout!, child.stdin!, child, why, options, hear), options);
  }

  /** Connects to an instance that listens at `unix:PATH` or `tcp:127.0.0.1:PORT`. */
  static async connect(address: string, options: ConnectOptions, hear: Hear): Promise<Link> {
    const [, path, host, port] = /^(?:unix:(.+)|tcp:(.+):(\d+))$/.exec(address) ?? [];
    if (!path && !host) throw new TypeError(`not an address, unix:PATH or tcp:HOST:PORT: ${address}`);
    const socket: Socket = path ? connect({ path }) : connect({ host: host!, port: Number(port) });
    try {
      await once(socket, "connect", options.signal ? { signal: options.signal } : {});
    } catch (error) {
      socket.destroy();
      throw RexError.closed(`cannot connect to ${address}: ${(error as Error).message}`);
    }
    return Link.greet(new Link(socket, socket, undefined, () => `${address} has closed the connection`, options, hear), options);
  }

  private static async greet(link: Link, options: ConnectOptions): Promise<Link> {
    const params: wire.InitializeParams = {
      protocolVersion: "1.0",
      clientInfo: options.clientInfo ?? { name: "rex-rpc for Node" },
      capabilities: { prompt: options.onPrompt !== undefined },
    };
    if (options.token !== undefined) params.token = options.token;
    const giveUp = () => link.kill(); // a cancel would wait for an answer
    if (options.signal?.aborted) giveUp();
    options.signal?.addEventListener("abort", giveUp, { once: true });
    try {
      (link as { info: wire.InitializeResult }).info = await link.call("initialize", params);
      await link.notify("initialized", {});
    } catch (error) {
      link.kill();
      throw error;
    } finally {
      options.signal?.removeEventListener("abort", giveUp);
    }
    return link;
  }

  /** One request. Rejects with a RexError only; a command's failure is in the result. */
  async call<M extends keyof wire.Methods>(
    method: M,
    params: wire.Methods[M]["params"],
    options: CallOptions = {},
  ): Promise<wire.Methods[M]["result"]> {
    if (this.ended !== undefined) throw RexError.closed(this.ended, "no");
    const cancel = new rpc.CancellationTokenSource();
    const abort = () => cancel.cancel();
    if (options.signal?.aborted) {
      throw new RexError("cancelled before it was sent", -32800, "RequestCancelled", "no", true);
    }
    options.signal?.addEventListener("abort", abort, { once: true });
    let progress: rpc.Disposable | undefined;
    let sent: wire.Methods[M]["params"] & Progressing = params;
    if (options.onProgress) {
      sent = { ...params, progressToken: randomUUID() };
      progress = this.connection.onProgress(new rpc.ProgressType<wire.ProgressValue>(), sent.progressToken!, options.onProgress);
    }
    try {
      return await this.connection.sendRequest(method, sent, cancel.token);
    } catch (error) {
      if (RexError.isAnswer(error)) throw RexError.from(error);
      await within(pipePatienceMs, this.closed); // which knows why
      throw RexError.closed(this.ended ?? this.broken ?? this.whyEnded());
    } finally {
      progress?.dispose();
      options.signal?.removeEventListener("abort", abort);
      cancel.dispose();
    }
  }

  /** A notification; it goes out in order with the calls. After the end it goes nowhere. */
  async notify<N extends keyof wire.ClientNotifications>(
    method: N,
    params: wire.ClientNotifications[N]["params"],
  ): Promise<void> {
    try {
      await this.connection.sendNotification(method, params);
    } catch {
      // The end may have come just now; `closed` tells of it.
    }
  }

  /** As Rex has it. */
  async close(): Promise<void> {
    const patience = setTimeout(() => this.kill(), exitPatienceMs);
    if (this.ended === undefined) {
      await this.call("shutdown", {}).catch(() => {});
      await this.notify("exit", {});
      if (!this.child) this.end();
      await this.closed;
    }
    if (this.child && !hasExited(this.child)) await once(this.child, "exit");
    clearTimeout(patience);
  }

  private end(): void {
    this.output.destroy();
    this.input.destroy();
  }

  get isOver(): boolean {
    return this.ended !== undefined;
  }

  /** Kills what is left of it, and waits until that has gone. */
  async gone(): Promise<void> {
    this.kill();
    if (this.child && !hasExited(this.child)) await once(this.child, "exit");
  }

  /** Ends the connection now; a spawned instance is killed, and its sessions end with it. */
  kill(): void {
    this.child?.kill("SIGKILL");
    this.end();
  }

}
