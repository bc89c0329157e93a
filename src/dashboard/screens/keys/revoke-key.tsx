import { useMutation } from "@connectrpc/connect-query";
import { AdminService, type ApiKey } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Confirm } from "../../kit/confirm.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { useSession } from "../../session.ts";

/** Revokes a key after a confirmation. */
export function RevokeKey({ apiKey, onClose }: { readonly apiKey: ApiKey; readonly onClose: () => void }) {
  const { keyId, name, prefix } = apiKey;
  const { session } = useSession();
  const refresh = useRefresh();
  const announce = useAnnounce();
  const { mutate, isPending, error } = useMutation(AdminService.method.revokeApiKey, {
    onSuccess() {
      refresh(AdminService.method.listApiKeys);
      announce({ tone: "good", text: `Revoked the key ${shownText(name, 60)}.` });
      onClose();
    },
  });
  return (
    <Confirm
      title="Revoke the key?"
      action="confirm"
      submit="Revoke the key"
      isBusy={isPending}
      error={error}
      onConfirm={() => mutate({ keyId })}
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
