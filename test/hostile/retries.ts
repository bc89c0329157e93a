/* Repeated requests and presented approvals: what was allowed once, asked again when it may not be, or in another form. */

import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { InterceptInit } from "../support/harness.ts";
import { disguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, type Lab, SECRET, shown } from "./lab.ts";

/** Requests that were allowed, of an agent that may do nothing any more. */
interface Ended {
  readonly how: string;
  readonly key?: string;
  readonly requests: readonly InterceptInit[];
}

/** First requests of one agent, before its authority ends. */
const FIRST_REQUESTS = 6;
/** Consecutive cases of every kind of which those of one kind share an ended agent or an approval. */
const SHARED_BY = 400;
const groupOf = (number: number): number => Math.floor(number / SHARED_BY);

type Authority = { readonly request: InterceptInit; readonly key?: string; readonly end: () => Promise<unknown> };

/** Ways in which what a request relied on ends. */
const ENDINGS: Readonly<Record<string, (lab: Lab, agentId: string) => Promise<Authority>>> = {
  revoke: async ({ workspace }, agentId) => ({ request: {}, end: () => workspace.revoke(agentId) }),
  deactivation: async ({ workspace }, agentId) => ({
    request: {},
    end: () => workspace.agents.deactivateAgent({ agentId }),
  }),
  session: async ({ workspace: { authority } }, agentId) => {
    const sessionId = (await authority.createSession({ agentId })).session?.sessionId ?? "";
    return { request: { sessionId }, end: () => authority.endSession({ sessionId }) };
  },
  credential: async (lab, agentId) => {
    const { authority } = lab.workspace;
    const { credential, secret } = await authority.createCredential({ agentId });
    const credentialId = credential?.credentialId ?? "";
    return { request: {}, key: lab.keepSecret(secret), end: () => authority.endCredential({ credentialId }) };
  },
  principal: async ({ workspace }, agentId) => {
    const principal = await workspace.agent("principal");
    const grant = { grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["*"] };
    await workspace.authority.createGrant(grant);
    return { request: { onBehalfOf: principal }, end: () => workspace.revoke(principal) };
  },
  "bound key": async (lab, agentId) => {
    const { secret } = await lab.workspace.admin.createApiKey({ name: "bound", role: Role.AGENT, agentId });
    return { request: {}, key: lab.keepSecret(secret), end: () => lab.workspace.revoke(agentId) };
  },
};

async function allowed(lab: Lab, request: InterceptInit, key?: string): Promise<void> {
  const { decision } = await lab.workspace.enforcement.intercept(request, key);
  if (decision !== Decision.ALLOW)
    throw new HostileFinding(`a first request gets ${Decision[decision]}: ${shown(request)}`);
}

async function endedAgent(lab: Lab, draw: Draw): Promise<Ended> {
  const how = draw.pick(Object.keys(ENDINGS));
  const agentId = await lab.workspace.agent("short-lived");
  const prepare = ENDINGS[how] as (typeof ENDINGS)[string];
  const { request, key, end } = await prepare(lab, agentId);
  const requests = Array.from({ length: FIRST_REQUESTS }, (_, each) => ({
    ...{ ...request, agentId, actionType: `errand.${each}`, requestId: draw.uuid(), actionContent: SECRET },
    ...(each % 2 === 0 && { tool: "harmless6", metadata: { arguments: { note: each } } }),
  }));
  await Promise.all(requests.map((each) => allowed(lab, each, key)));
  await end();
  return { how, requests, ...(key !== undefined && { key }) };
}

/** A repeat, as it was or with something else in it. */
function repeatForm(draw: Draw, request: InterceptInit): InterceptInit {
  const { requestId = "", tool } = request;
  return draw.pick<() => InterceptInit>([
    () => request,
    () => ({ ...request, requestId: requestId.toUpperCase() }),
    () => ({ ...request, requestId: draw.uuid() }),
    () => ({ ...request, actionType: disguised(draw, request.actionType ?? "") }),
    () => ({ ...request, actionContent: `${SECRET}.` }),
    () => ({ ...request, ...(tool !== undefined && { tool: tool.toUpperCase() }) }),
    () => ({ ...request, metadata: { note: SECRET } }),
    () => ({ ...request, escalationId: `esc_${draw.word()}` }),
  ])();
}

async function repeatAfterEnd(lab: Lab, draw: Draw, number: number): Promise<void> {
  const ended = await lab.shared("ended", groupOf(number), (own) => endedAgent(lab, own));
  const form = repeatForm(draw, draw.pick(ended.requests));
  // A principal or session that the request no longer names restricts nothing: every form keeps them.
  await lab.attempt(Decision.BLOCK, form, ended.key);
}

/** A `request_id` that was allowed, with what a plain request is refused for. */
async function reusedId(lab: Lab, draw: Draw, number: number): Promise<void> {
  const { agentId } = lab;
  const first = await lab.shared("first", groupOf(number), async (own) => {
    const metadata = { arguments: { amount: 1 } };
    const request = { agentId, actionType: "errand.pay", tool: "pay6", metadata, requestId: own.uuid() };
    await allowed(lab, request);
    return request;
  });
  const plain = draw.pick(lab.plains);
  const id = draw.pick([first.requestId, first.requestId.toUpperCase(), first.requestId.replaceAll("-", "")]);
  const form = draw.pick<() => InterceptInit>([
    () => ({ ...plain.request, requestId: id }),
    () => ({
      ...first,
      requestId: id,
      tool: draw.pick(["pay6", "PAY6", " Pay6 "]),
      metadata: { arguments: { amount: 900 } },
    }),
    () => ({ ...first, requestId: id, metadata: { arguments: '{"amount":900}' } }),
    () => ({ ...first, requestId: id, metadata: { ...first.metadata, tool: "pay6", arguments: { amount: "1" } } }),
    () => ({ ...first, requestId: id, actionType: disguised(draw, "t6pay.x") }),
  ])();
  await lab.attempt(plain.verdict, form, form.agentId === plain.request.agentId ? plain.key : undefined);
}

/** An approval of one action, and who may use it. */
interface Approval {
  readonly action: InterceptInit & { readonly agentId: string; readonly actionType: string };
  readonly escalationId: string;
}

async function approval(lab: Lab, draw: Draw, resolution?: Resolution): Promise<Approval> {
  const agentId = await lab.workspace.agent("asker");
  const metadata = { recipient: "ACME", amount: 5, arguments: { to: "ACME", lines: [1, 2] } };
  const action = { agentId, actionType: `wire.${draw.word()}`, actionContent: "pay", tool: "harmless6", metadata };
  const { decision, escalationId = "" } = await lab.workspace.intercept(action);
  if (decision !== Decision.ESCALATE) throw new HostileFinding(`an ask gets ${Decision[decision]}: ${shown(action)}`);
  if (resolution !== undefined) await lab.workspace.resolve(escalationId, resolution);
  return { action, escalationId };
}

/** An approved action with another in its place. */
async function alteredApproval(lab: Lab, draw: Draw, number: number): Promise<void> {
  const { action, escalationId } = await lab.shared("approved", groupOf(number), (own) =>
    approval(lab, own, Resolution.APPROVED),
  );
  const { metadata } = action;
  const form = draw.pick<() => InterceptInit>([
    () => ({
      ...action,
      metadata: { ...metadata, recipient: draw.pick(["EVIL", "acme", "ACME ", "ACM\u0415", "ACME\u200b"]) },
    }),
    () => ({ ...action, metadata: { ...metadata, amount: draw.pick<number | string>([6, "5", 5.000001, -5, "5.0"]) } }),
    () => ({ ...action, metadata: { ...metadata, [draw.word()]: draw.pick([1, "x", true]) } }),
    () => ({ ...action, metadata: { ...metadata, arguments: { to: "EVIL", lines: [1, 2] } } }),
    () => ({ ...action, metadata: { ...metadata, arguments: { to: "ACME", lines: [2, 1] } } }),
    () => ({ ...action, metadata: { ...metadata, arguments: '{"to":"ACME","lines":[1,2,3]}' } }),
    () => ({ ...action, metadata: { recipient: "ACME" } }),
    () => ({ ...action, metadata: { ...metadata, Traceparent: "x", trace_ids: "y" } }),
    () => ({ ...action, actionContent: draw.pick(["pay ", "Pay", "", "pay\u200b"]) }),
    () => ({ ...action, actionType: draw.pick([`${action.actionType}.more`, disguised(draw, `wire.${draw.word()}`)]) }),
    () => ({ ...action, tool: draw.pick(["harmless", "pay6", "harmless6 x"]) }),
    () => ({ ...action, agentId: draw.pick([lab.agentId, lab.otherAgentId]) }),
    () => ({ ...action, onBehalfOf: lab.agentId }),
    () => ({ ...action, escalationId: "" }),
    () => ({ ...action, sessionId: "ses_x" }),
  ])();
  const id =
    form.escalationId ?? draw.pick([escalationId, escalationId, escalationId.toUpperCase(), ` ${escalationId}`]);
  await lab.attempt(Decision.ESCALATE, { ...form, escalationId: id });
}

/** An approval that is pending, rejected, expired, or somebody's else. */
async function unusableApproval(lab: Lab, draw: Draw, number: number): Promise<void> {
  const each = draw.below(lab.spentApprovals.length);
  if (draw.once(2)) {
    const escalationId = lab.spentApprovals[each] ?? "";
    return void (await lab.attempt(Decision.ESCALATE, {
      agentId: lab.agentId,
      actionType: `wire.spent.${each}`,
      escalationId,
    }));
  }
  const isRejected = draw.once(2);
  const resolution = isRejected ? Resolution.REJECTED : undefined;
  const { action, escalationId } = await lab.shared(isRejected ? "rejected" : "pending", groupOf(number), (own) =>
    approval(lab, own, resolution),
  );
  await lab.attempt(Decision.ESCALATE, { ...action, escalationId });
}

/** An approval that several present at once: one of them is allowed at most. */
async function usedTwice(lab: Lab, draw: Draw): Promise<void> {
  const { action, escalationId } = await approval(lab, draw, Resolution.APPROVED);
  const request = { ...action, escalationId };
  const uses = Array.from({ length: 2 + draw.below(3) }, () =>
    lab.attempt(Decision.ALLOW, { ...request, requestId: draw.uuid() }),
  );
  const allowedOnes = (await Promise.all(uses)).filter((decision) => decision === Decision.ALLOW);
  if (allowedOnes.length > 1) throw new HostileFinding(`${allowedOnes.length} uses of one approval: ${shown(request)}`);
  await lab.attempt(Decision.ESCALATE, request);
}

/** Cases of retries and approvals, by what is hostile about them. */
export const RETRY_CASES = {
  "repeats after the end": repeatAfterEnd,
  "reused request ids": reusedId,
  "altered approvals": alteredApproval,
  "unusable approvals": unusableApproval,
  "approvals used twice": usedTwice,
};
