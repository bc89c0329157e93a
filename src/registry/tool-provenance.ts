import { invalidField } from "../errors.ts";
import { type ArgumentStep, argumentPath, argumentSteps, resultSteps } from "../notation/argument-path.ts";
import type { FlattenedArgument } from "../policy/types.ts";
import type { SealedToolProvenance } from "../state/control-changes.ts";

/** Meaning of a tool's results and arguments for provenance, as a request declares it: paths. */
export interface DeclaredProvenance {
  readonly trustedFields: readonly string[];
  readonly freeFields: readonly string[];
  readonly sessionArguments: readonly string[];
  readonly sessionFields: readonly string[];
}

/**
 * Returns a declaration as it is sealed, each path in its shortest notation and once; null for one without paths. Throws
 * INVALID_FIELD, which names the path that is refused, and for trusted fields together with free ones.
 */
export function checkedProvenance(
  declared: DeclaredProvenance,
  args: readonly FlattenedArgument[],
): SealedToolProvenance | null {
  const { trustedFields, freeFields, sessionArguments, sessionFields } = declared;
  if (trustedFields.length > 0 && freeFields.length > 0)
    throw invalidField(
      "provenance.free_fields",
      "must be empty where `trusted_fields` are given: remove one of the two",
    );
  const sealed: SealedToolProvenance = {
    ...members("trusted_fields", trustedFields, resultSteps),
    ...members("free_fields", freeFields, resultSteps),
    ...members("session_arguments", sessionArguments, argumentSteps),
    ...members("session_fields", sessionFields, resultSteps),
  };
  const known = new Set(args.map(({ path }) => path));
  for (const [index, path] of sessionArguments.entries()) {
    if (known.has(argumentPath(argumentSteps(path) ?? []))) continue;
    const at = `provenance.session_arguments[${index}]`;
    throw invalidField(at, "is no argument that the schema declares; GetTool lists those in `arguments`");
  }
  return Object.keys(sealed).length === 0 ? null : sealed;
}

type Member = keyof SealedToolProvenance;

function members(
  member: Member,
  paths: readonly string[],
  read: (path: string) => readonly ArgumentStep[] | undefined,
): SealedToolProvenance {
  if (paths.length === 0) return {};
  const checked = paths.map((path, index) => {
    const steps = path.isWellFormed() && !path.includes("\u0000") ? read(path) : undefined;
    if (steps !== undefined) return argumentPath(steps);
    const rule = member === "session_arguments" ? "" : ", or `[].name` in a result that is a list";
    throw invalidField(
      `provenance.${member}[${index}]`,
      `is not a path: write \`name\`, \`a.b\` or \`lines[].b\`${rule}`,
    );
  });
  return { [member]: [...new Set(checked)] };
}
