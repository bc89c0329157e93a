import { toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { NearestAllow } from "../../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { Shown } from "../../kit/shown.tsx";

/** Writes a value as JSON on one line. */
export const valueText = (value: Value | undefined): string =>
  value === undefined ? "" : JSON.stringify(toJson(ValueSchema, value));

/** Smallest changes of one argument that would be allowed. */
export function Nearest({
  changes,
  isAllowed,
}: {
  readonly changes: readonly NearestAllow[];
  readonly isAllowed: boolean;
}) {
  if (isAllowed) return null;
  if (changes.length === 0) return <p className="hint">No change of a single argument is known to be allowed.</p>;
  return (
    <div className="stack is-tight">
      <h3>Nearest changes that would be allowed</h3>
      <ul className="stack is-tight">
        {changes.map(({ argument, from, to }) => (
          <li key={`${argument} ${valueText(to)}`} data-nearest={argument}>
            <strong>
              <Shown text={argument} />
            </strong>
            {": "}
            <code>
              <Shown text={valueText(from)} />
            </code>
            {" → "}
            <code>
              <Shown text={valueText(to)} />
            </code>
          </li>
        ))}
      </ul>
    </div>
  );
}
