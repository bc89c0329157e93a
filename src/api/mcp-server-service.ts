import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  McpDefinitionKind as Kind,
  type McpDefinitionSchema,
  McpProtectionKind,
  type McpServerAwaySchema,
  type McpServerSchema,
  McpServerService,
  type McpToolSchema,
  McpToolStatus,
  type McpToolVersionSchema,
  McpServerMode as Mode,
} from "../../gen/agentcontrol/v1/mcp_server_service_pb.js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ActorNames, NameOf } from "../registry/actor-names.ts";
import { MCP_DEFINITION_KINDS, type McpDefinitionKind } from "../registry/mcp-candidate.ts";
import { printable } from "../registry/mcp-changes.ts";
import type {
  McpDefinitions,
  McpDefinitionVersion,
  PinnedDefinition,
  ReviewedDefinition,
  WaitingDefinitions,
} from "../registry/mcp-definitions.ts";
import { driftText } from "../registry/mcp-drift.ts";
import type { McpServer, McpServerMode, McpServers } from "../registry/mcp-servers.ts";
import { maskedArguments, maskedUrl } from "../registry/secret-masks.ts";
import { DEFAULT_WORKSPACE_ID } from "../registry/workspaces.ts";
import type { Targets } from "../webhook/target.ts";
import type { Caller } from "./context.ts";
import { memberNames, optionalTimestamp } from "./field-values.ts";
import { namePageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Kinds of protections against commands. */
const PROTECTION_KINDS = {
  isolation: McpProtectionKind.ISOLATION,
  privileges: McpProtectionKind.PRIVILEGES,
  processes: McpProtectionKind.PROCESSES,
  memory: McpProtectionKind.MEMORY,
} as const;

/** A protection against a command. */
export interface CommandProtection {
  readonly kind: keyof typeof PROTECTION_KINDS;
  readonly holds: boolean;
  readonly detail: string;
}

/** Failure of a server to list its definitions. */
export interface McpServerFault {
  readonly sinceMs: number;
  readonly lastAttemptMs: number;
  readonly reason: string;
}

/** Parts that McpServerService needs. */
export interface McpServerServiceOptions {
  readonly servers: McpServers;
  readonly definitions: McpDefinitions;
  /** Names of those who accepted definitions. */
  readonly names: Pick<ActorNames, "find">;
  /** Checks the addresses that a URL leads to. */
  readonly targets: Pick<Targets, "check">;
  /** Connects to a server, lists its definitions and pins them. */
  readonly refresh: (
    server: McpServer,
    by: string,
    signal: AbortSignal,
  ) => Promise<ReadonlyMap<McpDefinitionKind, readonly ReviewedDefinition[]>>;
  /** Returns the failure of a server to list its definitions; undefined while it answers, as far as this process knows. */
  readonly faultOf: (server: McpServer) => McpServerFault | undefined;
  /** Says which protections hold in this process against servers that are commands. */
  readonly protections: () => Promise<readonly CommandProtection[]>;
}

const MAX_UNUSABLE = 100;
const MAX_NAME = 256;

/** Tests whether a caller may see URLs and arguments, which may hold secrets, as they are. */
const seesSecrets = ({ role }: Caller): boolean => role === Role.ADMIN || role === Role.OPERATOR;

interface ServerState {
  readonly waiting: WaitingDefinitions | undefined;
  readonly fault: McpServerFault | undefined;
  readonly protections: readonly CommandProtection[];
}

function messageFrom(
  server: McpServer,
  caller: Caller,
  { waiting, fault, protections }: ServerState,
): MessageInitShape<typeof McpServerSchema> {
  const { name, url, command, args, env, headers, mode, revision, createdAtMs, updatedAtMs } = server;
  const { passMethods, passMeta, driftSeconds, idleSeconds, scrub } = server;
  const isPlain = seesSecrets(caller);
  return {
    name,
    args: [...(isPlain ? args : maskedArguments(args))],
    path: `/mcp/${name}`,
    revision: BigInt(revision),
    ...(url === null ? {} : { url: isPlain ? url : maskedUrl(url) }),
    ...(command === null ? {} : { command, idleSeconds }),
    envNames: Object.keys(env).sort(),
    headerNames: Object.keys(headers).sort(),
    mode: mode === "quarantine" ? Mode.QUARANTINE : Mode.OPEN,
    createdAt: timestampFromMs(createdAtMs),
    updatedAt: timestampFromMs(updatedAtMs),
    passMethods: [...passMethods],
    passMeta: [...passMeta],
    drift: driftText(driftSeconds),
    scrub: [...scrub],
    protections:
      command === null ? [] : protections.map(({ kind, ...rest }) => ({ kind: PROTECTION_KINDS[kind], ...rest })),
    newDefinitions: waiting?.fresh ?? 0,
    changedDefinitions: waiting?.changed ?? 0,
    ...(fault !== undefined && { away: awayFrom(fault) }),
  };
}

const awayFrom = ({
  sinceMs,
  lastAttemptMs,
  reason,
}: McpServerFault): MessageInitShape<typeof McpServerAwaySchema> => ({
  since: timestampFromMs(sinceMs),
  lastAttemptAt: timestampFromMs(lastAttemptMs),
  reason,
});

const KINDS: Readonly<Record<McpDefinitionKind, Kind>> = {
  tool: Kind.TOOL,
  prompt: Kind.PROMPT,
  resource: Kind.RESOURCE,
  resource_template: Kind.RESOURCE_TEMPLATE,
  instructions: Kind.INSTRUCTIONS,
};

/** Returns the kind of a request; undefined for every kind. */
const kindFrom = (kind: Kind): McpDefinitionKind | undefined =>
  MCP_DEFINITION_KINDS.find((each) => KINDS[each] === kind);

function versionsOf({ active, pending }: PinnedDefinition, nameOf: NameOf) {
  return {
    status: active === undefined ? McpToolStatus.QUARANTINED : McpToolStatus.ACTIVE,
    ...(active === undefined ? {} : { active: versionFrom(active, nameOf) }),
    ...(pending === undefined ? {} : { pending: versionFrom(pending, nameOf) }),
  };
}

const toolFrom = (
  server: McpServer,
  tool: PinnedDefinition,
  nameOf: NameOf,
): MessageInitShape<typeof McpToolSchema> => ({
  name: tool.name,
  registeredName: `${server.name}.${tool.name}`,
  ...versionsOf(tool, nameOf),
});

const definitionFrom = (
  definition: PinnedDefinition,
  nameOf: NameOf,
): MessageInitShape<typeof McpDefinitionSchema> => ({
  kind: KINDS[definition.kind],
  id: definition.name,
  ...versionsOf(definition, nameOf),
});

function versionFrom(version: McpDefinitionVersion, nameOf: NameOf): MessageInitShape<typeof McpToolVersionSchema> {
  const { version: number, definition, digest, firstSeenAtMs, acceptedBy, acceptedAtMs, changes } = version;
  return {
    version: number,
    definition,
    digest,
    changes: [...changes],
    firstSeenAt: timestampFromMs(firstSeenAtMs),
    acceptedAt: optionalTimestamp(acceptedAtMs),
    ...(acceptedBy === null ? {} : { acceptedBy }),
    acceptedByName: nameOf(acceptedBy),
  };
}

const modeFrom = (mode: Mode): McpServerMode | undefined => {
  if (mode === Mode.UNSPECIFIED) return undefined;
  return mode === Mode.QUARANTINE ? "quarantine" : "open";
};

/** Throws ROLE_NOT_ALLOWED unless the caller may run programs on the service's host. */
function assertMayRunCommands({ role, workspaceId }: Caller): void {
  if (role === Role.ADMIN && workspaceId === DEFAULT_WORKSPACE_ID) return;
  const text = "a command runs on the service's host: only an admin of the workspace `default` may register one";
  throw new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, text, { allowed_roles: "admin" });
}

/** Creates the functions of McpServerService. */
export function createMcpServerService(options: McpServerServiceOptions): ServiceDefinition {
  const { servers, definitions, names, targets, refresh, faultOf, protections } = options;
  const allShown = async (items: readonly McpServer[], caller: Caller) => {
    const held = await protections();
    const waiting = await definitions.waiting(
      caller.workspaceId,
      items.map(({ name }) => name),
    );
    return items.map((server) =>
      messageFrom(server, caller, {
        waiting: waiting.get(server.name),
        fault: faultOf(server),
        protections: held,
      }),
    );
  };
  const shown = async (server: McpServer, caller: Caller) => (await allShown([server], caller))[0] ?? {};
  const namesIn = (items: readonly PinnedDefinition[], { workspaceId }: Caller): Promise<NameOf> =>
    names.find(
      workspaceId,
      items.flatMap(({ active, pending }) => [active?.acceptedBy, pending?.acceptedBy]),
    );
  return defineService(McpServerService, {
    async createMcpServer({ mode, ...fields }, { caller }) {
      const { url, command, drift, idleSeconds } = fields;
      if (command !== undefined) assertMayRunCommands(caller);
      if (url !== undefined) await targets.check(url);
      const draft = { ...fields, url, command, drift, idleSeconds, mode: modeFrom(mode) ?? "open" };
      return { server: await shown(await servers.create(caller.workspaceId, caller.keyId, draft), caller) };
    },

    async listMcpServers(request, { caller }) {
      const { search } = request;
      const page = namePageFrom(request, "mcp servers", search);
      const { items, next } = await servers.list(caller.workspaceId, search, page);
      return {
        servers: await allShown(items, caller),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async getMcpServer({ name }, { caller }) {
      return { server: await shown(await servers.get(caller.workspaceId, name), caller) };
    },

    async updateMcpServer({ name, url, headers, mode, drift, idleSeconds, ...lists }, { caller }) {
      if (url !== undefined) await targets.check(url);
      const update = {
        url,
        headers,
        mode: modeFrom(mode),
        drift,
        idleSeconds,
        passMethods: memberNames("pass_methods", lists.passMethods),
        passMeta: memberNames("pass_meta", lists.passMeta),
        scrub: memberNames("scrub", lists.scrub),
      };
      const updated = await servers.update(caller.workspaceId, caller.keyId, name, update);
      const { server, droppedHeaders, quarantined } = updated;
      return { server: await shown(server, caller), droppedHeaders: [...droppedHeaders], quarantined };
    },

    async deleteMcpServer({ name }, { caller }) {
      return { server: await shown(await servers.delete(caller.workspaceId, caller.keyId, name), caller) };
    },

    async refreshMcpServer({ name }, { caller, signal }) {
      const server = await servers.get(caller.workspaceId, name);
      const definitions = [...(await refresh(server, caller.keyId, signal))].map(([kind, reviewed]) => ({
        kind: KINDS[kind],
        active: reviewed.filter(({ status }) => status === "active").length,
        quarantined: reviewed.filter(({ status }) => status === "quarantined").length,
        unusable: reviewed.filter(({ status }) => status === "unusable"),
      }));
      const tools = definitions.find(({ kind }) => kind === Kind.TOOL);
      const unusable = definitions.flatMap(({ kind, unusable: each }) =>
        each.map(({ name: id, reason = "" }) => ({ kind, name: printable(id, MAX_NAME), reason })),
      );
      return {
        active: tools?.active ?? 0,
        quarantined: tools?.quarantined ?? 0,
        unusable: unusable.slice(0, MAX_UNUSABLE),
        definitions,
      };
    },

    async listMcpTools(request, { caller }) {
      const server = await servers.get(caller.workspaceId, request.name);
      const page = namePageFrom(request, "mcp tools", server.name);
      const { items, next } = await definitions.list(server, "tool", page);
      const nameOf = await namesIn(items, caller);
      return { tools: items.map((tool) => toolFrom(server, tool, nameOf)), nextPageToken: page.tokenAfter(next) };
    },

    async acceptMcpTool({ name, toolName, version }, { caller }) {
      const server = await servers.get(caller.workspaceId, name);
      const id = { kind: "tool" as const, name: toolName };
      const accepted = await definitions.accept(server, id, version, caller.keyId);
      return { tool: toolFrom(server, accepted, await namesIn([accepted], caller)) };
    },

    async listMcpDefinitions(request, { caller }) {
      const server = await servers.get(caller.workspaceId, request.name);
      const page = namePageFrom(request, "mcp definitions", server.name, request.kind);
      const { items, next } = await definitions.list(server, kindFrom(request.kind), page);
      const nameOf = await namesIn(items, caller);
      return {
        definitions: items.map((definition) => definitionFrom(definition, nameOf)),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async acceptMcpDefinition({ name, kind, id, version }, { caller }) {
      const server = await servers.get(caller.workspaceId, name);
      // The rules of the request leave no other kind.
      const wanted = { kind: kindFrom(kind) ?? "tool", name: id };
      const accepted = await definitions.accept(server, wanted, version, caller.keyId);
      return { definition: definitionFrom(accepted, await namesIn([accepted], caller)) };
    },
  });
}
