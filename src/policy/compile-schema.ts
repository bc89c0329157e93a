import type { JsonObject } from "@bufbuild/protobuf";
import { argumentValidatorOf } from "./argument-validator.ts";
import { plainFinding, sentence } from "./finding.ts";
import { ownValue } from "./json-type.ts";
import type { RuleBodyCompiler } from "./rule-draft.ts";
import type { Misfit } from "./schema-misfit.ts";
import type { Facts, ToolSchema } from "./types.ts";

const MISSING: Misfit = { argument: undefined, message: "the arguments are missing" };

/** Compiles a `schema` rule: it fires when the arguments do not fit the tool's schema, and when there are none. */
export const compileSchema: RuleBodyCompiler = ({ rule, path, tool, violations }) => {
  if (tool === undefined) return undefined;
  const compiled = argumentValidatorOf(tool.inputSchema);
  if (compiled.kind === "invalid") {
    for (const problem of compiled.problems) {
      const message = `the schema of \`${tool.name}\` cannot be checked: ${problem}`;
      violations.add(`${path}.tool`, "SCHEMA_NOT_CHECKABLE", message);
    }
    return undefined;
  }
  return {
    check: (facts) => {
      const args = ownArguments(facts, tool);
      const misfit = args === undefined ? MISSING : compiled.validate(args);
      if (misfit === undefined) return undefined;
      const finding = plainFinding("ARGUMENTS_INVALID", sentence(rule.description, misfit.message), path);
      const wouldPass = `would allow with arguments that fit version ${tool.version} of the schema of \`${tool.name}\``;
      if (misfit.argument === undefined) return { ...finding, wouldPass };
      return { ...finding, argument: misfit.argument, wouldPass };
    },
  };
};

/** The arguments; where the metadata are the arguments, without the member `tool` by which they name the tool. */
function ownArguments({ arguments: args, metadata }: Facts, tool: ToolSchema): JsonObject | undefined {
  if (args === undefined || args !== metadata || ownValue(args, "tool") === undefined) return args;
  if (tool.arguments.some(({ path }) => path === "tool")) return args;
  const { tool: _tool, ...rest } = args;
  return rest;
}
