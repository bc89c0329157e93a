import { useQuery } from "@connectrpc/connect-query";
import {
  NotificationService,
  type NotificationSettings,
  SmtpSecurity,
} from "../../../../gen/agentcontrol/v1/notification_service_pb.js";
import { ChangeDialog, Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { FlagField, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { Fault, Loading } from "../../kit/states.tsx";

const { getNotificationPreferences, getNotificationSettings, updateNotificationSettings } = NotificationService.method;
const REFRESHES = [getNotificationSettings, getNotificationPreferences];

const SECURITY = [
  { value: SmtpSecurity.STARTTLS, title: "STARTTLS: encrypted before anything is sent" },
  { value: SmtpSecurity.TLS, title: "TLS from the first byte" },
  { value: SmtpSecurity.NONE, title: "none, and no password" },
];
const DEFAULT_PORT = 587;

interface SettingsProps {
  readonly settings: NotificationSettings;
  readonly mayChange: boolean;
}

/** How the workspace tells people, which admins set. */
export function WorkspaceSettings({ mayChange }: { readonly mayChange: boolean }) {
  const query = useQuery(getNotificationSettings, {});
  const settings = query.data?.settings;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  if (settings === undefined) return <Loading what="the workspace's settings" />;
  return (
    <section className="card stack" aria-labelledby="workspace-settings">
      <h2 id="workspace-settings">The workspace</h2>
      {settings.slackRequestUrl === undefined ? (
        <p className="fault-text">
          Nothing is sent until <code>ACP_PUBLIC_URL</code> is set to the address of this page.
        </p>
      ) : null}
      <dl className="notification-settings">
        <Contents settings={settings} mayChange={mayChange} />
        <MailServer settings={settings} mayChange={mayChange} />
        <SlackApp settings={settings} mayChange={mayChange} />
      </dl>
    </section>
  );
}

function Contents({ settings: { notifyArguments }, mayChange }: SettingsProps) {
  return (
    <div>
      <dt>Messages</dt>
      <dd>
        <span>
          {notifyArguments
            ? "show what is to be approved, and Slack takes the answer"
            : "name agent, action and tool; what is to be approved stays behind their link"}
        </span>
        {mayChange ? (
          <DialogButton action="edit-contents" label="Change">
            {(close) => (
              <ChangeDialog
                title="What messages show"
                submit="Save"
                change={(call, values) =>
                  call(updateNotificationSettings, { notifyArguments: values.flag("notify_arguments") })
                }
                refreshes={REFRESHES}
                onClose={close}
              >
                <FlagField
                  name="notify_arguments"
                  label="Show what is to be approved"
                  hint="Arguments then leave for the mail server, Slack and, encrypted, the push services of browsers."
                  defaultChecked={notifyArguments}
                />
              </ChangeDialog>
            )}
          </DialogButton>
        ) : null}
      </dd>
    </div>
  );
}

const smtpFrom = (values: FormValues) => ({
  smtp: {
    host: values.text("smtp.host"),
    port: values.integer("smtp.port") ?? DEFAULT_PORT,
    security: Number(values.text("smtp.security")) as SmtpSecurity,
    user: values.text("smtp.user"),
    from: values.text("smtp.from"),
  },
  smtpPassword: values.optional("smtp_password"),
});

function MailServer({ settings: { smtp, smtpHasPassword }, mayChange }: SettingsProps) {
  return (
    <div>
      <dt>Mail server</dt>
      <dd>
        <span>{smtp === undefined ? "none" : `${smtp.host}:${smtp.port}, from ${smtp.from}`}</span>
        {mayChange ? (
          <span className="row">
            <DialogButton action="edit-smtp" label={smtp === undefined ? "Set" : "Change"}>
              {(close) => (
                <ChangeDialog
                  title="Mail server"
                  submit="Save"
                  change={(call, values) => call(updateNotificationSettings, smtpFrom(values))}
                  refreshes={REFRESHES}
                  onClose={close}
                >
                  <TextField name="smtp.host" label="Host" defaultValue={smtp?.host} />
                  <NumberField name="smtp.port" label="Port" defaultValue={smtp?.port ?? DEFAULT_PORT} />
                  <SelectField
                    name="smtp.security"
                    label="Protection"
                    defaultValue={smtp?.security ?? SmtpSecurity.STARTTLS}
                    options={SECURITY}
                  />
                  <TextField
                    name="smtp.user"
                    label="Account"
                    hint="Empty: the server asks for none."
                    defaultValue={smtp?.user}
                  />
                  <TextField
                    name="smtp_password"
                    label="Password"
                    isSecret
                    hint={
                      smtpHasPassword
                        ? "Empty: it stays. Another host, port, protection or account drops it."
                        : undefined
                    }
                  />
                  <TextField
                    name="smtp.from"
                    label="Sender"
                    hint="Such as acp@example.com."
                    defaultValue={smtp?.from}
                  />
                </ChangeDialog>
              )}
            </DialogButton>
            {smtp === undefined ? null : (
              <DialogButton action="remove-smtp" tone="danger" label="Remove">
                {(close) => (
                  <Confirm
                    title="Remove the mail server?"
                    submit="Remove"
                    change={(call) => call(updateNotificationSettings, { removeSmtp: true })}
                    refreshes={REFRESHES}
                    onClose={close}
                  >
                    <p>Nobody is told by e-mail any more. Its password is deleted.</p>
                  </Confirm>
                )}
              </DialogButton>
            )}
          </span>
        ) : null}
      </dd>
    </div>
  );
}

function SlackApp({ settings: { hasSlack, slackChannel, slackRequestUrl }, mayChange }: SettingsProps) {
  return (
    <div>
      <dt>Slack app</dt>
      <dd>
        <span>
          {hasSlack ? (slackChannel === "" ? "tells people" : `tells people and channel ${slackChannel}`) : "none"}
        </span>
        {mayChange ? (
          <span className="row">
            <DialogButton action="edit-slack" label={hasSlack ? "Change" : "Set"}>
              {(close) => (
                <ChangeDialog
                  title="Slack app"
                  submit="Save"
                  change={(call, values) =>
                    call(updateNotificationSettings, {
                      slackBotToken: values.optional("slack_bot_token"),
                      slackSigningSecret: values.optional("slack_signing_secret"),
                      slackChannel: values.text("slack_channel"),
                    })
                  }
                  refreshes={REFRESHES}
                  onClose={close}
                >
                  <p>
                    The <a href="/docs/guides/notifications">guide</a> has a manifest for the app.
                    {slackRequestUrl === undefined ? null : (
                      <>
                        {" "}
                        Its request URL is <code>{slackRequestUrl}</code>
                      </>
                    )}
                  </p>
                  <TextField
                    name="slack_bot_token"
                    label="Bot token"
                    isSecret
                    hint={hasSlack ? "Empty: it stays." : "Begins with xoxb-."}
                  />
                  <TextField
                    name="slack_signing_secret"
                    label="Signing secret"
                    isSecret
                    hint={hasSlack ? "Empty: it stays." : undefined}
                  />
                  <TextField
                    name="slack_channel"
                    label="Channel for every escalation"
                    hint="Its id, such as C012AB3CD. Empty: none."
                    defaultValue={slackChannel}
                  />
                </ChangeDialog>
              )}
            </DialogButton>
            {hasSlack ? (
              <DialogButton action="remove-slack" tone="danger" label="Remove">
                {(close) => (
                  <Confirm
                    title="Remove the Slack app?"
                    submit="Remove"
                    change={(call) => call(updateNotificationSettings, { removeSlack: true })}
                    refreshes={REFRESHES}
                    onClose={close}
                  >
                    <p>Its secrets and every linked account are deleted.</p>
                  </Confirm>
                )}
              </DialogButton>
            ) : null}
          </span>
        ) : null}
      </dd>
    </div>
  );
}
