import { AgentBlockedError, createControlPlane } from "@agent-control-plane/client";
import { EscalationService, Resolution } from "@agent-control-plane/client/proto";

/** Has a call allowed, one blocked, and one escalated and approved; says what came of each. */
export async function run({ agentId, ...options }, create = createControlPlane) {
  const controlPlane = create(options);
  const attempt = async (actionType) => {
    const guarded = controlPlane.guard((count) => `ran ${count}`, {
      agentId,
      actionType,
      toArguments: (count) => ({ count }),
    });
    try {
      return await guarded(7);
    } catch (error) {
      if (error instanceof AgentBlockedError) return error.name;
      throw error;
    }
  };
  try {
    const approving = approveFirst(controlPlane.client(EscalationService), agentId);
    const results = [await attempt("read"), await attempt("danger.delete"), await attempt("review.pay")];
    await approving;
    return results;
  } finally {
    controlPlane.close();
  }
}

async function approveFirst(escalations, agentId) {
  const leaving = new AbortController();
  for await (const { escalation } of escalations.watchEscalations({}, { signal: leaving.signal })) {
    if (escalation?.agentId !== agentId) continue;
    const { escalationId } = escalation;
    await escalations.resolveEscalation({ escalationId, resolution: Resolution.APPROVED });
    leaving.abort();
    return;
  }
}
