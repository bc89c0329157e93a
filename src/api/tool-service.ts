import { fromJson, type JsonObject, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { timestampFromMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ToolArgumentSchema } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  type ToolProvenanceSchema,
  type ToolSchema,
  ToolService,
  ToolSource,
} from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { mandatesNaming, testWarnings } from "../dryrun/publish-warnings.ts";
import { invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { FlattenedArgument } from "../policy/types.ts";
import { toolsFromPaste } from "../registry/paste.ts";
import {
  createFlattenTool,
  createSchemaWarnings,
  declareToolProvenance,
  getTool,
  listTools,
  listToolVersions,
  registerTool,
  registerTools,
  type ToolView,
  toolViewFrom,
  tryTools,
} from "../registry/tools.ts";
import type { SealedToolProvenance } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { namePageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that ToolService needs. */
export interface ToolServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Database;
}

/** Converts an argument that a schema declares. */
export function argumentFrom({ enum: values, types, ...rest }: FlattenedArgument) {
  const shown = { ...rest, types: [...types], enum: values.map((value) => fromJson(ValueSchema, value)) };
  return shown satisfies MessageInitShape<typeof ToolArgumentSchema>;
}

const provenanceFrom = ({
  trusted_fields = [],
  free_fields = [],
  session_arguments = [],
  session_fields = [],
}: SealedToolProvenance): MessageInitShape<typeof ToolProvenanceSchema> => ({
  trustedFields: [...trusted_fields],
  freeFields: [...free_fields],
  sessionArguments: [...session_arguments],
  sessionFields: [...session_fields],
});

/** Creates the functions of ToolService. */
export function createToolService({ logs, database }: ToolServiceOptions): ServiceDefinition {
  const flatten = createFlattenTool();
  const warningsOf = createSchemaWarnings();
  const messageFrom = ({ sealed, arguments: paths, registeredAtMs }: ToolView): MessageInitShape<typeof ToolSchema> => {
    const { name, version, description, input_schema, digest, source, provenance } = sealed;
    return {
      name,
      version,
      description,
      digest,
      source,
      inputSchema: input_schema as JsonObject,
      arguments: paths.map(argumentFrom),
      registeredAt: timestampFromMs(registeredAtMs),
      warnings: [...warningsOf(sealed)],
      ...(provenance !== undefined && { provenance: provenanceFrom(provenance) }),
    };
  };
  /** Runs the tests of the mandates that name tools with a new version. */
  const warningsFor = async (log: WorkspaceLog, names: readonly string[]) => {
    const state = await log.caughtUp();
    return testWarnings(database, state, mandatesNaming(state, names));
  };
  return defineService(ToolService, {
    async registerTool({ name, description, inputSchema, provenance }, context) {
      const { caller } = context;
      if (inputSchema === undefined) throw invalidField("input_schema", "is missing");
      const log = await logs.of(caller.workspaceId);
      const draft = { name, description, inputSchema, source: ToolSource.API, declared: provenance };
      const { tool, created } = await registerTool(log, caller.keyId, draft, () => context.giveWay());
      const warnings = created ? await warningsFor(log, [tool.sealed.name]) : [];
      return { tool: messageFrom(toolViewFrom(tool)), created, warnings: [...warnings] };
    },

    async pasteTool({ definition, dryRun }, context) {
      const { caller } = context;
      if (definition === undefined) throw invalidField("definition", "is missing");
      const drafts = toolsFromPaste(toJson(ValueSchema, definition));
      const log = await logs.of(caller.workspaceId);
      if (dryRun) {
        const tried = tryTools(await log.caughtUp(), drafts, logs.clock.now());
        return { tools: tried.map(({ tool, created }) => ({ tool: messageFrom(tool), created })) };
      }
      const registered = await registerTools(log, caller.keyId, drafts, () => context.giveWay());
      const changed = registered.filter(({ created }) => created).map(({ tool }) => tool.sealed.name);
      const warnings = changed.length === 0 ? [] : await warningsFor(log, changed);
      const tools = registered.map(({ tool, created }) => ({ tool: messageFrom(toolViewFrom(tool)), created }));
      return { tools, warnings: [...warnings] };
    },

    async updateTool({ name, provenance }, { caller }) {
      if (provenance === undefined) throw invalidField("provenance", "is missing");
      const log = await logs.of(caller.workspaceId);
      const tool = await declareToolProvenance(log, caller.keyId, name, provenance);
      return { tool: messageFrom(toolViewFrom(tool)) };
    },

    async listTools(request, { caller }) {
      const { search } = request;
      const page = namePageFrom(request, "tools", search);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const { items, next } = listTools(state, search, page);
      return {
        tools: items.map((tool) => messageFrom(toolViewFrom(tool))),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async getTool({ name }, { caller }) {
      const { workspaceId } = caller;
      const state = await (await logs.of(workspaceId)).caughtUp();
      const tool = getTool(state, name);
      const versions = await listToolVersions(database, workspaceId, tool, flatten);
      return { tool: messageFrom(toolViewFrom(tool)), versions: versions.map(messageFrom) };
    },
  });
}
