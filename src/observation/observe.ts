import type { Pool } from "pg";
import { ErrorReason, notFound } from "../errors.ts";
import { contentDigestOf, promptFromOperator, type SealedObservation, sessionEnded } from "../log/observation.ts";
import { readReceipt } from "../log/read-receipts.ts";
import type { DecisionReceipt } from "../log/receipts.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { argumentsFrom } from "../policy/names.ts";
import type { ToolProvenance } from "../provenance/result-values.ts";
import type { StoreLog } from "../store/migrate.ts";
import type { ContentJob } from "./content-values.ts";
import type { Extractor } from "./extractor.ts";
import type { ObservationMetrics } from "./metrics.ts";
import type { StoredSessionKeys } from "./session-keys.ts";

/** Content that a session observes. */
export interface ObserveCommand {
  readonly sessionId: string;
  readonly source: "prompt" | "result";
  /** The decision on the call that returned it. */
  readonly decisionId: string | undefined;
  /** Text, or the text of JSON. */
  readonly content: string;
  readonly isError: boolean;
  /** True if the content joins several parts of a result, of whose members none is trusted. Default false. */
  readonly isMixed?: boolean;
  /** True if there was more content than is given. */
  readonly isCut: boolean;
}

/** Caller of an observation. */
export interface ObserveCaller {
  readonly keyId: string;
  /** The agent that the key is bound to; null for a key that is bound to none. */
  readonly agentId: string | null;
  /** True for a key of the role `agent`, or the gateway in an agent's place. */
  readonly isAgent: boolean;
  readonly isOver: () => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Dependencies of observing. */
export interface ObserveParts {
  readonly pool: Pool;
  readonly keys: StoredSessionKeys;
  readonly extractor: Pick<Extractor, "digestsOf">;
  readonly log: StoreLog;
  readonly metrics: ObservationMetrics;
}

/** Tells a session what its agent was asked or read. Resolves once it is durable. */
export type Observe = (log: WorkspaceLog, command: ObserveCommand, caller: ObserveCaller) => Promise<SealedObservation>;

/**
 * Creates the use case. It rejects with SESSION_ENDED, DECISION_NOT_FOUND, OBSERVATION_EXISTS, PROMPT_FROM_OPERATOR, OVERLOADED,
 * CANCELLED and STORE_UNAVAILABLE. A content that takes too long to be read makes the session full.
 */
export function createObserve({ pool, keys, extractor, log: serviceLog, metrics }: ObserveParts): Observe {
  return async (log, command, caller) => {
    const { sessionId, source, decisionId, content, isCut } = command;
    const { workspaceId } = log;
    const agentId = await holderOf(log, sessionId, caller);
    if (source === "prompt" && caller.isAgent && log.promptFrom === "operator") throw promptFromOperator();
    const receipt = decisionId === undefined ? undefined : await receiptOf(pool, workspaceId, command, agentId);
    const declared = declarationFor(log, command, receipt);
    const key = await keys.keyOf(workspaceId, sessionId);
    const found = await extractor.digestsOf(
      { key, source, content, ...trustedParts(command, receipt, declared) },
      { workspaceId, agentId },
      caller.signal,
    );
    if (found === undefined) {
      metrics.givenUp();
      const details = { workspaceId, sessionId, characters: content.length };
      serviceLog.warn(details, "the reading of an observed content was given up; its session is full");
    }
    const observation = {
      sessionId,
      agentId,
      by: caller.keyId,
      isByAgent: caller.isAgent,
      source,
      decisionId,
      tool: receipt?.body.action.tool,
      declared,
      key,
      contentDigest: contentDigestOf(key, content, isCut),
      digests: found?.digests ?? {},
      isCut: isCut || found === undefined || found.isCut,
    };
    return log.observe(observation, caller.isOver);
  };
}

/** Returns the agent of a session that the caller may speak for. */
async function holderOf(log: WorkspaceLog, sessionId: string, { agentId }: ObserveCaller): Promise<string> {
  let holder = log.agentOfSession(sessionId);
  if (holder === undefined) {
    // It may have begun on another replica a moment ago.
    await log.caughtUp();
    holder = log.agentOfSession(sessionId);
  }
  if (holder === undefined || (agentId !== null && agentId !== holder)) throw sessionEnded(sessionId);
  return holder;
}

async function receiptOf(
  pool: Pool,
  workspaceId: string,
  { decisionId = "", sessionId }: ObserveCommand,
  agentId: string,
): Promise<DecisionReceipt> {
  const receipt = await readReceipt(pool, workspaceId, decisionId);
  const isOwn = receipt?.body.session_id === sessionId && receipt.body.action.agent_id === agentId;
  if (receipt === undefined || !isOwn)
    throw notFound(ErrorReason.DECISION_NOT_FOUND, "decision", { decision_id: decisionId });
  return receipt;
}

/** Returns the declaration of a result's tool, if its call was allowed and did not fail: nothing of other results is trusted. */
function declarationFor(
  log: WorkspaceLog,
  { isError }: ObserveCommand,
  receipt: DecisionReceipt | undefined,
): ToolProvenance | undefined {
  const tool = receipt?.body.action.tool;
  return tool === undefined || isError || receipt?.body.decision !== "allow" ? undefined : log.provenanceOf(tool);
}

/** Returns the parts of a job that say what of the content is trusted. */
function trustedParts(
  { isMixed = false }: ObserveCommand,
  receipt: DecisionReceipt | undefined,
  declared: ToolProvenance | undefined,
): Pick<ContentJob, "declared" | "args"> {
  if (receipt === undefined || declared === undefined) return { declared: undefined, args: {} };
  const { sessionArguments } = declared;
  const own = isMixed
    ? { trustedFields: undefined, freeFields: undefined, sessionArguments, sessionFields: [] }
    : declared;
  return { declared: own, args: argumentsFrom(receipt.body.action.metadata) ?? {} };
}
