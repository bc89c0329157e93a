import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type Draws, drawsFrom } from "../log/linearisable-rules.ts";
import { post } from "../log/rest.ts";
import { readLog, type StoredLog } from "../log/stored-log.ts";
import { seededBelow } from "../support/seeded-below.ts";
import type { TestServer } from "../support/server.ts";
import { createFireWorkspace } from "./agents.ts";
import type { PaymentFleet } from "./payments.ts";

/** Size of a round. */
export interface ApprovalsSize {
  /** Processes of the fleet that serve the round. */
  readonly processes: number;
  /** Callers at once, and what each of them does. */
  readonly callers: number;
  readonly steps: number;
  readonly kills: number;
}

const PEOPLE = ["Ann", "Bob", "Cleo", "Dan", "Eve", "Fay", "Gil", "Hal"];
/** Members that each group always keeps, so that the rules compile. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  first: ["Ann", "Bob", "Cleo"],
  second: ["Cleo", "Dan"],
  third: ["Eve", "Fay"],
};
const DEPUTIES = ["Gil", "Hal"];
const TYPES = ["pay.two", "pay.both", "pay.any", "pay.reminded", "pay.plain"];
/** Mandates: action type and approvers of their rule. */
const MANDATES: readonly (readonly [string, object | undefined])[] = [
  ["pay.two", { groups: ["first"], at_least: 2 }],
  ["pay.both", { groups: ["first", "third"], at_least: 2 }],
  ["pay.both", { groups: ["second"] }],
  ["pay.both", undefined],
  ["pay.any", { groups: [], at_least: 3 }],
  ["pay.reminded", { groups: ["third"], at_least: 2, remind_after_seconds: 1 }],
  ["pay.plain", undefined],
];
/** Contents of an action type, few enough that actions are asked for by several. */
const CONTENTS = 12;
/** Escalations that callers answer. */
const RECENT = 12;
/** Milliseconds after which a call to a process that is gone is given up. */
const CALL_MS = 10_000;

/** A call to the service; undefined where it is refused or has no answer, which a process that is killed owes nobody. */
async function send(
  http: string,
  key: string,
  method: string,
  path: string,
  body: object,
): Promise<object | undefined> {
  try {
    const response = await fetch(http + path, {
      method,
      headers: { "content-type": "application/json", "x-api-key": key },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MS),
    });
    const answer = (await response.json()) as object;
    return response.ok ? answer : undefined;
  } catch {
    return undefined;
  }
}

/** An escalation that callers answer, with its action. */
interface Known {
  readonly id: string;
  readonly action: { readonly action_type: string };
}

interface ApprovalWorkspace {
  readonly agentId: string;
  readonly adminKey: string;
  /** Keys of people, two for each, and some without an owner. */
  readonly keys: readonly string[];
}

async function createApprovalWorkspace(server: TestServer, workspaceId: string): Promise<ApprovalWorkspace> {
  const settings = { max_pending_escalations_per_agent: 1_000, initial_trust: 100 };
  const { apiKey: adminKey, agentId } = await createFireWorkspace(server, workspaceId, settings);
  const admin = { http: server.http, adminKey };
  const keys: string[] = [];
  for (const owner of [...PEOPLE, ...PEOPLE, undefined, undefined]) {
    const draft = { name: "approver", role: "operator", ...(owner === undefined ? {} : { owner }) };
    keys.push((await post<{ secret: string }>(admin, "/v1/admin/keys", draft)).secret);
  }
  for (const [name, members] of Object.entries(GROUPS))
    await post(admin, `/v1/enforce/approver-groups/${name}`, { members, deputies: DEPUTIES }, "PUT");
  for (const [index, [type, approvers]] of MANDATES.entries()) {
    const rule = { type: "action", decision: "escalate", conditions: { match_action_types: [type] } };
    const rules = [approvers === undefined ? rule : { ...rule, approvers }];
    await post(admin, "/v1/enforce/mandates", { name: `mandate ${index}`, rules });
  }
  return { agentId, adminKey, keys };
}

const payment = (type: string, content: number) => ({
  action_type: type,
  action_content: "pay",
  metadata: { arguments: { content } },
});

/** One caller that asks, approves, takes back, rejects, edits, presents and changes groups, as its draws say. */
async function call(
  fleet: PaymentFleet,
  { agentId, adminKey, keys }: ApprovalWorkspace,
  known: Known[],
  { processes, steps }: ApprovalsSize,
  { below, pick, chance }: Draws,
): Promise<void> {
  // The newest, of which most are still pending and have some approvals.
  const recent = (): Known => pick(known.slice(-RECENT));
  const escalation = (rest: string): string => `/v1/enforce/escalations/${recent().id}/${rest}`;
  for (let step = 0; step < steps; step++) {
    const { http } = fleet.servers[below(processes)] as TestServer;
    const key = pick(keys);
    const draw = known.length === 0 ? 0 : below(100);
    if (draw < 25) {
      const presented = chance(50) && known.length > 0 ? recent() : undefined;
      const action = presented?.action ?? payment(pick(TYPES), below(CONTENTS));
      const escalationId = presented === undefined ? {} : { escalation_id: presented.id };
      const request = { agent_id: agentId, ...action, ...escalationId };
      const answer = await send(http, key, "POST", "/v1/enforce/intercept", request);
      const id = (answer as { escalation_id?: string | null } | undefined)?.escalation_id ?? undefined;
      if (id !== undefined) known.push({ id, action });
    } else if (draw < 70) await send(http, key, "POST", escalation("resolve"), { resolution: "approved" });
    else if (draw < 86) await send(http, key, "POST", escalation("withdraw-approval"), {});
    else if (draw < 88) await send(http, key, "POST", escalation("resolve"), { resolution: "rejected" });
    else if (draw < 92) {
      const { id, action } = recent();
      const content = below(CONTENTS);
      type Edited = { readonly replacement?: { readonly escalation_id: string } | null };
      const path = `/v1/enforce/escalations/${id}/edit`;
      const answer = (await send(http, key, "POST", path, { arguments: { content } })) as Edited | undefined;
      const edited = answer?.replacement?.escalation_id;
      if (edited !== undefined) known.push({ id: edited, action: payment(action.action_type, content) });
    } else if (draw < 95) await send(http, key, "POST", escalation("withdraw"), {});
    else {
      const [name, kept] = pick(Object.entries(GROUPS));
      const members = [...kept, ...PEOPLE.filter(() => chance(30))];
      await send(http, adminKey, "PUT", `/v1/enforce/approver-groups/${name}`, { members, deputies: DEPUTIES });
    }
  }
}

/** Asks once more, takes an approval back, gives it again with another and uses them, which a short storm may leave out. */
async function approveTogether({ servers }: PaymentFleet, { agentId, keys }: ApprovalWorkspace): Promise<void> {
  const [first] = servers as [TestServer];
  const [ann, bob] = keys as [string, string];
  const asker = keys[PEOPLE.indexOf("Hal")] as string;
  const action = { agent_id: agentId, ...payment("pay.two", CONTENTS) };
  const as = <T>(key: string, path: string, body: object): Promise<T> =>
    post<T>({ http: first.http, adminKey: key }, path, body);
  const asked = await as<{ readonly escalation_id: string }>(asker, "/v1/enforce/intercept", action);
  const path = `/v1/enforce/escalations/${asked.escalation_id}`;
  await as(ann, `${path}/resolve`, { resolution: "approved" });
  await as(ann, `${path}/withdraw-approval`, {});
  for (const key of [ann, bob]) await as(key, `${path}/resolve`, { resolution: "approved" });
  await as(asker, "/v1/enforce/intercept", { ...action, escalation_id: asked.escalation_id });
}

/** Has callers ask for actions and approve them while groups change and processes are killed. Returns the workspace's log. */
export async function playApprovals(fleet: PaymentFleet, seed: number, size: ApprovalsSize): Promise<StoredLog> {
  const draws = drawsFrom(seededBelow(seed));
  const [first] = fleet.servers as [TestServer];
  const workspaceId = `approvals-${seed}-${randomBytes(4).toString("hex")}`;
  const workspace = await createApprovalWorkspace(first, workspaceId);
  const known: Known[] = [];
  let isDone = false;
  const callers = Promise.all(
    Array.from({ length: size.callers }, (_, index) =>
      call(fleet, workspace, known, size, drawsFrom(seededBelow(seed * 1_000 + index))),
    ),
  ).finally(() => {
    isDone = true;
  });
  for (let kills = 0; kills < size.kills && !isDone; kills++) {
    await delay(200 + draws.below(800));
    await fleet.killAndRestart(draws.below(size.processes));
  }
  await callers;
  await approveTogether(fleet, workspace);
  return readLog(fleet.databaseUrl, workspaceId);
}
