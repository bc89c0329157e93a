import type { JsonValue } from "@bufbuild/protobuf";
import { useState } from "react";
import { Button } from "./button.tsx";
import { Shown } from "./shown.tsx";

/** Members shown at first and with each further step. */
const STEP = 200;

/** Shows a JSON value as a tree. Every text in it is inert. */
export function JsonView({ value }: { readonly value: JsonValue }) {
  if (typeof value === "string") {
    return (
      <span className="json-text">
        “<Shown text={value} />”
      </span>
    );
  }
  if (value === null || typeof value !== "object") return <span className="json-plain">{String(value)}</span>;
  const members: readonly (readonly [string, JsonValue])[] = Array.isArray(value)
    ? value.map((item, index) => [String(index), item])
    : Object.entries(value);
  return <Members members={members} isList={Array.isArray(value)} />;
}

interface MembersProps {
  readonly members: readonly (readonly [string, JsonValue])[];
  readonly isList: boolean;
}

/** Shows the members of an object or a list in parts. */
function Members({ members, isList }: MembersProps) {
  const [shown, setShown] = useState(STEP);
  const left = members.length - shown;
  if (members.length === 0) return <span className="json-plain">{isList ? "[]" : "{}"}</span>;
  return (
    <dl className="json">
      {members.slice(0, shown).map(([name, member]) => (
        <div key={name}>
          <dt>
            <Shown text={name} />
          </dt>
          <dd>
            <JsonView value={member} />
          </dd>
        </div>
      ))}
      {left > 0 && (
        <div>
          <Button action="show more" onClick={() => setShown(shown + STEP)}>
            Show {Math.min(left, STEP)} of {left} more members
          </Button>
        </div>
      )}
    </dl>
  );
}
