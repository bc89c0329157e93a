import { createHash } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { stored } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readMcpTaskOwners, readMcpTasks, recordMcpTask, takeMcpTaskDecision } from "../store/sql/mcp-tasks.ts";
import { type CallEnd, endFromTask } from "./call-end.ts";
import type { Exchange } from "./exchange.ts";
import { createError, RPC_CODES, type RpcId, type RpcMessage, type RpcRequest, type RpcResponse } from "./messages.ts";
import type { CallOutcome, OutcomeReports } from "./outcome-reports.ts";

/** Prefix of the gateway's own task ids, before the escalation's id. Other ids are the server's. */
export const OWN_TASK_MARK = "agentcontrol.";
/** Member of `_meta` that names the task which a message belongs to. */
const RELATED_TASK = "io.modelcontextprotocol/related-task";
const STATUS = "notifications/tasks/status";
/** Maximum tasks of one agent at one server: beyond it the oldest is forgotten. */
const MAX_TASKS = 1_000;

/** Parts of `ServerTasks`. */
export interface ServerTasksOptions {
  readonly pool: Pool;
  readonly outcomes: Pick<OutcomeReports, "report">;
  readonly log: StoreLog;
}

/** The task that a message belongs to. */
type Owner = Pick<Exchange, "server" | "caller">;

/**
 * The tasks that servers made for agents' calls. A task belongs to the agent whose call made it, over all of its sessions and on
 * every replica: it is a row of the database.
 */
export class ServerTasks {
  readonly #pool: Pool;
  readonly #outcomes: ServerTasksOptions["outcomes"];
  readonly #log: StoreLog;

  constructor({ pool, outcomes, log }: ServerTasksOptions) {
    this.#pool = pool;
    this.#outcomes = outcomes;
    this.#log = log;
  }

  /** Returns the tasks of these that belong to the caller's agent. */
  async owned({ server, caller }: Owner, taskIds: readonly string[]): Promise<ReadonlySet<string>> {
    const digests = new Map(taskIds.map((id) => [digestOfId(id), id] as const));
    if (digests.size === 0) return new Set();
    const values = [caller.workspaceId, server.name, caller.agentId, [...digests.keys()]];
    const { rows } = await stored(this.#pool.query<{ taskDigest: string }>({ ...readMcpTasks, values }));
    return new Set(rows.flatMap(({ taskDigest }) => digests.get(taskDigest) ?? []));
  }

  /** Returns the response to a request that names a task of another agent, or none; undefined if every task is the agent's. */
  async refusal(exchange: Owner, { id, params = {} }: RpcRequest): Promise<RpcResponse | undefined> {
    const named = taskIdsIn(params);
    if (named === undefined) return createError(id, RPC_CODES.invalidParams, "`taskId` must be text");
    const owned = await this.owned(exchange, named);
    return named.every((each) => owned.has(each)) ? undefined : unknownTask(id);
  }

  /** Tests whether a message of a server may reach the caller: it may not if it tells the status of another agent's task. */
  async mayKnow({ server, caller }: Owner, message: RpcMessage): Promise<boolean> {
    if (!("method" in message) || message.method !== STATUS) return true;
    const taskId = ownValue(message.params ?? {}, "taskId");
    if (typeof taskId !== "string") return true;
    const values = [caller.workspaceId, server.name, digestOfId(taskId)];
    const { rows } = await stored(this.#pool.query<{ agentId: string }>({ ...readMcpTaskOwners, values }));
    return rows.length === 0 || rows.some(({ agentId }) => agentId === caller.agentId);
  }

  /**
   * Creates the change to the response of a decided call: records the task that the server made for it, with the decision that the
   * end of the task settles. `outcomeOf` returns the outcome of the call once it is decided.
   */
  record(exchange: Owner, outcomeOf: () => CallOutcome | undefined): (response: RpcResponse) => Promise<RpcResponse> {
    return async (response) => {
      const taskId = madeTask(response.result);
      if (taskId === undefined) return response;
      const { server, caller } = exchange;
      if (taskId.startsWith(OWN_TASK_MARK)) {
        const text = `MCP server \`${server.name}\` gave its task an id that begins with \`${OWN_TASK_MARK}\`, which the gateway keeps for its own`;
        return createError(response.id, RPC_CODES.server, text);
      }
      const decisionId = outcomeOf()?.handOver() ?? null;
      const place = [caller.workspaceId, server.name, caller.agentId, digestOfId(taskId)];
      const values = [...place, Date.now(), MAX_TASKS, decisionId];
      await stored(this.#pool.query({ ...recordMcpTask, values }));
      return response;
    };
  }

  /** Creates the change to the response about a task: none, but the end of the task is reported beside it. */
  settle(exchange: Owner, { method, params = {} }: RpcRequest): (response: RpcResponse) => RpcResponse {
    return (response) => {
      const [end, taskId] = [endFromTask(method, response), ownValue(params, "taskId")];
      if (end !== undefined && typeof taskId === "string") void this.#settle(exchange, taskId, end);
      return response;
    };
  }

  /** Reports how a task ended, once. MUST NOT reject. */
  async #settle({ server, caller }: Owner, taskId: string, end: CallEnd): Promise<void> {
    const { workspaceId, agentId } = caller;
    try {
      const values = [workspaceId, server.name, agentId, digestOfId(taskId)];
      const { rows } = await stored(this.#pool.query<{ decisionId: string }>({ ...takeMcpTaskDecision, values }));
      for (const { decisionId } of rows) this.#outcomes.report(caller, decisionId, end, "gateway");
    } catch (error) {
      this.#log.warn({ workspaceId, server: server.name, reason: String(error) }, "outcome of a task not reported");
    }
  }

  /** Creates the change to the response to `tasks/list`: leaves other agents' tasks out. */
  filter(exchange: Owner): (response: RpcResponse) => Promise<RpcResponse> {
    return async (response) => {
      const tasks = response.result === undefined ? undefined : ownValue(response.result, "tasks");
      if (response.result === undefined || !Array.isArray(tasks)) return response;
      const listed = tasks
        .filter((task) => isJsonObject(task))
        .map((task) => [task, ownValue(task, "taskId")] as const);
      const owned = await this.owned(
        exchange,
        listed.flatMap(([, id]) => (typeof id === "string" ? [id] : [])),
      );
      const shown = listed.filter(([, id]) => typeof id === "string" && owned.has(id)).map(([task]) => task);
      return { ...response, result: { ...response.result, tasks: shown } };
    };
  }
}

/** Creates the response to a request about a task that the agent does not have, whether another agent has it or not. */
export const unknownTask = (id: RpcId): RpcResponse =>
  createError(id, RPC_CODES.invalidParams, "the agent has no task of this id at this server");

/** Returns the ids of the tasks that parameters name; undefined if one of them is no text. */
export function taskIdsIn(params: JsonObject): readonly string[] | undefined {
  const meta = ownValue(params, "_meta");
  const related = isJsonObject(meta) ? ownValue(meta, RELATED_TASK) : undefined;
  const notifications = ownValue(params, "notifications");
  const listened = isJsonObject(notifications) ? ownValue(notifications, "taskIds") : undefined;
  const named = [
    ownValue(params, "taskId"),
    related === undefined ? undefined : isJsonObject(related) ? (ownValue(related, "taskId") ?? null) : null,
    ...(listened === undefined ? [] : Array.isArray(listened) ? listened : [null]),
  ].filter((each) => each !== undefined);
  return named.every((each) => typeof each === "string") ? (named as string[]) : undefined;
}

/** Returns the id of the task that a server made for a call, in the form of either generation. */
function madeTask(result: JsonObject | undefined): string | undefined {
  if (result === undefined) return undefined;
  const task = ownValue(result, "task");
  const id =
    ownValue(result, "resultType") === "task"
      ? ownValue(result, "taskId")
      : isJsonObject(task)
        ? ownValue(task, "taskId")
        : undefined;
  return typeof id === "string" ? id : undefined;
}

/** Returns the form of a task's id in the database, which holds ids of any length and any characters. */
const digestOfId = (id: string): string => createHash("sha256").update(JSON.stringify(id)).digest("hex");
