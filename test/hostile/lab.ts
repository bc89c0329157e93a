import type { JsonObject } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ControlPlaneError, ErrorReason, httpStatusFromReason } from "../../src/errors.ts";
import { ruleFrom } from "../policy/harness.ts";
import { type InterceptInit, openWorkspace, type TestWorkspace } from "../support/harness.ts";
import { Draw } from "./draw.ts";

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
    const known = this.#shared.get(id) ?? make(new Draw(this.seed + name.length, group));
    this.#shared.set(id, known);
    return known as Promise<T>;
  }

  keepSecret(secret: string): string {
    this.#secrets.push(secret);
    return secret;
  }

  /**
   * Sends a request and checks that it is refused by an error of the caller's or gets a decision at least as strict as `verdict`.
   * Gives the decision, undefined for an error. Throws a `HostileFinding`.
   */
  async attempt(verdict: Decision, request: InterceptInit, key?: string): Promise<Decision | undefined> {
    const told = (what: string) =>
      new HostileFinding(`${what}: ${shown(request)}${key === undefined ? "" : " (own key)"}`);
    let decision: Decision;
    try {
      ({ decision } = await this.workspace.enforcement.intercept(request, key));
    } catch (error) {
      const fault = this.faultOf(error);
      if (fault !== undefined) throw told(fault);
      return undefined;
    }
    if (SEVERITY[decision] >= SEVERITY[verdict]) return decision;
    throw told(`${Decision[decision]} where the plain form gets ${Decision[verdict]}`);
  }

  /** Runs a call that may be refused; gives what it came to, undefined if it was. Throws a `HostileFinding`. */
  async refusable<T>(what: object, call: () => Promise<T>): Promise<T | undefined> {
    try {
      return await call();
    } catch (error) {
      const fault = this.faultOf(error);
      if (fault !== undefined) throw new HostileFinding(`${fault}: ${shown(what)}`);
      return undefined;
    }
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

  /** Checks that every plain request still gets its verdict, and that a harmless one is allowed. */
  async assertPlain(): Promise<void> {
    for (const { rule, verdict, request, key } of this.plains) {
      const { decision } = await this.workspace.enforcement.intercept(request, key);
      // An agent with too many pending escalations is blocked.
      if (decision === verdict || (verdict === Decision.ESCALATE && decision === Decision.BLOCK)) continue;
      throw new HostileFinding(`the plain request of ${rule} gets ${Decision[decision]}: ${shown(request)}`);
    }
    const { decision } = await this.workspace.intercept({ agentId: this.otherAgentId, actionType: "harmless" });
    if (decision !== Decision.ALLOW) throw new HostileFinding(`a harmless request gets ${Decision[decision]}`);
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

  #add(rule: string, on: Plain["on"], request: Plain["request"], more: Partial<Plain> = {}): void {
    this.plains.push({ rule, on, verdict: Decision.BLOCK, request, ...more });
  }

  #addRules(): void {
    const { agentId } = this;
    const calling = (tool: string, args: JsonObject) => ({
      agentId,
      actionType: "tool.call",
      tool,
      metadata: { arguments: args },
    });
    this.#add("a block on action types", "type", { agentId, actionType: "t6pay.vendor" });
    this.#add(
      "an escalation of action types",
      "type",
      { agentId, actionType: "wire.vendor" },
      { verdict: Decision.ESCALATE },
    );
    this.#add("a number", "arguments", calling("pay6", { amount: 900 }));
    this.#add("a word of an enum", "arguments", calling("pay6", { kind: "offshore" }));
    this.#add("a nested text", "arguments", calling("pay6", { party: { name: FORBIDDEN_TEXT } }));
    this.#add("a required number", "arguments", calling("strict6", { amount: 900 }));
    this.#add("a schema", "arguments", calling("form6", { count: 90 }));
    this.#add("a tool with a rule", "tool", calling("pay6", { amount: 900 }));
  }

  async #addFacts(): Promise<void> {
    for (const [field, more] of [
      ["risk", {}],
      ["score", { on_missing: "violate" }],
    ] as const) {
      const agentId = await this.workspace.agent(field);
      const rule = { type: "metadata", decision: "block", conditions: only(field, ">", 50_000, more) };
      await this.workspace.mandate([ruleFrom(rule)], { scope: Scope.AGENT, agentId });
      this.#add(`the fact ${field}`, "fact", { agentId, actionType: "report", metadata: { [field]: 60_000 } });
    }
  }

  async #addPermissions(): Promise<void> {
    const denied = await this.workspace.agent("denied", [], ["shred.*"]);
    this.#add("a denied type", "type", { agentId: denied, actionType: "shred.papers" });
    const listed = await this.workspace.agent("listed", ["read.*"]);
    this.#add("a list of allowed types", "type", { agentId: listed, actionType: "store.papers" });
  }

  async #addServers(): Promise<void> {
    const agentId = await this.workspace.agent("server");
    const policy = { agentId, server: "fs", tool: "write_*", decision: Decision.BLOCK };
    await this.workspace.authority.createMcpToolPolicy(policy);
    const metadata = { mcp_server: "fs" };
    this.#add("a policy for MCP tools", "server", { agentId, actionType: "mcp.call", tool: "write_file", metadata });
  }

  async #addLimit(): Promise<void> {
    const agentId = await this.workspace.agent("limited");
    await this.workspace.intercept({ agentId, actionType: "limit6.first" });
    this.#add("a limit", "type", { agentId, actionType: "limit6.more" });
  }

  async #expiringAuthority() {
    const { authority } = this.workspace;
    const agentId = await this.workspace.agent("expired");
    const ttlSeconds = 60n;
    const { secret } = await authority.createCredential({ agentId, ttlSeconds });
    const { session } = await authority.createSession({ agentId, ttlSeconds });
    return { agentId, key: this.keepSecret(secret), sessionId: session?.sessionId ?? "" };
  }

  async #addAuthority(expired: { agentId: string; key: string; sessionId: string }): Promise<void> {
    const { authority, admin } = this.workspace;
    const actionType = "own.work";
    this.#add("an expired credential", "authority", { agentId: expired.agentId, actionType }, { key: expired.key });
    this.#add("an expired session", "authority", {
      agentId: expired.agentId,
      actionType,
      sessionId: expired.sessionId,
    });

    const agentId = await this.workspace.agent("ended");
    const { credential, secret } = await authority.createCredential({ agentId });
    await authority.endCredential({ credentialId: credential?.credentialId ?? "" });
    this.#add("an ended credential", "authority", { agentId, actionType }, { key: this.keepSecret(secret) });
    const { session } = await authority.createSession({ agentId });
    const sessionId = session?.sessionId ?? "";
    await authority.endSession({ sessionId });
    this.#add("an ended session", "authority", { agentId, actionType, sessionId });

    const revoked = await this.workspace.agent("revoked");
    const bound = await admin.createApiKey({ name: "bound", role: Role.AGENT, agentId: revoked });
    await authority.createGrant({ grantorAgentId: revoked, granteeAgentId: agentId, actionTypes: ["*"] });
    await this.workspace.revoke(revoked);
    this.#add("a revoked agent", "authority", { agentId: revoked, actionType });
    this.#add(
      "a key that ended with its agent",
      "authority",
      { agentId: revoked, actionType },
      { key: this.keepSecret(bound.secret) },
    );
    this.#add("a revoked principal", "authority", { agentId, actionType, onBehalfOf: revoked });
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
    this.#add("a denial in a chain of grants", "type", { ...acting, onBehalfOf: principal });
    this.#add("a denial above a named grant", "type", { ...acting, grantId: below.grant?.grantId ?? "" });
    const contract = { agentId: actor, goal: "reading", allowedActionTypes: ["read.*"], ttlSeconds: 86_400n };
    const { intentContract } = await authority.createIntentContract(contract);
    const intentContractId = intentContract?.intentContractId ?? "";
    this.#add("a contract", "type", { agentId: actor, actionType: "store.papers", intentContractId });
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

const SEVERITY: Readonly<Record<Decision, number>> = {
  [Decision.UNSPECIFIED]: -1,
  [Decision.ALLOW]: 0,
  [Decision.ESCALATE]: 1,
  [Decision.BLOCK]: 2,
};

/** Shows a request in ASCII, so that a disguise is seen. */
export function shown(request: object): string {
  const text = JSON.stringify(request, (_, value) => (typeof value === "bigint" ? `${value}` : value)) ?? "";
  const escaped = text.replace(/[^ -~]/gu, (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`);
  return escaped.length > 2_000 ? `${escaped.slice(0, 2_000)}… (${escaped.length} characters)` : escaped;
}
