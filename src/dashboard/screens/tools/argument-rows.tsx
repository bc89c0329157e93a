import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Shown } from "../../kit/shown.tsx";

const MAX_ROWS = 150;

/** Writes the values that a schema allows: `0 to 5000`, `one of "EUR", "USD"`. */
export function rangeText(argument: ToolArgument): string {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, enum: values, pattern, format } = argument;
  const parts = [
    ...(minimum === undefined ? [] : [`at least ${minimum}`]),
    ...(exclusiveMinimum === undefined ? [] : [`more than ${exclusiveMinimum}`]),
    ...(maximum === undefined ? [] : [`at most ${maximum}`]),
    ...(exclusiveMaximum === undefined ? [] : [`less than ${exclusiveMaximum}`]),
    ...(values.length === 0
      ? []
      : [`one of ${values.map((value) => JSON.stringify(toJson(ValueSchema, value))).join(", ")}`]),
    ...(pattern === undefined ? [] : [`like ${pattern}`]),
    ...(format === undefined ? [] : [format]),
  ];
  return parts.join(", ");
}

/** Arguments of a tool, by the paths that rules use. */
export function ArgumentRows({ rows }: { readonly rows: readonly ToolArgument[] }) {
  if (rows.length === 0) return <p className="hint">The schema declares no arguments.</p>;
  return (
    <div className="table-scroll">
      <table className="tool-arguments">
        <thead>
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">Type</th>
            <th scope="col">Values</th>
            <th scope="col">Description</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MAX_ROWS).map((argument) => (
            <tr key={argument.path} data-argument={argument.path}>
              <td>
                <code>
                  <Shown text={argument.path} />
                </code>
              </td>
              <td>
                {argument.types.join(" or ")}
                {argument.required ? <strong> required</strong> : null}
              </td>
              <td>
                <Shown text={rangeText(argument)} />
              </td>
              <td>
                <Shown text={argument.description ?? ""} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MAX_ROWS ? <p className="hint">and {rows.length - MAX_ROWS} more arguments</p> : null}
    </div>
  );
}
