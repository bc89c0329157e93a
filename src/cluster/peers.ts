import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { controlPlaneErrorFrom } from "../errors.ts";
import { CONTENDED_MS, type DecisionPeers } from "../log/peers.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { SealedDecision } from "../state/types.ts";
import {
  createLineWriter,
  lineFromAppended,
  lineFromError,
  lineFromSealed,
  type Question,
  questionFrom,
  readLines,
} from "./peer-lines.ts";
import { createPeerLink, type PeerLink } from "./peer-link.ts";

/** A worker that decides for others too. */
export interface Peer {
  readonly slot: number;
  /** The socket that it listens on; a worker that takes the place of another has another one. */
  readonly path: string;
}

/** The other workers, as one of them sees them. */
export interface Peers extends DecisionPeers {
  /** Decides for the others from now on. Rejects when it cannot listen on the path. */
  serve(logs: WorkspaceLogs, path: string): Promise<void>;
  /** All who decide now, this one included if it does. */
  know(peers: readonly Peer[]): void;
  /** Takes no more questions and resolves when those it has are answered. */
  stopServing(): Promise<void>;
  /** Lets go of the others. */
  close(): void;
}

/** Milliseconds after a connection was lost before the peer is asked again. */
const PAUSE_MS = 1_000;
const REMEMBERED_WORKSPACES = 10_000;
/** Bytes that may wait for a peer before it is told no more: a peer that does not read them reads the log instead. */
const MAX_UNREAD_BYTES = 4_194_304;

/** Another worker that asks this one. */
interface Asker {
  readonly socket: Socket;
  readonly send: (line: string) => void;
  /** `performance.now()` of the last question about each workspace. */
  readonly askedAt: Map<string, number>;
}

/** Creates what the worker of a slot knows of the others: nobody yet. */
export function createPeers(slot: number): Peers {
  return new WorkerPeers(slot);
}

class WorkerPeers implements Peers {
  readonly #slot: number;
  #peers: readonly Peer[] = [];
  readonly #links = new Map<string, PeerLink>();
  readonly #numbers = new Map<string, number>();
  #server: Server | undefined;
  #logs: WorkspaceLogs | undefined;
  readonly #askers = new Set<Asker>();
  #open = 0;
  #onIdle: () => void = () => undefined;

  constructor(slot: number) {
    this.#slot = slot;
  }

  async serve(logs: WorkspaceLogs, path: string): Promise<void> {
    const server = createServer((socket) => this.#converse(socket, logs));
    await once(server.listen(path), "listening");
    // A connection that cannot be accepted is the other's loss, which then decides for itself.
    server.on("error", () => undefined);
    this.#server = server;
    this.#logs = logs;
  }

  know(peers: readonly Peer[]): void {
    this.#peers = [...peers].sort((a, b) => a.slot - b.slot);
    const paths = new Set(peers.map(({ path }) => path));
    for (const [path, link] of this.#links) {
      if (paths.has(path)) continue;
      this.#links.delete(path);
      link.retire();
    }
  }

  decide(workspaceId: string, action: Parameters<DecisionPeers["decide"]>[1]): ReturnType<DecisionPeers["decide"]> {
    if (this.#peers.length < 2) return undefined;
    const peer = this.#peers[this.#numberOf(workspaceId) % this.#peers.length] as Peer;
    return peer.slot === this.#slot ? undefined : this.#linkTo(peer)?.ask(workspaceId, action);
  }

  tell(workspaceId: string, batch: Parameters<DecisionPeers["tell"]>[1]): void {
    let line: string | undefined;
    for (const { socket, send, askedAt } of this.#askers) {
      const at = askedAt.get(workspaceId);
      if (at === undefined || socket.writableLength > MAX_UNREAD_BYTES) continue;
      if (at < performance.now() - CONTENDED_MS) askedAt.delete(workspaceId);
      else {
        line ??= lineFromAppended({ workspaceId, batch: batch() });
        send(line);
      }
    }
  }

  async stopServing(): Promise<void> {
    this.#server?.close();
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    // In a later turn, so that the last answers are on their way.
    await new Promise((resolve) => setImmediate(resolve));
    for (const { socket } of this.#askers) socket.end();
  }

  close(): void {
    this.#peers = [];
    for (const link of this.#links.values()) link.close();
    for (const { socket } of this.#askers) socket.destroy();
  }

  /** The same for every worker, whichever there are. */
  #numberOf(workspaceId: string): number {
    let number = this.#numbers.get(workspaceId);
    if (number === undefined) {
      if (this.#numbers.size >= REMEMBERED_WORKSPACES) this.#numbers.clear();
      number = createHash("sha256").update(workspaceId).digest().readUInt32BE();
      this.#numbers.set(workspaceId, number);
    }
    return number;
  }

  #linkTo({ path }: Peer): PeerLink | undefined {
    const known = this.#links.get(path);
    if (known !== undefined) return known.isUp ? known : undefined;
    const forget = (): void => {
      // A peer that was gone meanwhile and is known again has another link.
      if (this.#links.get(path) === link) this.#links.delete(path);
    };
    const link = createPeerLink(path, {
      onAppended: ({ workspaceId, batch }) => this.#logs?.follow(workspaceId, batch),
      onLost: () => void setTimeout(forget, PAUSE_MS).unref(),
    });
    this.#links.set(path, link);
    return link;
  }

  #converse(socket: Socket, logs: WorkspaceLogs): void {
    const asker: Asker = { socket, send: createLineWriter(socket), askedAt: new Map() };
    this.#askers.add(asker);
    socket.once("close", () => this.#askers.delete(asker));
    socket.on("error", () => undefined);
    const { send, askedAt } = asker;
    readLines(socket, (line) => {
      const question = questionFrom(line);
      if (askedAt.size >= REMEMBERED_WORKSPACES) askedAt.clear();
      askedAt.set(question.workspaceId, performance.now());
      this.#open += 1;
      const answer = (line: string): void => {
        send(line);
        this.#open -= 1;
        if (this.#open === 0) this.#onIdle();
      };
      const { id } = question;
      decisionOf(question, logs).then(
        (sealed) => answer(lineFromSealed(id, sealed)),
        (error: unknown) => answer(lineFromError(id, controlPlaneErrorFrom(error))),
      );
    });
  }
}

const stillWaits = (): boolean => false;

function decisionOf({ workspaceId, action }: Question, logs: WorkspaceLogs): Promise<SealedDecision> {
  // As a retry: whoever asked may have given this process up and decided the action itself by now.
  const retried = { ...action, isRetryable: true };
  const log = logs.of(workspaceId);
  // Without a needless turn: the log is in memory for every action but the first.
  return log instanceof Promise
    ? log.then((loaded) => loaded.decideHere(retried, stillWaits))
    : log.decideHere(retried, stillWaits);
}
