import { fromJson } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { PromptSource } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentRequirement } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { OutsideContract } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import {
  ConditionsSchema,
  MandateMode,
  RuleType,
  SequenceMode,
  Weekday,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneError } from "../../src/errors.ts";
import { actionRule, type Replica, type TestWorkspace, velocityRule } from "../support/harness.ts";

/** Resources of a history so far, from which steps choose. */
interface Cast {
  readonly agents: string[];
  readonly departments: string[];
  readonly mandates: string[];
  readonly grants: { readonly grantId: string; readonly grantor: string; readonly grantee: string }[];
  readonly contracts: { readonly intentContractId: string; readonly agentId: string; readonly sessionId?: string }[];
  readonly escalations: { readonly escalationId: string; readonly request: Request }[];
}

interface Request {
  readonly agentId: string;
  readonly onBehalfOf?: string;
  readonly grantId?: string;
  readonly actionType: string;
  readonly actionContent: string;
  readonly metadata?: { readonly amount: number } | { readonly arguments: { readonly amount: number } };
  readonly tool?: string;
  readonly sessionId?: string;
  readonly intentContractId?: string;
}

/** Random steps of a workspace's life, each on a random replica. */
export interface RandomHistory {
  /** Does one step; an error of the domain, such as a name that is gone, is part of life. */
  step(): Promise<void>;
  /** Does an intercept. */
  intercept(): Promise<void>;
  /** Acts for a principal under a rule that counts for both. Chance alone may leave this out of a history. */
  actUnderCountForBoth(): Promise<void>;
}

const ACTION_TYPES = ["pay", "pay.send", "Pay.Refund", "read", "write", "delete.file"];
const TOOLS = ["till", "pump"];
const atMost = (value: number) => fromJson(ConditionsSchema, { rules: [{ field: "amount", operator: "<=", value }] });
const REQUIREMENTS = [AgentRequirement.SESSION, AgentRequirement.PROMPT, AgentRequirement.CONTRACT];
const DECISIONS = [Decision.ALLOW, Decision.BLOCK, Decision.ESCALATE];

/** Starts a history with some agents and departments. `below` draws a whole number below a bound. */
export async function startRandomHistory(
  test: TestWorkspace,
  below: (bound: number) => number,
): Promise<RandomHistory> {
  const cast: Cast = { agents: [], departments: [], mandates: [], grants: [], contracts: [], escalations: [] };
  // Few enough for an agent to have too many.
  await test.admin.updateWorkspace({ workspaceId: test.workspaceId, maxPendingEscalationsPerAgent: 4 });
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const chance = (percent: number): boolean => below(100) < percent;
  const replica = (): Replica => pick(test.replicas);
  const decision = (): Decision => pick(DECISIONS);

  const register = async (): Promise<void> => {
    const lists = chance(25) ? { permissions: { deniedActionTypes: ["delete*"], allowedActionTypes: ["pay*"] } } : {};
    const requires = chance(10) ? [pick(REQUIREMENTS)] : [];
    const registered = await replica().agents.registerAgent({ name: "random", ...lists, requires });
    cast.agents.push(registered.agent?.agentId ?? "");
  };

  const require = async (): Promise<void> => {
    const requires = chance(30) ? [pick(REQUIREMENTS)] : [];
    await replica().agents.setAgentRequirements({ agentId: pick(cast.agents), requires });
    if (chance(70)) return;
    const promptFrom = pick([PromptSource.AGENT, PromptSource.OPERATOR]);
    await test.admin.updateWorkspace({ workspaceId: test.workspaceId, promptFrom });
  };

  const found = async (): Promise<void> => {
    const { department } = await replica().departments.createDepartment({ name: `team ${below(1e9)}` });
    cast.departments.push(department?.departmentId ?? "");
  };

  const move = async (): Promise<void> => {
    const membership = { departmentId: pick(cast.departments), agentId: pick(cast.agents) };
    const { departments } = replica();
    await (chance(65) ? departments.addDepartmentMember(membership) : departments.removeDepartmentMember(membership));
  };

  const group = () => {
    const scope = pick([Scope.AGENT, Scope.DEPARTMENT, Scope.WORKSPACE]);
    const isNamed = scope === Scope.DEPARTMENT && chance(40);
    return {
      scope,
      windowSeconds: BigInt(pick([1, 1, 2, 3600])),
      ...(isNamed ? { departmentId: pick(cast.departments) } : {}),
      ...(chance(30) ? { countDecisions: [decision()] } : {}),
    };
  };

  const velocity = () => {
    const conditions = { ...group(), matchActionTypes: [pick(["pay*", "pay.send", "read", "*"])] };
    return velocityRule(below(12), conditions, decision());
  };

  const ordered = () => {
    const steps = Array.from({ length: 2 + below(3) }, () => pick(["pay*", "pay.send", "read", "write", "*"]));
    const conditions = { ...group(), mode: SequenceMode.ORDERED, steps };
    return { type: RuleType.SEQUENCE, decision: decision(), conditions };
  };

  const schedule = () => {
    const hours = { from: pick(["00:00", "08:30", "17:00"]), to: pick(["06:15", "12:00", "24:00"]) };
    const days = chance(50) ? [Weekday.MON, Weekday.WED, Weekday.SAT] : [];
    const conditions = { timeZone: pick(["UTC", "America/New_York", "Asia/Kathmandu"]), days, ...hours };
    return { type: RuleType.SCHEDULE, decision: decision(), conditions: { ...conditions, outside: chance(30) } };
  };

  const semantic = () => {
    const onUnavailable = pick([Decision.UNSPECIFIED, ...DECISIONS]);
    const conditions = { prompt: "moves money", matchActionTypes: [pick(["pay.send", "write"])], onUnavailable };
    return { type: RuleType.SEMANTIC, decision: Decision.BLOCK, conditions };
  };

  const rule = () => {
    if (chance(45)) return velocity();
    if (chance(50)) return ordered();
    if (chance(25)) return pick([schedule, semantic])();
    if (chance(50)) return actionRule(decision(), pick(["delete*", "write", "pay.refund"]));
    if (chance(30)) return { ...actionRule(Decision.ESCALATE, pick(["write", "read"])), escalationTtlSeconds: 1 };
    return { type: RuleType.TRUST, decision: decision(), conditions: { below: 30 + below(40) } };
  };

  const scoped = () => {
    if (chance(20)) return { scope: Scope.AGENT, agentId: pick(cast.agents) };
    return chance(20) ? { scope: Scope.DEPARTMENT, departmentId: pick(cast.departments) } : {};
  };

  const publish = async (): Promise<void> => {
    const rules = Array.from({ length: 1 + below(2) }, rule);
    const mode = chance(15) ? MandateMode.OBSERVE : MandateMode.ENFORCE;
    const draft = { name: `rule ${below(1e9)}`, rules, mode, priority: below(3), ...scoped() };
    const { mandates } = replica();
    if (cast.mandates.length > 0 && chance(30)) {
      await mandates.updateMandate({ mandateId: pick(cast.mandates), ...draft });
      return;
    }
    cast.mandates.push((await mandates.createMandate(draft)).mandate?.mandateId ?? "");
    if (cast.mandates.length > 6) await archive();
  };

  /** Applies a pack to some of a few names, so that mandates come, change and go. */
  const apply = async (): Promise<void> => {
    const names = ["packed 1", "packed 2", "packed 3", "packed 4"].filter(() => chance(60));
    const mandates = names.map((name) => ({ name, rules: [rule()], priority: below(3), ...scoped() }));
    await replica().mandates.applyPack({ name: "random", mandates, dryRun: chance(10) });
  };

  const archive = async (): Promise<void> => {
    const [mandateId] = cast.mandates.splice(below(cast.mandates.length), 1);
    if (mandateId !== undefined) await replica().mandates.archiveMandate({ mandateId });
  };

  const deactivate = async (): Promise<void> => {
    if (cast.agents.length < 8 || chance(60)) return;
    await replica().agents.deactivateAgent({ agentId: pick(cast.agents) });
  };

  const resolve = async (): Promise<void> => {
    if (cast.escalations.length === 0) return;
    const { escalationId } = pick(cast.escalations);
    await test.resolve(escalationId, chance(75) ? Resolution.APPROVED : Resolution.REJECTED, replica());
  };

  const withdraw = async (): Promise<void> => {
    if (cast.escalations.length === 0) return;
    await replica().escalations.withdrawEscalation({ escalationId: pick(cast.escalations).escalationId });
  };

  /** Approves with other arguments, which may join what another action asked for, or need no approval. */
  const edit = async (): Promise<void> => {
    if (cast.escalations.length === 0) return;
    const { escalationId, request: asked } = pick(cast.escalations);
    const amount = below(4);
    const { replacement } = await replica().escalations.editEscalation({ escalationId, arguments: { amount } });
    if (replacement === undefined) return;
    const { metadata = { arguments: {} } } = asked;
    const args = "arguments" in metadata ? { arguments: { amount } } : { amount };
    cast.escalations.push({ escalationId: replacement.escalationId, request: { ...asked, metadata: args } });
  };

  const extend = async (): Promise<void> => {
    if (cast.escalations.length === 0) return;
    const seconds = pick([1, 60, 604_800]);
    await replica().escalations.extendEscalation({ escalationId: pick(cast.escalations).escalationId, seconds });
  };

  /** Rejects what has expired. */
  const look = async (): Promise<void> => void (await replica().escalations.listEscalations({ pageSize: 1 }));

  const lend = async (): Promise<void> => {
    const parent = cast.grants.length > 0 && chance(40) ? pick(cast.grants) : undefined;
    const [grantor, grantee] = [parent?.grantee ?? pick(cast.agents), pick(cast.agents)];
    const lent = { grantorAgentId: grantor, granteeAgentId: grantee, actionTypes: [pick(["pay*", "*", "read"])] };
    const from = parent === undefined ? {} : { parentGrantId: parent.grantId };
    const { grant } = await replica().authority.createGrant({
      ...lent,
      ...from,
      ...(chance(20) ? { maxUses: 3n } : {}),
    });
    cast.grants.push({ grantId: grant?.grantId ?? "", grantor, grantee });
    if (cast.grants.length > 8) cast.grants.shift();
  };

  /** Acts for another agent, mostly under a grant. */
  const delegate = async (): Promise<void> => {
    if (cast.grants.length === 0) return;
    const { grantId, grantor, grantee } = pick(cast.grants);
    const under = chance(30) ? { grantId } : { onBehalfOf: chance(85) ? grantor : pick(cast.agents) };
    await test.intercept({ ...request(), agentId: chance(90) ? grantee : pick(cast.agents), ...under }, replica());
  };

  /** Makes a contract with a plan or a list of action types, of a session or to be named. */
  const plan = async (): Promise<void> => {
    const agentId = pick(cast.agents);
    const { authority } = replica();
    const own = { keyId: "key_of_agent", workspaceId: test.workspaceId, role: Role.AGENT, agentId };
    const key = chance(30) ? own : undefined;
    const { session } = key !== undefined || chance(50) ? await authority.createSession({ agentId }, key) : {};
    const step = () => ({
      tool: pick(TOOLS),
      ...(chance(50) ? { maxCalls: BigInt(1 + below(4)) } : {}),
      ...(chance(40) ? { conditions: atMost(below(4)) } : {}),
    });
    const steps = chance(80) ? Array.from({ length: 1 + below(3) }, step) : [];
    const outside = [OutsideContract.BLOCK, OutsideContract.ESCALATE];
    const draft = {
      agentId,
      goal: "random",
      steps,
      allowedActionTypes: steps.length === 0 || chance(30) ? [pick(["pay*", "read", "*"])] : [],
      outside: pick(key === undefined ? [...outside, OutsideContract.RULES] : outside),
      ...(session === undefined ? {} : { sessionId: session.sessionId }),
      ...(chance(20) ? { maxActions: 3n } : {}),
    };
    const { intentContract } = await authority.createIntentContract(draft, key);
    const { intentContractId = "", sessionId } = intentContract ?? {};
    cast.contracts.push({ intentContractId, agentId, ...(sessionId === undefined ? {} : { sessionId }) });
    if (cast.contracts.length <= 8) return;
    const gone = cast.contracts.splice(below(cast.contracts.length), 1)[0];
    if (chance(50)) await authority.endIntentContract({ intentContractId: gone?.intentContractId ?? "" });
  };

  /** Acts under a contract, mostly with a tool. */
  const follow = async (): Promise<void> => {
    if (cast.contracts.length === 0) return;
    const { intentContractId, agentId, sessionId } = pick(cast.contracts);
    const under = sessionId === undefined || chance(15) ? { intentContractId } : { sessionId };
    const own = chance(95) ? { agentId } : {};
    const called = chance(85) ? { tool: pick(TOOLS), metadata: { arguments: { amount: below(4) } } } : {};
    await ask({ ...request(), ...own, ...under, ...called });
  };

  /** Tells a session what its agent was asked. */
  const prompt = async (): Promise<void> => {
    const sessions = cast.contracts.flatMap(({ sessionId }) => sessionId ?? []);
    if (sessions.length === 0) return;
    const source = ObservationSource.PROMPT;
    await replica().enforcement.observe({ sessionId: pick(sessions), source, content: pick(["pay", "read"]) });
  };

  const actUnderCountForBoth = async (): Promise<void> => {
    const { agents, authority, mandates } = replica();
    const register = async () => (await agents.registerAgent({ name: "counted for both" })).agent?.agentId ?? "";
    const [principal, agentId] = [await register(), await register()];
    const rule = velocityRule(1_000, { scope: Scope.AGENT, windowSeconds: 3600n, matchActionTypes: ["pay.send"] });
    await mandates.createMandate({ name: `for both ${below(1e9)}`, rules: [rule] });
    await authority.createGrant({ grantorAgentId: principal, granteeAgentId: agentId, actionTypes: ["pay.send"] });
    await test.intercept({ agentId, onBehalfOf: principal, actionType: "pay.send", actionContent: "" }, replica());
  };

  const request = (): Request => ({
    agentId: pick(cast.agents),
    actionType: pick(ACTION_TYPES),
    actionContent: pick(["", "twelve euro"]),
    ...(chance(30) ? { metadata: { amount: below(3) } } : {}),
  });

  const intercept = async (): Promise<void> => {
    if (chance(20) && cast.escalations.length > 0) {
      const { escalationId, request: approved } = pick(cast.escalations);
      await test.intercept({ ...(chance(80) ? approved : request()), escalationId }, replica());
      return;
    }
    await ask(request());
  };

  const ask = async (asked: Request): Promise<void> => {
    const { escalationId } = await test.intercept(asked, replica());
    if (escalationId === undefined) return;
    cast.escalations.push({ escalationId, request: asked });
    if (cast.escalations.length > 6) cast.escalations.shift();
  };

  const STEPS: readonly [number, () => Promise<void>][] = [
    [60, intercept],
    [14, delegate],
    [4, lend],
    [3, plan],
    [16, follow],
    [6, move],
    [4, publish],
    [2, apply],
    [1, archive],
    [2, register],
    [2, require],
    [3, prompt],
    [1, deactivate],
    [1, found],
    [9, resolve],
    [3, withdraw],
    [4, edit],
    [3, extend],
    [2, look],
  ];
  const total = STEPS.reduce((sum, [weight]) => sum + weight, 0);

  const draw = (): (() => Promise<void>) => {
    let rest = below(total);
    for (const [weight, does] of STEPS) {
      if (rest < weight) return does;
      rest -= weight;
    }
    return intercept;
  };

  const amount = { type: "integer" };
  for (const name of TOOLS)
    await test.tools.registerTool({ name, inputSchema: { type: "object", properties: { amount } } });
  for (let count = 0; count < 6; count++) await register();
  for (let count = 0; count < 3; count++) await found();
  for (let count = 0; count < 12; count++) await move();
  await publish();
  return {
    intercept,
    actUnderCountForBoth,
    async step() {
      try {
        await draw()();
      } catch (error) {
        if (!(error instanceof ControlPlaneError)) throw error;
      }
    },
  };
}
