// rex-rpc from Node: `Rex` is a connection to one instance, `Session` a session of it or of a host behind it.
export { RexError, type RexErrorType } from "./error.js";
export { Keys } from "./keys.js";
export { type CallOptions, type ConnectOptions, type SpawnOptions } from "./link.js";
export { Rex, type Handler } from "./rex.js";
export { Attachment, Session, type Output } from "./session.js";
export * from "./wire.gen.js";
