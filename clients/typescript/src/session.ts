// One session by its name, and one reader's stream of it. Knows the connection only as something that calls and hears.
import { RexError } from "./error.js";
import type { CallOptions } from "./link.js";
import type { Followed, Handler, Rex } from "./rex.js";
import { errorCodes } from "./wire.gen.js";
import type * as wire from "./wire.gen.js";

type Of<T> = Omit<T, "session" | "host">;

export class Session {
  constructor(
    private readonly rex: Rex,
    readonly name: string,
    readonly host: string = "",
  ) {}

  private get at(): { session: string; host: string } {
    return { session: this.name, host: this.host };
  }

  info(options?: CallOptions): Promise<wire.SessionInfo> {
    return this.rex.call("session/info", this.at, options);
  }

  /** Runs one command. It resolves when the command has ended, or waits for input, or `waitMs`, `quietMs` passed. */
  run(
    command: string,
    params: Of<Omit<wire.SessionRunParams, "command" | "progressToken">> = {},
    options?: CallOptions,
  ): Promise<wire.RunResult> {
    return this.rex.call("session/run", { ...params, ...this.at, command }, options);
  }

  /** Waits for the first of these to be so. */
  wait(
    any: wire.Condition[],
    params: Of<Omit<wire.SessionWaitParams, "any">> = {},
    options?: CallOptions,
  ): Promise<wire.SessionWaitResult> {
    return this.rex.call("session/wait", { ...params, ...this.at, any }, options);
  }

  read(params: Of<wire.SessionReadParams> = {}, options?: CallOptions): Promise<wire.SessionReadResult> {
    return this.rex.call("session/read", { ...params, ...this.at }, options);
  }

  write(data: string, params: Of<Omit<wire.SessionWriteParams, "data">> = {}): Promise<wire.SessionWriteResult> {
    return this.rex.call("session/write", { ...params, ...this.at, data });
  }

  resize(rows: number, cols: number): Promise<wire.Done> {
    return this.rex.call("session/resize", { ...this.at, rows, cols });
  }

  screen(params: Of<wire.SessionScreenParams> = {}): Promise<wire.SessionScreenResult> {
    return this.rex.call("session/screen", { ...params, ...this.at });
  }

  interrupt(params: Of<wire.SessionInterruptParams> = {}): Promise<wire.SessionInterruptResult> {
    return this.rex.call("session/interrupt", { ...params, ...this.at });
  }

  signal(signal: wire.Signal, job?: string, key?: wire.Key): Promise<wire.SessionSignalResult> {
    return this.rex.call("session/signal", { ...this.at, signal, ...(job !== undefined && { job }), ...(key && { key }) });
  }

  /** Ends it and all it started. */
  close(params: Of<wire.SessionCloseParams> = {}): Promise<wire.SessionCloseResult> {
    return this.rex.call("session/close", { ...params, ...this.at });
  }

  /** Follows it: iterate over what this gives. Without `offset` only what comes from now on. */
  async attach(
    params: Of<wire.SessionAttachParams> = {},
    onEvent?: Handler<"session/event">,
  ): Promise<Attachment> {
    const asked = { ...params, ...this.at };
    return new Attachment(this.rex, asked, await this.rex.call("session/attach", asked), onEvent);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export interface Output {
  bytes: Uint8Array;
  /** The same as text; a character that `bytes` ends within comes with the next piece. */
  text: string;
  /** Of the first byte, in the session's journal. */
  offset: number;
  /** Behind the last byte. */
  next: number;
  /** Lost before this piece. */
  gap?: wire.Gap;
}

/**
 * One reader's stream. A piece counts as consumed, and is acknowledged, when the next one is asked for; so at most
 * `window` bytes are kept here. It ends with the session, by `detach`, or by leaving the loop; a connection that breaks
 * is thrown as ConnectionClosed, a host that is lost for good as HostLost; one that is dialled again, it waits for.
 */
export class Attachment implements AsyncIterableIterator<Output>, Followed<"session/attach"> {
  /** Of this connection; another over the next one, empty while there is none. */
  id: string;
  /** The session as it was when this began. */
  readonly info: wire.SessionInfo;
  readonly method = "session/attach";
  readonly closing = "session/detach";

  private readonly pieces: Output[] = [];
  private readonly decoder = new TextDecoder("utf-8");
  private readonly offs: (() => void)[];
  private wake: () => void = () => {};
  private unacknowledged = -1;
  private offset: number | undefined; // of what comes next
  private acked: number | undefined; // what was lost takes up no window
  private over = false;
  private failure: RexError | undefined;

  constructor(
    private readonly rex: Rex,
    private readonly asked: wire.SessionAttachParams,
    { attachment, info, offset }: wire.SessionAttachResult,
    onEvent?: Handler<"session/event">,
  ) {
    this.id = attachment;
    this.info = info;
    this.offset = this.acked = offset;
    const host = asked.host ?? "";
    this.offs = [
      rex.follow(this),
      rex.on("session/output", (output) => {
        if (output.attachment === this.id) this.take(output);
      }),
      rex.on("session/event", (event) => {
        if (event.attachment === this.id) onEvent?.(event);
      }),
      rex.on("attachment/ended", ({ attachment, reason }) => {
        if (attachment === this.id) this.end(new RexError(reason, errorCodes.HostLost, "HostLost", "unknown", true));
      }),
      rex.on("host/status", ({ host: lost = "", state, detail, retryMs }) => {
        const isOver = state === "closed" || (state === "lost" && retryMs === undefined); // else it goes on by itself
        if (isOver && `${host}/`.startsWith(`${lost}/`)) {
          this.end(new RexError(detail ?? `host ${lost} is ${state}`, errorCodes.HostLost, "HostLost", "unknown", true));
        }
      }),
    ];
    void rex.closed.then((why) => this.end(RexError.closed(why)));
  }

  params(): wire.SessionAttachParams {
    const { asked, offset, acked } = this;
    return { ...asked, ...(offset !== undefined && { offset }), ...(acked !== undefined && { acked }) };
  }

  again({ info }: wire.SessionAttachResult): boolean {
    if (info.createdAt !== this.info.createdAt || this.offset === undefined) return false;
    this.acknowledge(this.acked ?? 0); // what was consumed while there was nobody to be told
    return true;
  }

  private acknowledge(upto: number): void {
    const offset = (this.acked = Math.max(this.acked ?? 0, upto));
    const { id: attachment, asked: { host = "" } } = this;
    if (attachment) void this.rex.notify("session/ack", { attachment, offset, host });
  }

  private take(output: wire.SessionOutputParams): void {
    if (output.gap && this.acked !== undefined) this.acked += output.offset - output.gap.from;
    if (output.data.length > 0 || output.gap) {
      const bytes = Buffer.from(output.data, output.encoding === "base64" ? "base64" : "utf8");
      const { offset, next, gap } = output;
      this.pieces.push({ bytes, text: this.decoder.decode(bytes, { stream: true }), offset, next, ...(gap && { gap }) });
    }
    this.offset = output.next;
    if (output.eof) this.end();
    this.wake();
  }

  end(failure?: RexError): void {
    if (this.over) return;
    this.over = true;
    this.failure = failure;
    for (const off of this.offs) off();
    this.wake();
  }

  async next(): Promise<IteratorResult<Output>> {
    if (this.unacknowledged >= 0) {
      if (!this.over) this.acknowledge(this.unacknowledged);
      this.unacknowledged = -1;
    }
    while (this.pieces.length === 0 && !this.over) {
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    const piece = this.pieces.shift();
    if (piece) {
      this.unacknowledged = piece.next;
      return { done: false, value: piece };
    }
    if (this.failure) throw this.failure;
    return { done: true, value: undefined };
  }

  /** Ends it, and the lease on typing if it holds that. What has come can still be iterated over. */
  async detach(): Promise<void> {
    if (this.over) return;
    this.end();
    await this.rex.give(this);
  }

  async return(): Promise<IteratorResult<Output>> {
    await this.detach();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
