import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { JsonView } from "../../kit/json-view.tsx";
import { Shown } from "../../kit/shown.tsx";

const FIRST_ROWS = 40;
const MORE_ROWS = 200;

/** Arguments in a tool's schema, by their paths. */
export interface KnownArguments {
  readonly byPath: ReadonlyMap<string, ToolArgument>;
  /** True if the tool is not registered. */
  readonly isUnknown: boolean;
}

/** Reads the arguments of a tool's schema. */
export function useToolArguments(tool: string | undefined): KnownArguments {
  const query = useQuery(
    ToolService.method.getTool,
    { name: tool ?? "" },
    { enabled: tool !== undefined, staleTime: 60_000 },
  );
  const args = query.data?.tool?.arguments;
  const byPath = useMemo(() => new Map((args ?? []).map((each) => [each.path, each])), [args]);
  return { byPath, isUnknown: query.error !== null && ConnectError.from(query.error).code === Code.NotFound };
}

/** Exact arguments that will run, in the order of the schema. Arguments that the schema does not know come last, marked. */
export function ArgumentsTable({
  args,
  tool,
}: {
  readonly args: JsonObject | undefined;
  readonly tool: string | undefined;
}) {
  const known = useToolArguments(tool);
  const [limit, setLimit] = useState(FIRST_ROWS);
  if (args === undefined || Object.keys(args).length === 0) return <p className="hint">It has no arguments.</p>;
  const places = new Map([...known.byPath.keys()].map((path, place) => [path, place]));
  const placeOf = ([name]: readonly [string, JsonValue]): number => places.get(name) ?? places.size;
  const rows = Object.entries(args).sort((a, b) => placeOf(a) - placeOf(b));
  return (
    <div className="table-scroll">
      <table className="arguments">
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">Value</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map(([name, value]) => (
            <tr key={name} data-argument={name}>
              <th scope="row">
                <Shown text={name} />
                {tool === undefined ? null : (
                  <ArgumentNote
                    schema={known.byPath.get(name)}
                    isKnownTool={known.byPath.size > 0}
                    hasBelow={hasBelow(known, name)}
                    value={value}
                  />
                )}
              </th>
              <td>
                <JsonView value={value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > limit ? (
        <button type="button" className="link" onClick={() => setLimit(limit + MORE_ROWS)}>
          {rows.length - limit} more arguments that will run
        </button>
      ) : null}
    </div>
  );
}

const hasBelow = ({ byPath }: KnownArguments, name: string): boolean =>
  [...byPath.keys()].some((path) => path.startsWith(`${name}.`) || path.startsWith(`${name}[]`));

/** Describes an argument by the schema. Its line stays empty until the schema was read, so that no button moves. */
function ArgumentNote({
  schema,
  isKnownTool,
  hasBelow,
  value,
}: {
  readonly schema: ToolArgument | undefined;
  readonly isKnownTool: boolean;
  /** True if the schema knows arguments below this one. */
  readonly hasBelow: boolean;
  readonly value: JsonValue;
}) {
  if (schema === undefined) {
    const isGroup = value !== null && typeof value === "object" && hasBelow;
    return <span className="argument-note is-bad">{isKnownTool && !isGroup ? "not in the tool's schema" : ""}</span>;
  }
  return (
    <span className="argument-note">
      {schema.types.join(" or ")}
      {schema.description === undefined ? null : (
        <>
          {" · "}
          <Shown text={schema.description} />
        </>
      )}
    </span>
  );
}
