import type { Role } from "../../gen/agentcontrol/v1/access_pb.js";

/** Who calls: the key that came with the call, as the pipeline found it. */
export interface Caller {
  /** `key_…` of the key. */
  readonly keyId: string;
  /** The key's workspace. Everything a call reads or changes lies in it. */
  readonly workspaceId: string;
  readonly role: Role;
  /** The agent that the key is bound to; null for a key that speaks for every agent. */
  readonly agentId: string | null;
  /**
   * True for a credential or token that no longer holds: it opens Intercept alone, which then refuses with a decision.
   * Default false.
   */
  readonly isEnded?: boolean;
}

/** What a service function knows of the call beside its request. */
export interface CallContext {
  readonly caller: Caller;
  /** Aborts when the caller goes away, the deadline passes or the service drains. */
  readonly signal: AbortSignal;
  /** True once nobody waits for the answer any more; costs less than asking the signal. */
  readonly isOver: boolean;
  /** `performance.now()` when the first byte of the request was seen, in milliseconds. */
  readonly receivedAt: number;
  /** Names the call in the log and in INTERNAL errors. */
  readonly requestId: string;
}
