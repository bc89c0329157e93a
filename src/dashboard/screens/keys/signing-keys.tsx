import { useQuery, useQueryClient } from "@tanstack/react-query";
import { AdminService } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { exactText, useZone } from "../../kit/zone.ts";
import { useSession } from "../../session.ts";

interface SigningKeyJson {
  readonly kid: string;
  readonly retired_at?: string;
}

const QUERY_KEY = ["signing-keys"];
const MAX_SHOWN = 50;
/** Characters of a key's id that a person types to confirm. */
const TYPED = 8;

async function readSigningKeys(): Promise<readonly SigningKeyJson[]> {
  const response = await fetch("/.well-known/jwks.json");
  if (!response.ok) throw new Error(`the keys of the service could not be read: ${response.status}`);
  return ((await response.json()) as { readonly keys: readonly SigningKeyJson[] }).keys;
}

/** Signing keys of the service, with a button to retire one. */
export function SigningKeys() {
  const query = useQuery({ queryKey: QUERY_KEY, queryFn: readSigningKeys });
  return (
    <details className="card signing-keys-fold">
      <summary data-action="signing-keys">
        <h2>Signing keys of the service</h2>
      </summary>
      <p className="hint">
        They sign checkpoints, certificates and federation tokens. Retire one after every process was started with
        another <code>ACP_SIGNING_KEY</code>.
      </p>
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {query.isPending ? <Loading what="the signing keys" /> : null}
      <ul className="signing-keys">
        {(query.data ?? []).slice(0, MAX_SHOWN).map((key) => (
          <SigningKeyRow key={key.kid} signingKey={key} />
        ))}
      </ul>
    </details>
  );
}

function SigningKeyRow({ signingKey: { kid, retired_at: retiredAt } }: { readonly signingKey: SigningKeyJson }) {
  const [zone] = useZone();
  const isOfDefault = useSession().session.workspaceId === "default";
  return (
    <li className="row" data-id={kid}>
      <code className="signing-key">{kid}</code>
      {retiredAt === undefined ? <Badge tone="good">trusted</Badge> : <Badge tone="plain">retired</Badge>}
      {retiredAt === undefined ? null : <span className="hint">{exactText(Date.parse(retiredAt), zone)}</span>}
      {retiredAt === undefined && isOfDefault ? (
        <DialogButton action="retire" tone="danger" label="Retire …" aria-label={`Retire ${kid}`}>
          {(close) => <RetireKey keyId={kid} onClose={close} />}
        </DialogButton>
      ) : null}
    </li>
  );
}

function RetireKey({ keyId, onClose }: { readonly keyId: string; readonly onClose: () => void }) {
  const queries = useQueryClient();
  return (
    <Confirm
      title="Retire the signing key?"
      submit="Retire the key for ever"
      word={keyId.slice(0, TYPED)}
      change={(call) => call(AdminService.method.retireSigningKey, { keyId })}
      done="Retired the signing key."
      onDone={() => void queries.invalidateQueries({ queryKey: QUERY_KEY })}
      onClose={onClose}
    >
      <p>
        <code>{keyId}</code>
      </p>
      <p>
        What it signed before still verifies, and nothing later. The log of every workspace seals this. A process that
        still signs with the key no longer starts. This cannot be undone.
      </p>
    </Confirm>
  );
}
