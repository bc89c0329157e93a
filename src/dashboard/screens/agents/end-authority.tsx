import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useMutation } from "@tanstack/react-query";
import { AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { AuthorityService } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { Confirm } from "../../kit/confirm.tsx";
import { Shown } from "../../kit/shown.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { type AuthorityItem, KINDS, LISTS } from "./authority-kinds.ts";

/** Ends a piece of authority after a confirmation. */
export function EndAuthority({ item, onClose }: { readonly item: AuthorityItem; readonly onClose: () => void }) {
  const transport = useTransport();
  const refresh = useRefresh();
  const announce = useAnnounce();
  const { one, end } = KINDS[item.kind];
  const noun = one.slice(one.indexOf(" ") + 1);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => end(createClient(AuthorityService, transport), item.id),
    onSuccess() {
      refresh(...LISTS, AgentService.method.getAgent);
      announce({ tone: "good", text: `Ended the ${noun}.` });
      onClose();
    },
  });
  return (
    <Confirm
      title={`End the ${noun}?`}
      action="confirm"
      submit="End it"
      isBusy={isPending}
      error={error}
      onConfirm={() => mutate()}
      onClose={onClose}
    >
      <p>
        {item.name === "" ? null : (
          <strong>
            <Shown text={item.name} />{" "}
          </strong>
        )}
        <code>{item.id}</code>
      </p>
      <p>
        It holds no more from the next decision on, and cannot be taken up again.
        {item.kind === "grants" ? " Everything that was passed on of it ends with it." : ""}
      </p>
    </Confirm>
  );
}
