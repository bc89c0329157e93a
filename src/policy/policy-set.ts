import { createHash } from "node:crypto";
import { evaluatePlan } from "./policy-evaluate.ts";
import { buildIndex, indexWith, indexWithout, type PolicyIndex } from "./policy-index.ts";
import { createPlanner } from "./policy-plan.ts";
import type { CompiledMandate, PolicySet } from "./types.ts";

/**
 * Builds the set of mandates in force; of two with one id the later stays. The cost of a decision does not depend on
 * mandates for other agents, departments, tools or action types.
 */
export function createPolicySet(mandates: Iterable<CompiledMandate>): PolicySet {
  const byId = new Map<string, CompiledMandate>();
  for (const mandate of mandates) byId.set(mandate.id, mandate);
  return policySetFrom(byId, buildIndex(byId.values()));
}

function policySetFrom(byId: ReadonlyMap<string, CompiledMandate>, index: PolicyIndex): PolicySet {
  const planFor = createPlanner(index);
  let asksGuard: boolean | undefined;
  let digest: string | undefined;
  const set: PolicySet = {
    size: byId.size,
    get asksGuard() {
      asksGuard ??= [...byId.values()].some(({ rules }) => rules.some(({ semantic }) => semantic !== undefined));
      return asksGuard;
    },
    get digest() {
      digest ??= digestOf(byId.values());
      return digest;
    },
    get: (id) => byId.get(id),
    mandates: () => byId.values(),
    with: (mandate) => {
      const before = byId.get(mandate.id);
      const base = before === undefined ? index : indexWithout(index, before);
      return policySetFrom(new Map(byId).set(mandate.id, mandate), indexWith(base, mandate));
    },
    without: (id) => {
      const mandate = byId.get(id);
      if (mandate === undefined) return set;
      const rest = new Map(byId);
      rest.delete(id);
      return policySetFrom(rest, indexWithout(index, mandate));
    },
    evaluate: (facts) => evaluatePlan(planFor(facts), facts),
  };
  return set;
}

function digestOf(mandates: Iterable<CompiledMandate>): string {
  const sorted = [...mandates].sort((a, b) => (a.id < b.id ? -1 : 1));
  // A list of lists of strings and whole numbers: what JSON.stringify writes is its RFC 8785 text.
  const text = JSON.stringify(sorted.map(({ id, version, digest }) => [id, version, digest]));
  return createHash("sha256").update(text).digest("hex");
}
