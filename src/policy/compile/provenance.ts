import {
  type ProvenanceArgument,
  ProvenanceFires as ProvenanceFiresEnum,
  type Rule,
  RuleType,
} from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, ValueKind as ValueKindEnum } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { argumentSteps } from "../../notation/argument-path.ts";
import type { ValueKind } from "../../provenance/sources.ts";
import { ARRAY, maskFromTypes, NUMBER, STRING } from "../json-value.ts";
import type { SoughtArgument } from "../provenance/argument-values.ts";
import { type ProvenanceFires, type ProvenanceSpec, untrustedArguments } from "../provenance/check.ts";
import { SchemaDefaults } from "../schema/defaults.ts";
import type { Finding, FlattenedArgument, ToolSchema } from "../types.ts";
import type { RuleWarning } from "./approval-warnings.ts";
import { typedSteps } from "./conditions.ts";
import { describe, type RuleBodyCompiler, type RuleDraft } from "./rule-draft.ts";
import { trustedFrom } from "./trusted-sources.ts";

/** Maximum arguments of a rule. */
const MAX_ARGUMENTS = 100;

/** The kinds of values by the enum of the interface. */
export const KINDS_BY_ENUM: ReadonlyMap<ValueKindEnum, ValueKind> = new Map([
  [ValueKindEnum.DESTINATION, "destination"],
  [ValueKindEnum.CREDENTIAL, "credential"],
  [ValueKindEnum.HOST, "host"],
  [ValueKindEnum.RESOURCE, "resource"],
  [ValueKindEnum.PATH, "path"],
  [ValueKindEnum.NUMBER, "number"],
  [ValueKindEnum.TEXT, "text"],
]);
const KIND_NAMES = [...KINDS_BY_ENUM.values()].map((kind) => `\`${kind}\``).join(", ");
/** Kinds whose values mean something without being named by anyone: their source alone counts. */
const SEEN_KINDS: ReadonlySet<ValueKind> = new Set(["text", "path"]);

/** Compiles a `provenance` rule: it fires if an argument has a value that does not come from where it may come from. */
export const compileProvenance: RuleBodyCompiler = (draft) => {
  const { tool, conditions, path } = draft;
  if (tool === undefined) return undefined;
  const before = draft.violations.count;
  const fires = conditions.fires === ProvenanceFiresEnum.SEEN_UNTRUSTED ? "seen_untrusted" : "not_trusted";
  const spec: ProvenanceSpec = { arguments: argumentsFrom(draft, tool, fires), trusted: trustedFrom(draft), fires };
  if (draft.violations.count > before) return undefined;
  return {
    provenance: spec,
    check: (context) => {
      const findings = (): readonly Finding[] =>
        untrustedArguments(spec, context).map(({ index, argument, code, message }) => ({
          code,
          message: describe(draft.rule, message),
          rule: `${path}.conditions.arguments[${index}]`,
          argument: argument.path,
          valueKind: argument.kind,
        }));
      const [first, ...others] = context.recordedProvenance?.(spec) ?? findings();
      return first && { ...first, others };
    },
  };
};

function argumentsFrom(draft: RuleDraft, tool: ToolSchema, fires: ProvenanceFires): readonly SoughtArgument[] {
  const { conditions, path, violations } = draft;
  const at = `${path}.conditions.arguments`;
  const { length } = conditions.arguments;
  if (length === 0)
    violations.add(at, "ARGUMENTS_MISSING", "the rule needs the arguments that it looks at, each with its kind");
  if (length > MAX_ARGUMENTS) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `${length} arguments are more than ${MAX_ARGUMENTS}`);
  }
  const known = new Map(tool.arguments.map((argument) => [argument.path, argument]));
  const defaults = new SchemaDefaults(tool.inputSchema);
  const named = new Set<string>();
  return conditions.arguments.slice(0, MAX_ARGUMENTS).flatMap((given, index) => {
    const place = `${at}[${index}]`;
    const kind = kindFrom(draft, given, place, fires);
    const argument = argumentFrom(draft, given, known, place);
    if (argument === undefined) return [];
    if (named.has(argument.path)) {
      violations.add(`${place}.path`, "ARGUMENT_REPEATED", `\`${argument.path}\` is named before; name it once`);
    }
    named.add(argument.path);
    return kind === undefined ? [] : [{ path: argument.path, kind, places: placesOf(argument, known, defaults) }];
  });
}

function kindFrom(
  { violations }: RuleDraft,
  given: ProvenanceArgument,
  place: string,
  fires: ProvenanceFires,
): ValueKind | undefined {
  const kind = KINDS_BY_ENUM.get(given.kind);
  if (kind === undefined) {
    violations.add(`${place}.kind`, "KIND_UNKNOWN", `the argument needs a kind: ${KIND_NAMES}`);
  } else if (fires === "seen_untrusted" && !SEEN_KINDS.has(kind)) {
    const message = `\`seen_untrusted\` is for the kinds \`text\` and \`path\`, since a hidden value passes it; use \`not_trusted\` for \`${kind}\``;
    violations.add(`${place}.kind`, "FIRES_NOT_FITTING", message);
  }
  return kind;
}

function argumentFrom(
  { violations }: RuleDraft,
  { path, kind }: ProvenanceArgument,
  known: ReadonlyMap<string, FlattenedArgument>,
  place: string,
): FlattenedArgument | undefined {
  const argument = known.get(path);
  if (argument === undefined) {
    if (path === "") violations.add(`${place}.path`, "FIELD_MISSING", "no argument is named");
    else {
      const message = `the tool's schema has no argument \`${path}\``;
      violations.add(`${place}.path`, "FIELD_NOT_IN_SCHEMA", message, violations.budget.nearest(path, known.keys()));
    }
    return undefined;
  }
  const types = maskFromTypes(argument.types);
  if ((types & (STRING | NUMBER)) !== 0) return argument;
  const elements = known.get(`${path}[]`);
  const isList = (types & ARRAY) !== 0 && elements !== undefined;
  const wanted = isList ? `it is a list: name \`${path}[]\`` : "name an argument that is a text or a number";
  const word = KINDS_BY_ENUM.get(kind) ?? "any kind";
  violations.add(`${place}.path`, "KIND_NOT_FITTING", `\`${path}\` has no value of the kind \`${word}\`; ${wanted}`);
  return undefined;
}

function placesOf(
  { path, types }: FlattenedArgument,
  known: ReadonlyMap<string, FlattenedArgument>,
  defaults: SchemaDefaults,
): SoughtArgument["places"] {
  const declared = defaults.along(argumentSteps(path) ?? []);
  const steps = typedSteps(path, known).map(({ step, from }, index) => ({
    step,
    types: from,
    defaults: declared[index] ?? [],
  }));
  return [...steps, { step: undefined, types: maskFromTypes(types), defaults: declared[steps.length] ?? [] }];
}

/** Lists warnings about provenance rules that block, in the order of the rules. */
export function provenanceWarnings(rules: readonly Rule[]): readonly RuleWarning[] {
  return rules.flatMap(({ type, decision }, index): RuleWarning[] => {
    if (type !== RuleType.PROVENANCE || decision !== Decision.BLOCK) return [];
    const message =
      "the rule blocks values that the agent may have worked out honestly; `escalate` lets a person decide";
    return [{ path: `rules[${index}].decision`, reason: "PROVENANCE_BLOCKS", message }];
  });
}
