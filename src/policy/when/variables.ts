import type { WHEN_VARIABLES } from "../../notation/when-names.ts";
import type { EvaluationContext } from "../types.ts";
import { Timestamp, TypeName, type Value } from "./values.ts";

type Read = (context: EvaluationContext) => Value;

const MILLISECOND = 1_000_000n;

type Variable = (typeof WHEN_VARIABLES)[number];
type Fixed = Extract<Variable, { readonly members: unknown }>;

/** Readers of variables with a fixed list of members. A text is empty where an action has none, so that a general rule does not fire for it. */
const FIXED: { readonly [V in Fixed as V["name"]]: Readonly<Record<V["members"][number]["name"], Read>> } = {
  action: {
    type: ({ actionType }) => actionType,
    content: ({ actionContent }) => actionContent,
    tool: ({ tool, toolName }) => tool?.name ?? toolName ?? "",
  },
  agent: {
    id: ({ agentId }) => agentId,
    name: ({ agentName }) => agentName ?? "",
    trust: ({ trustTenths }) => trustTenths / 10,
    departments: ({ departmentIds }) => departmentIds,
    framework: ({ framework }) => framework ?? "",
  },
  principal: { id: ({ principals }) => principals?.[0]?.agentId ?? "" },
  plan: { state: ({ planState }) => planState ?? "none" },
  session: { id: ({ sessionId }) => sessionId ?? "" },
  tool: { registered: ({ tool }) => tool !== undefined },
};

/** Readers of variables that are a value of their own. */
const WHOLE: Readonly<Record<Exclude<Variable["name"], Fixed["name"]>, Read>> = {
  args: ({ arguments: args }) => args ?? {},
  metadata: ({ metadata }) => metadata ?? {},
  now: ({ nowMs }) => new Timestamp(BigInt(Math.trunc(nowMs)) * MILLISECOND),
};

/** Variables with a fixed list of members. */
export const MEMBERS: ReadonlyMap<string, ReadonlyMap<string, Read>> = new Map(
  Object.entries(FIXED).map(([name, members]) => [name, new Map(Object.entries(members))]),
);

/** Variables that are a value of their own. */
export const WHOLES: ReadonlyMap<string, Read> = new Map(Object.entries(WHOLE));

/** Variables whose members come from the action. */
export const OPEN: ReadonlySet<string> = new Set(["args", "metadata"]);

const TYPES = ["bool", "int", "double", "string", "list", "map", "null_type", "type"];

/** Types as values, by their name. */
export const TYPE_VALUES: ReadonlyMap<string, TypeName> = new Map(
  [...TYPES, "google.protobuf.Timestamp", "google.protobuf.Duration"].map((name) => [name, new TypeName(name)]),
);

/** Every name at which an expression may begin. */
export const VARIABLE_NAMES: readonly string[] = [...MEMBERS.keys(), ...WHOLES.keys()];

/** Reads a variable with all its members. */
export function variableOf(name: string): Read | undefined {
  const members = MEMBERS.get(name);
  if (members === undefined) return WHOLES.get(name);
  return (context) => new Map([...members].map(([member, read]) => [member, read(context)]));
}
