import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { JsonView } from "../../kit/json-view.tsx";
import { Shown } from "../../kit/shown.tsx";
import { changedNames } from "./edited-arguments.ts";

/** Shows the arguments that a person changed: the requested value beside the approved one. */
export function Difference({ before, after }: { readonly before: JsonObject; readonly after: JsonObject }) {
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
            <th scope="col">You approve</th>
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
                  <Value value={before[name]} />
                </del>
              </td>
              <td>
                <ins>
                  <Value value={after[name]} />
                </ins>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Value({ value }: { readonly value: JsonValue | undefined }) {
  return value === undefined ? <span>not sent</span> : <JsonView value={value} />;
}
