import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type CheckSizes, takesLong } from "./checks.ts";
import { evaluate } from "./evaluate.ts";
import { toolKey } from "./names.ts";
import { type Plan, RuleIndex } from "./rule-index.ts";
import type { CompiledMandate, EvaluationContext, PolicyResult, PolicySet } from "./types.ts";

/**
 * Maximum size of the plans kept per set, in characters of their keys and rules. They are kept because collecting and sorting
 * rules takes longer than evaluating them. There is one per tool, action type and combination of scopes in use.
 */
const MAX_PLANS_SIZE = 2_097_152;
/** Counted for each mandate and rule of a plan: a reference and its object. */
const PLANNED_SIZE = 32;

/**
 * Builds the set of mandates in force; of two with the same id the later stays. The cost of a decision does not depend on
 * mandates for other agents, departments, tools or action types.
 */
export function createPolicySet(mandates: Iterable<CompiledMandate>): PolicySet {
  const byId = new Map<string, CompiledMandate>();
  for (const mandate of mandates) byId.set(mandate.id, mandate);
  return new IndexedMandates(byId, RuleIndex.of(byId.values()));
}

class IndexedMandates implements PolicySet {
  readonly #byId: ReadonlyMap<string, CompiledMandate>;
  readonly #index: RuleIndex;
  readonly #plans = new LRUCache<string, Plan>({
    maxSize: MAX_PLANS_SIZE,
    sizeCalculation: ({ mandates }, key) =>
      mandates.reduce((sum, { rules }) => sum + PLANNED_SIZE * (1 + rules.length), key.length + PLANNED_SIZE),
  });
  #asksGuard: boolean | undefined;
  #sizes: CheckSizes | undefined;
  #digest: string | undefined;

  constructor(byId: ReadonlyMap<string, CompiledMandate>, index: RuleIndex) {
    this.#byId = byId;
    this.#index = index;
  }

  get asksGuard(): boolean {
    this.#asksGuard ??= [...this.#byId.values()].some(({ rules }) =>
      rules.some(({ semantic }) => semantic !== undefined),
    );
    return this.#asksGuard;
  }

  mayTakeLong(textLength: number): boolean {
    this.#sizes ??= sizesOf(this.#byId.values());
    return takesLong(this.#sizes, textLength);
  }

  get digest(): string {
    this.#digest ??= policyDigest(this.#byId.values());
    return this.#digest;
  }

  mandates(): Iterable<CompiledMandate> {
    return this.#byId.values();
  }

  with(mandate: CompiledMandate): PolicySet {
    const before = this.#byId.get(mandate.id);
    const base = before === undefined ? this.#index : this.#index.without(before);
    return new IndexedMandates(new Map(this.#byId).set(mandate.id, mandate), base.with(mandate));
  }

  without(id: string): PolicySet {
    const mandate = this.#byId.get(id);
    if (mandate === undefined) return this;
    const rest = new Map(this.#byId);
    rest.delete(id);
    return new IndexedMandates(rest, this.#index.without(mandate));
  }

  evaluate(context: EvaluationContext): PolicyResult {
    return evaluate(this.#planFor(context), context);
  }

  #planFor(context: EvaluationContext): Plan {
    const scopes = this.#index.scopesOf(context);
    const tool = toolKey(context.tool?.name ?? context.toolName ?? "");
    const key = JSON.stringify([...scopes, tool, context.actionType]);
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    const plan = this.#index.plan(scopes, tool, context.actionType);
    this.#plans.set(key, plan);
    return plan;
  }
}

function sizesOf(mandates: Iterable<CompiledMandate>): CheckSizes {
  const sizes = { patterns: 0, schemas: 0, largestSchema: 0 };
  for (const { rules } of mandates) {
    for (const { patternSize, schemaSize } of rules) {
      sizes.patterns += patternSize;
      sizes.schemas += schemaSize;
      sizes.largestSchema = Math.max(sizes.largestSchema, schemaSize);
    }
  }
  return sizes;
}

/** Returns the digest of the policy set that mandates make; see `PolicySet.digest`. */
export function policyDigest(mandates: Iterable<Pick<CompiledMandate, "id" | "version" | "digest">>): string {
  const sorted = [...mandates].sort((a, b) => (a.id < b.id ? -1 : 1));
  // Lists of strings and whole numbers: the text of JSON.stringify is already the RFC 8785 text.
  const text = JSON.stringify(sorted.map(({ id, version, digest }) => [id, version, digest]));
  return createHash("sha256").update(text).digest("hex");
}
