import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createPeers, type Peer, type Peers } from "../../src/cluster/peers.ts";
import type { Action, SealedDecision } from "../../src/state/types.ts";
import { withClient } from "../support/database.ts";
import { actionOf, createTestWorkspace, type Replica, type TestWorkspace } from "../support/workspace.ts";
import { createSocketDir, until } from "./harness.ts";

/** A process that decides, with what it knows of the other. */
export interface Side extends Replica {
  readonly peers: Peers;
  readonly peer: Peer;
}

/** Two processes on one workspace, each of which knows both. */
export interface Pair {
  readonly workspace: TestWorkspace;
  readonly agentId: string;
  /** Decides for the workspace. */
  readonly far: Side;
  /** Asks the far one. */
  readonly near: Side;
  /** A path for one more socket, called so. */
  pathOf(name: string): string;
  /** Makes the near process know the far one at another path. */
  redirect(path: string): void;
  action(more?: Partial<Action>): Action;
  /** Has the near process ask. */
  ask(action?: Action): ReturnType<Peers["decide"]>;
  /** Has a batch of the near process overtaken. */
  contend(): Promise<void>;
  close(): Promise<void>;
}

export const wanted = (): boolean => false;

async function openSide(workspace: TestWorkspace, slot: number, path: string): Promise<Side> {
  const peers = createPeers(slot);
  const replica = await workspace.replica({ peers });
  await peers.serve(replica.logs, path);
  return { ...replica, peers, peer: { slot, path } };
}

/** Opens a pair on a new database. */
export async function openPair(): Promise<Pair> {
  const dir = await createSocketDir();
  const workspace = await createTestWorkspace();
  const { agent } = await workspace.services.agents.registerAgent({ name: "agent" });
  const agentId = agent?.agentId ?? "";
  const pathOf = (name: string): string => join(dir.path, name);
  const sides = [await openSide(workspace, 1, pathOf("1")), await openSide(workspace, 2, pathOf("2"))];
  for (const { peers } of sides) peers.know(sides.map(({ peer }) => peer));
  const action = (more: Partial<Action> = {}): Action => ({ ...actionOf({ agentId, actionType: "pay" }), ...more });
  const asks = ({ peers }: Side): boolean => {
    const asked = peers.decide(workspace.workspaceId, action({ agentId: "agt_none" }));
    asked?.catch(() => undefined);
    return asked !== undefined;
  };
  const [near, far] = sides.toSorted((a, b) => Number(asks(b)) - Number(asks(a))) as [Side, Side];
  return {
    ...{ workspace, agentId, far, near, pathOf, action },
    redirect: (path) => near.peers.know([near.peer, { ...far.peer, path }]),
    ask: (asked = action()) => near.peers.decide(workspace.workspaceId, asked),
    async contend() {
      await workspace.log.decideHere(action(), wanted);
      await near.log.decideHere(action(), wanted);
    },
    async close() {
      for (const { peers } of sides) {
        await peers.stopServing();
        peers.close();
      }
      await workspace.close();
      await dir.remove();
    },
  };
}

/** Runs `use` while nothing can be appended to the log; it is over when `use` is, or `release` is called. */
export async function whileHeld<T>({ workspace }: Pair, use: (release: () => Promise<unknown>) => Promise<T>) {
  return withClient(workspace.url, async (client) => {
    await client.query("begin");
    await client.query("select from ledger_head where workspace_id = $1 for update", [workspace.workspaceId]);
    return use(() => client.query("rollback"));
  });
}

/** Resolves when somebody waits to append. */
export async function appendWaits({ workspace }: Pair): Promise<void> {
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await withClient(workspace.url, (client) =>
    until("somebody waits to append", async () => (await client.query(waiting)).rowCount !== 0),
  );
}

/** Something that listens in place of a peer. */
export interface StandIn {
  /** Connections that came. */
  readonly connections: number;
  /** Those that are open. */
  readonly open: number;
  close(): void;
}

/** Listens on a path and does with each connection as it is told. */
export async function standIn(path: string, onSocket: (socket: Socket) => void): Promise<StandIn> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer((socket) => {
    connections += 1;
    sockets.add(socket.on("error", () => undefined).once("close", () => sockets.delete(socket)));
    onSocket(socket);
  });
  await once(server.listen(path), "listening");
  return {
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Forwards a connection to the peer at a path; `onAnswer` gets what comes back, with the socket that waits for it. */
export function forwarding(path: string, onAnswer: (bytes: Buffer, asker: Socket) => void): (socket: Socket) => void {
  return (asker) => {
    const peer = connect(path).on("error", () => undefined);
    asker.on("data", (bytes) => peer.write(bytes)).once("close", () => peer.destroy());
    peer.on("data", (bytes: Buffer) => onAnswer(bytes, asker)).once("close", () => asker.destroy());
  };
}

/** What several calls came to that each MUST have asked. */
export function allAsked(calls: readonly ReturnType<Peers["decide"]>[]): Promise<(SealedDecision | undefined)[]> {
  if (calls.includes(undefined)) throw new Error("nobody was asked");
  return Promise.all(calls as Promise<SealedDecision | undefined>[]);
}
