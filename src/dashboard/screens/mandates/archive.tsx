import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { type Mandate, MandateService } from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { useMayChange } from "../../session.ts";

/** Takes a mandate out of force. */
export function Archive({ mandate: { mandateId, name } }: { readonly mandate: Mandate }) {
  const mayChange = useMayChange();
  const [isOpen, setIsOpen] = useState(false);
  const [, navigate] = useLocation();
  const refresh = useRefresh();
  const archive = useMutation(MandateService.method.archiveMandate, {
    onSuccess: () => {
      refresh(MandateService.method.listMandates);
      navigate("/mandates");
    },
  });
  if (!mayChange) return null;
  return (
    <>
      <Button action="archive" tone="danger" onClick={() => setIsOpen(true)}>
        Archive
      </Button>
      {isOpen ? (
        <Confirm
          title="Archive the mandate?"
          action="confirm"
          submit="Archive"
          word={name}
          isBusy={archive.isPending}
          error={archive.error}
          onConfirm={() => archive.mutate({ mandateId })}
          onClose={() => setIsOpen(false)}
        >
          <p>Its rules no longer decide. It takes no new version; a new mandate may have its name.</p>
        </Confirm>
      ) : null}
    </>
  );
}
