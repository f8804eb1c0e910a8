// What a request is refused with. A command that fails is a result, and never comes here.
import { ErrorCodes, ResponseError } from "vscode-jsonrpc/node";
import { errorCodes, type ErrorType, type Executed, type RunResult } from "./wire.gen.js";

/** ConnectionClosed is the client's own: no answer can come any more. Unknown: of a server newer than this client. */
export type RexErrorType = ErrorType | "ConnectionClosed" | "Unknown";

export class RexError extends Error {
  override readonly name = "RexError";

  constructor(
    message: string,
    /** As JSON-RPC has it; 0 for ConnectionClosed. */
    readonly code: number,
    readonly type: RexErrorType,
    /** Whether what was asked for took place. */
    readonly executed: Executed,
    readonly retryable: boolean,
    /** Everything the server said: `errno`, `oldest`, `writer`, … as the reference lists them. */
    readonly data: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }

  /** Of a run that was cancelled: what there is of its result. */
  get result(): RunResult | undefined {
    return this.data["result"] as RunResult | undefined;
  }

  static closed(why: string, executed: Executed = "unknown"): RexError {
    return new RexError(why, 0, "ConnectionClosed", executed, true);
  }

  /** Whether the server answered this; else the connection has failed. */
  static isAnswer(error: unknown): error is ResponseError<Record<string, unknown> | undefined> {
    return (
      error instanceof ResponseError &&
      error.code !== ErrorCodes.PendingResponseRejected &&
      error.code !== ErrorCodes.MessageWriteError
    );
  }

  static from(error: ResponseError<Record<string, unknown> | undefined>): RexError {
    const data = error.data ?? {};
    const type = typeof data["type"] === "string" && data["type"] in errorCodes ? (data["type"] as ErrorType) : "Unknown";
    const executed = data["executed"] === "no" || data["executed"] === "yes" ? data["executed"] : "unknown";
    return new RexError(error.message, error.code, type, executed, data["retryable"] === true, data);
  }
}
