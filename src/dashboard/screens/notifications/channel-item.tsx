import {
  type NotificationChannel,
  NotificationChannelKind,
  NotificationService,
  type TestNotificationChannelResponse,
} from "../../../../gen/agentcontrol/v1/notification_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import type { Announcement } from "../../kit/toast.tsx";
import { useChange } from "../../kit/use-change.ts";

const { getNotificationPreferences, removeNotificationChannel, testNotificationChannel } = NotificationService.method;

const KINDS: Readonly<Record<NotificationChannelKind, string>> = {
  [NotificationChannelKind.UNSPECIFIED]: "channel",
  [NotificationChannelKind.EMAIL]: "e-mail",
  [NotificationChannelKind.PUSH]: "browser",
  [NotificationChannelKind.SLACK]: "Slack",
};

const tested = ({ delivered, error }: TestNotificationChannelResponse): Announcement =>
  delivered
    ? { tone: "good", text: "Test sent" }
    : { tone: "bad", text: `Test: ${error ?? "the message was not accepted"}` };

/** One channel of the signed-in person. */
export function ChannelItem({ channel }: { readonly channel: NotificationChannel }) {
  const { channelId, kind, label, error } = channel;
  const test = useChange((call) => call(testNotificationChannel, { channelId }), {
    refreshes: [getNotificationPreferences],
    done: tested,
    announcesFault: true,
  });
  return (
    <li className="channel" data-id={channelId}>
      <div className="channel-about">
        <span className="row">
          <strong>
            <Shown text={label} />
          </strong>
          <span className="hint">{KINDS[kind]}</span>
          <State channel={channel} />
        </span>
        {error === undefined ? null : (
          <span className="fault-text">
            <Shown text={error} />
          </span>
        )}
      </div>
      <span className="row">
        <Button action="test" isBusy={test.isPending} onClick={() => test.mutate()}>
          Send a test
        </Button>
        <DialogButton action="remove" tone="danger" label="Remove">
          {(close) => (
            <Confirm
              title={`Remove ${label}?`}
              submit="Remove"
              change={(call) => call(removeNotificationChannel, { channelId })}
              refreshes={[getNotificationPreferences]}
              onClose={close}
            >
              <p>You are no longer told there.</p>
            </Confirm>
          )}
        </DialogButton>
      </span>
    </li>
  );
}

function State({ channel: { isActive, failures, nextAttemptAt } }: { readonly channel: NotificationChannel }) {
  if (!isActive) return <Badge tone="bad">ended</Badge>;
  if (failures > 0) return <Badge tone="bad">failing</Badge>;
  if (nextAttemptAt === undefined) return <Badge tone="good">active</Badge>;
  return (
    <>
      <Badge tone="plain">quiet</Badge>
      <span className="hint">
        until <Time at={nextAttemptAt} />
      </span>
    </>
  );
}
