/* Repeated requests and presented approvals: what was allowed once, asked again when it may not be, or in another form. */

import type { JsonObject } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { InterceptInit } from "../support/harness.ts";
import { disguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, type Lab, SECRET, shown } from "./lab.ts";
import { type Right, refused, SAME } from "./rights.ts";

/** Requests that were allowed, of an agent that may do nothing any more. */
interface Ended {
  readonly how: string;
  readonly key?: string;
  readonly requests: readonly InterceptInit[];
}

/** First requests of one agent, before its authority ends. */
const FIRST_REQUESTS = 6;
/** Consecutive cases of every kind of which those of one kind share an ended agent or an approval. */
const SHARED_BY = 120;
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
    ...request,
    agentId,
    actionType: `errand.${each}`,
    requestId: draw.uuid(),
    actionContent: SECRET,
    ...(each % 2 === 0 && { tool: "harmless6", metadata: { arguments: { note: each } } }),
  }));
  await Promise.all(requests.map((each) => allowed(lab, each, key)));
  await end();
  return { how, requests, ...(key !== undefined && { key }) };
}

const REUSED: readonly Right[] = ["REQUEST_ID_REUSED -"];

/** A repeat, as it was or with something else in it. */
function repeatForm(draw: Draw, request: InterceptInit): InterceptInit {
  const { requestId = "", tool } = request;
  return draw.disguise<InterceptInit>("repeat", [
    ["as it was", SAME, () => request],
    ["its id in upper case", SAME, () => ({ ...request, requestId: requestId.toUpperCase() })],
    ["with a new id", SAME, () => ({ ...request, requestId: draw.uuid() })],
    ["of another type", REUSED, () => ({ ...request, actionType: `errand.${draw.word()}` })],
    ["with another content", REUSED, () => ({ ...request, actionContent: `${SECRET}.` })],
    ["its tool in upper case", SAME, () => ({ ...request, ...(tool !== undefined && { tool: tool.toUpperCase() }) })],
    ["with other metadata", REUSED, () => ({ ...request, metadata: { note: SECRET } })],
    ["with an escalation", REUSED, () => ({ ...request, escalationId: `esc_${draw.word()}` })],
  ]);
}

async function repeatAfterEnd(lab: Lab, draw: Draw, number: number): Promise<void> {
  const ended = await lab.shared("ended", groupOf(number), (own) => endedAgent(lab, own));
  draw.use(`repeat after the end of: ${ended.how}`, SAME);
  const form = repeatForm(draw, draw.pick(ended.requests));
  // A principal or session that the request no longer names restricts nothing: every form keeps them.
  await lab.attempt(draw, Decision.BLOCK, form, ended.key);
}

/** Repeats of what is still allowed get the first decision. */
async function repeatControl(lab: Lab, draw: Draw): Promise<void> {
  const request = { agentId: lab.agentId, actionType: `errand.${draw.word()}`, requestId: draw.uuid() };
  const first = await lab.assertDecision("a first request", Decision.ALLOW, request);
  const again = await lab.assertDecision("a repeat of it", Decision.ALLOW, request);
  if (!again.replayed || again.decisionId !== first.decisionId)
    throw new HostileFinding(`a repeat is decided anew: ${shown(request)}`);
  await lab.assertBoth(draw.pick(lab.plains));
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
  const id = draw.pick([first.requestId, first.requestId.toUpperCase()]);
  const more = (metadata: JsonObject): InterceptInit => ({ ...first, requestId: id, metadata });
  const plain = draw.pick(lab.plains.filter((each) => each.key === undefined));
  const form = draw.disguise<InterceptInit>("reused id", [
    ["of a refused request", REUSED, () => ({ ...plain.request, requestId: id })],
    [
      "with another amount",
      REUSED,
      () => ({ ...more({ arguments: { amount: 900 } }), tool: draw.pick(["pay6", "PAY6", " Pay6 "]) }),
    ],
    ["with another amount as text", REUSED, () => more({ arguments: '{"amount":900}' })],
    ["with the tool twice", REUSED, () => more({ tool: "pay6", arguments: { amount: 1 } })],
    ["with the amount in quotes", REUSED, () => more({ arguments: { amount: "1" } })],
    ["of another type", REUSED, () => ({ ...first, requestId: id, actionType: "t6pay.x" })],
    [
      "without its hyphens",
      refused("request_id"),
      () => ({ ...plain.request, requestId: first.requestId.replaceAll("-", "") }),
    ],
  ]);
  await lab.attempt(draw, plain.verdict, form);
}

/** An approval of one action, and who may use it. */
interface Approval {
  readonly action: InterceptInit & {
    readonly agentId: string;
    readonly actionType: string;
    readonly metadata: JsonObject;
  };
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
  const changed = (more: JsonObject): InterceptInit => ({ ...action, metadata: { ...metadata, ...more } });
  const recipients = ["EVIL", "acme", "ACME ", "ACM\u0415", "ACME\u200b"];
  const form = draw.disguise<InterceptInit>("approval", [
    ["another recipient", SAME, () => changed({ recipient: draw.pick(recipients) })],
    ["another amount", SAME, () => changed({ amount: draw.pick<number | string>([6, "5", 5.000001, -5, "5.0"]) })],
    ["one member more", SAME, () => changed({ [draw.word()]: draw.pick([1, "x", true]) })],
    ["other arguments", SAME, () => changed({ arguments: { to: "EVIL", lines: [1, 2] } })],
    ["arguments in another order", SAME, () => changed({ arguments: { to: "ACME", lines: [2, 1] } })],
    ["other arguments as text", SAME, () => changed({ arguments: '{"to":"ACME","lines":[1,2,3]}' })],
    ["fewer members", SAME, () => ({ ...action, metadata: { recipient: "ACME" } })],
    ["nearly a trace", SAME, () => changed({ Traceparent: "x", trace_ids: "y" })],
    ["another content", SAME, () => ({ ...action, actionContent: draw.pick(["pay ", "Pay", "", "pay\u200b"]) })],
    ["a longer type", SAME, () => ({ ...action, actionType: `${action.actionType}.more` })],
    ["another type", SAME, () => ({ ...action, actionType: disguised(draw, `wire.${draw.word()}`) })],
    ["another tool", SAME, () => ({ ...action, tool: draw.pick(["harmless", "unheard6", "harmless6 x"]) })],
    ["another agent", SAME, () => ({ ...action, agentId: draw.pick([lab.agentId, lab.otherAgentId]) })],
    ["without its id", refused("escalation_id"), () => ({ ...action, escalationId: "" })],
  ]);
  const ids = [escalationId, escalationId, escalationId.toUpperCase(), ` ${escalationId}`];
  await lab.attempt(draw, Decision.ESCALATE, { ...form, escalationId: form.escalationId ?? draw.pick(ids) });
}

/** An approved action for a principal who lent nothing, or in a session that does not exist. */
async function foreignApproval(lab: Lab, draw: Draw, number: number): Promise<void> {
  const { action, escalationId } = await lab.shared("approved", groupOf(number), (own) =>
    approval(lab, own, Resolution.APPROVED),
  );
  const form = draw.disguise<InterceptInit>("approval", [
    ["for a principal", SAME, () => ({ ...action, onBehalfOf: lab.agentId })],
    ["in another session", SAME, () => ({ ...action, sessionId: "ses_x" })],
    ["by another grant", SAME, () => ({ ...action, grantId: "grt_x" })],
    ["under a contract", SAME, () => ({ ...action, intentContractId: "itc_x" })],
  ]);
  await lab.attempt(draw, Decision.BLOCK, { ...form, escalationId });
}

/** An approval that is pending, rejected, expired, or somebody's else. */
async function unusableApproval(lab: Lab, draw: Draw, number: number): Promise<void> {
  const each = draw.below(lab.spentApprovals.length);
  const ask = async (name: string, resolution?: Resolution): Promise<InterceptInit> => {
    const { action, escalationId } = await lab.shared(name, groupOf(number), (own) => approval(lab, own, resolution));
    return { ...action, escalationId };
  };
  const spent = { agentId: lab.agentId, actionType: `wire.spent.${each}` };
  const request = await draw.disguise<Promise<InterceptInit>>("approval", [
    ["expired", SAME, async () => ({ ...spent, escalationId: lab.spentApprovals[each] ?? "" })],
    ["rejected", SAME, () => ask("rejected", Resolution.REJECTED)],
    ["pending", SAME, () => ask("pending")],
  ]);
  await lab.attempt(draw, Decision.ESCALATE, request);
}

/** An approval that several present at once: exactly one of them is allowed. */
async function usedTwice(lab: Lab, draw: Draw): Promise<void> {
  const { action, escalationId } = await approval(lab, draw, Resolution.APPROVED);
  const request = { ...action, escalationId };
  draw.use("approval: used at once", SAME);
  const uses = Array.from({ length: 2 + draw.below(3) }, () =>
    lab.workspace.enforcement.intercept({ ...request, requestId: draw.uuid() }),
  );
  const decisions = (await Promise.all(uses)).map(({ decision }) => decision);
  const allowedOnes = decisions.filter((decision) => decision === Decision.ALLOW).length;
  const others = decisions.filter((decision) => decision === Decision.ESCALATE).length;
  if (allowedOnes !== 1 || allowedOnes + others !== decisions.length)
    throw new HostileFinding(`uses of one approval get ${decisions.map((each) => Decision[each])}: ${shown(request)}`);
  await lab.attempt(draw, Decision.ESCALATE, request);
}

/** An approved action as it was asked for is allowed, traces apart; once, and by exactly one of its forms. */
async function approvalControl(lab: Lab, draw: Draw): Promise<void> {
  const { action, escalationId } = await approval(lab, draw, Resolution.APPROVED);
  const request = { ...action, escalationId };
  const evil = { ...request, metadata: { ...action.metadata, recipient: "EVIL" } };
  await lab.assertDecision("another action under an approval", Decision.ESCALATE, evil);
  const traced = { ...request, metadata: { ...action.metadata, traceparent: draw.word() } };
  await lab.assertDecision("an approved action", Decision.ALLOW, traced);
  await lab.assertDecision("an approved action, again", Decision.ESCALATE, request);
  await lab.assertBoth(draw.pick(lab.plains));
}

/** Families of cases of retries and approvals, by what is hostile about them. */
export const RETRY_CASES = {
  "repeats after the end": { run: repeatAfterEnd, control: repeatControl },
  "reused request ids": { run: reusedId, control: repeatControl },
  "altered approvals": { run: alteredApproval, control: approvalControl },
  "approvals of others": { run: foreignApproval, control: approvalControl },
  "unusable approvals": { run: unusableApproval, control: approvalControl },
  "approvals used twice": { run: usedTwice, control: approvalControl },
};
