import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { BudgetWindow, CompiledBudget } from "../policy/budget.ts";
import { compileMandate } from "../policy/compile/mandate.ts";
import { namedTools } from "../policy/compile/rule-draft.ts";
import { toolKey, toolNameFrom } from "../policy/names.ts";
import { createPolicySet, policyDigest } from "../policy/policy-set.ts";
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
import type { ToolProvenance } from "../provenance/result-values.ts";
import { digestOf } from "../tree/canonical.ts";
import { ApproverGroups } from "./approver-groups.ts";
import type { ControlChange, SealedMandate, SealedTool, SealedToolProvenance } from "./control-changes.ts";
import { Lists } from "./lists.ts";

/** The current version of a tool. */
export interface ToolState {
  readonly schema: ToolSchema;
  readonly sealed: SealedTool;
  readonly registeredAtMs: number;
}

/** Origin of a mandate and of its current version. */
export interface MandateOrigin {
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Index of the entry that created the mandate. */
  readonly createdSeq: number;
  /** Author of the version: a key or a person. Undefined for a version from before authors were kept. */
  readonly createdBy: string | undefined;
}

/** A mandate that is not archived. */
export interface MandateState extends MandateOrigin {
  readonly sealed: SealedMandate;
  readonly compiled: CompiledMandate;
  /** Name of the pack that it belongs to; undefined outside packs. */
  readonly pack: string | undefined;
}

/** A named set of mandates after its last change. */
export interface PackState {
  readonly name: string;
  /** Number of changes that were applied, from 1. */
  readonly version: number;
  /** `packDigest` of the mandates that the last change put in the pack. */
  readonly appliedDigest: string;
}

/** Place of a change in the log. */
interface ChangePlace {
  readonly seq: number;
  readonly atMs: number;
  /** Author of the change. */
  readonly by: string;
}

/** The compiled form of a mandate that is about to be published. */
interface PreparedMandate {
  readonly compiled: CompiledMandate;
  readonly revision: number;
}

/** Returns the digest of a pack: the SHA-256 of the RFC 8785 JSON of `[name, digest]` of every mandate, sorted by name. */
export function packDigest(mandates: Iterable<Pick<CompiledMandate, "name" | "digest">>): string {
  return digestOf(
    [...mandates].map(({ name, digest }) => [name, digest] as const).sort(([a], [b]) => (a < b ? -1 : 1)),
  );
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
  const provenance = toolProvenanceFrom(tool.provenance);
  return createToolSchema({ name, version, digest, arguments: flattened.arguments, inputSchema, provenance });
}

function toolProvenanceFrom(sealed: SealedToolProvenance | undefined): ToolProvenance | undefined {
  if (sealed === undefined) return undefined;
  const { trusted_fields, free_fields, session_arguments = [], session_fields = [] } = sealed;
  return {
    trustedFields: trusted_fields,
    freeFields: free_fields,
    sessionArguments: session_arguments,
    sessionFields: session_fields,
  };
}

const namesTool = ({ compiled }: MandateState, key: string): boolean =>
  compiled.rules.some(({ source }) => namedTools(source).includes(key));

/** Members of an action that name its tool. */
interface ToolCall {
  readonly tool?: string | undefined;
  readonly metadata?: JsonObject | undefined;
  readonly actionType: string;
}

/** Tool that an action calls. Both are undefined for an action that calls none. */
interface CalledTool {
  readonly name: string | undefined;
  /** Undefined for a tool that is not registered. */
  readonly schema: ToolSchema | undefined;
}

/** The tools and mandates of a workspace. Mandates are compiled against the current versions of the tools. */
export class Policies {
  readonly #tools = new Map<string, ToolState>();
  readonly #mandates = new Map<string, MandateState>();
  readonly #packs = new Map<string, PackState>();
  readonly #prepared = new WeakMap<SealedMandate, PreparedMandate>();
  readonly #lists: Lists;
  readonly #approverGroups: ApproverGroups;
  #toolsRevision = 0;
  /** Finds the current schema of a tool by name, the lists, and the approver groups. */
  readonly lookup: ToolLookup;
  /** Undefined until first use: a cold start puts every mandate before it decides anything. */
  #policySet: PolicySet | undefined;

  /** `lists` and `approverGroups`: default none. */
  constructor(lists = new Lists(), approverGroups = new ApproverGroups()) {
    this.#lists = lists;
    this.#approverGroups = approverGroups;
    this.lookup = Object.defineProperties((name: string) => this.tool(name)?.schema, {
      names: { get: () => [...this.#tools.values()].map(({ sealed }) => sealed.name) },
      lists: { value: lists },
      approverGroups: { value: approverGroups },
    });
  }

  /** Returns the current version of a tool, named in any case; undefined for an unknown one. */
  tool(name: string): ToolState | undefined {
    return this.#tools.get(toolKey(name));
  }

  /** Finds the tool that an action calls. `name` is as registered; for an unknown tool, as the action writes it. */
  toolCalledBy({ tool, metadata, actionType }: ToolCall): CalledTool {
    const named = toolNameFrom(tool, metadata, actionType, (name) => this.tool(name) !== undefined);
    const schema = named === undefined ? undefined : this.tool(named)?.schema;
    return { name: schema?.name ?? named, schema };
  }

  /** The current version of every tool, by `toolKey`. */
  get tools(): ReadonlyMap<string, ToolState> {
    return this.#tools;
  }

  /** The mandates that are not archived, by id. */
  get mandates(): ReadonlyMap<string, MandateState> {
    return this.#mandates;
  }

  /** The packs, by name. */
  get packs(): ReadonlyMap<string, PackState> {
    return this.#packs;
  }

  /** Lists the mandates of a pack that are not archived, in the order of their creation. */
  mandatesOf(pack: string): MandateState[] {
    return [...this.#mandates.values()].filter((mandate) => mandate.pack === pack);
  }

  /** Increases with every version of a tool, every list and every approver group. Rules compiled at the same revision compile to the same result. */
  get revision(): number {
    return this.#toolsRevision + this.#lists.revision + this.#approverGroups.revision;
  }

  /** Returns the mandates in force, for deciding. */
  policySet(): PolicySet {
    this.#policySet ??= createPolicySet([...this.#mandates.values()].map(({ compiled }) => compiled));
    return this.#policySet;
  }

  /** Returns every counter that a mandate in force reads. */
  counters(): CounterSpec[] {
    return this.#rules().flatMap(({ velocity }) =>
      velocity?.counter.pot === undefined ? (velocity?.counter ?? []) : [],
    );
  }

  /** Returns the window of every budget in force, and of every counter whose actions count by their outcomes. */
  budgets(): BudgetWindow[] {
    return this.#rules().flatMap(({ budget, velocity }): BudgetWindow[] => {
      if (budget !== undefined) return [budget];
      return velocity?.counter.pot === undefined
        ? []
        : [{ pot: velocity.counter.pot, windowMs: velocity.counter.windowMs }];
    });
  }

  /**
   * Returns the keys of the pots that give an amount back only by a confirmed report: a budget of a mandate that enforces says so, or, where
   * none has the pot, one of a mandate that observes.
   */
  confirmedPots(): ReadonlySet<string> {
    const enforced = this.#budgetsOf("enforce");
    const keys = new Set(enforced.map(({ pot }) => pot.key));
    const observed = this.#budgetsOf("observe").filter(({ pot }) => !keys.has(pot.key));
    return new Set([...enforced, ...observed].flatMap(({ pot, confirmsRelease }) => (confirmsRelease ? pot.key : [])));
  }

  #budgetsOf(mode: CompiledMandate["mode"]): CompiledBudget[] {
    const mandates = [...this.#mandates.values()].filter(({ compiled }) => compiled.mode === mode);
    return mandates.flatMap(({ compiled }) => compiled.rules.flatMap(({ budget }) => budget ?? []));
  }

  /** Returns every sequence that a mandate in force looks for. */
  sequences(): OrderedSpec[] {
    return this.#rules().flatMap(({ ordered }) => ordered ?? []);
  }

  /** Puts a version of a tool in force and recompiles the mandates that name the tool. */
  putTool(sealed: SealedTool, registeredAtMs: number): void {
    this.#toolsRevision++;
    this.#tools.set(toolKey(sealed.name), { schema: toolSchemaFrom(sealed), sealed, registeredAtMs });
    const key = toolKey(sealed.name);
    for (const mandate of [...this.#mandates.values()]) {
      if (namesTool(mandate, key)) this.putMandate(mandate.sealed, mandate);
    }
  }

  /** Changes the description of a tool's current version, which no mandate depends on. */
  describeTool(name: string, description: string): void {
    const tool = this.tool(name);
    if (tool !== undefined) this.#tools.set(toolKey(name), { ...tool, sealed: { ...tool.sealed, description } });
  }

  /** Declares what a tool's results and arguments mean for provenance, on which no compiled rule depends. */
  declareProvenance(name: string, provenance: SealedToolProvenance | undefined): void {
    const tool = this.tool(name);
    if (tool === undefined) return;
    const { provenance: _, ...others } = tool.sealed;
    const sealed = provenance === undefined ? others : { ...others, provenance };
    const schema = { ...tool.schema, provenance: toolProvenanceFrom(provenance) };
    this.#tools.set(toolKey(name), { ...tool, schema, sealed });
  }

  /** Puts a version of a mandate in force. */
  putMandate(sealed: SealedMandate, since: MandateOrigin & Pick<MandateState, "pack">): void {
    const compiled = this.#compile(sealed);
    const { createdAtMs, updatedAtMs, createdSeq, createdBy, pack } = since;
    const { author: _, ...version } = sealed;
    const origin = { createdAtMs, updatedAtMs, createdSeq, createdBy, pack };
    this.#mandates.set(sealed.mandate_id, { sealed: version, compiled, ...origin });
    this.#policySet = this.#policySet?.with(compiled);
  }

  /** Puts a version of a mandate in force that an entry of the log publishes. It stays in its pack. */
  publish(sealed: SealedMandate, { seq, atMs, by }: ChangePlace): void {
    const { createdAtMs = atMs, createdSeq = seq, pack } = this.#mandates.get(sealed.mandate_id) ?? {};
    this.putMandate(sealed, { createdAtMs, updatedAtMs: atMs, createdSeq, createdBy: sealed.author ?? by, pack });
  }

  /** Puts a pack in its current version. */
  putPack({ name, version, appliedDigest }: PackState): void {
    this.#packs.set(name, { name, version, appliedDigest });
  }

  /** Puts every change of a pack in force. */
  applyPack({ pack, published, archived }: Extract<ControlChange, { type: "pack_applied" }>, place: ChangePlace): void {
    // Built again when it is next read: changing it for one mandate at a time would copy it for each.
    this.#policySet = undefined;
    for (const mandateId of archived) this.#mandates.delete(mandateId);
    for (const sealed of published) this.publish(sealed, place);
    for (const mandateId of pack.mandate_ids) {
      const mandate = this.#mandates.get(mandateId);
      if (mandate !== undefined) this.#mandates.set(mandateId, { ...mandate, pack: pack.name });
    }
    this.putPack({ name: pack.name, version: pack.version, appliedDigest: pack.digest });
  }

  /** Keeps the compiled form of a mandate that is about to be published, compiled against the tools as they are now. */
  prepare(sealed: SealedMandate, compiled: CompiledMandate): void {
    this.#prepared.set(sealed, { compiled, revision: this.revision });
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

  /** Returns the digest of the policy set that publishing and archiving several mandates would put in force. */
  digestAfter(published: readonly SealedMandate[], archived: readonly string[]): string {
    type Version = Pick<CompiledMandate, "id" | "version" | "digest">;
    const after = new Map<string, Version>([...this.#mandates].map(([id, { compiled }]) => [id, compiled]));
    for (const id of archived) after.delete(id);
    for (const { mandate_id: id, version, digest } of published) after.set(id, { id, version, digest });
    return policyDigest(after.values());
  }

  #rules() {
    return [...this.#mandates.values()].flatMap(({ compiled }) => compiled.rules);
  }

  #compile(sealed: SealedMandate): CompiledMandate {
    const prepared = this.#prepared.get(sealed);
    if (prepared?.revision === this.revision) return prepared.compiled;
    return compileMandate(mandateSourceFrom(sealed), this.lookup, { allowStale: true });
  }
}
