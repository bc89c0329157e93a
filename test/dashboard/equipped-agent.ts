import type { MessageInitShape } from "@bufbuild/protobuf";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { TestService } from "../support/service.ts";

/** Rules under which `delete…` is blocked and `pay` escalates. */
export const RULES: readonly MessageInitShape<typeof RuleSchema>[] = [
  { type: RuleType.ACTION, decision: Decision.BLOCK, conditions: { matchActionTypes: ["delete*"] } },
  { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["pay"] } },
];

/** Lets an agent attempt an action. */
export const act = ({ admin }: TestService, agentId: string, actionType: string) =>
  admin.client(EnforcementService).intercept({ agentId, actionType, actionContent: "x" });

/** Registers an agent with something of every kind, a grant passed on below the one that it gave, and a pending escalation. */
export async function equippedAgent(service: TestService, name: string): Promise<string> {
  const authority = service.admin.client(AuthorityService);
  const grant = async (grantorAgentId: string, granteeAgentId: string, parentGrantId?: string): Promise<string> => {
    const request = { grantorAgentId, granteeAgentId, actionTypes: ["mail.*"], maxUses: 10n };
    const made = await authority.createGrant({ ...request, ...(parentGrantId !== undefined && { parentGrantId }) });
    return made.grant?.grantId ?? "";
  };
  const agentId = await service.agent(name);
  const [b, c, d] = [
    await service.agent(`${name}'s helper`),
    await service.agent(`${name}'s helper's helper`),
    await service.agent(`${name}'s principal`),
  ];
  await authority.createSession({ agentId, purpose: "invoices of May" });
  await authority.createCredential({ agentId, name: "runtime" });
  await grant(b, c, await grant(agentId, b));
  await grant(d, agentId);
  await authority.createTemporalWindow({ agentId, actionTypes: ["refund"], durationSeconds: 60n, reason: "fair" });
  await authority.createIntentContract({ agentId, goal: "pay invoices", allowedActionTypes: ["pay"] });
  const token = { agentId, audience: "partner", allowedActionTypes: ["pay"], ttlSeconds: 60n };
  await authority.createFederationToken(token);
  await authority.createMcpToolPolicy({ agentId, server: "files", tool: "delete*", decision: Decision.BLOCK });
  await service.rest("POST /v1/admin/keys", { name: "bound", role: "agent", agent_id: agentId });
  await act(service, agentId, "pay");
  return agentId;
}
