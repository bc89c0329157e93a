import { isJsonRecord, type JsonRecord, listAt, textAt } from "../verify/json.ts";
import { APPROVER_COMMANDS } from "./approver-commands.ts";
import type { Command } from "./command.ts";
import { LIST_COMMANDS } from "./list-commands.ts";
import { createChange, createList, createShow, type Members } from "./objects.ts";
import { type Column, cellText } from "./table.ts";

const ENFORCE = "/v1/enforce";
const ADMIN = "/v1/admin";

/** Returns the path below a collection to one object, or to a part of it. */
const at =
  (collection: string, rest = "") =>
  (id = ""): string =>
    `${collection}/${encodeURIComponent(id)}${rest}`;

const AGENTS = `${ENFORCE}/agents`;
const OF_AGENT: Members = { agent: "agent_id" };
const ID_AND_NAME: readonly Column[] = [
  { head: "ID", of: (row) => idIn(row) },
  { head: "NAME", of: "name" },
];
const textOf = (value: unknown): string => String(value ?? "");
const idIn = (row: object): string => Object.entries(row).find(([name]) => name.endsWith("_id"))?.[1] ?? "";
const CREATED: Column = { head: "CREATED", of: "created_at" };
const STATUS: Column = { head: "STATUS", of: "status" };
const EXPIRES: Column = { head: "EXPIRES", of: "expires_at" };
const AGENT: Column = { head: "AGENT", of: "agent_id" };

const agents: readonly Command[] = [
  createList({
    name: "agents list",
    summary: "list the agents",
    path: AGENTS,
    rows: "agents",
    columns: [
      ...ID_AND_NAME,
      STATUS,
      { head: "TRUST", of: "trust_level" },
      { head: "LAST ACTION", of: "last_action_at" },
      { head: "REGISTERED", of: "registered_at" },
    ],
    filters: { status: "status", department: "department_id", search: "q" },
  }),
  createShow({
    name: "agents show",
    summary: "show an agent with its last decisions",
    argument: "agent",
    path: at(AGENTS),
  }),
  createChange({
    name: "agents create",
    summary: "register an agent",
    details: ["", "`--file` gives other members, such as `permissions`."],
    method: "POST",
    arguments: "<name>",
    path: () => AGENTS,
    positionals: ["name"],
    members: { description: "description", framework: "framework", capability: "capabilities", require: "requires" },
    takesFile: true,
    done: "registered agent",
  }),
  createChange({
    name: "agents require",
    summary: "set what every action of an agent must have",
    details: ["", "Without `--require` it must have nothing."],
    method: "PUT",
    arguments: "<agent>",
    path: at(AGENTS, "/requirements"),
    members: { require: "requires" },
    done: "changed agent",
  }),
  createChange({
    name: "agents deactivate",
    summary: "have every action of an agent blocked from now on",
    method: "DELETE",
    arguments: "<agent>",
    path: at(AGENTS),
    question: (id) => `deactivate agent ${id}?`,
    done: "deactivated agent",
  }),
  createChange({
    name: "agents revoke",
    summary: "revoke an agent with all of its authority, and print the signed certificate",
    details: ["", "Keep the certificate of `--json`: `agentctl certificate verify` verifies it offline."],
    method: "POST",
    arguments: "<agent>",
    path: at(AGENTS, "/revoke"),
    members: { reason: "reason" },
    question: (id) => `revoke agent ${id} for ever?`,
    done: "revoked agent",
  }),
];

const PEOPLE = `${ADMIN}/people`;
const people: readonly Command[] = [
  createList({
    name: "people list",
    summary: "list the people of the workspace",
    path: PEOPLE,
    rows: "people",
    columns: [
      ...ID_AND_NAME,
      { head: "ROLE", of: "role" },
      { head: "EMAIL", of: "email" },
      { head: "KEYS", of: "open_keys" },
      { head: "SIGNED IN", of: "signed_in_at" },
      { head: "KEY USED", of: "key_used_at" },
      { head: "LEFT", of: "left_at" },
      { head: "DEACTIVATED", of: "deactivated_at" },
    ],
  }),
  createShow({ name: "people show", summary: "show a person", argument: "person", path: at(PEOPLE) }),
  createChange({
    name: "people add",
    summary: "add a person, who gets keys by invite, or signs in by issuer and subject",
    method: "POST",
    arguments: "<name>",
    path: () => PEOPLE,
    positionals: ["name"],
    members: { role: "role", issuer: "issuer", subject: "subject" },
    done: "added person",
  }),
  createChange({
    name: "people invite",
    summary: "make a link that shows a person a key of theirs, once and within 72 hours",
    method: "POST",
    arguments: "<person>",
    path: at(PEOPLE, ":invite"),
    secret: "url",
    done: "invited person",
  }),
  createChange({
    name: "people update",
    summary: "change the name or role of a person",
    method: "PATCH",
    arguments: "<person>",
    path: at(PEOPLE),
    members: { name: "name", role: "role" },
    done: "updated person",
  }),
  createChange({
    name: "people deactivate",
    summary: "end the sign-ins, keys and invite of a person at once",
    method: "DELETE",
    arguments: "<person>",
    path: at(PEOPLE),
    question: (id) => `deactivate person ${id}?`,
    done: "deactivated person",
  }),
  createChange({
    name: "people reactivate",
    summary: "let a deactivated person sign in and be invited again",
    method: "POST",
    arguments: "<person>",
    path: at(PEOPLE, ":reactivate"),
    done: "reactivated person",
  }),
];

const KEYS = `${ADMIN}/keys`;
const keys: readonly Command[] = [
  createList({
    name: "keys list",
    summary: "list the API keys of the workspace",
    path: KEYS,
    rows: "keys",
    columns: [
      ...ID_AND_NAME,
      { head: "ROLE", of: "role" },
      { head: "PREFIX", of: "prefix" },
      { head: "OWNER", of: (row) => textAt(row, "owner_name") || textAt(row, "owner") },
      CREATED,
      EXPIRES,
      { head: "LAST USED", of: "last_used_at" },
      { head: "REVOKED", of: "revoked_at" },
    ],
    filters: { owner: "owner" },
  }),
  createChange({
    name: "keys create",
    summary: "create an API key; its secret is shown this once",
    method: "POST",
    arguments: "<name>",
    path: () => KEYS,
    positionals: ["name"],
    members: { role: "role", agent: "agent_id", owner: "owner", ttl: "ttl_seconds" },
    secret: "secret",
    done: "created key",
  }),
  createChange({
    name: "keys revoke",
    summary: "end an API key",
    method: "DELETE",
    arguments: "<key>",
    path: at(KEYS),
    question: (id) => `end key ${id}?`,
    done: "ended key",
  }),
];

const TOOLS = `${ENFORCE}/tools`;
/** A name with slashes is a path of its own. */
const toolPath = (name: string): string => `${TOOLS}/${name.split("/").map(encodeURIComponent).join("/")}`;
const tools: readonly Command[] = [
  createList({
    name: "tools list",
    summary: "list the registered tools",
    path: TOOLS,
    rows: "tools",
    columns: [
      { head: "NAME", of: "name", max: 60 },
      { head: "VERSION", of: "version" },
      { head: "SOURCE", of: "source" },
      { head: "REGISTERED", of: "registered_at" },
      { head: "DESCRIPTION", of: "description" },
    ],
    filters: { search: "search" },
  }),
  createShow({
    name: "tools show",
    summary: "show a tool with its versions",
    argument: "name",
    path: toolPath,
  }),
  createChange({
    name: "tools create",
    summary: "register a tool, or its next version",
    details: ["", "`--file` gives `name`, `description` and `input_schema`."],
    method: "POST",
    arguments: "[name]",
    path: () => TOOLS,
    positionals: ["name"],
    members: { description: "description" },
    takesFile: true,
    done: "registered tool",
  }),
  createChange({
    name: "tools update",
    summary: "declare what a tool's results and arguments mean for provenance",
    details: [
      "",
      "`--file` gives `provenance` with `trusted_fields` or `free_fields`, `session_arguments` and `session_fields`.",
    ],
    method: "PATCH",
    arguments: "<name>",
    path: toolPath,
    takesFile: true,
    done: "changed tool",
  }),
];

const MANDATES = `${ENFORCE}/mandates`;
const PROPOSALS = `${ENFORCE}/proposals`;
const proposals: readonly Command[] = [
  createList({
    name: "proposals list",
    summary: "list the changes that wait for others to accept them",
    path: PROPOSALS,
    rows: "proposals",
    columns: [
      { head: "ID", of: "proposal_id" },
      { head: "CHANGE", of: "kind" },
      { head: "SUBJECT", of: "subject", max: 40 },
      STATUS,
      { head: "ACCEPTED", of: (row) => `${listAt(row, "acceptances").length} of ${textOf(row.needed)}` },
      { head: "BY", of: (row) => textAt(row, "created_by_name") || textAt(row, "created_by"), max: 40 },
      CREATED,
      EXPIRES,
    ],
    filters: { waiting: "open", mine: "mine" },
  }),
  createShow({
    name: "proposals show",
    summary: "show a proposal with what it changes",
    argument: "proposal",
    path: at(PROPOSALS),
  }),
  createChange({
    name: "proposals accept",
    summary: "accept a proposal; the last acceptance that it needs makes the change",
    method: "POST",
    arguments: "<proposal>",
    path: at(PROPOSALS, ":accept"),
    question: (id) => `accept proposal ${id}?`,
    done: "accepted proposal",
  }),
  createChange({
    name: "proposals reject",
    summary: "end a proposal without its change",
    method: "POST",
    arguments: "<proposal>",
    path: at(PROPOSALS, ":reject"),
    members: { note: "note" },
    done: "rejected proposal",
  }),
];

const backtests: readonly Command[] = [
  createShow({
    name: "backtests show",
    summary: "show a kept backtest: its drafts and its numbers",
    argument: "backtest",
    path: at(`${ENFORCE}/backtests`),
  }),
];

const mandates: readonly Command[] = [
  createList({
    name: "mandate list",
    summary: "list the mandates",
    path: MANDATES,
    rows: "mandates",
    columns: [
      ...ID_AND_NAME,
      STATUS,
      { head: "MODE", of: "mode" },
      { head: "SCOPE", of: "scope" },
      { head: "VERSION", of: "version" },
      { head: "PACK", of: "pack" },
      { head: "UPDATED", of: "updated_at" },
    ],
    filters: { status: "status", "as-written": "as_written", search: "search" },
  }),
  createShow({
    name: "mandate show",
    summary: "show a mandate with its versions",
    argument: "mandate",
    path: at(MANDATES),
  }),
  createChange({
    name: "mandate restore",
    summary: "publish an older version of a mandate as a new one",
    details: ["", "It is compiled again against the tools that there are now. `mandate show` lists the versions."],
    method: "POST",
    arguments: "<mandate> <version>",
    path: at(MANDATES, ":restore"),
    positionals: ["version"],
    members: { note: "note" },
    question: (id) => `restore an older version of mandate ${id}?`,
    done: "restored mandate",
  }),
  createChange({
    name: "mandate archive",
    summary: "put a mandate out of force",
    method: "DELETE",
    arguments: "<mandate>",
    path: at(MANDATES),
    question: (id) => `archive mandate ${id}?`,
    done: "archived mandate",
  }),
];

const ESCALATIONS = `${ENFORCE}/escalations`;
const resolve = (name: string, resolution: string): Command =>
  createChange({
    name: `escalations ${name}`,
    summary: `${name} an action that waits for a person`,
    method: "POST",
    arguments: "<escalation>",
    path: at(ESCALATIONS, "/resolve"),
    members: { note: "note" },
    fixed: { resolution },
    done: resolution,
  });
const escalations: readonly Command[] = [
  createList({
    name: "escalations list",
    summary: "list the actions that wait, or waited, for a person",
    path: ESCALATIONS,
    rows: "escalations",
    columns: [
      { head: "ID", of: "escalation_id" },
      STATUS,
      { head: "AGENT", of: "agent_name" },
      { head: "ACTION", of: "action_type" },
      { head: "TOOL", of: "tool" },
      CREATED,
      EXPIRES,
      { head: "RESOLVED BY", of: (row) => textAt(row, "resolved_by_name") || textAt(row, "resolved_by") },
    ],
    filters: { status: "status", mine: "mine", ...OF_AGENT, "answered-by": "resolved_by" },
  }),
  createShow({
    name: "escalations show",
    summary: "show what waits for a person, with the reasons",
    argument: "escalation",
    path: at(ESCALATIONS),
  }),
  createShow({
    name: "escalations context",
    summary: "show usual amounts, earlier answers and the decisions before it",
    argument: "escalation",
    path: at(ESCALATIONS, "/context"),
  }),
  resolve("approve", "approved"),
  resolve("reject", "rejected"),
  createChange({
    name: "escalations withdraw-approval",
    summary: "take back your approval of an action that needs several people",
    method: "POST",
    arguments: "<escalation>",
    path: at(ESCALATIONS, "/withdraw-approval"),
    done: "approval taken back",
  }),
];

const DECISIONS = `${ENFORCE}/decisions`;
const decisions: readonly Command[] = [
  createList({
    name: "decisions list",
    summary: "list the decisions, newest first",
    path: DECISIONS,
    rows: "decisions",
    columns: [
      { head: "ID", of: "decision_id" },
      { head: "DECIDED", of: "decided_at" },
      { head: "DECISION", of: "decision" },
      { head: "AGENT", of: "agent_name", max: 24 },
      { head: "ACTION", of: "action_type", max: 28 },
      { head: "REASON", of: "reason", max: 60 },
    ],
    filters: {
      ...OF_AGENT,
      decision: "decision",
      "action-type": "action_type",
      tool: "tool",
      session: "session_id",
      outcome: "outcome",
      since: "since",
      until: "until",
    },
  }),
  createShow({
    name: "decisions show",
    summary: "show a decision with its receipt",
    argument: "decision",
    path: at(DECISIONS),
  }),
  createChange({
    name: "decisions settle",
    summary: "report how an allowed action ended, also one whose outcome is unknown",
    details: ["", "The status is `succeeded`, `failed` or `cancelled`. The first report is sealed, and stands."],
    method: "POST",
    arguments: "<decision> <status>",
    path: at(DECISIONS, "/outcome"),
    positionals: ["status"],
    members: { amount: "amount", error: "error" },
    done: "settled the outcome of",
  }),
];

/** Names the group with the highest count of a limit. */
function fullestGroup(limit: JsonRecord): string {
  const [first] = listAt(limit, "groups").filter(isJsonRecord);
  if (first === undefined) return "";
  const used = isJsonRecord(first.budget) ? first.budget.total : first.count;
  return `${cellText(used)} by ${cellText(first.name)}`;
}

/** Writes the number of actions, or the amount, that a limit lets pass. */
function mostOf({ max_count: count, max_total: total, currency }: JsonRecord): string {
  return total === null ? cellText(count) : `${cellText(total)} ${cellText(currency)}`;
}

/** Tells, to the millisecond, from when one more action of the fullest group of a limit fits; empty while it does. */
function fitsFrom(limit: JsonRecord): string {
  const [first] = listAt(limit, "groups").filter(isJsonRecord);
  return typeof first?.resets_at === "string" ? first.resets_at : "";
}

const BARS = "▁▂▃▄▅▆▇█";

/** Draws the counts by parts of a limit's window, the newest at the right. */
function historyBars(limit: JsonRecord): string {
  const counts = listAt(limit, "history").map(Number);
  const most = Math.max(...counts);
  return counts.map((count) => (count === 0 ? "·" : BARS[Math.ceil((count / most) * 8) - 1])).join("");
}

const limits: readonly Command[] = [
  createList({
    name: "limits list",
    summary: "list the velocity limits, budgets and sequences in force",
    path: `${ENFORCE}/limits`,
    rows: "limits",
    columns: [
      { head: "MANDATE", of: "mandate_name" },
      { head: "RULE", of: "rule", max: 40 },
      { head: "DECISION", of: "decision" },
      { head: "TOOL", of: "tool" },
      { head: "MOST", of: mostOf },
      { head: "SECONDS", of: "window_seconds" },
      { head: "SCOPE", of: "scope" },
      { head: "FULL", of: ({ fill }) => `${Math.floor(Number(fill) * 100)} %` },
      { head: "FULLEST", of: fullestGroup, max: 28 },
      { head: "FITS FROM", of: fitsFrom },
      { head: "WINDOW", of: historyBars },
    ],
    fixed: { with_history: "true" },
    filters: { ...OF_AGENT, order: "order_by" },
  }),
];

const WORKSPACES = `${ADMIN}/workspaces`;
const workspaces: readonly Command[] = [
  createList({
    name: "workspaces list",
    summary: "list the workspaces",
    path: WORKSPACES,
    rows: "workspaces",
    columns: [
      ...ID_AND_NAME,
      { head: "DEFAULT", of: "default_decision" },
      { head: "FOUR EYES", of: "four_eyes" },
      { head: "INITIAL TRUST", of: "initial_trust" },
      CREATED,
    ],
  }),
  createShow({
    name: "workspaces show",
    summary: "show a workspace's settings",
    argument: "workspace",
    path: at(WORKSPACES),
  }),
  createChange({
    name: "workspaces create",
    summary: "create a workspace with an admin key, whose secret is shown this once",
    details: ["", "`--file` gives settings, such as `four_eyes`."],
    method: "POST",
    arguments: "<workspace>",
    path: () => WORKSPACES,
    positionals: ["workspace_id"],
    members: { name: "name" },
    takesFile: true,
    secret: "secret",
    done: "created workspace",
  }),
  createChange({
    name: "workspaces update",
    summary: "change settings of a workspace",
    details: ["", "`--file` gives the settings to change, such as `four_eyes`; the others stay as they are."],
    method: "PATCH",
    arguments: "<workspace>",
    path: at(WORKSPACES),
    members: {
      name: "name",
      "rate-limit-key": "rate_limit_key",
      "rate-limit-workspace": "rate_limit_workspace",
      outcomes: "outcomes",
      "prompt-from": "prompt_from",
      "outcome-timeout": "outcome_timeout_seconds",
      reviews: "mandate_reviews",
    },
    takesFile: true,
    done: "changed workspace",
  }),
];

const WEBHOOKS = `${ENFORCE}/webhooks`;
const webhooks: readonly Command[] = [
  createList({
    name: "webhooks list",
    summary: "list the webhooks",
    path: WEBHOOKS,
    rows: "webhooks",
    columns: [
      { head: "ID", of: "webhook_id" },
      { head: "URL", of: "url", max: 60 },
      { head: "ACTIVE", of: "is_active" },
      { head: "FAILURES", of: "failures" },
      {
        head: "BACKLOG",
        of: ({ backlog, backlog_is_partial }) => `${backlog}${backlog_is_partial === true ? "+" : ""}`,
      },
      { head: "EVENTS", of: "events" },
    ],
  }),
  createShow({ name: "webhooks show", summary: "show a webhook", argument: "webhook", path: at(WEBHOOKS) }),
  createChange({
    name: "webhooks create",
    summary: "have events sent to a URL; the secret that signs them is shown this once",
    method: "POST",
    arguments: "<url>",
    path: () => WEBHOOKS,
    positionals: ["url"],
    members: { event: "events" },
    secret: "secret",
    done: "created webhook",
  }),
  createChange({
    name: "webhooks update",
    summary: "pause or resume a webhook, or change its events",
    details: ["", "`--file` gives other members, such as `url`."],
    method: "PATCH",
    arguments: "<webhook>",
    path: at(WEBHOOKS),
    members: { event: "events", pause: "is_active", resume: "is_active" },
    takesFile: true,
    done: "changed webhook",
  }),
  createChange({
    name: "webhooks delete",
    summary: "remove a webhook",
    method: "DELETE",
    arguments: "<webhook>",
    path: at(WEBHOOKS),
    question: (id) => `remove webhook ${id}?`,
    done: "removed webhook",
  }),
  createChange({
    name: "webhooks test",
    summary: "send a test event to a webhook, and tell what it answered",
    method: "POST",
    arguments: "<webhook>",
    path: at(WEBHOOKS, ":test"),
    done: "tested webhook",
  }),
  createChange({
    name: "webhooks rotate-secret",
    summary: "give a webhook a new secret, which is shown this once",
    method: "POST",
    arguments: "<webhook>",
    path: at(WEBHOOKS, "/secret:rotate"),
    secret: "secret",
    done: "new secret of webhook",
  }),
  createList({
    name: "webhooks deliveries",
    summary: "list the latest deliveries of a webhook",
    arguments: "<webhook>",
    path: at(WEBHOOKS, "/deliveries"),
    rows: "deliveries",
    columns: [
      { head: "TIME", of: "at" },
      { head: "EVENT", of: "event" },
      { head: "ATTEMPT", of: "attempt" },
      { head: "DELIVERED", of: "delivered" },
      { head: "STATUS", of: "status_code" },
      { head: "ERROR", of: "error", max: 60 },
    ],
  }),
];

const DEPARTMENTS = `${ENFORCE}/departments`;
const departments: readonly Command[] = [
  createList({
    name: "departments list",
    summary: "list the departments",
    path: DEPARTMENTS,
    rows: "departments",
    columns: [...ID_AND_NAME, { head: "AGENTS", of: "member_count" }, CREATED],
  }),
  createShow({
    name: "departments show",
    summary: "show a department with its agents",
    argument: "department",
    path: at(DEPARTMENTS),
  }),
  createChange({
    name: "departments create",
    summary: "create a department",
    method: "POST",
    arguments: "<name>",
    path: () => DEPARTMENTS,
    positionals: ["name"],
    members: { description: "description" },
    done: "created department",
  }),
  createChange({
    name: "departments delete",
    summary: "remove a department",
    method: "DELETE",
    arguments: "<department>",
    path: at(DEPARTMENTS),
    question: (id) => `remove department ${id}?`,
    done: "removed department",
  }),
  ...(["PUT", "DELETE"] as const).map((method) =>
    createChange({
      name: `departments ${method === "PUT" ? "add" : "remove"}`,
      summary: method === "PUT" ? "put an agent into a department" : "take an agent out of a department",
      method,
      arguments: "<department> <agent>",
      path: (department = "", agent = "") => at(DEPARTMENTS, `/members/${encodeURIComponent(agent)}`)(department),
      done: method === "PUT" ? "added to department" : "removed from department",
    }),
  ),
];

const REVOCATIONS = `${ENFORCE}/revocations`;
const INCIDENTS = `${ENFORCE}/incidents`;
const incidents: readonly Command[] = [
  createList({
    name: "revocations list",
    summary: "list the revocations of agents",
    path: REVOCATIONS,
    rows: "revocations",
    columns: [
      { head: "ID", of: "revocation_id" },
      { head: "AGENT", of: "agent_name" },
      { head: "REVOKED", of: "revoked_at" },
      { head: "BY", of: (row) => textAt(row, "revoked_by_name") || textAt(row, "revoked_by"), max: 40 },
      { head: "REASON", of: "reason" },
    ],
  }),
  createShow({
    name: "revocations show",
    summary: "show the certificate of a revocation",
    argument: "revocation",
    path: at(REVOCATIONS),
  }),
  createList({
    name: "incidents list",
    summary: "list the incidents",
    path: INCIDENTS,
    rows: "incidents",
    columns: [
      { head: "ID", of: "incident_id" },
      { head: "KIND", of: "kind" },
      AGENT,
      CREATED,
      { head: "SUMMARY", of: "summary", max: 60 },
    ],
  }),
  createShow({ name: "incidents show", summary: "show an incident", argument: "incident", path: at(INCIDENTS) }),
];

interface AuthorityKind {
  /** Word of the command, in the plural, which is also the last part of the path. */
  readonly plural: string;
  readonly singular: string;
  readonly columns: readonly Column[];
  readonly members?: Members;
  readonly filters?: Members;
  readonly secret?: string;
}

const USES: Column = { head: "USES", of: "uses" };
const OF: Members = { ...OF_AGENT, ttl: "ttl_seconds" };
const AUTHORITY: readonly AuthorityKind[] = [
  {
    plural: "sessions",
    singular: "session",
    columns: [AGENT, { head: "PURPOSE", of: "purpose" }],
    members: { ...OF, purpose: "purpose" },
  },
  {
    plural: "credentials",
    singular: "credential",
    columns: [AGENT, { head: "NAME", of: "name" }, { head: "PREFIX", of: "prefix" }],
    members: { ...OF, name: "name" },
    secret: "secret",
  },
  {
    plural: "grants",
    singular: "grant",
    columns: [
      { head: "FROM", of: "grantor_agent_id" },
      { head: "TO", of: "grantee_agent_id" },
      { head: "ACTIONS", of: "action_types" },
      USES,
    ],
    filters: { parent: "parent_grant_id" },
  },
  {
    plural: "temporal-windows",
    singular: "temporal window",
    columns: [AGENT, { head: "ACTIONS", of: "action_types" }, USES],
  },
  {
    plural: "intent-contracts",
    singular: "intent contract",
    columns: [AGENT, { head: "GOAL", of: "goal" }, { head: "ACTIONS", of: "actions" }],
  },
  {
    plural: "federation-tokens",
    singular: "federation token",
    columns: [AGENT, { head: "AUDIENCE", of: "audience" }, USES],
    secret: "token",
  },
  {
    plural: "mcp-tool-policies",
    singular: "MCP tool policy",
    columns: [
      AGENT,
      { head: "SERVER", of: "server" },
      { head: "TOOL", of: "tool" },
      { head: "DECISION", of: "decision" },
    ],
  },
];

const authority: readonly Command[] = AUTHORITY.flatMap(
  ({ plural, singular, columns, members = {}, filters = {}, secret }) => {
    const path = `${ENFORCE}/${plural}`;
    const argument = singular.toLowerCase().replaceAll(" ", "-");
    return [
      createList({
        name: `${plural} list`,
        summary: `list the ${plural === "mcp-tool-policies" ? "MCP tool policies" : plural.replaceAll("-", " ")}`,
        path,
        rows: plural.replaceAll("-", "_"),
        columns: [{ head: "ID", of: idIn }, ...columns, STATUS, EXPIRES],
        filters: { ...OF_AGENT, ...filters },
      }),
      createShow({ name: `${plural} show`, summary: `show ${a(singular)}`, argument, path: at(path) }),
      createChange({
        name: `${plural} create`,
        summary: `create ${a(singular)}`,
        details: ["", `\`--file\` gives the members of POST ${path}.`],
        method: "POST",
        arguments: "",
        path: () => path,
        members,
        takesFile: true,
        ...(secret === undefined ? {} : { secret }),
        done: `created ${singular}`,
      }),
      createChange({
        name: `${plural} end`,
        summary: `end ${a(singular)} at once`,
        method: "DELETE",
        arguments: `<${argument}>`,
        path: at(path),
        question: (id) => `end ${singular} ${id}?`,
        done: `ended ${singular}`,
      }),
    ];
  },
);

function a(noun: string): string {
  return `${/^[aeiouM]/.test(noun) ? "an" : "a"} ${noun}`;
}

/** Commands for the objects of the service, in the order of the help. */
export const OBJECT_COMMANDS: readonly Command[] = [
  ...agents,
  ...keys,
  ...people,
  ...tools,
  ...mandates,
  ...proposals,
  ...backtests,
  ...LIST_COMMANDS,
  ...APPROVER_COMMANDS,
  ...escalations,
  ...decisions,
  ...limits,
  ...workspaces,
  ...webhooks,
  ...departments,
  ...incidents,
  ...authority,
];
