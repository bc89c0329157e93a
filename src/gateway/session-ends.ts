import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { McpCaller } from "./caller.ts";

/** Parts of `McpEnds`. */
export interface McpEndsOptions {
  readonly logs: Pick<WorkspaceLogs, "of" | "clock">;
}

/** Maximum delay of a timer. */
const MAX_TIMER_MS = 2_147_483_647;

/** Reports when a caller loses its right to call. */
export class McpEnds {
  readonly #logs: McpEndsOptions["logs"];

  constructor({ logs }: McpEndsOptions) {
    this.#logs = logs;
  }

  /**
   * Calls back once when the caller's key ends or expires, or its agent is deactivated or revoked, on any replica; with
   * `sessionId` also when this session ends. Resolves with the function that ends the watch.
   */
  async watch(caller: McpCaller, onEnd: (reason: ControlPlaneError) => void, sessionId?: string): Promise<() => void> {
    const { workspaceId, keyId, agentId, expiresAtMs } = caller;
    const log = await this.#logs.of(workspaceId);
    let timer: NodeJS.Timeout | undefined;
    const stop = (): void => {
      clearTimeout(timer);
      unsubscribe();
    };
    const end = (reason: ControlPlaneError): void => {
      stop();
      onEnd(reason);
    };
    const unsubscribe = log.subscribe((events) => {
      for (const event of events) {
        const reason = endOf(event, keyId, agentId, sessionId);
        if (reason !== undefined) return end(reason);
      }
    });
    if (expiresAtMs !== null) {
      const ms = Math.max(0, expiresAtMs - this.#logs.clock.now()) + 1;
      timer = setTimeout(() => end(keyEnded()), Math.min(ms, MAX_TIMER_MS));
      timer.unref();
    }
    return stop;
  }

  /** Returns the error for a caller that may not use the gateway (any more); undefined for a caller that may. */
  async endOf({ workspaceId, agentId, isEnded }: McpCaller): Promise<ControlPlaneError | undefined> {
    const { agents } = await (await this.#logs.of(workspaceId)).caughtUp();
    const agent = agents.get(agentId);
    if (agent === undefined) return notFound(ErrorReason.AGENT_NOT_FOUND, "agent", { agent_id: agentId });
    if (agent.status !== "active") return agentInactive(agentId);
    return isEnded ? keyEnded() : undefined;
  }

  /**
   * Does the same by what this replica knows of an active agent, without a query. Another replica may have ended the agent a
   * moment ago, which the decision on its call will find.
   */
  async endSeenBy(caller: McpCaller): Promise<ControlPlaneError | undefined> {
    const log = await this.#logs.of(caller.workspaceId);
    if (log.agentStatus(caller.agentId) !== "active") return this.endOf(caller);
    return caller.isEnded ? keyEnded() : undefined;
  }
}

/** Returns the error for a caller that an entry of the log ends; undefined if the entry does not end it. */
function endOf(event: LedgerEvent, keyId: string, agentId: string, sessionId?: string): ControlPlaneError | undefined {
  if (event.kind !== "change") return undefined;
  const { change } = event;
  if (change.type === "key_revoked" && change.key_id === keyId) return keyEnded();
  if (change.type === "authority_ended" && change.ids.includes(keyId)) return keyEnded();
  if (change.type === "authority_ended" && sessionId !== undefined && change.ids.includes(sessionId)) {
    return new ControlPlaneError(ErrorReason.MCP_SESSION_NOT_FOUND, "the session was ended");
  }
  const isOfAgent = change.type === "agent_revoked" || change.type === "agent_deactivated";
  if (!isOfAgent || change.agent_id !== agentId) return undefined;
  return agentInactive(agentId);
}

function agentInactive(agentId: string): ControlPlaneError {
  const text = `agent \`${agentId}\` is no longer active`;
  return new ControlPlaneError(ErrorReason.AGENT_INACTIVE, text, { agent_id: agentId });
}

const keyEnded = (): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.KEY_INVALID, "the key is unknown, expired or revoked");
