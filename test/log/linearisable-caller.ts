import type { DescMethodUnary, JsonObject } from "@bufbuild/protobuf";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { DepartmentService } from "../../gen/agentcontrol/v1/department_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import { ToolService } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { type Call, type CallKind, type CallRoute, recordCall } from "./linearisable-calls.ts";
import type { Fleet } from "./linearisable-fleet.ts";
import {
  ACTION_TYPES,
  type Draws,
  PAYING_SCHEMA,
  PAYING_TOOLS,
  randomMandate,
  randomRegistration,
  SMALL_BUDGET,
} from "./linearisable-rules.ts";

/** A grant that somebody made. */
interface Lent {
  readonly grantId: string;
  readonly grantor: string;
  readonly grantee: string;
}

/** An escalation with the action that it is for. */
interface Escalated {
  readonly escalationId: string;
  readonly request: JsonObject;
}

/** An allowed payment. */
interface Allowed {
  readonly decisionId: string;
  /** True if its request came with a claim. */
  readonly isClaimed: boolean;
}

/** Resources that callers created so far and choose from; only those of answered calls. */
export interface Cast {
  /** Those that may act and be told things about; some are deactivated or revoked. */
  readonly agents: string[];
  readonly departments: string[];
  readonly mandates: string[];
  readonly grants: Lent[];
  readonly escalations: Escalated[];
  /** Those that somebody approved, used up or not. */
  readonly approved: Escalated[];
  /** The last intercepts, answered or not. */
  readonly asked: JsonObject[];
  /** Decisions of the last allowed payments. */
  readonly allowed: Allowed[];
}

const METHODS: Readonly<Record<CallKind, DescMethodUnary>> = {
  intercept: EnforcementService.method.intercept,
  register: AgentService.method.registerAgent,
  found: DepartmentService.method.createDepartment,
  join: DepartmentService.method.addDepartmentMember,
  leave: DepartmentService.method.removeDepartmentMember,
  publish: MandateService.method.createMandate,
  archive: MandateService.method.archiveMandate,
  deactivate: AgentService.method.deactivateAgent,
  revoke: RevocationService.method.revokeAgent,
  resolve: EscalationService.method.resolveEscalation,
  edit: EscalationService.method.editEscalation,
  extend: EscalationService.method.extendEscalation,
  lend: AuthorityService.method.createGrant,
  end_grant: AuthorityService.method.endGrant,
  configure: AdminService.method.updateWorkspace,
  introduce: ToolService.method.registerTool,
  claim: EnforcementService.method.claimDecision,
  report: EnforcementService.method.reportOutcome,
  get_agent: AgentService.method.getAgent,
  list_decisions: EnforcementService.method.listDecisions,
  get_status: EscalationService.method.getEscalationStatus,
  get_outcome: EnforcementService.method.getDecision,
};

const MOST_MANDATES = 7;
const REMEMBERED_REQUESTS = 40;
const REMEMBERED_GRANTS = 12;
/** Few, so that one is looked at while its action would still escalate. */
const REMEMBERED_ESCALATIONS = 6;
/** Few, so that several callers claim and report the same one. */
const REMEMBERED_PAYMENTS = 8;
const MOST_AGENTS = 20;
/** Seconds; so few that outcomes become unknown during the history. */
const OUTCOME_TIMEOUT_SECONDS = 3;

/** The member of an answer's resource; undefined when there is none. */
function idIn({ outcome }: Call, resource: string, name: string): string | undefined {
  if (outcome.kind !== "answered") return undefined;
  return (outcome.body[resource] as JsonObject | null)?.[name] as string | undefined;
}

function remember<T>(list: T[], item: T, most: number): void {
  list.push(item);
  if (list.length > most) list.shift();
}

/** One caller: what it may do. What it draws is its own, what it draws from is shared. */
export class Caller {
  readonly #cast: Cast;
  readonly #fleet: Fleet;
  readonly #calls: Call[];
  /** Random choices of this caller. */
  readonly draws: Draws;
  readonly #name: string;
  #count = 0;

  constructor(cast: Cast, fleet: Fleet, calls: Call[], draws: Draws, name: string) {
    this.#cast = cast;
    this.#fleet = fleet;
    this.#calls = calls;
    this.draws = draws;
    this.#name = name;
  }

  async intercept(): Promise<void> {
    await this.#intercept(this.#action());
  }

  /** Sends a request twice at once, or one that was sent before again. */
  async repeat(): Promise<void> {
    const { chance, pick } = this.draws;
    const { asked } = this.#cast;
    if (asked.length > 0 && chance(50)) return void (await this.#intercept(pick(asked)));
    const action = this.#action();
    await Promise.all([this.#intercept(action), this.#intercept(action)]);
  }

  /** Presents an escalation, mostly with the action that it is for. */
  async present(): Promise<void> {
    const { chance, pick } = this.draws;
    const { approved, escalations } = this.#cast;
    const presented = approved.length > 0 && chance(75) ? approved : escalations;
    if (presented.length === 0) return this.intercept();
    const { escalationId, request } = pick(presented);
    const action = chance(85) ? { ...request, request_id: this.#uuid() } : this.#action();
    await this.#intercept({ ...action, escalation_id: escalationId });
  }

  /** Acts for another agent, mostly under a grant. */
  async delegate(): Promise<void> {
    const { chance, pick } = this.draws;
    if (this.#cast.grants.length === 0) return this.lend();
    const { grantId, grantor, grantee } = pick(this.#cast.grants);
    const agent_id = chance(90) ? grantee : pick(this.#cast.agents);
    const under = chance(30) ? { grant_id: grantId } : { on_behalf_of: chance(80) ? grantor : pick(this.#cast.agents) };
    await this.#intercept({ ...this.#action(), agent_id, ...under });
  }

  /** Registers the tools that pay, with a budget that stays in force, and gives outcomes little time. */
  async introduce(): Promise<void> {
    for (const name of PAYING_TOOLS) await this.#call("introduce", { name, input_schema: PAYING_SCHEMA });
    const mark = this.#unique("rule");
    await this.#call("publish", { name: mark, rules: [SMALL_BUDGET] }, mark);
    await this.#call("configure", { workspace_id: "default", outcome_timeout_seconds: OUTCOME_TIMEOUT_SECONDS });
  }

  /** Pays, mostly with a claim, for itself or another. */
  async pay(): Promise<void> {
    const { below, chance, pick } = this.draws;
    const { grants } = this.#cast;
    const args = { amount: below(2_000) / 100, currency: "EUR" };
    const paid = { tool: pick(PAYING_TOOLS), metadata: { arguments: args } };
    const claim = chance(40) ? { claim_id: this.#uuid() } : {};
    const { grantor, grantee } = grants.length > 0 && chance(30) ? pick(grants) : {};
    const under = grantor === undefined ? {} : { agent_id: grantee as string, on_behalf_of: grantor };
    await this.#intercept({ ...this.#action(), ...paid, ...claim, ...under });
  }

  /** Claims one of the last payments, most likely beside others. */
  async claim(): Promise<void> {
    const { chance, pick } = this.draws;
    const { allowed } = this.#cast;
    const unclaimed = allowed.filter(({ isClaimed }) => !isClaimed);
    const among = unclaimed.length > 0 && chance(80) ? unclaimed : allowed;
    if (among.length === 0) return this.pay();
    const claim_id = this.#uuid();
    await this.#call("claim", { decision_id: pick(among).decisionId, claim_id }, `claim ${claim_id}`);
  }

  /** Reports the outcome of one of the last payments, most likely beside others. */
  async report(): Promise<void> {
    const { below, chance, pick } = this.draws;
    const { allowed } = this.#cast;
    if (allowed.length === 0) return this.pay();
    const status = pick(["succeeded", "succeeded", "failed", "cancelled"]);
    const amount = status === "succeeded" && chance(40) ? { amount: below(2_500) / 100 } : {};
    const result_digest = `${this.#uuid()}${this.#uuid()}`.replaceAll("-", "");
    const report = { decision_id: pick(allowed).decisionId, status, ...amount, result_digest };
    await this.#call("report", report, `outcome ${result_digest}`);
  }

  async lend(): Promise<void> {
    const { below, chance, pick } = this.draws;
    const { agents, grants } = this.#cast;
    const parent = grants.length > 0 && chance(40) ? pick(grants) : undefined;
    const grantor = parent?.grantee ?? pick(agents);
    const grantee = pick(agents);
    if (grantee === grantor) return;
    const mark = this.#unique("lent");
    const lent = {
      grantor_agent_id: grantor,
      grantee_agent_id: grantee,
      action_types: [pick(["pay*", "*", "read"]), mark],
    };
    const uses = chance(30) ? { max_uses: 1 + below(10) } : {};
    const from = parent === undefined ? {} : { parent_grant_id: parent.grantId };
    const call = await this.#call("lend", { ...lent, ...uses, ...from }, mark);
    const grantId = idIn(call, "grant", "grant_id");
    if (grantId !== undefined) remember(grants, { grantId, grantor, grantee }, REMEMBERED_GRANTS);
  }

  async endGrant(): Promise<void> {
    if (this.#cast.grants.length === 0) return;
    await this.#call("end_grant", { grant_id: this.draws.pick(this.#cast.grants).grantId });
  }

  async register(): Promise<void> {
    const mark = this.#unique("agent");
    const call = await this.#call("register", randomRegistration(this.draws, mark), mark);
    const agentId = idIn(call, "agent", "agent_id");
    if (agentId === undefined) return;
    const { agents } = this.#cast;
    agents.push(agentId);
    if (agents.length > MOST_AGENTS) agents.shift();
  }

  async found(): Promise<void> {
    const mark = this.#unique("team");
    const call = await this.#call("found", { name: mark }, mark);
    const departmentId = idIn(call, "department", "department_id");
    if (departmentId !== undefined) this.#cast.departments.push(departmentId);
  }

  move(): Promise<void> {
    return this.#move(this.draws.pick(this.#cast.agents));
  }

  async publish(): Promise<void> {
    const { agents, departments, mandates } = this.#cast;
    if (mandates.length >= MOST_MANDATES) await this.archive();
    const mark = this.#unique("rule");
    const call = await this.#call("publish", { name: mark, ...randomMandate(this.draws, agents, departments) }, mark);
    const mandateId = idIn(call, "mandate", "mandate_id");
    if (mandateId !== undefined) mandates.push(mandateId);
  }

  async archive(): Promise<void> {
    const { mandates } = this.#cast;
    const [mandateId] = mandates.splice(this.draws.below(Math.max(1, mandates.length)), 1);
    if (mandateId !== undefined) await this.#call("archive", { mandate_id: mandateId });
  }

  /** Ends an agent, which stays for a while among those that act, and registers another. */
  async end(): Promise<void> {
    const { chance, pick } = this.draws;
    const { agents } = this.#cast;
    const agentId = pick(agents);
    const mark = this.#unique("gone");
    if (chance(40)) await this.#call("deactivate", { agent_id: agentId });
    else await this.#call("revoke", { agent_id: agentId, reason: mark }, mark);
    await this.register();
  }

  async resolve(): Promise<void> {
    const { chance, pick } = this.draws;
    const { approved, escalations } = this.#cast;
    if (escalations.length === 0) return;
    const escalated = pick(escalations);
    const { escalationId } = escalated;
    const mark = this.#unique("seen");
    const resolution = chance(80) ? "approved" : "rejected";
    const { outcome } = await this.#call("resolve", { escalation_id: escalationId, resolution, note: mark }, mark);
    if (outcome.kind === "answered" && resolution === "approved") remember(approved, escalated, REMEMBERED_ESCALATIONS);
  }

  /** Approves an action with other arguments, which another action may have asked for. */
  async edit(): Promise<void> {
    const { below, pick } = this.draws;
    const { approved, escalations } = this.#cast;
    if (escalations.length === 0) return;
    const { escalationId, request } = pick(escalations);
    const mark = this.#unique("edited");
    const edited = { amount: below(4), currency: "EUR" };
    const call = await this.#call("edit", { escalation_id: escalationId, arguments: edited, note: mark }, mark);
    const replacedBy = idIn(call, "replacement", "escalation_id");
    if (replacedBy === undefined) return;
    const isNested = request.metadata === undefined || request.tool !== undefined;
    const metadata = isNested ? { arguments: edited } : edited;
    remember(approved, { escalationId: replacedBy, request: { ...request, metadata } }, REMEMBERED_ESCALATIONS);
  }

  async extend(): Promise<void> {
    const { below, pick } = this.draws;
    const { escalations } = this.#cast;
    if (escalations.length === 0) return;
    await this.#call("extend", { escalation_id: pick(escalations).escalationId, seconds: 1 + below(100) });
  }

  async look(): Promise<void> {
    const { chance, pick } = this.draws;
    const { agents, allowed, escalations } = this.#cast;
    if (chance(30) && allowed.length > 0)
      return void (await this.#call("get_outcome", { decision_id: pick(allowed).decisionId }));
    if (chance(30)) return void (await this.#call("get_agent", { agent_id: pick(agents) }));
    if (chance(30) && escalations.length > 0)
      return void (await this.#call("get_status", { escalation_id: pick(escalations).escalationId }));
    const whose = chance(50) ? { agent_id: pick(agents) } : {};
    await this.#call("list_decisions", { page_size: 5, ...whose });
  }

  /** Looks, most likely through another process, at what this caller just did. */
  async lookAfterwards(): Promise<void> {
    const { agent_id = null } = this.#action();
    const does = this.draws.chance(50)
      ? this.#intercept({ ...this.#action(), agent_id })
      : this.#move(String(agent_id));
    await does;
    await this.#call("get_agent", { agent_id });
  }

  async #intercept(request: JsonObject): Promise<void> {
    const { chance } = this.draws;
    const { asked, escalations } = this.#cast;
    const { outcome } = await this.#call("intercept", request, request.request_id as string);
    remember(asked, request, REMEMBERED_REQUESTS);
    if (outcome.kind === "unanswered" && chance(60)) return this.#intercept(request);
    if (outcome.kind !== "answered") return;
    const { escalation_id, decision, decision_id } = outcome.body;
    if (request.tool !== undefined && decision === "allow")
      remember(
        this.#cast.allowed,
        { decisionId: String(decision_id), isClaimed: request.claim_id !== undefined },
        REMEMBERED_PAYMENTS,
      );
    if (typeof escalation_id === "string")
      remember(escalations, { escalationId: escalation_id, request }, REMEMBERED_ESCALATIONS);
  }

  async #move(agentId: string): Promise<void> {
    const { chance, pick } = this.draws;
    const membership = { department_id: pick(this.#cast.departments), agent_id: agentId };
    await this.#call(chance(60) ? "join" : "leave", membership);
  }

  #action(): JsonObject {
    const { below, chance, pick } = this.draws;
    const said = { action_type: pick(ACTION_TYPES), action_content: pick(["", "twelve euro"]) };
    const metadata = chance(30) ? { metadata: { amount: below(3) } } : {};
    return { agent_id: pick(this.#cast.agents), ...said, ...metadata, request_id: this.#uuid() };
  }

  #unique(what: string): string {
    this.#count += 1;
    return `${what}.${this.#name}.${this.#count}`;
  }

  #uuid(): string {
    const hex = (digits: number) => Array.from({ length: digits }, () => this.draws.below(16).toString(16)).join("");
    return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
  }

  #call(kind: CallKind, request: JsonObject, mark?: string): Promise<Call> {
    const target = { kind, method: METHODS[kind], request, ...(mark === undefined ? {} : { mark }) };
    return recordCall(this.#calls, target, this.#route());
  }

  #route(): CallRoute {
    const { below, pick } = this.draws;
    const { members } = this.#fleet;
    const process = pick([...members.keys()].filter((index) => members[index]?.isUp));
    return { member: members[process] as Fleet["members"][number], process, wire: below(5) };
  }
}
