import { ErrorReason, invalidField, notFound } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { EventBuffer } from "../log/event-buffer.ts";
import type { LedgerEvent } from "../log/events.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { comparableName } from "../policy/names.ts";
import type { AgentState, AgentStatus, DepartmentState } from "../state/agents.ts";
import { isInForce } from "../state/authority-status.ts";
import type { AgentRequirement, ControlChange, SealedAgent } from "../state/control-changes.ts";
import { AGENT_STATUS_NUMBERS } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { AgentEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { checkedName, checkedPatterns, checkedText } from "./checked-text.ts";
import { jsonBytes, type Page, type PageRequest, pageFrom } from "./page.ts";

/** Fields of an agent's registration. */
export interface AgentRegistration {
  readonly name: string;
  readonly framework: string;
  readonly description: string;
  readonly capabilities: readonly string[];
  readonly allowedActionTypes: readonly string[];
  readonly deniedActionTypes: readonly string[];
  /** Everything that each of its actions must have. Default: nothing. */
  readonly requires?: readonly AgentRequirement[];
}

/** Filter of a list of agents; undefined fields do not narrow it. */
interface AgentFilter {
  readonly status?: AgentStatus | undefined;
  /** Only its members. */
  readonly department?: DepartmentState | undefined;
  /** Only those whose name begins with it, however it is spelled. */
  readonly namePrefix?: string | undefined;
}

type CheckedRegistration = Omit<SealedAgent, "agent_id" | "trust_tenths">;

/** Returns an agent. Throws AGENT_NOT_FOUND. */
export function getAgent(state: WorkspaceState, agentId: string): AgentState {
  const agent = state.agents.get(agentId);
  if (agent !== undefined) return agent;
  throw notFound(ErrorReason.AGENT_NOT_FOUND, "agent", { agent_id: agentId });
}

const REQUIREMENTS: readonly AgentRequirement[] = ["session", "prompt", "contract"];

/** Returns requirements in their order, each once, as a registration has them. */
function requirementsFrom(given: readonly AgentRequirement[]): Pick<SealedAgent, "requires"> {
  const requires = REQUIREMENTS.filter((each) => given.includes(each));
  return requires.length === 0 ? {} : { requires };
}

function checkedRegistration(registration: AgentRegistration): CheckedRegistration {
  return {
    name: checkedName("name", registration.name),
    framework: checkedText("framework", registration.framework).trim(),
    description: checkedText("description", registration.description),
    capabilities: checkedPatterns("capabilities", registration.capabilities),
    allowed_action_types: checkedPatterns("permissions.allowed_action_types", registration.allowedActionTypes),
    denied_action_types: checkedPatterns("permissions.denied_action_types", registration.deniedActionTypes),
    ...requirementsFrom(registration.requires ?? []),
  };
}

async function register(scope: ChangeScope, registration: CheckedRegistration): Promise<string> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const agentId = createId("agt");
  const trust_tenths = state.settings.initial_trust_tenths;
  const agent: SealedAgent = { agent_id: agentId, ...registration, trust_tenths };
  await transaction.insert(AgentEntity, {
    workspaceId: state.workspaceId,
    agentId,
    createdSeq: nextSeq(),
    resource: structuredClone(agent) as never,
    status: AGENT_STATUS_NUMBERS.active,
    trustTenths: trust_tenths,
    registeredAtMs: nowMs,
    deactivatedAtMs: null,
  });
  seal({ type: "agent_registered", agent });
  return agentId;
}

/**
 * Registers an agent with the workspace's initial trust; it is active when this resolves. `by` is the caller's key.
 * Throws INVALID_FIELD for a text that is no name and a malformed action type.
 */
export async function registerAgent(
  log: WorkspaceLog,
  by: string,
  registration: AgentRegistration,
): Promise<AgentState> {
  const checked = checkedRegistration(registration);
  const { state, agentId } = await log.change(by, async (scope) => {
    return { state: scope.state, agentId: await register(scope, checked) };
  });
  // After the commit: the fold adds the agent to the state.
  return getAgent(state, agentId);
}

/** Registers an agent unless the workspace already has one, whatever its status; safe to call from several processes. */
export async function registerFirstAgent(
  log: WorkspaceLog,
  by: string,
  registration: AgentRegistration,
): Promise<void> {
  const checked = checkedRegistration(registration);
  await log.change(by, async (scope) => {
    if (scope.state.agents.size === 0) await register(scope, checked);
  });
}

/** Deactivates an agent; without effect, and nothing is sealed, unless it is active. Throws AGENT_NOT_FOUND. */
export async function deactivateAgent(log: WorkspaceLog, by: string, agentId: string): Promise<AgentState> {
  return log.change(by, async ({ transaction, state, nowMs, seal }) => {
    const agent = getAgent(state, agentId);
    if (agent.status !== "active") return agent;
    const status = AGENT_STATUS_NUMBERS.deactivated;
    const key = { workspaceId: state.workspaceId, agentId };
    await transaction.nativeUpdate(AgentEntity, key, { status, deactivatedAtMs: nowMs });
    seal({ type: "agent_deactivated", agent_id: agentId });
    return agent;
  });
}

/** Replaces what every action of an agent must have; nothing is sealed if it is that already. Throws AGENT_NOT_FOUND. */
export async function setAgentRequirements(
  log: WorkspaceLog,
  by: string,
  agentId: string,
  given: readonly AgentRequirement[],
): Promise<AgentState> {
  return log.change(by, async ({ transaction, state, seal }) => {
    const agent = getAgent(state, agentId);
    const { requires = [] } = requirementsFrom(given);
    if (requires.join() === agent.requires.join()) return agent;
    const { requires: _, ...registration } = agent.registration;
    const resource = structuredClone({ ...registration, ...requirementsFrom(given) }) as never;
    await transaction.nativeUpdate(AgentEntity, { workspaceId: state.workspaceId, agentId }, { resource });
    seal({ type: "agent_requirements_set", agent_id: agentId, requires });
    return agent;
  });
}

/** Orders of a list of agents. */
export type AgentOrder = "newest" | "name" | "lowest_trust" | "highest_trust";

/** Place of an agent in a list: agents are in the order of `key`, then of `id`. */
interface AgentPlace {
  readonly key: number | string;
  readonly id: string;
}

const KEYS: Readonly<Record<AgentOrder, (agent: AgentState) => number | string>> = {
  newest: ({ createdSeq }) => -createdSeq,
  name: ({ nameKey }) => nameKey,
  lowest_trust: ({ trustTenths }) => trustTenths,
  highest_trust: ({ trustTenths }) => -trustTenths,
};

const isBefore = (a: AgentPlace, b: AgentPlace): boolean => (a.key === b.key ? a.id < b.id : a.key < b.key);

/** Writes the place of an agent as a position. A name may be longer than a position, and never changes. */
const positionOf = ({ key, id }: AgentPlace): string => (typeof key === "string" ? id : `${key} ${id}`);

const POSITION = /^(-?\d{1,16}) (\S+)$/;

function placeFrom({ agents }: WorkspaceState, order: AgentOrder, position: string): AgentPlace {
  const named = order === "name" ? agents.get(position) : undefined;
  if (named !== undefined) return { key: KEYS.name(named), id: named.agentId };
  const [, key, id] = (order === "name" ? null : POSITION.exec(position)) ?? [];
  if (id === undefined) throw invalidField("page_token", "is not a position in this list");
  return { key: Number(key), id };
}

/** Inserts an agent among the first ones, which are in order, and drops those beyond `size`. */
function insert(first: { agent: AgentState; place: AgentPlace }[], agent: AgentState, place: AgentPlace, size: number) {
  let [low, high] = [0, first.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore((first[middle] as { place: AgentPlace }).place, place)) low = middle + 1;
    else high = middle;
  }
  if (low >= size) return;
  first.splice(low, 0, { agent, place });
  if (first.length > size) first.pop();
}

/** Lists agents in an order. Throws INVALID_FIELD for the position of another list. */
export function listAgents(
  state: WorkspaceState,
  filter: AgentFilter,
  order: AgentOrder,
  { size, after }: PageRequest<string>,
): Page<AgentState, string> {
  const { status, department } = filter;
  const prefix = comparableName(filter.namePrefix ?? "");
  const isWanted = (agent: AgentState): boolean =>
    (status === undefined || agent.status === status) &&
    (department?.members.has(agent.agentId) ?? true) &&
    agent.nameKey.startsWith(prefix);
  const start = after === undefined ? undefined : placeFrom(state, order, after);
  const first: { agent: AgentState; place: AgentPlace }[] = [];
  for (const agent of state.agents.values()) {
    if (!isWanted(agent)) continue;
    const place = { key: KEYS[order](agent), id: agent.agentId };
    if (start === undefined || isBefore(start, place)) insert(first, agent, place, size + 1);
  }
  const page = pageFrom(
    first,
    size,
    ({ place }) => positionOf(place),
    ({ agent }) => jsonBytes(agent.registration),
  );
  return { items: page.items.map(({ agent }) => agent), next: page.next };
}

/** A message to a runtime that watches its agent: the status at the start, then each change. */
export interface AgentChange {
  readonly kind: "active" | "deactivated" | "revoked" | "killed";
  /** The session that was killed. */
  readonly sessionId?: string;
  readonly revocationId?: string;
  readonly atMs: number;
}

/** Options of `watchAgent`. */
interface WatchAgentOptions {
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  /** The watcher's sessions, and the time of the log. Undefined: none. */
  readonly sessions?: { readonly ids: readonly string[]; readonly now: () => number };
  /** Calls the listener when the watcher's key ends. The stream then yields what the log has by now, and returns. */
  readonly onKeyEnd?: (listener: () => void) => void;
}

function concerns(event: LedgerEvent, agentId: string): boolean {
  if (event.kind !== "change") return false;
  const { change } = event;
  if (!("agent_id" in change) || change.agent_id !== agentId) return false;
  if (change.type === "authority_ended") return change.kind === "session";
  return change.type === "agent_deactivated" || change.type === "agent_revoked";
}

/** Yields the changes that an entry which concerns the agent made. */
function* changesFrom(event: LedgerEvent): Generator<AgentChange> {
  if (event.kind !== "change") return;
  const { change, atMs } = event;
  if (change.type === "agent_deactivated") yield { kind: "deactivated", atMs };
  // The revocation first, because it stops everything: an agent may have thousands of sessions.
  if (change.type === "agent_revoked") yield { kind: "revoked", revocationId: change.revocation_id, atMs };
  for (const sessionId of killedSessions(change)) yield { kind: "killed", sessionId, atMs };
}

function killedSessions(change: ControlChange): readonly string[] {
  if (change.type === "authority_ended") return change.ids;
  return change.type === "agent_revoked" ? change.ended.sessions : [];
}

/** Yields the ids that are not sessions of the agent in force. */
function* endedSessions(
  { authority }: WorkspaceState,
  agentId: string,
  sessionIds: readonly string[],
  atMs: number,
): Generator<AgentChange> {
  for (const sessionId of sessionIds) {
    const item = authority.get(sessionId);
    const isOwn = item?.sealed.kind === "session" && item.sealed.agent_id === agentId;
    if (!isOwn || !isInForce(item, atMs)) yield { kind: "killed", sessionId, atMs };
  }
}

/**
 * Streams the agent's current status and those of the watcher's sessions that have ended, then every change of the status and
 * every killed session. `undefined` is a heartbeat. Ends after `revoked` and the sessions killed with it. Throws
 * AGENT_NOT_FOUND.
 */
export async function* watchAgent(
  log: WorkspaceLog,
  agentId: string,
  { heartbeatMs, signal, sessions, onKeyEnd }: WatchAgentOptions,
): AsyncGenerator<AgentChange | undefined> {
  // Entries, not their changes: a revocation may have killed thousands of sessions, and all streams share the entry.
  const live = new EventBuffer<LedgerEvent>();
  const stop = log.subscribe((events) => {
    for (const event of events) if (concerns(event, agentId)) live.push(event);
  });
  // The key may end with the agent: its revocation is shown before the stream ends.
  const end = (): void => live.end();
  onKeyEnd?.(() => void log.caughtUp().then(end, end));
  try {
    const state = await log.caughtUp();
    const { status, registeredAtMs, deactivatedAtMs } = getAgent(state, agentId);
    const { seq: size } = state;
    // Read before the first message is sent: later ends are entries that follow.
    const ended = sessions === undefined ? [] : [...endedSessions(state, agentId, sessions.ids, sessions.now())];
    yield { kind: status, atMs: deactivatedAtMs ?? registeredAtMs };
    if (status === "revoked") return;
    yield* ended;
    for await (const entry of live.read(heartbeatMs, signal)) {
      if (entry === undefined) yield undefined;
      // The status read above already covers earlier entries.
      else if (entry.seq >= size) yield* changesFrom(entry);
      if (entry?.kind === "change" && entry.change.type === "agent_revoked") return;
    }
  } finally {
    stop();
  }
}
