import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Registry } from "prom-client";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  createRedaction,
  createRedactionProxy,
  type Redaction,
  type RedactionCaller,
} from "../../src/redaction/index.ts";
import type { UpstreamTiming } from "../../src/redaction/proxy/upstream.ts";
import { Authenticator } from "../../src/registry/authenticator.ts";
import { createKey } from "../../src/registry/keys.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { WrongKeys } from "../../src/server/wrong-keys.ts";
import { createEncryptor } from "../../src/store/encryptor.ts";
import type { StoreLog } from "../../src/store/migrate.ts";
import { createTestDatabase } from "../support/database.ts";
import { ALLOW, openReplica, type Replica } from "../webhook/replica.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

/** A personal value of each kind that tests speak of, and a name that is registered. */
export const PERSONAL = {
  email: "jane.roe@corp-mail.org",
  card: "4111 1111 1111 1111",
  name: "Zebulon Quist",
} as const;

export const WORKSPACE = "default";

/** One process with redaction and a proxy. */
export interface Process {
  readonly redaction: Redaction;
  /** What clients take for OpenAI's base URL. */
  readonly baseUrl: string;
  /** Posts JSON to the proxy. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Everything that was logged, as one text. */
  logged(): string;
  /** The page of metrics. */
  metrics(): Promise<string>;
  close(): Promise<void>;
}

/** A workspace with keys, a model's service, and a process in between. */
export interface RedactionWorkspace extends Process, Replica {
  readonly url: string;
  readonly upstream: Upstream;
  readonly caller: RedactionCaller;
  readonly key: string;
  /** The secret of a new key. */
  keyOf(role: Role, agentId?: string): Promise<string>;
  /** Another process on the same database. */
  process(options?: ProcessOptions): Promise<Process>;
}

/** How a process is made. */
export interface ProcessOptions {
  readonly key?: string;
  /** Earlier encryption key. */
  readonly earlierKey?: string;
  readonly llmUrl?: string | undefined;
  readonly llmKey?: string;
  readonly maxBodyBytes?: number;
  readonly maxHeldBytes?: number;
  readonly maxAnswerBytes?: number;
  readonly timing?: UpstreamTiming;
  readonly attemptMs?: number;
}

export const ENCRYPTION_KEY = "encryption-key-of-the-tests-0123456789";

function recordingLog(): { readonly log: StoreLog; readonly text: () => string } {
  const lines: string[] = [];
  const keep = (details: object, message: string): void => void lines.push(JSON.stringify({ ...details, message }));
  return { log: { info: keep, warn: keep, error: keep }, text: () => lines.join("\n") };
}

async function startProcess({ database, logs }: Replica, secret: string, options: ProcessOptions): Promise<Process> {
  const { log, text } = recordingLog();
  const attempt = options.attemptMs === undefined ? {} : { attemptMs: options.attemptMs };
  const encryptor = createEncryptor(options.key ?? ENCRYPTION_KEY, options.earlierKey);
  const redaction = createRedaction({ database, logs, log, encryptor, webhookAllow: ALLOW, ...attempt });
  const authenticator = new Authenticator({ database, clock: logs.clock });
  const authenticate = (apiKey: string) => authenticator.authenticate(apiKey);
  const metrics = new Registry();
  const proxy = createRedactionProxy({
    countCall: () => undefined,
    metrics,
    redaction,
    authenticate,
    wrongKeys: new WrongKeys(log),
    logs,
    log,
    llmUrl: options.llmUrl,
    llmKey: options.llmKey,
    maxBodyBytes: options.maxBodyBytes ?? 1_048_576,
    ...(options.timing === undefined ? {} : { timing: options.timing }),
    ...(options.maxHeldBytes === undefined ? {} : { maxHeldBytes: options.maxHeldBytes }),
    ...(options.maxAnswerBytes === undefined ? {} : { maxAnswerBytes: options.maxAnswerBytes }),
  });
  const server = createServer(async (request, response) => {
    if ((await proxy.handle(request, response)) === false) response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const baseUrl = `http://127.0.0.1:${port}/api/redact/${WORKSPACE}/openai/v1`;
  return {
    redaction,
    baseUrl,
    post: (path, body, headers = {}) =>
      fetch(baseUrl + path, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${secret}`, ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    logged: text,
    metrics: () => metrics.metrics(),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await redaction.close(0);
      proxy.close();
    },
  };
}

/** Creates a workspace on a database of its own. */
export async function openRedactionWorkspace(options: ProcessOptions = {}): Promise<RedactionWorkspace> {
  const test = await createTestDatabase();
  const replicas = [await openReplica(test.url)];
  const [first] = replicas as [Replica];
  const upstream = await startUpstream();
  const context = { database: first.database, nowMs: Date.now(), by: "system" };
  const created = await createWorkspace(context, { workspaceId: WORKSPACE });
  const processes: Process[] = [];
  const processOn = async (replica: Replica, more: ProcessOptions): Promise<Process> => {
    const started = await startProcess(replica, created.secret, { llmUrl: upstream.url, ...options, ...more });
    processes.push(started);
    return started;
  };
  const own = await processOn(first, {});
  return {
    ...first,
    ...own,
    url: test.url,
    upstream,
    key: created.secret,
    caller: { workspaceId: WORKSPACE, keyId: created.key.keyId },
    async keyOf(role, agentId) {
      const log = await first.logs.of(WORKSPACE);
      const { secret } = await createKey(log, "key_test", { name: "test", role, agentId: agentId ?? null });
      return secret;
    },
    async process(more = {}) {
      const replica = await openReplica(test.url);
      replicas.push(replica);
      return processOn(replica, more);
    },
    async close() {
      for (const each of processes) await each.close();
      await upstream.close();
      for (const replica of replicas) await replica.close();
      await test.drop();
    },
  };
}

/** The texts of the bodies of every change of a type in a workspace's log, oldest first. */
export async function sealedChanges({ database }: Replica, type: string): Promise<Record<string, unknown>[]> {
  const text = "select body from ledger_entry where workspace_id = $1 and kind = 1 order by seq";
  const { rows } = await database.pool.query<{ body: string }>(text, [WORKSPACE]);
  return rows.map(({ body }) => JSON.parse(body)).filter((body) => body.type === type);
}

/** Every role that a key can have. */
export const ROLES = [Role.ADMIN, Role.OPERATOR, Role.AGENT, Role.AUDITOR];
