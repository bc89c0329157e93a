import type { Caller } from "../api/context.ts";
import { type Holder, type Portion, SharedPot } from "../async/shared-pot.ts";
import { controlPlaneErrorFrom, ErrorReason, overShare } from "../errors.ts";
import { assertMayCall, type CallerFinder, keyInvalid } from "./admission.ts";
import { type Call, MAX_TIMER_MS } from "./call-context.ts";

/** Keys that were ended by an entry of the log. */
export interface KeyEndEvent {
  readonly keyIds: readonly string[];
  /** The agent whose bound keys ended; null for none. */
  readonly agentId: string | null;
}

/**
 * Reports the keys of a workspace that end from now on, on any replica. Resolves with the function that ends the subscription,
 * once no end can be missed any more. The listener MUST NOT throw.
 */
export type WatchKeys = (workspaceId: string, listener: (ended: KeyEndEvent) => void) => Promise<() => void>;

/** Options of the open streams of a pipeline. */
export interface OpenStreamsOptions {
  readonly callers: Pick<CallerFinder, "find">;
  /** Default: a stream learns of the end of its key at its next check. */
  readonly watchKeys?: WatchKeys | undefined;
  /** Clock for the expiry of keys. Default: this host's clock. */
  readonly clock?: { now(): number } | undefined;
  /** Milliseconds between checks of a stream's key. Default 8,000. */
  readonly recheckMs?: number | undefined;
}

/**
 * Default of `recheckMs`. A cached look-up may be 2 s old, so a stream ends at most 10 s late even if every notification is lost.
 */
const DEFAULT_RECHECK_MS = 8_000;
/** The same for a sign-in, whose end is not in the log: with the age of a look-up, less than a second. */
const SIGN_IN_RECHECK_MS = 500;
/** Milliseconds between attempts while the store cannot be read. */
const RETRY_MS = 1_000;
/** Open streams of this process, of which one workspace alone has half. */
const MAX_STREAMS = 20_000;

/** An open stream. */
interface OpenStream {
  readonly call: Call;
  readonly place: Portion;
  /** Undefined for a bidirectional stream, whose requests are checked one by one. */
  timer?: NodeJS.Timeout;
  /** The check in flight. Never rejects. */
  checking?: Promise<void> | undefined;
}

/** Open streams of one workspace, and the subscription to the end of its keys. */
interface WorkspaceStreams {
  readonly streams: Map<Call, OpenStream>;
  unsubscribe?: Promise<(() => void) | undefined>;
}

/**
 * Open streams of this process. Bounds their number, and ends a server stream with KEY_INVALID when its key ends: at once if the
 * end is in the log, at the time of expiry, and otherwise at the next check.
 */
export class OpenStreams {
  readonly #callers: OpenStreamsOptions["callers"];
  readonly #watchKeys: WatchKeys | undefined;
  readonly #clock: { now(): number };
  readonly #recheckMs: number;
  readonly #workspaces = new Map<string, WorkspaceStreams>();
  readonly #pot = new SharedPot({
    name: "streams",
    size: MAX_STREAMS,
    unit: "open streams",
    advice: "close some, or connect to another process",
    retryAfterSeconds: 10,
    refuse: overShare,
  });

  constructor({ callers, watchKeys, clock = Date, recheckMs = DEFAULT_RECHECK_MS }: OpenStreamsOptions) {
    this.#callers = callers;
    this.#watchKeys = watchKeys;
    this.#clock = clock;
    this.#recheckMs = recheckMs;
  }

  /**
   * Adds an admitted stream. Throws OVERLOADED when its workspace or agent has its share of streams; a key without an agent counts as
   * one.
   */
  add(call: Call): void {
    const { workspaceId, keyId, agentId } = call.caller;
    const place = this.#placeFor({ workspaceId, agentId: agentId ?? keyId }, agentId === null ? "key" : "agent");
    const workspace: WorkspaceStreams = this.#workspaces.get(workspaceId) ?? { streams: new Map() };
    this.#workspaces.set(workspaceId, workspace);
    const stream: OpenStream = { call, place };
    workspace.streams.set(call, stream);
    if (call.isBidi) return;
    this.#subscribe(workspaceId, workspace);
    // The key may have ended since it was looked up for admission.
    this.#check(stream);
  }

  /** Removes a stream that has ended, or was refused. */
  remove(call: Call): void {
    // A call that was refused has no caller.
    const workspaceId = call.caller?.workspaceId;
    const workspace = this.#workspaces.get(workspaceId);
    const stream = workspace?.streams.get(call);
    if (workspace === undefined || stream === undefined) return;
    clearTimeout(stream.timer);
    stream.place.release();
    workspace.streams.delete(call);
    if (workspace.streams.size > 0) return;
    this.#workspaces.delete(workspaceId);
    void workspace.unsubscribe?.then((unsubscribe) => unsubscribe?.());
  }

  /** Resolves when no check of the stream's key is in flight. */
  async settled(call: Call): Promise<void> {
    const stream = this.#workspaces.get(call.caller.workspaceId)?.streams.get(call);
    while (stream?.checking !== undefined) await stream.checking;
  }

  #placeFor(holder: Holder, party: "key" | "agent"): Portion {
    const refusal = this.#pot.refusalOf(holder);
    if (refusal === undefined) return this.#pot.take(holder);
    throw overShare(refusal.party === "agent" ? { ...refusal, party } : refusal);
  }

  #subscribe(workspaceId: string, workspace: WorkspaceStreams): void {
    if (workspace.unsubscribe !== undefined || this.#watchKeys === undefined) return;
    const onEnded = ({ keyIds, agentId }: KeyEndEvent): void => {
      const ids = new Set(keyIds);
      for (const stream of workspace.streams.values()) {
        const { caller } = stream.call;
        const isMeant = ids.has(caller.keyId) || (agentId !== null && caller.agentId === agentId);
        if (isMeant) this.#check(stream);
      }
    };
    workspace.unsubscribe = this.#watchKeys(workspaceId, onEnded).then(
      (unsubscribe) => {
        for (const stream of workspace.streams.values()) this.#check(stream);
        return unsubscribe;
      },
      () => {
        // The next stream tries again; until then the timers check.
        delete workspace.unsubscribe;
        return undefined;
      },
    );
  }

  /** Checks a stream's key, after any check in flight, whose look-up may be older than the reported end. */
  #check(stream: OpenStream): void {
    if (stream.call.isBidi) return;
    clearTimeout(stream.timer);
    const before = stream.checking ?? Promise.resolve();
    const checking = before.then(() => this.#checkNow(stream));
    stream.checking = checking;
    void checking.then(() => {
      if (stream.checking === checking) stream.checking = undefined;
    });
  }

  async #checkNow(stream: OpenStream): Promise<void> {
    const { call } = stream;
    if (call.isOver) return;
    const { keyId, workspaceId, role, agentId } = call.caller;
    try {
      const now = await this.#callers.find(call.incoming);
      assertMayCall(now, call.endpoint.access, call.endpoint.method);
      const isSame = now.keyId === keyId && now.workspaceId === workspaceId && now.role === role;
      if (!isSame || now.agentId !== agentId) throw keyInvalid();
      this.#checkAgainIn(stream, this.#msUntilCheck(now));
    } catch (error) {
      const { reason } = controlPlaneErrorFrom(error);
      if (reason === ErrorReason.STORE_UNAVAILABLE) this.#checkAgainIn(stream, RETRY_MS);
      else call.endKey(keyInvalid());
    }
  }

  #msUntilCheck({ expiresAtMs = null, isSignIn = false }: Caller): number {
    const recheckMs = isSignIn ? Math.min(SIGN_IN_RECHECK_MS, this.#recheckMs) : this.#recheckMs;
    if (expiresAtMs === null) return recheckMs;
    // One millisecond more, because a timer may fire early by that much.
    return Math.min(recheckMs, Math.max(0, expiresAtMs - this.#clock.now()) + 1);
  }

  #checkAgainIn(stream: OpenStream, ms: number): void {
    clearTimeout(stream.timer);
    if (stream.call.isOver) return;
    stream.timer = setTimeout(() => this.#check(stream), Math.min(ms, MAX_TIMER_MS));
    stream.timer.unref();
  }
}
