import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useMemo, useState } from "react";
import { Role } from "../../../../gen/agentcontrol/v1/access_pb.js";
import {
  AdminService,
  type ApiKey,
  type ListApiKeysResponse,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { AgentName } from "../../kit/agent-name.tsx";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Time, useNow } from "../../kit/time.tsx";
import { useSession } from "../../session.ts";

const { listApiKeys, revokeApiKey } = AdminService.method;
const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 61;
const NOW_MS = 10_000;

const keysOf = ({ keys }: ListApiKeysResponse): readonly ApiKey[] => keys;
const idOf = ({ keyId }: ApiKey): string => keyId;

/** Returns the word of a role. */
export const roleText = (role: Role): string => (Role[role] ?? "unknown").toLowerCase();

/** Keys of the workspace, newest first, revoked ones included; with `owner` those of one owner. */
export function KeyList({ owner }: { readonly owner?: string }) {
  const request = useMemo(() => ({ ...REQUEST, ...(owner !== undefined && { owner }) }), [owner]);
  const [revoking, setRevoking] = useState<ApiKey>();
  const columns = useMemo(() => columnsOf(setRevoking), []);
  return (
    <>
      <PagedList
        pages={usePages(listApiKeys, request, keysOf)}
        loading="the keys"
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Keys"
        columns={columns}
        className="keys"
        rowClassName="keys-row"
      />
      {revoking === undefined ? null : <RevokeKey apiKey={revoking} onClose={() => setRevoking(undefined)} />}
    </>
  );
}

const columnsOf = (revoke: (key: ApiKey) => void): readonly Column<ApiKey>[] => [
  { title: "Name", cell: (key) => <Name apiKey={key} />, sortBy: ({ name }) => name },
  { title: "Role", cell: ({ role }) => roleText(role), sortBy: ({ role }) => roleText(role) },
  { title: "State", cell: (key) => <State apiKey={key} /> },
  {
    title: "Created",
    cell: ({ createdAt }) => (
      <span className="hint">
        <Time at={createdAt} />
      </span>
    ),
    sortBy: ({ createdAt }) => createdAt?.seconds ?? 0n,
  },
  {
    title: "",
    cell: (key) =>
      key.revokedAt === undefined ? (
        <Button action="revoke-key" onClick={() => revoke(key)} aria-label={`Revoke ${shownText(key.name, 60)}`}>
          Revoke
        </Button>
      ) : null,
  },
];

function stateOf({ revokedAt, expiresAt }: ApiKey, now: number): readonly [Tone, string] {
  if (revokedAt !== undefined) return ["bad", "revoked"];
  if (expiresAt !== undefined && timestampMs(expiresAt) <= now) return ["plain", "expired"];
  return ["good", "active"];
}

interface KeyProps {
  readonly apiKey: ApiKey;
}

function Name({ apiKey }: KeyProps) {
  const { keyId, name, agentId, prefix, owner, createdBy, lastUsedAt } = apiKey;
  const isOwn = useSession().session.keyId === keyId;
  return (
    <div className="keys-name">
      <span className="keys-title">
        <Shown text={name} />
        {isOwn ? <Badge tone="plain">you are signed in with it</Badge> : null}
      </span>
      <span className="hint keys-more">
        <code>{prefix === "" ? keyId : `${prefix}…`}</code>
        {agentId === undefined ? null : (
          <>
            {" "}
            for <AgentName agentId={agentId} />
          </>
        )}
        {owner === undefined ? null : (
          <>
            {" "}
            of <Actor id={owner} name={apiKey.ownerName ?? owner} />
          </>
        )}
        {createdBy === undefined ? null : (
          <>
            {" "}
            made by <Actor id={createdBy} name={apiKey.createdByName} />
          </>
        )}
        {", "}
        {lastUsedAt === undefined ? (
          "not used yet"
        ) : (
          <>
            used <Time at={lastUsedAt} />
          </>
        )}
      </span>
    </div>
  );
}

function State({ apiKey }: KeyProps) {
  const { expiresAt, revokedAt } = apiKey;
  const [tone, word] = stateOf(apiKey, useNow(NOW_MS));
  return (
    <span className="keys-state">
      <Badge tone={tone}>{word}</Badge>{" "}
      <span className="hint">
        {word === "active" && expiresAt !== undefined ? (
          <>
            expires <Time at={expiresAt} />
          </>
        ) : null}
        {revokedAt === undefined ? null : <Time at={revokedAt} />}
      </span>
    </span>
  );
}

/** Revokes a key after confirmation. */
function RevokeKey({ apiKey, onClose }: { readonly apiKey: ApiKey; readonly onClose: () => void }) {
  const { keyId, name, prefix } = apiKey;
  const { session } = useSession();
  return (
    <Confirm
      title="Revoke the key?"
      submit="Revoke the key"
      change={(call) => call(revokeApiKey, { keyId })}
      refreshes={[listApiKeys]}
      done={`Revoked the key ${shownText(name, 60)}.`}
      onClose={onClose}
    >
      <p>
        <strong>
          <Shown text={name} />
        </strong>{" "}
        <code>{prefix === "" ? keyId : `${prefix}…`}</code>
      </p>
      <p>Calls with it are refused from now on, and its sign-ins end. This cannot be undone.</p>
      {session.keyId === keyId ? (
        <p className="fault-text">You are signed in with this key: revoking it signs you out.</p>
      ) : null}
    </Confirm>
  );
}
