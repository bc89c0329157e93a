import { useState } from "react";
import { type Mandate, MandateService, MandateStatus } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { toldProposal } from "../../kit/proposed.ts";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { useMayChange } from "../../session.ts";
import { DiffView } from "./diff-view.tsx";
import { textFromMandate } from "./mandate-text.ts";
import { VersionNote, Warnings } from "./publish.tsx";

const { getMandate, listMandates, restoreMandate } = MandateService.method;
const { listProposals } = ProposalService.method;

/** Properties of a history. */
export interface HistoryProps {
  /** The version in force. */
  readonly mandate: Mandate;
  /** Newest first. */
  readonly versions: readonly Mandate[];
  readonly onRestored: (mandate: Mandate) => void;
}

/** Versions of a mandate with their authors and notes, and the difference of any two. An older version is restored from here. */
export function History({ mandate, versions, onRestored }: HistoryProps) {
  const [from, setFrom] = useState(versions[1]?.version ?? versions[0]?.version);
  const [to, setTo] = useState(versions[0]?.version);
  const [restoring, setRestoring] = useState<Mandate | undefined>(undefined);
  const mayRestore = useMayChange() && mandate.status !== MandateStatus.ARCHIVED;
  const textOf = (version: number | undefined): string => {
    const found = versions.find((each) => each.version === version);
    return found === undefined ? "" : textFromMandate(found);
  };
  return (
    <div className="stack">
      <ul className="card" aria-label="Versions">
        {versions.map((each) => (
          <Version
            key={each.version}
            mandate={each}
            isCurrent={each.version === mandate.version}
            onRestore={mayRestore && each.digest !== mandate.digest ? () => setRestoring(each) : undefined}
          />
        ))}
      </ul>
      <div className="filters">
        <VersionChoice label="From" name="from" value={from} versions={versions} onChange={setFrom} />
        <VersionChoice label="To" name="to" value={to} versions={versions} onChange={setTo} />
      </div>
      <DiffView before={textOf(from)} after={textOf(to)} />
      {restoring === undefined ? null : (
        <Restore
          current={mandate}
          version={restoring}
          onRestored={onRestored}
          onClose={() => setRestoring(undefined)}
        />
      )}
    </div>
  );
}

interface VersionProps {
  readonly mandate: Mandate;
  readonly isCurrent: boolean;
  /** Undefined for a version that cannot be restored. */
  readonly onRestore: (() => void) | undefined;
}

function Version({ mandate, isCurrent, onRestore }: VersionProps) {
  const { version, updatedAt, digest, createdBy, createdByName, note, restoredFrom, status } = mandate;
  return (
    <li className="row version" data-id={`version-${version}`}>
      <span>version {version}</span>
      {isCurrent && status !== MandateStatus.ARCHIVED ? <Badge tone="good">in force</Badge> : null}
      <span className="hint">
        <Time at={updatedAt} />
        {createdBy === undefined ? null : (
          <>
            {" "}
            by <Actor id={createdBy} name={createdByName} />
          </>
        )}
        {restoredFrom === undefined ? null : `, restores version ${restoredFrom}`}, digest{" "}
        <code title={digest}>{digest.slice(0, 12)}…</code>
      </span>
      {onRestore === undefined ? null : (
        <Button action="restore" onClick={onRestore}>
          Restore<span className="visually-hidden"> version {version}</span> …
        </Button>
      )}
      {note === "" ? null : (
        <p className="version-note">
          <Shown text={note} />
        </p>
      )}
    </li>
  );
}

interface RestoreProps {
  readonly current: Mandate;
  readonly version: Mandate;
  readonly onRestored: (mandate: Mandate) => void;
  readonly onClose: () => void;
}

/** Shows how an older version differs from the one in force, and publishes it again. */
function Restore({ current, version, onRestored, onClose }: RestoreProps) {
  const { mandateId } = current;
  return (
    <ChangeDialog
      title={`Restore version ${version.version}`}
      submit="Restore"
      isWide
      change={(call, values) =>
        call(restoreMandate, { mandateId, version: version.version, note: values.text("note") })
      }
      refreshes={[getMandate, listMandates, listProposals]}
      done={(answer) => toldProposal(answer) ?? `Version ${answer.mandate?.version ?? ""} is in force`}
      after={({ mandate, warnings }) =>
        mandate === undefined || warnings.length === 0 ? undefined : (
          <Warnings version={mandate.version} warnings={warnings} onClose={onClose} />
        )
      }
      onDone={({ mandate }) => {
        if (mandate !== undefined) onRestored(mandate);
      }}
      onClose={onClose}
    >
      <p>
        It becomes version {current.version + 1}, compiled with the tools of today. This changes in what is in force:
      </p>
      <DiffView before={textFromMandate(current)} after={textFromMandate(version)} />
      <VersionNote />
    </ChangeDialog>
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
