import { callUnaryMethod, useMutation, useTransport } from "@connectrpc/connect-query";
import { useEffect, useMemo, useState } from "react";
import {
  type Mandate,
  type MandateDefinition,
  MandateService,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { RuleWarning } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Message } from "../../kit/message.tsx";
import { Fault } from "../../kit/states.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { DiffView } from "./diff-view.tsx";
import { textFromMandate } from "./mandate-text.ts";

const { createMandate, getMandate, listMandates, updateMandate } = MandateService.method;

/** Properties of the last step before a mandate is in force. */
export interface PublishProps {
  /** The version that was changed; undefined for a new mandate. */
  readonly base: Mandate | undefined;
  /** Its text. */
  readonly before: string;
  readonly definition: MandateDefinition;
  readonly onPublished: (mandate: Mandate) => void;
  readonly onClose: () => void;
}

/** Shows what changes, and publishes. Says so when somebody else published meanwhile. */
export function Publish({ base, before, definition, onPublished, onClose }: PublishProps) {
  const refresh = useRefresh();
  const newer = useNewerVersion(base);
  const [published, setPublished] = useState<
    { readonly mandate: Mandate; readonly warnings: readonly RuleWarning[] } | undefined
  >(undefined);
  const { name, description, scope, departmentId, agentId, priority, mode, rules } = definition;
  const fields = {
    ...{ name, description, scope, priority, mode, rules },
    ...(departmentId !== undefined && { departmentId }),
    ...(agentId !== undefined && { agentId }),
  };
  const onSuccess = ({ mandate, warnings }: { mandate?: Mandate | undefined; warnings: RuleWarning[] }): void => {
    if (mandate === undefined) return;
    refresh(getMandate, listMandates);
    if (warnings.length === 0) onPublished(mandate);
    else setPublished({ mandate, warnings });
  };
  const create = useMutation(createMandate, { onSuccess });
  const update = useMutation(updateMandate, { onSuccess });
  const after = useMemo(() => textFromMandate(definition), [definition]);
  if (published !== undefined) {
    return (
      <Dialog
        title={`Version ${published.mandate.version} is in force`}
        isOpen
        onClose={() => onPublished(published.mandate)}
        isWide
      >
        <p>It has warnings:</p>
        <ul className="text-faults">
          {published.warnings.slice(0, 50).map(({ path, message }) => (
            <li key={`${path} ${message}`} className="is-wait">
              <code>{path}</code> <Message text={message} />
            </li>
          ))}
        </ul>
        <div className="dialog-actions">
          <Button action="close-warnings" tone="primary" onClick={() => onPublished(published.mandate)}>
            Close
          </Button>
        </div>
      </Dialog>
    );
  }
  const submit = (): void => {
    if (base === undefined) create.mutate(fields);
    else update.mutate({ mandateId: base.mandateId, ...fields });
  };
  return (
    <Dialog
      title={base === undefined ? "Publish a new mandate" : `Publish version ${(newer ?? base).version + 1}`}
      isOpen
      onClose={onClose}
      closesBy="escape"
      isWide
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
      {create.error === null && update.error === null ? null : <Fault error={create.error ?? update.error} />}
      <div className="dialog-actions">
        <Button action="cancel" onClick={onClose}>
          Cancel
        </Button>
        <Button
          action="confirm"
          tone={newer === undefined ? "primary" : "danger"}
          isBusy={create.isPending || update.isPending}
          onClick={submit}
        >
          {newer === undefined ? "Publish" : "Publish over it"}
        </Button>
      </div>
    </Dialog>
  );
}

/** Looks whether the version in force is another than the one that was changed. */
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
