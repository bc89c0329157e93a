import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import type { RevocationCertificate, RevocationCounts } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { type PublicKey, publicKeysFromJwks } from "../../../verify/public-key.ts";
import { Actor } from "../../kit/actor.tsx";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { countText } from "../../kit/count-text.ts";
import { saveFile } from "../../kit/download.tsx";
import { ProofAddresses } from "../../kit/proof-addresses.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { ExactTime } from "../../kit/time.tsx";
import { markRevocationSeen } from "../../live/seen-revocations.ts";
import { certificateJson, checkCertificate } from "../../proof/check-certificate.ts";
import type { CheckedStep } from "../../proof/steps.ts";
import { canHash } from "../../proof/use-check.ts";

/** Properties of a certificate. */
export interface CertificateCardProps {
  readonly certificate: RevocationCertificate;
  /** Name of the person or key that revoked the agent, which is not signed; undefined if there is none. */
  readonly revokedByName: string | undefined;
  /** Result of the service's own check of the signature. */
  readonly isValidForService: boolean;
  readonly takesFocus: boolean;
}

/** A revocation certificate: its contents, the result of its check, and the commands to check it without this page. */
export function CertificateCard({ certificate, revokedByName, isValidForService, takesFocus }: CertificateCardProps) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (takesFocus) card.current?.focus();
  }, [takesFocus]);
  const { revocationId, agentName, reason, revokedAt, revokedBy, ledgerSeq, counts } = certificate;
  useEffect(() => markRevocationSeen(revocationId), [revocationId]);
  return (
    <section
      ref={card}
      tabIndex={-1}
      className="card stack certificate"
      data-certificate={revocationId}
      aria-labelledby="certificate-title"
    >
      <div className="screen-head">
        <h2 id="certificate-title">Revocation certificate</h2>
        <div className="row">
          <Button action="print" onClick={() => window.print()}>
            Print
          </Button>
          <Button action="download" onClick={() => download(certificate)}>
            Download
          </Button>
        </div>
      </div>
      <dl className="facts">
        <dt>Agent</dt>
        <dd>
          <Shown text={agentName} />
        </dd>
        <dt>Revoked</dt>
        <dd>
          {revokedAt === undefined ? "at a time that is not known" : <ExactTime at={revokedAt} />}, by{" "}
          <Actor id={revokedBy} name={revokedByName} />
        </dd>
        <dt>Reason</dt>
        <dd>{reason === "" ? <span className="hint">none given</span> : <Shown text={reason} />}</dd>
        <dt>Ended with it</dt>
        <dd>{counts === undefined ? "" : countsText(counts)}</dd>
        <dt>Certificate</dt>
        <dd>
          <code>{revocationId}</code>, entry {String(ledgerSeq)} of the log
        </dd>
      </dl>
      <Verification certificate={certificate} isValidForService={isValidForService} />
      <OfflineCheck revocationId={revocationId} />
      <ProofAddresses addresses={[{ title: "Certificate", path: `/v1/enforce/revocations/${revocationId}` }]} />
    </section>
  );
}

function countsText(counts: RevocationCounts): string {
  const { sessions, credentials, grantsGiven, grantsReceived, temporalWindows } = counts;
  const { intentContracts, federationTokens, mcpToolPolicies } = counts;
  const some = [
    countText(sessions, "session"),
    countText(credentials, "credential"),
    countText(grantsGiven, "grant given", "grants given"),
    countText(grantsReceived, "grant received", "grants received"),
    countText(temporalWindows, "temporal window"),
    countText(intentContracts, "intent contract"),
    countText(federationTokens, "federation token"),
    countText(mcpToolPolicies, "MCP tool policy", "MCP tool policies"),
  ];
  return some.filter((text) => !text.startsWith("0 ")).join(", ") || "nothing but its registration";
}

async function readKeys(): Promise<readonly PublicKey[]> {
  const response = await fetch("/.well-known/jwks.json");
  if (!response.ok) throw new Error(`the keys of the service could not be read: ${response.status}`);
  return (await publicKeysFromJwks(await response.json())) ?? [];
}

type VerificationProps = Pick<CertificateCardProps, "certificate" | "isValidForService">;

/** Checks the certificate in this browser and shows each step. */
function Verification({ certificate, isValidForService }: VerificationProps) {
  const canVerify = canHash();
  const query = useQuery({
    queryKey: ["certificate", certificateJson(certificate)],
    queryFn: async () => checkCertificate(certificate, await readKeys()),
    enabled: canVerify,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!canVerify) {
    return (
      <p className="hint">
        Browsers check signatures on pages of https and of this machine only: check it with openssl, as below.
      </p>
    );
  }
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  if (query.isPending) return <Loading what="the check" />;
  const steps = [...query.data, serviceStep(isValidForService)];
  const holds = steps.every(({ state }) => state === "holds");
  return (
    <div className="stack" role="status" data-verified={holds}>
      <p className="row">
        <Badge tone={holds ? "good" : "bad"}>{holds ? "verified in this browser" : "NOT VALID"}</Badge>
        {holds ? null : <strong className="fault-text">Do not rely on this certificate.</strong>}
      </p>
      <ul className="checks">
        {steps.map((step) => (
          <CheckRow key={step.name} step={step} />
        ))}
      </ul>
    </div>
  );
}

/** Makes a step from the service's own check. */
function serviceStep(holds: boolean): CheckedStep {
  const fault = holds ? undefined : "what the service stores of it was changed";
  const title = "The service finds the same, and its log holds this body";
  return { name: "service", title, state: holds ? "holds" : "fails", compared: [], fault };
}

const MARKS = { holds: "✓", fails: "✗", skipped: "–" } as const;

function CheckRow({ step: { name, title, state, fault } }: { readonly step: CheckedStep }) {
  return (
    <li className={`check is-${state}`} data-id={name} data-state={state}>
      <span aria-hidden>{MARKS[state]}</span>
      <span>
        <span className="visually-hidden">{state}: </span>
        {title}
        {fault === undefined ? null : (
          <>
            : <Shown text={fault} />
          </>
        )}
      </span>
    </li>
  );
}

/** Returns a file name that is safe in every shell. */
const fileNameOf = (revocationId: string): string =>
  /^rev_[a-z0-9]{1,40}$/.test(revocationId) ? revocationId : "certificate";

function download(certificate: RevocationCertificate): void {
  const text = `${JSON.stringify(certificateJson(certificate), null, 2)}\n`;
  saveFile(`${fileNameOf(certificate.revocationId)}.json`, [text], "application/json");
}

/** Commands that check the downloaded file without the service. */
function OfflineCheck({ revocationId }: { readonly revocationId: string }) {
  const name = fileNameOf(revocationId);
  const commands = [
    `jq -j .canonical_body ${name}.json > body.json`,
    `jq -r .signature ${name}.json | openssl base64 -d -A > signature.der`,
    `jq -r .public_key ${name}.json > key.pem`,
    "openssl dgst -sha256 -verify key.pem -signature signature.der body.json",
  ].join("\n");
  return (
    <details>
      <summary>Check it offline with openssl</summary>
      <div className="stack offline">
        <p className="hint">
          Download the certificate, then run this beside it. Or: <code>agentctl certificate verify {name}.json</code>
        </p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard */}
        <pre className="commands" tabIndex={0} data-commands>
          {commands}
        </pre>
        <div>
          <CopyButton text={commands} what="the commands" />
        </div>
      </div>
    </details>
  );
}
