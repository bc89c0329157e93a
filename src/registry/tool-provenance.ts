import { invalidField } from "../errors.ts";
import { argumentPath, argumentSteps } from "../notation/argument-path.ts";
import { type Declared, declaredPath, notDeclaredPath } from "../notation/declared-path.ts";
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
    ...members("trusted_fields", trustedFields),
    ...members("free_fields", freeFields),
    ...members("session_arguments", sessionArguments),
    ...members("session_fields", sessionFields),
  };
  const known = new Set(args.map(({ path }) => path));
  for (const [index, path] of sessionArguments.entries()) {
    if (known.has(argumentPath(argumentSteps(path) ?? []))) continue;
    const at = `provenance.session_arguments[${index}]`;
    throw invalidField(at, "is no argument that the schema declares; GetTool lists those in `arguments`");
  }
  return Object.keys(sealed).length === 0 ? null : sealed;
}

function members(member: Declared, paths: readonly string[]): SealedToolProvenance {
  if (paths.length === 0) return {};
  const checked = paths.map((path, index) => {
    const shortest = declaredPath(member, path);
    if (shortest === undefined) throw invalidField(`provenance.${member}[${index}]`, notDeclaredPath(member));
    return shortest;
  });
  return { [member]: [...new Set(checked)] };
}
