import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { compileMandate } from "../policy/compile/mandate.ts";
import { createPolicySet } from "../policy/policy-set.ts";
import { flattenSchema } from "../policy/schema/flatten.ts";
import { createToolSchema } from "../policy/schema/validate.ts";
import type {
  CompiledMandate,
  CounterSpec,
  MandateSource,
  OrderedSpec,
  PolicySet,
  ToolLookup,
  ToolSchema,
} from "../policy/types.ts";
import type { SealedMandate, SealedTool } from "./control-changes.ts";

/** The current version of a tool. */
export interface ToolState {
  readonly schema: ToolSchema;
  readonly sealed: SealedTool;
  readonly registeredAtMs: number;
}

/** A mandate that is not archived. */
export interface MandateState {
  readonly sealed: SealedMandate;
  readonly compiled: CompiledMandate;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Index of the entry that created it. */
  readonly createdSeq: number;
}

/** When a mandate and its version came into force. */
export interface MandateTimes {
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  readonly createdSeq: number;
}

/** The tools and mandates of a workspace, compiled against each other. */
export interface Policies {
  readonly tools: ReadonlyMap<string, ToolState>;
  readonly mandates: ReadonlyMap<string, MandateState>;
  readonly lookup: ToolLookup;
  /** The mandates in force, for deciding. */
  policySet(): PolicySet;
  /** Every counter that a mandate in force reads. */
  counters(): CounterSpec[];
  /** Every sequence that a mandate in force looks for. */
  sequences(): OrderedSpec[];
  /** Puts a tool version in force and compiles every mandate that names the tool again. */
  putTool(tool: SealedTool, registeredAtMs: number): void;
  putMandate(mandate: SealedMandate, times: MandateTimes): void;
  removeMandate(mandateId: string): void;
  /** Digest of the policy set that publishing this version would put in force. */
  digestWith(mandate: SealedMandate): string;
  /** Digest of the policy set that archiving a mandate would put in force. */
  digestWithout(mandateId: string): string;
}

/** Digest of a policy set without mandates. */
export const EMPTY_POLICY_DIGEST = createPolicySet([]).digest;

/** The definition of a mandate in the words of the policy core. */
export function mandateSourceFrom({ mandate_id, version, digest, definition }: SealedMandate): MandateSource {
  const rules = Array.isArray(definition.rules) ? definition.rules : [];
  return {
    id: mandate_id,
    version,
    digest,
    name: String(definition.name),
    scope: definition.scope as MandateSource["scope"],
    departmentId: definition.department_id as string | undefined,
    agentId: definition.agent_id as string | undefined,
    priority: Number(definition.priority),
    mode: definition.mode as MandateSource["mode"],
    rules: rules.map((rule) => fromJson(RuleSchema, rule)),
  };
}

/** The schema of a tool version as rules need it. Throws when it cannot be flattened: such a version is never sealed. */
export function toolSchemaFrom(tool: SealedTool): ToolSchema {
  const flattened = flattenSchema(tool.input_schema as JsonObject);
  if (flattened.kind === "invalid") throw new Error(`the sealed schema of \`${tool.name}\` cannot be flattened`);
  const inputSchema = tool.input_schema as JsonObject;
  const { name, version, digest } = tool;
  return createToolSchema({ name, version, digest, arguments: flattened.arguments, inputSchema });
}

const namesTool = ({ compiled }: MandateState, name: string): boolean =>
  compiled.rules.some((rule) => rule.tool === name);

/** Creates the tools and mandates of a workspace, empty. */
export function createPolicies(): Policies {
  const tools = new Map<string, ToolState>();
  const mandates = new Map<string, MandateState>();
  let set: PolicySet | undefined;

  const lookup: ToolLookup = Object.defineProperty((name: string) => tools.get(name)?.schema, "names", {
    get: () => tools.keys(),
  });

  const compiledFrom = (sealed: SealedMandate): CompiledMandate =>
    compileMandate(mandateSourceFrom(sealed), lookup, { allowStale: true });

  // Built on first use: a cold start puts every mandate before it decides anything.
  const policySet = (): PolicySet => (set ??= createPolicySet([...mandates.values()].map(({ compiled }) => compiled)));

  const putMandate = (sealed: SealedMandate, times: MandateTimes): void => {
    const compiled = compiledFrom(sealed);
    // Last, because the times may be those of a whole mandate that is compiled again.
    mandates.set(sealed.mandate_id, { ...times, sealed, compiled });
    set = set?.with(compiled);
  };

  return {
    tools,
    mandates,
    lookup,
    policySet,
    digestWith: (sealed) => policySet().with(compiledFrom(sealed)).digest,
    digestWithout: (mandateId) => policySet().without(mandateId).digest,
    counters: () =>
      [...mandates.values()].flatMap(({ compiled }) =>
        compiled.rules.flatMap(({ velocity }) => (velocity === undefined ? [] : [velocity.counter])),
      ),
    sequences: () =>
      [...mandates.values()].flatMap(({ compiled }) =>
        compiled.rules.flatMap(({ ordered }) => (ordered === undefined ? [] : [ordered])),
      ),
    putTool(sealed, registeredAtMs) {
      tools.set(sealed.name, { schema: toolSchemaFrom(sealed), sealed, registeredAtMs });
      for (const mandate of [...mandates.values()]) {
        if (namesTool(mandate, sealed.name)) putMandate(mandate.sealed, mandate);
      }
    },
    putMandate,
    removeMandate(mandateId) {
      mandates.delete(mandateId);
      set = set?.without(mandateId);
    },
  };
}
