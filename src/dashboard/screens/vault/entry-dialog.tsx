import { useQuery } from "@connectrpc/connect-query";
import { useMemo } from "react";
import { Link } from "wouter";
import { type VaultEntry, VaultService } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import type { AnsweredProof } from "../../../verify/inclusion.ts";
import { parseCanonicalObject, textAt } from "../../../verify/json.ts";
import { CopyButton } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { DownloadButton } from "../../kit/download.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { Scrolled } from "../../kit/scrolled.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { StepsView, Verdict } from "../../kit/steps-view.tsx";
import { entrySteps } from "../../proof/check-decision.ts";
import { CANNOT_HASH, canHash, useCheck } from "../../proof/use-check.ts";
import { useSession } from "../../session.ts";

/** Properties of an entry's dialog. */
export interface EntryDialogProps {
  readonly index: number;
  readonly jwks: unknown;
  readonly onClose: () => void;
}

const NEVER_STALE = { staleTime: Number.POSITIVE_INFINITY };

/** One entry of the log: its text, and its proof checked in this browser. */
export function EntryDialog({ index, jwks, onClose }: EntryDialogProps) {
  const place = BigInt(index);
  const entries = useQuery(VaultService.method.listEntries, { from: place, to: place + 1n, pageSize: 1 }, NEVER_STALE);
  const proof = useQuery(VaultService.method.getInclusionProof, { index: place }, { refetchOnWindowFocus: false });
  const error = entries.error ?? proof.error;
  const entry = entries.data?.entries[0];
  return (
    <Dialog title={`Entry ${index.toLocaleString("en")}`} isOpen onClose={onClose} isWide>
      {error === null ? null : <Fault error={error} />}
      {error === null && (entry === undefined || proof.data === undefined) ? <Loading what="the entry" /> : null}
      {entry === undefined || proof.data === undefined ? null : (
        <>
          <EntryProof entry={entry} proof={proof.data} jwks={jwks} />
          <EntryText entry={entry} />
        </>
      )}
    </Dialog>
  );
}

interface EntryProofProps {
  readonly entry: VaultEntry;
  readonly proof: AnsweredProof;
  readonly jwks: unknown;
}

function EntryProof({ entry, proof, jwks }: EntryProofProps) {
  const { workspaceId } = useSession().session;
  const steps = useMemo(() => entrySteps({ entry, proof, workspaceId, jwks }), [entry, proof, workspaceId, jwks]);
  const checked = useCheck(steps);
  if (!canHash()) return <p className="fault">{CANNOT_HASH}</p>;
  if (checked === undefined) return <Loading what="the result of the check" />;
  return (
    <>
      <Verdict steps={checked} />
      <details>
        <summary>Steps of the proof</summary>
        <StepsView steps={checked} />
      </details>
    </>
  );
}

function EntryText({ entry: { index, body } }: { readonly entry: VaultEntry }) {
  const value = useMemo(() => parseCanonicalObject(body), [body]);
  const decisionId = textAt(value, "type") === "decision" ? textAt(value, "decision_id") : "";
  return (
    <>
      <div className="row is-apart">
        <h3>Sealed text</h3>
        <div className="row">
          {decisionId === "" ? null : <Link href={`/decisions/${decisionId}`}>Open the decision</Link>}
          <CopyButton text={body} what="the sealed text" />
          <DownloadButton name={`entry-${index}.json`} text={body} title="Download" />
        </div>
      </div>
      <Scrolled label="Sealed text" className="scrolled mono">
        <Shown text={body} />
      </Scrolled>
      {value === undefined ? null : (
        <>
          <h3>Its members</h3>
          <JsonView value={value} />
        </>
      )}
    </>
  );
}
