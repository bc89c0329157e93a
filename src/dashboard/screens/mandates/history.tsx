import { useState } from "react";
import type { Mandate } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Field } from "../../kit/field.tsx";
import { Time } from "../../kit/time.tsx";
import { DiffView } from "./diff-view.tsx";
import { textFromMandate } from "./mandate-text.ts";

/** Versions of a mandate, and the diff of any two. */
export function History({ versions }: { readonly versions: readonly Mandate[] }) {
  const [from, setFrom] = useState(versions[1]?.version ?? versions[0]?.version);
  const [to, setTo] = useState(versions[0]?.version);
  const textOf = (version: number | undefined): string => {
    const found = versions.find((each) => each.version === version);
    return found === undefined ? "" : textFromMandate(found);
  };
  return (
    <div className="stack">
      <ul className="card">
        {versions.map(({ version, updatedAt, digest }) => (
          <li key={version} className="row version" data-id={`version-${version}`}>
            version {version}
            <span className="hint">
              <Time at={updatedAt} />, digest <code title={digest}>{digest.slice(0, 12)}…</code>
            </span>
          </li>
        ))}
      </ul>
      <div className="filters">
        <VersionChoice label="From" name="from" value={from} versions={versions} onChange={setFrom} />
        <VersionChoice label="To" name="to" value={to} versions={versions} onChange={setTo} />
      </div>
      <DiffView before={textOf(from)} after={textOf(to)} />
    </div>
  );
}

interface VersionChoiceProps {
  readonly label: string;
  readonly name: string;
  readonly value: number | undefined;
  readonly versions: readonly Mandate[];
  readonly onChange: (version: number) => void;
}

function VersionChoice({ label, name, value, versions, onChange }: VersionChoiceProps) {
  return (
    <Field label={label}>
      {(control) => (
        <select {...control} name={name} value={value} onChange={({ target }) => onChange(Number(target.value))}>
          {versions.map(({ version }) => (
            <option key={version} value={version}>
              version {version}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
