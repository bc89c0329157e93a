import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { compileMandate } from "../policy/compile/mandate.ts";
import { toolKey } from "../policy/names.ts";
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

/** Times at which a mandate and its current version came into force. */
export interface MandateTimes {
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
}

/** A mandate that is not archived. */
export interface MandateState extends MandateTimes {
  readonly sealed: SealedMandate;
  readonly compiled: CompiledMandate;
}

/** Digest of a policy set without mandates. */
export const EMPTY_POLICY_DIGEST = createPolicySet([]).digest;

/** Converts a sealed mandate to the form that the policy compiler takes. */
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

/** Compiles the schema of a tool version. Throws when it cannot be flattened; such a version is never sealed. */
export function toolSchemaFrom(tool: SealedTool): ToolSchema {
  const flattened = flattenSchema(tool.input_schema as JsonObject);
  if (flattened.kind === "invalid") throw new Error(`the sealed schema of \`${tool.name}\` cannot be flattened`);
  const inputSchema = tool.input_schema as JsonObject;
  const { name, version, digest } = tool;
  return createToolSchema({ name, version, digest, arguments: flattened.arguments, inputSchema });
}

const namesTool = ({ compiled }: MandateState, name: string): boolean =>
  compiled.rules.some((rule) => rule.tool === toolKey(name));

/** The tools and mandates of a workspace. Mandates are compiled against the current versions of the tools. */
export class Policies {
  readonly #tools = new Map<string, ToolState>();
  readonly #mandates = new Map<string, MandateState>();
  /** Finds the current schema of a tool by name. */
  readonly lookup: ToolLookup = Object.defineProperty((name: string) => this.tool(name)?.schema, "names", {
    get: () => [...this.#tools.values()].map(({ sealed }) => sealed.name),
  });
  /** Undefined until first use: a cold start puts every mandate before it decides anything. */
  #policySet: PolicySet | undefined;

  /** Returns the current version of a tool, named in any case; undefined for an unknown one. */
  tool(name: string): ToolState | undefined {
    return this.#tools.get(toolKey(name));
  }

  /** The current version of every tool, by `toolKey`. */
  get tools(): ReadonlyMap<string, ToolState> {
    return this.#tools;
  }

  /** The mandates that are not archived, by id. */
  get mandates(): ReadonlyMap<string, MandateState> {
    return this.#mandates;
  }

  /** Returns the mandates in force, for deciding. */
  policySet(): PolicySet {
    this.#policySet ??= createPolicySet([...this.#mandates.values()].map(({ compiled }) => compiled));
    return this.#policySet;
  }

  /** Returns every counter that a mandate in force reads. */
  counters(): CounterSpec[] {
    return this.#rules().flatMap(({ velocity }) => velocity?.counter ?? []);
  }

  /** Returns every sequence that a mandate in force looks for. */
  sequences(): OrderedSpec[] {
    return this.#rules().flatMap(({ ordered }) => ordered ?? []);
  }

  /** Puts a version of a tool in force and recompiles the mandates that name the tool. */
  putTool(sealed: SealedTool, registeredAtMs: number): void {
    this.#tools.set(toolKey(sealed.name), { schema: toolSchemaFrom(sealed), sealed, registeredAtMs });
    for (const mandate of [...this.#mandates.values()]) {
      if (namesTool(mandate, sealed.name)) this.putMandate(mandate.sealed, mandate);
    }
  }

  /** Changes the description of a tool's current version, which no mandate depends on. */
  describeTool(name: string, description: string): void {
    const tool = this.tool(name);
    if (tool !== undefined) this.#tools.set(toolKey(name), { ...tool, sealed: { ...tool.sealed, description } });
  }

  /** Puts a version of a mandate in force. */
  putMandate(sealed: SealedMandate, { createdAtMs, updatedAtMs, createdSeq }: MandateTimes): void {
    const compiled = this.#compile(sealed);
    this.#mandates.set(sealed.mandate_id, { sealed, compiled, createdAtMs, updatedAtMs, createdSeq });
    this.#policySet = this.#policySet?.with(compiled);
  }

  /** Removes a mandate that was archived. */
  removeMandate(mandateId: string): void {
    this.#mandates.delete(mandateId);
    this.#policySet = this.#policySet?.without(mandateId);
  }

  /** Returns the digest of the policy set that publishing a mandate version would put in force. */
  digestWith(sealed: SealedMandate): string {
    return this.policySet().with(this.#compile(sealed)).digest;
  }

  /** Returns the digest of the policy set that archiving a mandate would put in force. */
  digestWithout(mandateId: string): string {
    return this.policySet().without(mandateId).digest;
  }

  #rules() {
    return [...this.#mandates.values()].flatMap(({ compiled }) => compiled.rules);
  }

  #compile(sealed: SealedMandate): CompiledMandate {
    return compileMandate(mandateSourceFrom(sealed), this.lookup, { allowStale: true });
  }
}
