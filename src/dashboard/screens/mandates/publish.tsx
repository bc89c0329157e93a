import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { useEffect, useMemo, useState } from "react";
import {
  type CreateMandateResponse,
  type Mandate,
  type MandateDefinition,
  MandateService,
  type UpdateMandateResponse,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import type { Proposal, RuleWarning } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Message } from "../../kit/message.tsx";
import { toldProposal } from "../../kit/proposed.ts";
import type { Call } from "../../kit/use-change.ts";
import { LastBacktest } from "../backtests/last-backtest.tsx";
import { questionOf } from "../backtests/question.ts";
import { DiffView } from "./diff-view.tsx";
import { definitionOf, textFromMandate } from "./mandate-text.ts";

const { createMandate, getMandate, listMandates, updateMandate } = MandateService.method;
const { listProposals } = ProposalService.method;
const MAX_WARNINGS = 50;

type Published = CreateMandateResponse | UpdateMandateResponse;

/** Properties of the publish dialog. */
export interface PublishProps {
  /** Version that was edited; undefined for a new mandate. */
  readonly base: Mandate | undefined;
  /** Text of that version. */
  readonly before: string;
  readonly definition: MandateDefinition;
  readonly onPublished: (mandate: Mandate) => void;
  /** Called where the text waits for others in place of being in force. */
  readonly onProposed: (proposal: Proposal) => void;
  readonly onClose: () => void;
}

/** Shows the diff and publishes. Warns if another version was published meanwhile. */
export function Publish({ base, before, definition, onPublished, onProposed, onClose }: PublishProps) {
  const newer = useNewerVersion(base);
  const fields = definitionOf(definition);
  const after = useMemo(() => textFromMandate(definition), [definition]);
  const question = useMemo(() => questionOf(definition, base?.mandateId), [definition, base]);
  const publish = async (call: Call, values: FormValues): Promise<Published> => {
    const request = { ...fields, note: values.text("note") };
    if (base === undefined) return call(createMandate, request);
    return call(updateMandate, { mandateId: base.mandateId, ...request });
  };
  return (
    <ChangeDialog
      title={base === undefined ? "Publish a new mandate" : `Publish version ${(newer ?? base).version + 1}`}
      submit={newer === undefined ? "Publish" : "Publish over it"}
      tone={newer === undefined ? "primary" : "danger"}
      isWide
      change={publish}
      refreshes={[getMandate, listMandates, listProposals]}
      done={toldProposal}
      after={({ mandate, warnings }) =>
        mandate === undefined || warnings.length === 0 ? undefined : (
          <Warnings version={mandate.version} warnings={warnings} onClose={() => onPublished(mandate)} />
        )
      }
      onDone={({ mandate, proposal, warnings }) => {
        if (proposal !== undefined) onProposed(proposal);
        if (mandate !== undefined && warnings.length === 0) onPublished(mandate);
      }}
      onClose={onClose}
    >
      {newer === undefined ? null : (
        <div className="fault" role="alert" data-conflict>
          <p>
            Somebody published version {newer.version} while you wrote. The difference below is from that version: what
            it changed and you did not take over is lost.
          </p>
        </div>
      )}
      <DiffView before={newer === undefined ? before : textFromMandate(newer)} after={after} />
      <LastBacktest question={question} />
      <VersionNote />
    </ChangeDialog>
  );
}

/** Field for the note on a version. */
export function VersionNote() {
  return (
    <NamedField name="note" label="Note" hint="For those who read the history. At most 500 characters.">
      {(control) => <input {...control} name="note" maxLength={500} autoComplete="off" />}
    </NamedField>
  );
}

interface WarningsProps {
  readonly version: number;
  readonly warnings: readonly RuleWarning[];
  readonly onClose: () => void;
}

/** Lists the warnings about a published version. */
export function Warnings({ version, warnings, onClose }: WarningsProps) {
  return (
    <Dialog title={`Version ${version} is in force`} isOpen onClose={onClose} isWide>
      <p>It has warnings:</p>
      <ul className="text-faults">
        {warnings.slice(0, MAX_WARNINGS).map(({ path, message }) => (
          <li key={`${path} ${message}`} className="is-wait">
            <code>{path}</code> <Message text={message} />
          </li>
        ))}
      </ul>
      <div className="dialog-actions">
        <Button action="close-warnings" tone="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

/** Returns the version in force if it is newer than the edited one. */
function useNewerVersion(base: Mandate | undefined): Mandate | undefined {
  const transport = useTransport();
  const [newer, setNewer] = useState<Mandate | undefined>(undefined);
  useEffect(() => {
    if (base === undefined) return;
    callUnaryMethod(transport, getMandate, { mandateId: base.mandateId }).then(
      ({ mandate }) => setNewer(mandate !== undefined && mandate.version !== base.version ? mandate : undefined),
      () => undefined,
    );
  }, [transport, base]);
  return newer;
}
