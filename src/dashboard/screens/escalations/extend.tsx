import { useMutation } from "@connectrpc/connect-query";
import { DropdownMenu } from "radix-ui";
import { EscalationService } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { faultText } from "../../kit/states.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useEscalationFeed } from "../../live/use-escalations.tsx";

const CHOICES = [
  { seconds: 3_600, title: "1 hour more" },
  { seconds: 14_400, title: "4 hours more" },
  { seconds: 86_400, title: "1 day more" },
] as const;

/** Gives people more time to answer. */
export function Extend({ escalationId }: { readonly escalationId: string }) {
  const feed = useEscalationFeed();
  const announce = useAnnounce();
  const extend = useMutation(EscalationService.method.extendEscalation, {
    onSuccess: ({ escalation }) => feed.take(escalation),
    onError: (error) => announce({ tone: "bad", text: faultText(error) }),
  });
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger className="link" data-action="extend">
        extend
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" sideOffset={4}>
          {CHOICES.map(({ seconds, title }) => (
            <DropdownMenu.Item
              key={seconds}
              className="menu-item"
              data-action={`extend-${seconds}`}
              onSelect={() => extend.mutate({ escalationId, seconds })}
            >
              {title}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
