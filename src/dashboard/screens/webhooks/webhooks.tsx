import { useSearchParams } from "wouter";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import type { ScreenProps } from "../../screens.tsx";
import "../../styles/webhooks.css";
import { SETTINGS } from "../settings/place.ts";
import { AddWebhook, ControlWebhooks } from "./control-webhooks.tsx";
import { AddRedactionWebhook, RedactionWebhooks } from "./redaction-webhooks.tsx";
import { WebhookView } from "./webhook-view.tsx";

const WEBHOOKS: ScreenPlace = { title: "Webhooks", href: "/webhooks" };

/** Webhooks for events of the control plane; on a page of their own, those for leaks found by the redaction proxy. */
export function Webhooks({ id }: ScreenProps) {
  const [parameters] = useSearchParams();
  if (id !== undefined) {
    return (
      <ScreenFrame name="webhooks" title="Webhook" within={WEBHOOKS}>
        <WebhookView webhookId={id} />
      </ScreenFrame>
    );
  }
  if (parameters.get("kind") === "redaction") {
    return (
      <ScreenFrame name="webhooks" title="Redaction webhooks" within={SETTINGS} actions={<AddRedactionWebhook />}>
        <RedactionWebhooks />
      </ScreenFrame>
    );
  }
  return (
    <ScreenFrame name="webhooks" title="Webhooks" within={SETTINGS} actions={<AddWebhook />}>
      <ControlWebhooks />
    </ScreenFrame>
  );
}
