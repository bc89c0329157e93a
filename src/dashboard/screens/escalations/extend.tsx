import { DropdownMenu } from "radix-ui";
import { EscalationService } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { useChange } from "../../kit/use-change.ts";
import { useEscalationFeed } from "../../live/use-escalations.tsx";

const { extendEscalation } = EscalationService.method;

const CHOICES = [
  { seconds: 3_600, title: "1 hour more" },
  { seconds: 14_400, title: "4 hours more" },
  { seconds: 86_400, title: "1 day more" },
] as const;

/** Gives people more time to answer. */
export function Extend({ escalationId }: { readonly escalationId: string }) {
  const feed = useEscalationFeed();
  const extend = useChange((call, seconds: number) => call(extendEscalation, { escalationId, seconds }), {
    onDone: ({ escalation }) => feed.take(escalation),
    announcesFault: true,
  });
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger className="button is-plain" data-action="extend">
        Extend
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" sideOffset={4}>
          {CHOICES.map(({ seconds, title }) => (
            <DropdownMenu.Item
              key={seconds}
              className="menu-item"
              data-action={`extend-${seconds}`}
              onSelect={() => extend.mutate(seconds)}
            >
              {title}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
