import type { JsonObject } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import type { IdleThing, SharedPot } from "../async/shared-pot.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { StoreLog } from "../store/migrate.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { Child, type ChildClient } from "./child.ts";
import type { ChildIsolation } from "./child-isolation.ts";
import { createError, isRequest, RPC_CODES, type RpcMessage } from "./messages.ts";
import { RestartDelay } from "./restart-delay.ts";

/** Parts of `Children`. */
export interface ChildrenOptions {
  readonly isolation: ChildIsolation;
  readonly log: StoreLog;
  /** Pot of the bytes of servers' messages. */
  readonly answers: SharedPot;
  /** Pot of the processes. */
  readonly pot: SharedPot;
}

/** Restart delays that are remembered, and for how many milliseconds. */
const MAX_DELAYS = 1_000;
const DELAY_MS = 600_000;
/** Capabilities of clients that answer requests of a server. */
const ANSWERING = ["sampling", "elicitation", "roots"];

/** The children of all sessions of this process. */
export class Children {
  readonly #options: ChildrenOptions;
  readonly #pot: SharedPot;
  /** Children that sessions share, by agent, server and `initialize`. */
  readonly #shared = new Map<string, Child>();
  /** Children with the workspaces and agents that hold their processes. */
  readonly #open = new Map<Child, IdleThing["holder"]>();
  readonly #delays = new LRUCache<string, RestartDelay>({ max: MAX_DELAYS, ttl: DELAY_MS, updateAgeOnGet: true });

  constructor(options: ChildrenOptions) {
    this.#options = options;
    this.#pot = options.pot;
  }

  /** Opens a session with a server that is a command. Its child is chosen by its `initialize`. */
  open(server: McpServer, agentId: string | null, client: ChildClient): ChildSession {
    return new ChildSession((initialize) => this.#childFor(server, agentId, initialize), client, {
      onLeft: (child) => this.#onLeft(child),
    });
  }

  /** Ends every child. MUST NOT reject. */
  async close(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((child) => child.close()));
  }

  #childFor(server: McpServer, agentId: string | null, initialize: JsonObject | undefined): Child {
    const { isolation, log, answers } = this.#options;
    const { workspaceId, name, revision } = server;
    const key = `${workspaceId} ${name} ${revision} ${agentId} ${canonicalJson(initialize ?? {})}`;
    const isShared = !answersRequests(initialize);
    const known = isShared ? this.#shared.get(key) : undefined;
    if (known !== undefined) return known;
    const restartDelay = this.#delays.get(key) ?? new RestartDelay();
    this.#delays.set(key, restartDelay);
    const holder = { workspaceId, agentId };
    const takeSlot = async () => {
      const slot = await this.#pot.takeOneMakingRoom(holder, () => this.#idle());
      return () => slot.release();
    };
    const openHeld = () => answers.open(holder);
    const child = new Child({ server, initialize, isShared, isolation, restartDelay, takeSlot, openHeld, log });
    this.#open.set(child, holder);
    if (isShared) this.#shared.set(key, child);
    return child;
  }

  /** Yields the processes that nothing uses. The next request to one that is ended starts it again. */
  *#idle(): Generator<IdleThing> {
    for (const [child, holder] of this.#open) {
      if (child.isIdle) yield { holder, idleSinceMs: child.idleSinceMs, close: () => child.rest() };
    }
  }

  /** Ends a child that no session uses. */
  async #onLeft(child: Child): Promise<void> {
    if (!child.isUnused) return;
    for (const [key, each] of this.#shared) if (each === child) this.#shared.delete(key);
    await child.close();
    this.#open.delete(child);
  }
}

/** One session with a child. */
export class ChildSession {
  readonly #childFor: (initialize: JsonObject | undefined) => Child;
  readonly #client: ChildClient;
  readonly #onLeft: (child: Child) => Promise<void>;
  #child: Child | undefined;
  #isClosed = false;

  constructor(
    childFor: (initialize: JsonObject | undefined) => Child,
    client: ChildClient,
    { onLeft }: { readonly onLeft: (child: Child) => Promise<void> },
  ) {
    this.#childFor = childFor;
    this.#client = client;
    this.#onLeft = onLeft;
  }

  /** Sends a message. The session begins with `initialize`. See `Child.send`. MUST NOT reject. */
  async send(message: RpcMessage, signal?: AbortSignal): Promise<void> {
    if (this.#child === undefined && !this.#isClosed && isRequest(message) && message.method === "initialize") {
      this.#child = this.#childFor(message.params);
      this.#child.join(this.#client);
    }
    if (this.#child !== undefined) return this.#child.send(this.#client, message, signal);
    if (!isRequest(message)) return;
    this.#client.receive(
      createError(message.id, RPC_CODES.invalidRequest, "the session is not initialized"),
      undefined,
    );
  }

  /** Keeps the child while a stream is open. Returns the function that ends this. */
  holdStream(): () => void {
    return this.#child?.holdStream() ?? (() => undefined);
  }

  /** Ends the session, and its child with the last session. MUST NOT reject. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const child = this.#child;
    if (child === undefined) return;
    this.#child = undefined;
    child.leave(this.#client);
    await this.#onLeft(child);
  }
}

/** Tests whether a client has declared that it answers requests of a server. */
function answersRequests(initialize: JsonObject | undefined): boolean {
  const capabilities = ownValue(initialize ?? {}, "capabilities");
  return isJsonObject(capabilities) && ANSWERING.some((name) => ownValue(capabilities, name) !== undefined);
}
