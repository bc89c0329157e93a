import { NotificationService } from "../../../../gen/agentcontrol/v1/notification_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { Dialog, DialogButton } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/form.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { subscribe } from "../../live/push.ts";

const { addNotificationChannel, getNotificationPreferences, linkSlackAccount } = NotificationService.method;
const REFRESHES = [getNotificationPreferences];

/** Names of browsers and systems in `navigator.userAgent`, the first that fits. */
const BROWSERS = [
  ["Edg", "Edge"],
  ["Firefox", "Firefox"],
  ["Chrome", "Chrome"],
  ["Safari", "Safari"],
] as const;
const SYSTEMS = [
  ["Android", "Android"],
  ["iPhone", "an iPhone"],
  ["iPad", "an iPad"],
  ["Windows", "Windows"],
  ["Mac", "a Mac"],
  ["Linux", "Linux"],
] as const;

function browserName(agent: string): string {
  const nameIn = (names: readonly (readonly [string, string])[]) => names.find(([mark]) => agent.includes(mark))?.[1];
  return [nameIn(BROWSERS) ?? "A browser", nameIn(SYSTEMS)].filter((each) => each !== undefined).join(" on ");
}

/** Button that subscribes this browser. */
export function NotifyBrowser({ publicKey }: { readonly publicKey: string }) {
  const add = useChange(
    async (call) => {
      const push = await subscribe(publicKey);
      return call(addNotificationChannel, { push, label: browserName(navigator.userAgent) });
    },
    { refreshes: REFRESHES, done: "This browser will be told", announcesFault: true },
  );
  return (
    <Button action="add-browser" tone="primary" isBusy={add.isPending} onClick={() => add.mutate()}>
      Notify this browser
    </Button>
  );
}

/** Button that adds an e-mail address. */
export function AddEmail() {
  return (
    <DialogButton action="add-email" label="Add an e-mail address">
      {(close) => (
        <ChangeDialog
          title="Add an e-mail address"
          submit="Add"
          change={(call, values) => call(addNotificationChannel, { email: values.text("email") })}
          refreshes={REFRESHES}
          onClose={close}
        >
          <TextField
            name="email"
            label="Address"
            hint="Whoever reads its mails learns the names of agents and actions."
          />
        </ChangeDialog>
      )}
    </DialogButton>
  );
}

/** Button that shows a code with which a Slack account is linked. */
export function LinkSlack() {
  return (
    <DialogButton action="link-slack" label="Link a Slack account">
      {(close) => (
        <ChangeDialog
          title="Link a Slack account"
          submit="Show a code"
          change={(call) => call(linkSlackAccount, {})}
          after={({ command, expiresAt }) => (
            <Dialog title="Type this in Slack" isOpen onClose={close} closesBy="button">
              <div className="secret">
                <code data-command>{command}</code>
                <CopyButton text={command} what="the command" />
              </div>
              <p className="hint">
                Good once, until <Time at={expiresAt} />.
              </p>
              <div className="dialog-actions">
                <Button action="done" tone="primary" onClick={close}>
                  Done
                </Button>
              </div>
            </Dialog>
          )}
          onClose={close}
        >
          <p>Whoever types the code in Slack is told of escalations there, and answers them as you.</p>
        </ChangeDialog>
      )}
    </DialogButton>
  );
}
