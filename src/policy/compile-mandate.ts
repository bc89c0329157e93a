import { compileRule } from "./compile-rules.ts";
import { createStaleRule } from "./stale-rule.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompileMandateOptions,
  MandateSource,
  RuleViolation,
  ToolLookup,
} from "./types.ts";
import { createViolations } from "./violations.ts";

/**
 * Compiles a mandate for publishing, or again after a tool's schema changed. Without `allowStale` a mandate with violations
 * has no rules and MUST NOT be put in force; with it, each rule that does not compile escalates in its place while the
 * others stay in force. MUST NOT throw on any source.
 */
export function compileMandate(
  source: MandateSource,
  tools: ToolLookup,
  options: CompileMandateOptions = {},
): CompiledMandate {
  const rules: CompiledRule[] = [];
  const violations: RuleViolation[] = [...scopeViolations(source)];
  source.rules.forEach((rule, index) => {
    const result = compileRule(rule, index, tools);
    const broken = result.kind === "compiled" ? [] : result.violations;
    violations.push(...broken);
    rules.push(result.kind === "compiled" ? result.rule : createStaleRule(rule, index, broken));
  });
  const isUsable = violations.length === 0 || options.allowStale === true;
  return {
    id: source.id,
    version: source.version,
    digest: source.digest,
    name: source.name,
    scope: source.scope,
    departmentId: source.departmentId,
    agentId: source.agentId,
    priority: source.priority,
    mode: source.mode,
    rules: isUsable ? rules : [],
    violations,
  };
}

/** Notes a scope without the department or agent it needs, and a target that the scope does not use. */
export function scopeViolations(
  source: Pick<MandateSource, "scope" | "departmentId" | "agentId">,
): readonly RuleViolation[] {
  const violations = createViolations();
  const targets = [
    { scope: "agent", field: "agent_id", id: source.agentId },
    { scope: "department", field: "department_id", id: source.departmentId },
  ] as const;
  for (const { scope, field, id } of targets) {
    if (scope === source.scope && (id === undefined || id.trim() === "")) {
      violations.add(field, "SCOPE_TARGET_MISSING", `the scope \`${scope}\` needs \`${field}\``);
    } else if (scope !== source.scope && id !== undefined) {
      violations.add(field, "SCOPE_TARGET_NOT_APPLICABLE", `\`${field}\` goes with the scope \`${scope}\` only`);
    }
  }
  return violations.sorted();
}
