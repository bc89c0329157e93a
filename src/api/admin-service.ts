import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  AdminService,
  type ApiKeySchema,
  type CreateWorkspaceRequest,
  type PersonSchema,
  type SigningKeySchema,
  type UpdateWorkspaceRequest,
  type WorkspaceSchema,
} from "../../gen/agentcontrol/v1/admin_service_pb.js";
import type { ServiceAudience } from "../authority/audience.ts";
import type { SigningKeys } from "../authority/signing-key.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames, type NameOf } from "../registry/actor-names.ts";
import type { Authenticator } from "../registry/authenticator.ts";
import { invitePerson } from "../registry/invites.ts";
import { createKey, listKeys, revokeKey } from "../registry/keys.ts";
import {
  createPerson,
  deactivatePerson,
  getPerson,
  listPeople,
  type PersonView,
  reactivatePerson,
  updatePerson,
  viewsOf,
} from "../registry/people.ts";
import { personIn } from "../registry/person-name.ts";
import { roleOfPerson } from "../registry/person-role.ts";
import { makeChange } from "../registry/proposals.ts";
import type { WorkspaceRates } from "../registry/workspace-rates.ts";
import {
  createWorkspace,
  DEFAULT_WORKSPACE_ID,
  getWorkspace,
  listWorkspaces,
  prepareSettings,
  type WorkspaceSettings,
} from "../registry/workspaces.ts";
import type { SigningKey } from "../state/signing-keys.ts";
import type { Database } from "../store/database.ts";
import type { ApiKeyRow as KeyRow, PersonRow } from "../store/entities.ts";
import type { Caller } from "./context.ts";
import { decisionMapping, outcomeTrackingMapping, promptSourceMapping } from "./enum-mapping.ts";
import { memberNames, optionalTimestamp, trustTenths } from "./field-values.ts";
import { namePageFrom } from "./paging.ts";
import { proposalMessages } from "./proposal-message.ts";
import { defineService, type ServiceDefinition, type ServiceFunctions } from "./service.ts";

/** Parts that AdminService needs. */
export interface AdminServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
  /** Forgets the keys of a workspace when one is created or revoked. */
  readonly authenticator: Pick<Authenticator, "forget">;
  readonly keys: Pick<SigningKeys, "sealed" | "retire">;
  /** Names the service in the audience of federation tokens. */
  readonly audience: Pick<ServiceAudience, "nameFor">;
  /** Forgets the rates of calls of a workspace when they change. */
  readonly rates: Pick<WorkspaceRates, "forget">;
  /** Address at which browsers reach the service, without a slash at its end; undefined if it has none. */
  readonly publicUrl?: string | undefined;
}

function workspaceFrom(
  workspace: WorkspaceSettings,
  audience: AdminServiceOptions["audience"],
): MessageInitShape<typeof WorkspaceSchema> {
  const { defaultDecision, initialTrustTenths, approvalIgnores, createdAtMs, ...same } = workspace;
  return {
    ...same,
    defaultDecision: decisionMapping.toProto[defaultDecision],
    unknownTools: decisionMapping.toProto[workspace.unknownTools],
    outcomes: outcomeTrackingMapping.toProto[workspace.outcomes],
    promptFrom: promptSourceMapping.toProto[workspace.promptFrom],
    initialTrust: initialTrustTenths / 10,
    approvalIgnores: [...approvalIgnores],
    createdAt: timestampFromMs(createdAtMs),
    audience: audience.nameFor(workspace.workspaceId),
  };
}

/** Returns the settings that a request gives. Throws INVALID_FIELD. */
function settingsFrom(request: CreateWorkspaceRequest | UpdateWorkspaceRequest) {
  const { defaultDecision, initialTrust, approvalIgnores } = request;
  const { escalationTtlSeconds, approvalTtlSeconds, fourEyes, maxPendingEscalationsPerAgent, keyTtlDays } = request;
  const { rateLimitKey, rateLimitWorkspace, outcomeTimeoutSeconds, mandateReviews } = request;
  return {
    defaultDecision: decisionMapping.fromProto(defaultDecision),
    unknownTools: decisionMapping.fromProto(request.unknownTools),
    initialTrustTenths: trustTenths("initial_trust", initialTrust),
    approvalIgnores: memberNames("approval_ignores", approvalIgnores),
    escalationTtlSeconds,
    approvalTtlSeconds,
    fourEyes,
    maxPendingEscalationsPerAgent,
    keyTtlDays,
    rateLimitKey,
    rateLimitWorkspace,
    outcomes: outcomeTrackingMapping.fromProto(request.outcomes),
    outcomeTimeoutSeconds,
    mandateReviews,
    promptFrom: promptSourceMapping.fromProto(request.promptFrom),
  };
}

function keyFrom(key: KeyRow, nameOf: NameOf): MessageInitShape<typeof ApiKeySchema> {
  const { keyId, name, role, agentId, prefix, createdAtMs, expiresAtMs, revokedAtMs, owner, createdBy } = key;
  return {
    owner: owner ?? undefined,
    ownerName: nameOf(personIn(owner)),
    createdBy: createdBy ?? undefined,
    createdByName: nameOf(createdBy),
    keyId,
    name,
    role,
    prefix,
    agentId: agentId ?? undefined,
    createdAt: timestampFromMs(createdAtMs),
    expiresAt: optionalTimestamp(expiresAtMs),
    revokedAt: optionalTimestamp(revokedAtMs),
    lastUsedAt: optionalTimestamp(key.lastUsedAtMs),
  };
}

function signingKeyFrom({
  keyId,
  publicKey,
  addedAtMs,
  retired,
}: SigningKey): MessageInitShape<typeof SigningKeySchema> {
  return {
    keyId,
    publicKey: publicKey.export({ type: "spki", format: "pem" }).toString(),
    addedAt: timestampFromMs(addedAtMs),
    retiredAt: optionalTimestamp(retired?.atMs),
  };
}

const isDefaultAdmin = ({ workspaceId, role }: Caller): boolean =>
  workspaceId === DEFAULT_WORKSPACE_ID && role === Role.ADMIN;

const notAllowed = (message: string, workspaceId: string): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.WORKSPACE_NOT_ALLOWED, message, { workspace_id: workspaceId });

/** Throws WORKSPACE_NOT_FOUND when the caller may not see the workspace, even if it exists. */
function assertMaySee(caller: Caller, workspaceId: string): void {
  if (workspaceId === caller.workspaceId || isDefaultAdmin(caller)) return;
  const message = `no workspace \`${workspaceId}\``;
  throw new ControlPlaneError(ErrorReason.WORKSPACE_NOT_FOUND, message, { workspace_id: workspaceId });
}

/** Throws ROLE_NOT_ALLOWED for settings that need another role than the caller's: an operator may only halt. */
function assertMayUpdate({ role }: Caller, settings: object): void {
  const isChanging = Object.values(settings).some((value) => value !== undefined);
  if (role === Role.ADMIN || !isChanging) return;
  const text = "a key with role `operator` may change `halted` alone; other settings need an admin key";
  const metadata = { role: "operator", method: AdminService.method.updateWorkspace.name, allowed_roles: "admin" };
  throw new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, text, metadata);
}

/** Creates the functions of AdminService. */
export function createAdminService(options: AdminServiceOptions): ServiceDefinition {
  return defineService(AdminService, {
    ...workspaceFunctions(options),
    ...keyFunctions(options),
    ...peopleFunctions(options),
  });
}

function workspaceFunctions({ logs, database, keys, audience, rates }: AdminServiceOptions) {
  const names = new ActorNames(database.pool);
  const shown = (workspace: WorkspaceSettings) => workspaceFrom(workspace, audience);
  return {
    async createWorkspace(request, { caller }) {
      const { workspaceId, name } = request;
      if (caller.workspaceId !== DEFAULT_WORKSPACE_ID) {
        const message = `a key of workspace \`${caller.workspaceId}\` creates no workspaces; use one of \`default\``;
        throw notAllowed(message, caller.workspaceId);
      }
      const draft = { workspaceId, name: name || undefined, ...settingsFrom(request) };
      const context = { database, nowMs: logs.clock.now(), by: caller.keyId, signingKey: keys.sealed };
      const { workspace, key, secret } = await createWorkspace(context, draft);
      // Its maker has no name in the new workspace.
      return { workspace: shown(workspace), key: keyFrom(key, () => undefined), secret };
    },

    async listWorkspaces(request, { caller }) {
      const page = namePageFrom(request, "workspaces");
      if (!isDefaultAdmin(caller)) {
        return { workspaces: [shown(await getWorkspace(database, caller.workspaceId))] };
      }
      const { items, next } = await listWorkspaces(database, page);
      return { workspaces: items.map(shown), nextPageToken: page.tokenAfter(next) };
    },

    async getWorkspace({ workspaceId }, { caller }) {
      assertMaySee(caller, workspaceId);
      return { workspace: shown(await getWorkspace(database, workspaceId)) };
    },

    async updateWorkspace(request, { caller }) {
      const { workspaceId, name } = request;
      assertMaySee(caller, workspaceId);
      await getWorkspace(database, workspaceId);
      if (workspaceId !== caller.workspaceId) {
        const message = `settings of workspace \`${workspaceId}\` are changed with a key of its own`;
        throw notAllowed(message, workspaceId);
      }
      const settings = { name, ...settingsFrom(request) };
      assertMayUpdate(caller, settings);
      const update = { ...settings, halted: request.halted };
      const { made, proposal } = await makeChange(await logs.of(workspaceId), caller.keyId, prepareSettings(update));
      rates.forget(workspaceId);
      if (proposal === undefined) return { workspace: shown(made) };
      const [message] = await proposalMessages(names, workspaceId, [proposal]);
      return { ...(message && { proposal: message }) };
    },
  } satisfies Partial<ServiceFunctions<typeof AdminService>>;
}

function personFrom(view: PersonView, nameOf: NameOf): MessageInitShape<typeof PersonSchema> {
  const { person, openKeys, keyUsedAtMs, invitedUntilMs } = view;
  const { name, email, displayName, issuer, subject, createdBy, role } = person;
  return {
    personId: person.personId,
    actor: person.actor,
    name: name ?? email ?? displayName ?? "",
    role: roleOfPerson(person) ?? Role.UNSPECIFIED,
    roleFromGroups: (role ?? null) === null && roleOfPerson(person) !== undefined,
    issuer: issuer ?? undefined,
    subject: subject ?? undefined,
    email: email ?? undefined,
    groups: person.groups,
    checkedAt: optionalTimestamp(person.checkedAtMs),
    signedInAt: optionalTimestamp(person.signedInAtMs),
    openKeys,
    keyUsedAt: optionalTimestamp(keyUsedAtMs),
    invitedUntil: optionalTimestamp(invitedUntilMs),
    createdAt: timestampFromMs(person.createdAtMs),
    createdBy: createdBy ?? undefined,
    createdByName: nameOf(createdBy),
    deactivatedAt: optionalTimestamp(person.deactivatedAtMs),
    leftAt: optionalTimestamp(person.leftAtMs),
  };
}

function peopleFunctions({ logs, database, authenticator, publicUrl }: AdminServiceOptions) {
  const names = new ActorNames(database.pool);
  const shown = async ({ workspaceId }: Caller, people: readonly PersonRow[]) => {
    const views = await viewsOf(database.pool, workspaceId, people, logs.clock.now());
    const nameOf = await names.find(
      workspaceId,
      people.map(({ createdBy }) => createdBy),
    );
    return views.map((view) => personFrom(view, nameOf));
  };
  const shownOne = async (caller: Caller, person: PersonRow) => (await shown(caller, [person]))[0];
  return {
    async createPerson(request, { caller }) {
      const { name, role, issuer, subject } = request;
      const log = await logs.of(caller.workspaceId);
      return { person: await shownOne(caller, await createPerson(log, caller.keyId, { name, role, issuer, subject })) };
    },

    async listPeople(request, { caller }) {
      const page = namePageFrom(request, "people");
      const { items, next } = await listPeople(database, caller.workspaceId, page);
      return { people: await shown(caller, items), nextPageToken: page.tokenAfter(next) };
    },

    async getPerson({ personId }, { caller }) {
      return { person: await shownOne(caller, await getPerson(database, caller.workspaceId, personId)) };
    },

    async updatePerson({ personId, name, role }, { caller }) {
      const { workspaceId, keyId } = caller;
      const update = { name, role: role === Role.UNSPECIFIED ? undefined : role };
      const person = await updatePerson(await logs.of(workspaceId), keyId, personId, update);
      authenticator.forget(workspaceId);
      return { person: await shownOne(caller, person) };
    },

    async deactivatePerson({ personId }, { caller }) {
      const { workspaceId, keyId } = caller;
      const person = await deactivatePerson(await logs.of(workspaceId), keyId, personId);
      authenticator.forget(workspaceId);
      return { person: await shownOne(caller, person) };
    },

    async reactivatePerson({ personId }, { caller }) {
      const person = await reactivatePerson(await logs.of(caller.workspaceId), caller.keyId, personId);
      return { person: await shownOne(caller, person) };
    },

    async invitePerson({ personId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const { person, secret, expiresAtMs } = await invitePerson(log, caller.keyId, personId);
      return {
        person: await shownOne(caller, person),
        // A browser sends no fragment, so that no proxy logs the secret.
        url: `${publicUrl ?? ""}/invite#${secret}`,
        expiresAt: timestampFromMs(expiresAtMs),
      };
    },
  } satisfies Partial<ServiceFunctions<typeof AdminService>>;
}

function keyFunctions({ logs, database, authenticator, keys }: AdminServiceOptions) {
  const names = new ActorNames(database.pool);
  const namesIn = (rows: readonly KeyRow[], workspaceId: string): Promise<NameOf> =>
    names.find(
      workspaceId,
      rows.flatMap(({ owner, createdBy }) => [personIn(owner), createdBy]),
    );
  return {
    async createApiKey({ name, role, agentId = null, ttlSeconds, owner }, { caller }) {
      const { workspaceId, keyId } = caller;
      const ttl = ttlSeconds === undefined ? undefined : Number(ttlSeconds);
      const draft = { name, role, agentId, ttlSeconds: ttl, owner };
      const { key, secret } = await createKey(await logs.of(workspaceId), keyId, draft);
      authenticator.forget(workspaceId);
      return { key: keyFrom(key, await namesIn([key], workspaceId)), secret };
    },

    async listApiKeys(request, { caller }) {
      const page = namePageFrom(request, "keys", request.owner);
      const { items, next } = await listKeys(database, caller.workspaceId, page, request.owner);
      const nameOf = await namesIn(items, caller.workspaceId);
      return { keys: items.map((key) => keyFrom(key, nameOf)), nextPageToken: page.tokenAfter(next) };
    },

    async revokeApiKey({ keyId }, { caller }) {
      const { workspaceId } = caller;
      const key = await revokeKey(await logs.of(workspaceId), caller.keyId, keyId);
      authenticator.forget(workspaceId);
      return { key: keyFrom(key, await namesIn([key], workspaceId)) };
    },

    async retireSigningKey({ keyId }, { caller }) {
      if (caller.workspaceId !== DEFAULT_WORKSPACE_ID) {
        const message = `a key of workspace \`${caller.workspaceId}\` retires no signing keys; use one of \`default\``;
        throw notAllowed(message, caller.workspaceId);
      }
      return { signingKey: signingKeyFrom(await keys.retire(caller.keyId, keyId)) };
    },
  } satisfies Partial<ServiceFunctions<typeof AdminService>>;
}
