import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Shown } from "../../kit/shown.tsx";
import { changedNames } from "./edited-arguments.ts";
import { currenciesIn } from "./fired-argument.ts";
import { ValueView } from "./value-view.tsx";

/** Properties of a difference. */
export interface DifferenceProps {
  readonly before: JsonObject;
  readonly after: JsonObject;
  /** True once somebody has approved it. */
  readonly isPast?: boolean;
}

/** Shows the arguments that a person changed: the requested value beside the approved one. */
export function Difference({ before, after, isPast = false }: DifferenceProps) {
  const names = changedNames(before, after);
  if (names.length === 0)
    return <p>Nothing is changed. Go back and change an argument, or approve the action as it is.</p>;
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Argument</th>
            <th scope="col">Asked for</th>
            <th scope="col">{isPast ? "Changed to" : "You approve"}</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name} data-argument={name}>
              <th scope="row">
                <Shown text={name} />
              </th>
              <td>
                <del>
                  <Value args={before} name={name} />
                </del>
              </td>
              <td>
                <ins>
                  <Value args={after} name={name} />
                </ins>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Value({ args, name }: { readonly args: JsonObject; readonly name: string }) {
  const value: JsonValue | undefined = args[name];
  if (value === undefined) return <span>not sent</span>;
  return <ValueView value={value} currency={typeof value === "number" ? currenciesIn(args)(name) : undefined} />;
}
