import { Tabs } from "radix-ui";
import { useSearchParams } from "wouter";
import { ScreenFrame } from "../../kit/screen.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/webhooks.css";
import { ControlWebhooks } from "./control-webhooks.tsx";
import { RedactionWebhooks } from "./redaction-webhooks.tsx";
import { WebhookView } from "./webhook-view.tsx";

/** Webhooks for events of the control plane, and for leaks found by the redaction proxy. */
export function Webhooks({ id }: ScreenProps) {
  const [parameters, setParameters] = useSearchParams();
  if (id !== undefined) {
    return (
      <ScreenFrame name="webhooks" title="Webhook">
        <WebhookView webhookId={id} />
      </ScreenFrame>
    );
  }
  const kind = parameters.get("kind") === "redaction" ? "redaction" : "control";
  return (
    <ScreenFrame name="webhooks" title="Webhooks">
      <Tabs.Root value={kind} onValueChange={(value) => setParameters({ kind: value }, { replace: true })}>
        <Tabs.List className="tabs" aria-label="Kinds of webhooks">
          <Tabs.Trigger value="control" className="tab">
            Control plane
          </Tabs.Trigger>
          <Tabs.Trigger value="redaction" className="tab">
            Redaction
          </Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="control" className="tab-content">
          <ControlWebhooks />
        </Tabs.Content>
        <Tabs.Content value="redaction" className="tab-content">
          <RedactionWebhooks />
        </Tabs.Content>
      </Tabs.Root>
    </ScreenFrame>
  );
}
