import type { JsonObject } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationStatus, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneError, ErrorReason, httpStatusFromReason } from "../../src/errors.ts";
import { ruleFrom } from "../policy/harness.ts";
import { type InterceptInit, openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { Draw } from "./draw.ts";
import { isRight, type Reached, reachedText } from "./rights.ts";

/** A request that the service refuses or escalates, in its plain form. */
export interface Plain {
  /** What refuses it. */
  readonly rule: string;
  /** The part of the request that the refusal depends on, and that a disguise may change. */
  readonly on: "type" | "tool" | "server" | "arguments" | "fact" | "authority";
  readonly verdict: Decision.BLOCK | Decision.ESCALATE;
  readonly request: InterceptInit & { readonly metadata?: JsonObject };
  /** The key it is sent with. Default: the administrator's. */
  readonly key?: string;
  /** A request that differs in what the refusal depends on, and is allowed. */
  readonly allowed: { readonly request: InterceptInit; readonly key: string | undefined };
}

/** A request whose answer, or the way it failed, is wrong. */
export class HostileFinding extends Error {
  override readonly name = "HostileFinding";
}

/** Stands in the contents and metadata of requests; no error may repeat it. */
export const SECRET = "hunter2-is-nobodys-business";
/** A value of metadata that a rule looks for: composed, so that it has another form. */
export const FORBIDDEN_TEXT = "évasion";

const PAY_SCHEMA = {
  type: "object",
  properties: {
    amount: { type: "number" },
    kind: { type: "string", enum: ["retail", "offshore"] },
    party: { type: "object", properties: { name: { type: "string" } } },
  },
};
const FORM_SCHEMA = {
  type: "object",
  properties: { count: { type: "integer", minimum: 1, maximum: 9 }, code: { type: "string", pattern: "^[a-z]+$" } },
  required: ["count"],
  additionalProperties: false,
};
const only = (field: string, operator: string, value: unknown, more = {}): JsonObject => ({
  operator: "AND",
  rules: [{ field, operator, value, ...more } as JsonObject],
});
const HOUSE_RULES: readonly JsonObject[] = [
  { type: "action", decision: "block", conditions: { match_action_types: ["t6pay.*"] } },
  { type: "action", decision: "escalate", conditions: { match_action_types: ["wire.*"] } },
  { tool: "pay6", decision: "block", conditions: only("amount", ">", 500, { on_missing: "ignore" }) },
  { tool: "pay6", decision: "block", conditions: only("kind", "in", ["offshore"], { on_missing: "ignore" }) },
  { tool: "pay6", decision: "block", conditions: only("party.name", "==", FORBIDDEN_TEXT, { on_missing: "ignore" }) },
  { tool: "strict6", decision: "block", conditions: only("amount", ">", 500) },
  { type: "schema", tool: "form6", decision: "block" },
  {
    type: "sequence",
    decision: "block",
    conditions: {
      mode: "velocity",
      match_action_types: ["limit6.*"],
      max_count: 1,
      window_seconds: 86_400,
      scope: "agent",
    },
  },
];
/** A day and an hour: approvals, request ids and authority of before have expired. */
const LATER_MS = 90_000_000;

/** A workspace with one of everything that refuses, and requests that each of these refuses. */
export class Lab {
  readonly pid = process.pid;
  readonly workspace: TestWorkspace;
  readonly plains: Plain[] = [];
  /** An agent that nothing but the rules of the workspace restricts. */
  readonly agentId: string;
  readonly otherAgentId: string;
  /** Approvals, each of one action of `agentId`, that cannot be used any more. */
  readonly spentApprovals: string[] = [];
  readonly #secrets: string[] = [SECRET];
  readonly #shared = new Map<string, Promise<unknown>>();

  readonly seed: number;

  private constructor(seed: number, workspace: TestWorkspace, agentId: string, otherAgentId: string) {
    this.seed = seed;
    this.workspace = workspace;
    this.agentId = agentId;
    this.otherAgentId = otherAgentId;
    this.#secrets.push(workspace.adminKey);
  }

  static async open(seed: number): Promise<Lab> {
    const workspace = await openWorkspace();
    // Every hostile form of what escalates may wait for somebody.
    await workspace.admin.updateWorkspace({
      workspaceId: workspace.workspaceId,
      maxPendingEscalationsPerAgent: 1_000,
    });
    const lab = new Lab(seed, workspace, await workspace.agent("free"), await workspace.agent("other"));
    await lab.#furnish();
    return lab;
  }

  close(): Promise<void> {
    return this.workspace.close();
  }

  /** Makes something that the cases of a group use; the first of them makes it, with choices that depend on the group alone. */
  shared<T>(name: string, group: number, make: (draw: Draw) => Promise<T>): Promise<T> {
    const id = `${name} ${group}`;
    const known =
      this.#shared.get(id) ??
      make(new Draw(this.seed, group, { attempt: -1 - Buffer.from(name).reduce((sum, each) => sum + each, 0) }));
    this.#shared.set(id, known);
    return known as Promise<T>;
  }

  keepSecret(secret: string): string {
    this.#secrets.push(secret);
    return secret;
  }

  /**
   * Sends a request and checks that it comes to what is right for the disguises that the draw has used since the last call: the
   * decision `verdict`, or a refusal. Gives the decision, undefined for a refusal. Throws a `HostileFinding`.
   */
  async attempt(draw: Draw, verdict: Decision, request: InterceptInit, key?: string): Promise<Decision | undefined> {
    const told = { ...request, ...(key !== undefined && { key: "its own" }) };
    const response = await this.refusable(
      draw,
      told,
      () => this.workspace.enforcement.intercept(request, key),
      verdict,
    );
    return response?.decision;
  }

  /**
   * Runs a call that may be refused, if a disguise that the draw has used since the last call says so; gives what it came to,
   * undefined if it was refused. Throws a `HostileFinding`.
   */
  async refusable<T extends object>(
    draw: Draw,
    what: object,
    call: () => Promise<T>,
    verdict?: Decision,
  ): Promise<T | undefined> {
    const uses = draw.takeUses();
    const told = (fault: string) =>
      new HostileFinding(`${fault} [${uses.map(({ disguise }) => disguise).join("; ")}]: ${shown(what)}`);
    let reached: Reached = "same";
    let response: T | undefined;
    try {
      response = await call();
      const { decision } = response as { decision?: Decision };
      if (verdict !== undefined && decision !== verdict)
        throw told(`${Decision[decision ?? 0]} where the plain form gets ${Decision[verdict]}`);
    } catch (error) {
      if (error instanceof HostileFinding) throw error;
      const fault = this.faultOf(error);
      if (fault !== undefined) throw told(fault);
      reached = refusalOf(error as ControlPlaneError);
    }
    draw.count(uses, reached);
    if (!isRight(uses, reached)) throw told(`${reachedText(reached)} is not right for`);
    return response;
  }

  /** Finds what is wrong with an error: it is no refusal, or it tells a secret. */
  faultOf(error: unknown): string | undefined {
    if (!(error instanceof ControlPlaneError))
      return `a crash (${error instanceof Error ? error.stack : String(error)})`;
    const status = httpStatusFromReason(error.reason);
    const cause = error.cause instanceof Error ? `, by ${error.cause.stack}` : "";
    if (status < 400 || status >= 499 || error.reason === ErrorReason.OVERLOADED) {
      return `a fault of the service (${ErrorReason[error.reason]}${cause})`;
    }
    const text = JSON.stringify([error.message, error.metadata, error.violations]);
    return this.#secrets.some((secret) => text.includes(secret)) ? `an error that tells a secret (${text})` : undefined;
  }

  /** Checks that every plain request still gets its verdict, and that each has a harmless one beside it that is allowed. */
  async assertPlain(): Promise<void> {
    await this.#rejectPending();
    for (const plain of this.plains) await this.assertBoth(plain);
  }

  /** Makes room for more: an agent may have no more than 1,000 pending escalations. */
  async #rejectPending(): Promise<void> {
    const { escalations } = this.workspace;
    const pending = { agentId: this.agentId, status: EscalationStatus.PENDING, pageSize: 500 };
    const { escalations: found } = await escalations.listEscalations(pending);
    for (const { escalationId } of found) await this.workspace.resolve(escalationId, Resolution.REJECTED);
  }

  /** Checks that a plain request gets its verdict, and that the harmless one beside it is allowed. */
  async assertBoth({ rule, verdict, request, key, allowed }: Plain): Promise<void> {
    await this.assertDecision(`the plain request of ${rule}`, verdict, request, key);
    await this.assertDecision(`a harmless request beside ${rule}`, Decision.ALLOW, allowed.request, allowed.key);
  }

  /** Checks that a request gets exactly a decision; gives its answer. */
  async assertDecision(
    what: string,
    verdict: Decision,
    request: InterceptInit,
    key?: string,
  ): Promise<InterceptResponse> {
    const response = await this.workspace.enforcement.intercept(request, key).catch((error: Error) => {
      throw new HostileFinding(`${what} fails (${error.message}): ${shown(request)}`);
    });
    if (response.decision === verdict) return response;
    throw new HostileFinding(
      `${what} gets ${Decision[response.decision]} in place of ${Decision[verdict]}: ${shown(request)}`,
    );
  }

  async #furnish(): Promise<void> {
    const { tools, mandates } = this.workspace;
    await tools.registerTool({ name: "pay6", inputSchema: PAY_SCHEMA });
    await tools.registerTool({ name: "strict6", inputSchema: PAY_SCHEMA });
    await tools.registerTool({ name: "form6", inputSchema: FORM_SCHEMA });
    await tools.registerTool({ name: "harmless6", inputSchema: { type: "object" } });
    await mandates.createMandate({ name: "house rules", rules: HOUSE_RULES.map(ruleFrom) });
    await this.#spendApprovals();
    const ending = await this.#expiringAuthority();
    this.workspace.clock.advance(LATER_MS);
    this.#addRules();
    await this.#addFacts();
    await this.#addPermissions();
    await this.#addServers();
    await this.#addLimit();
    await this.#addAuthority(ending);
    await this.assertPlain();
  }

  /** Adds a plain request with the harmless one beside it, in the members in which that differs. */
  #add(
    ...[rule, on, request, harmless, more = {}]: readonly [
      rule: string,
      on: Plain["on"],
      request: Plain["request"],
      harmless: Partial<Plain["request"]>,
      more?: Partial<Pick<Plain, "verdict" | "key">> & { readonly harmlessKey?: string },
    ]
  ): void {
    const { harmlessKey, ...rest } = more;
    const allowed = { request: { ...request, ...harmless } as InterceptInit, key: harmlessKey };
    this.plains.push({ rule, on, verdict: Decision.BLOCK, request, allowed, ...rest });
  }

  #addRules(): void {
    const { agentId } = this;
    const calling = (tool: string, args: JsonObject) => ({
      agentId,
      actionType: "tool.call",
      tool,
      metadata: { arguments: args },
    });
    const call = (rule: string, on: Plain["on"], tool: string, refusedArgs: JsonObject, allowedArgs: JsonObject) =>
      this.#add(rule, on, calling(tool, refusedArgs), calling(tool, allowedArgs));
    this.#add("a block on types", "type", { agentId, actionType: "t6pay.vendor" }, { actionType: "t6paint.vendor" });
    const wire = { agentId, actionType: "wire.vendor" };
    this.#add("an escalation of types", "type", wire, { actionType: "wired.vendor" }, { verdict: Decision.ESCALATE });
    call("a number", "arguments", "pay6", { amount: 900 }, { amount: 500 });
    call("a word of an enum", "arguments", "pay6", { kind: "offshore" }, { kind: "retail" });
    call("a nested text", "arguments", "pay6", { party: { name: FORBIDDEN_TEXT } }, { party: { name: "invasion" } });
    call("a required number", "arguments", "strict6", { amount: 900 }, { amount: 500 });
    call("a schema", "arguments", "form6", { count: 90 }, { count: 9 });
    this.#add("a tool with a rule", "tool", calling("pay6", { amount: 900 }), { tool: "harmless6" });
  }

  async #addFacts(): Promise<void> {
    for (const [field, more] of [
      ["risk", {}],
      ["score", { on_missing: "violate" }],
    ] as const) {
      const agentId = await this.workspace.agent(field);
      const rule = { type: "metadata", decision: "block", conditions: only(field, ">", 50_000, more) };
      await this.workspace.mandate([ruleFrom(rule)], { scope: Scope.AGENT, agentId });
      const reporting = (value: number) => ({ agentId, actionType: "report", metadata: { [field]: value } });
      this.#add(`the fact ${field}`, "fact", reporting(60_000), reporting(50_000));
    }
  }

  async #addPermissions(): Promise<void> {
    const denied = await this.workspace.agent("denied", [], ["shred.*"]);
    const shred = { agentId: denied, actionType: "shred.papers" };
    this.#add("a denied type", "type", shred, { actionType: "shredder.papers" });
    const listed = await this.workspace.agent("listed", ["read.*"]);
    const store = { agentId: listed, actionType: "store.papers" };
    this.#add("a list of allowed types", "type", store, { actionType: "read.papers" });
  }

  async #addServers(): Promise<void> {
    const agentId = await this.workspace.agent("server");
    const policy = { agentId, server: "fs", tool: "write_*", decision: Decision.BLOCK };
    await this.workspace.authority.createMcpToolPolicy(policy);
    const call = { agentId, actionType: "mcp.call", tool: "write_file", metadata: { mcp_server: "fs" } };
    this.#add("a policy for MCP tools", "server", call, { tool: "read_file" });
  }

  async #addLimit(): Promise<void> {
    const agentId = await this.workspace.agent("limited");
    await this.workspace.intercept({ agentId, actionType: "limit6.first" });
    this.#add("a limit", "type", { agentId, actionType: "limit6.more" }, { actionType: "limits.more" });
  }

  async #expiringAuthority() {
    const { authority } = this.workspace;
    const agentId = await this.workspace.agent("expired");
    const ttlSeconds = 60n;
    const { secret } = await authority.createCredential({ agentId, ttlSeconds });
    const { session } = await authority.createSession({ agentId, ttlSeconds });
    return { agentId, key: this.keepSecret(secret), sessionId: session?.sessionId ?? "" };
  }

  /** An agent with one of each authority, which lasts. */
  async #lastingAuthority() {
    const { authority, admin } = this.workspace;
    const agentId = await this.workspace.agent("lasting");
    const { secret } = await authority.createCredential({ agentId });
    const { session } = await authority.createSession({ agentId });
    const bound = await admin.createApiKey({ name: "lasting", role: Role.AGENT, agentId });
    const onBehalfOf = await this.workspace.agent("lasting principal");
    await authority.createGrant({ grantorAgentId: onBehalfOf, granteeAgentId: agentId, actionTypes: ["*"] });
    return {
      agentId,
      onBehalfOf,
      sessionId: session?.sessionId ?? "",
      credential: this.keepSecret(secret),
      bound: this.keepSecret(bound.secret),
    };
  }

  async #addAuthority(expired: { agentId: string; key: string; sessionId: string }): Promise<void> {
    const { authority, admin } = this.workspace;
    const actionType = "own.work";
    const { credential: live, bound: liveBound, onBehalfOf, ...lasting } = await this.#lastingAuthority();
    const { agentId: lastingId, sessionId: lastingSession } = lasting;
    const byKey = (rule: string, agentId: string, key: string, harmlessKey: string) =>
      this.#add(rule, "authority", { agentId, actionType }, { agentId: lastingId }, { key, harmlessKey });
    const bySession = (rule: string, agentId: string, sessionId: string) =>
      this.#add(
        rule,
        "authority",
        { agentId, actionType, sessionId },
        {
          agentId: lastingId,
          sessionId: lastingSession,
        },
      );
    byKey("an expired credential", expired.agentId, expired.key, live);
    bySession("an expired session", expired.agentId, expired.sessionId);

    const agentId = await this.workspace.agent("ended");
    const { credential, secret } = await authority.createCredential({ agentId });
    await authority.endCredential({ credentialId: credential?.credentialId ?? "" });
    byKey("an ended credential", agentId, this.keepSecret(secret), live);
    const { session } = await authority.createSession({ agentId });
    const sessionId = session?.sessionId ?? "";
    await authority.endSession({ sessionId });
    bySession("an ended session", agentId, sessionId);

    const revoked = await this.workspace.agent("revoked");
    const bound = await admin.createApiKey({ name: "bound", role: Role.AGENT, agentId: revoked });
    await authority.createGrant({ grantorAgentId: revoked, granteeAgentId: agentId, actionTypes: ["*"] });
    await this.workspace.revoke(revoked);
    this.#add("a revoked agent", "authority", { agentId: revoked, actionType }, { agentId: lastingId });
    byKey("a key that ended with its agent", revoked, this.keepSecret(bound.secret), liveBound);
    const lent = { agentId: lastingId, onBehalfOf };
    this.#add("a revoked principal", "authority", { agentId, actionType, onBehalfOf: revoked }, lent);
    await this.#addChain();
  }

  /** A principal whose authority comes through an agent that may not shred. */
  async #addChain(): Promise<void> {
    const { authority } = this.workspace;
    const principal = await this.workspace.agent("principal");
    const middle = await this.workspace.agent("middle", [], ["shred.*"]);
    const actor = await this.workspace.agent("actor");
    const above = await authority.createGrant({
      grantorAgentId: principal,
      granteeAgentId: middle,
      actionTypes: ["*"],
    });
    const parentGrantId = above.grant?.grantId ?? "";
    const below = await authority.createGrant({
      grantorAgentId: middle,
      granteeAgentId: actor,
      actionTypes: ["*"],
      parentGrantId,
    });
    const acting = { agentId: actor, actionType: "shred.papers" };
    const reading = { actionType: "read.papers" };
    this.#add("a denial in a chain of grants", "type", { ...acting, onBehalfOf: principal }, reading);
    this.#add("a denial above a named grant", "type", { ...acting, grantId: below.grant?.grantId ?? "" }, reading);
    const contract = { agentId: actor, goal: "reading", allowedActionTypes: ["read.*"], ttlSeconds: 86_400n };
    const { intentContract } = await authority.createIntentContract(contract);
    const intentContractId = intentContract?.intentContractId ?? "";
    this.#add("a contract", "type", { agentId: actor, actionType: "store.papers", intentContractId }, reading);
  }

  /** Approves actions `wire.spent.0`, `wire.spent.1` … of `agentId`; the approvals expire before the first case. */
  async #spendApprovals(): Promise<void> {
    for (let each = 0; each < 8; each++) {
      const action = { agentId: this.agentId, actionType: `wire.spent.${each}` };
      const { escalationId = "" } = await this.workspace.intercept(action);
      if (each % 2 === 0) await this.workspace.resolve(escalationId);
      this.spentApprovals.push(escalationId);
    }
  }
}

/** What a refusal says about why: its reason and the fields that it names. */
function refusalOf({ reason, metadata, violations }: ControlPlaneError): Reached {
  const named = metadata.field === undefined ? [] : [metadata.field];
  const fields = violations.length > 0 ? violations.map(({ field }) => field) : named;
  return { reason: ErrorReason[reason], fields };
}

/** Shows a request in ASCII, so that a disguise is seen. */
export function shown(request: object): string {
  const text = JSON.stringify(request, (_, value) => (typeof value === "bigint" ? `${value}` : value)) ?? "";
  const escaped = text.replace(/[^ -~]/gu, (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`);
  return escaped.length > 2_000 ? `${escaped.slice(0, 2_000)}… (${escaped.length} characters)` : escaped;
}
