import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type Conditions, MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, DecisionPath, type DecisionRecord, Scope } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { reasonsIn, type SealedReason } from "../../../explain/receipt.ts";
import { listAt, numberAt, textAt } from "../../../verify/json.ts";

/** An ordered sequence that an action completed. */
export interface CompletedSequence {
  readonly reason: SealedReason;
  /** Version of the mandate that decided or observed. */
  readonly version: number;
}

/** A step of a sequence with the decision that was it; undefined if the log shows none. */
export interface FoundStep {
  readonly pattern: string;
  readonly record: DecisionRecord | undefined;
}

const PAGE_SIZE = 100;
/** Pages read for one step: of a department's sequence, others may have done the same meanwhile. */
const MAX_PAGES = 5;
const MEMBERS_PAGE = 500;
const RULE = /^rules\[(\d+)\]/;

/** Reads the ordered sequences that a sealed action completed, of observing mandates too. */
export function completedSequences(body: JsonObject): readonly CompletedSequence[] {
  const fired = new Map(
    listAt(body, "mandates").map((mandate) => [textAt(mandate, "mandate_id"), numberAt(mandate, "version") ?? 0]),
  );
  const completed = (reasons: readonly SealedReason[], versionOf: (mandateId: string) => number) =>
    reasons
      .filter(({ code }) => code === "SEQUENCE_COMPLETED")
      .map((reason) => ({ reason, version: versionOf(reason.mandateId) }));
  return [
    ...completed(reasonsIn(body), (mandateId) => fired.get(mandateId) ?? 0),
    ...listAt(body, "observed").flatMap((mandate) =>
      completed(reasonsIn(mandate), () => numberAt(mandate, "version") ?? 0),
    ),
  ];
}

/**
 * Finds the decisions that were the steps before the last one: for each step, from the last back to the first, the newest that fits
 * before the step after it. Of all runs through the steps, that one began last. Returns undefined if the service no longer lists
 * the version of the mandate.
 */
export async function findSteps(
  transport: Transport,
  body: JsonObject,
  { reason, version }: CompletedSequence,
  signal: AbortSignal,
): Promise<readonly FoundStep[] | undefined> {
  const { versions } = await createClient(MandateService, transport).getMandate(
    { mandateId: reason.mandateId },
    { signal },
  );
  const index = RULE.exec(reason.rule)?.[1];
  const conditions = versions.find((each) => each.version === version)?.rules[Number(index)]?.conditions;
  if (conditions === undefined) return undefined;
  const isIn = await groupOf(transport, body, conditions, signal);
  const decisions = createClient(EnforcementService, transport);
  let next = { seq: BigInt(numberAt(body, "seq") ?? 0), ms: Date.parse(textAt(body, "at")) };
  const sinceMs = next.ms - Number(conditions.windowSeconds ?? 0n) * 1_000 + 1;
  const found: FoundStep[] = [];
  for (const pattern of conditions.steps.slice(0, -1).reverse()) {
    const isStep = (record: DecisionRecord): boolean =>
      record.seq < next.seq && isIn(record.agentId) && isCounted(record, conditions);
    const window = { sinceMs, untilMs: next.ms + 1 };
    const record = await newest(decisions, { ...listRequest(pattern, body, conditions), ...window }, isStep, signal);
    found.unshift({ pattern, record });
    if (record?.decidedAt === undefined) break;
    next = { seq: record.seq, ms: timestampMs(record.decidedAt) };
  }
  return found;
}

/** Returns a test for the agents whose actions count as steps. Departments have their members of now. */
async function groupOf(
  transport: Transport,
  body: JsonObject,
  { scope, departmentId }: Conditions,
  signal: AbortSignal,
): Promise<(agentId: string) => boolean> {
  const actorId = textAt(body, "action.agent_id");
  if (scope === Scope.WORKSPACE) return () => true;
  if (scope !== Scope.DEPARTMENT) return (agentId) => agentId === actorId;
  const agents = createClient(AgentService, transport);
  const own = async () => (await agents.getAgent({ agentId: actorId }, { signal })).agent?.departmentIds ?? [];
  const departmentIds = departmentId === undefined ? await own() : [departmentId];
  const members = new Set([actorId]);
  for (const id of departmentIds) {
    for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
      const page = await agents.listAgents({ departmentId: id, pageSize: MEMBERS_PAGE, pageToken }, { signal });
      for (const { agentId } of page.agents) members.add(agentId);
      pageToken = page.nextPageToken;
    }
  }
  return (agentId) => members.has(agentId);
}

/** Tests whether a decision counts as a step. Refusals while the workspace is halted never do. */
const isCounted = ({ decision, decisionPath }: DecisionRecord, { countDecisions }: Conditions): boolean =>
  decisionPath !== DecisionPath.HALTED && (countDecisions.length === 0 || countDecisions.includes(decision));

function listRequest(pattern: string, body: JsonObject, { scope, countDecisions }: Conditions) {
  const isShared = scope === Scope.WORKSPACE || scope === Scope.DEPARTMENT;
  const [only = Decision.UNSPECIFIED, ...others] = countDecisions;
  return {
    agentId: isShared ? "" : textAt(body, "action.agent_id"),
    decision: others.length === 0 ? only : Decision.UNSPECIFIED,
    ...(pattern.endsWith("*") ? { actionTypePrefix: pattern.slice(0, -1) } : { actionType: pattern }),
  };
}

/** Returns the newest decision of a list that passes a test. */
async function newest(
  decisions: Client<typeof EnforcementService>,
  { sinceMs, untilMs, ...request }: ReturnType<typeof listRequest> & { sinceMs: number; untilMs: number },
  test: (record: DecisionRecord) => boolean,
  signal: AbortSignal,
): Promise<DecisionRecord | undefined> {
  const window = { since: timestampFromMs(sinceMs), until: timestampFromMs(untilMs) };
  let pageToken: string | undefined = "";
  for (let page = 0; page < MAX_PAGES && pageToken !== undefined; page++) {
    const answer = await decisions.listDecisions({ ...request, ...window, pageSize: PAGE_SIZE, pageToken }, { signal });
    const found = answer.decisions.find(test);
    if (found !== undefined) return found;
    pageToken = answer.nextPageToken;
  }
  return undefined;
}
