import { isDeepStrictEqual } from "node:util";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { NotificationSettingsEntity } from "../store/entities.ts";
import { forgetSlack } from "../store/sql/slack.ts";
import { type Reader, readerWithin } from "../store/transaction.ts";

/** A mail server, without its password. */
export interface SmtpServer {
  readonly host: string;
  readonly port: number;
  readonly security: "starttls" | "tls" | "none";
  /** Empty: the server asks for no account. */
  readonly user: string;
  readonly from: string;
}

/** How a workspace tells people, as everyone may read it. */
export interface PublicSettings {
  readonly notifyArguments: boolean;
  readonly smtp: SmtpServer | null;
  readonly hasSmtpPassword: boolean;
  readonly hasSlack: boolean;
  /** Empty without one. */
  readonly slackChannel: string;
}

/** Secrets of the settings. */
interface SecretSettings {
  readonly smtpPassword?: string;
  readonly slackBotToken?: string;
  readonly slackSigningSecret?: string;
}

/** Settings with their secrets, for sending and for verifying requests. */
export interface WholeSettings extends PublicSettings, SecretSettings {}

/** Changes of the settings; undefined leaves a value. */
export interface SettingsUpdate {
  readonly notifyArguments?: boolean | undefined;
  /** Null removes the mail server. */
  readonly smtp?: SmtpServer | null | undefined;
  /** Empty removes the password. */
  readonly smtpPassword?: string | undefined;
  readonly slackBotToken?: string | undefined;
  readonly slackSigningSecret?: string | undefined;
  readonly slackChannel?: string | undefined;
  readonly removesSlack: boolean;
}

const NO_SETTINGS: WholeSettings = {
  notifyArguments: false,
  smtp: null,
  hasSmtpPassword: false,
  hasSlack: false,
  slackChannel: "",
};
const PLACE = "notification_settings.sealed_private";

/** Settings that the table holds as plain text. */
type StoredSettings = Pick<PublicSettings, "notifyArguments" | "smtp" | "slackChannel">;

interface SettingsRow {
  readonly workspaceId: string;
  readonly settings: string;
  readonly sealedPrivate: Uint8Array;
}

function wholeFrom(encryptor: Encryptor, row: SettingsRow | null): WholeSettings {
  if (row === null) return NO_SETTINGS;
  const stored = JSON.parse(row.settings) as StoredSettings;
  const secrets = JSON.parse(encryptor.decrypt(row.workspaceId, PLACE, row.sealedPrivate)) as SecretSettings;
  return {
    ...stored,
    ...secrets,
    hasSmtpPassword: secrets.smtpPassword !== undefined,
    hasSlack: secrets.slackBotToken !== undefined && secrets.slackSigningSecret !== undefined,
  };
}

/** Reads the settings with their secrets. Throws ENCRYPTION_KEY_DIFFERS and STORE_UNAVAILABLE. */
export async function readSettings(
  { orm }: Pick<Database, "orm">,
  encryptor: Encryptor,
  workspaceId: string,
): Promise<WholeSettings> {
  return wholeFrom(encryptor, await stored(orm.em.fork().findOne(NotificationSettingsEntity, { workspaceId })));
}

/** Returns settings with the given changes. Secrets follow their origin: another mail server does not get the password of the one before. */
function withChanges(before: WholeSettings, update: SettingsUpdate): WholeSettings {
  const smtp = update.smtp === undefined ? before.smtp : update.smtp;
  const keeps = smtp !== null && before.smtp !== null && isDeepStrictEqual(originOf(smtp), originOf(before.smtp));
  const smtpPassword = smtp === null ? "" : (update.smtpPassword ?? (keeps ? before.smtpPassword : ""));
  const slack = update.removesSlack ? {} : slackFrom(before, update);
  const slackChannel = update.removesSlack ? "" : (update.slackChannel ?? before.slackChannel);
  const hasSlack = "slackBotToken" in slack && "slackSigningSecret" in slack;
  if (slackChannel !== "" && !hasSlack) {
    throw invalidField("slack_channel", "needs a Slack app: send `slack_bot_token` and `slack_signing_secret` with it");
  }
  if (smtpPassword && smtp?.security === "none") {
    throw invalidField("smtp_password", "must not be sent in plain text; choose STARTTLS or TLS");
  }
  if (smtp === null && update.smtpPassword)
    throw invalidField("smtp_password", "needs a mail server: send `smtp` with it");
  return {
    notifyArguments: update.notifyArguments ?? before.notifyArguments,
    smtp,
    slackChannel,
    ...(smtpPassword ? { smtpPassword } : {}),
    ...slack,
    hasSmtpPassword: Boolean(smtpPassword),
    hasSlack,
  };
}

const originOf = ({ host, port, security, user }: SmtpServer) => ({ host, port, security, user });

function slackFrom(
  before: WholeSettings,
  update: SettingsUpdate,
): Pick<SecretSettings, "slackBotToken" | "slackSigningSecret"> {
  const slackBotToken = update.slackBotToken ?? before.slackBotToken;
  const slackSigningSecret = update.slackSigningSecret ?? before.slackSigningSecret;
  if (slackBotToken === undefined && slackSigningSecret === undefined) return {};
  if (slackBotToken === undefined) throw invalidField("slack_bot_token", "is required with `slack_signing_secret`");
  if (slackSigningSecret === undefined)
    throw invalidField("slack_signing_secret", "is required with `slack_bot_token`");
  return { slackBotToken, slackSigningSecret };
}

/**
 * Changes the settings and seals the change. `align` makes channels follow them in the same transaction. Throws INVALID_FIELD. Nothing is sealed if all values stay the same.
 */
export function updateSettings(
  log: WorkspaceLog,
  by: string,
  encryptor: Encryptor,
  update: SettingsUpdate,
  align: (reader: Reader, settings: PublicSettings) => Promise<void>,
): Promise<PublicSettings> {
  return log.change(by, async ({ transaction, state: { workspaceId }, nowMs, seal }) => {
    const row = await transaction.findOne(NotificationSettingsEntity, { workspaceId });
    const before = wholeFrom(encryptor, row);
    const after = withChanges(before, update);
    if (isDeepStrictEqual(before, after)) return after;
    const { notifyArguments, smtp, slackChannel } = after;
    const { smtpPassword, slackBotToken, slackSigningSecret } = after;
    const stored: StoredSettings = { notifyArguments, smtp, slackChannel };
    const secrets = JSON.stringify({ smtpPassword, slackBotToken, slackSigningSecret });
    await transaction.upsert(NotificationSettingsEntity, {
      workspaceId,
      settings: JSON.stringify(stored),
      sealedPrivate: encryptor.encrypt(workspaceId, PLACE, secrets),
      updatedAtMs: nowMs,
    });
    // Another app does not know the accounts of the one before.
    const reader = readerWithin(transaction);
    if (update.removesSlack) await reader.query({ ...forgetSlack, values: [workspaceId] });
    await align(reader, after);
    seal({
      type: "notification_settings_changed",
      notify_arguments: notifyArguments,
      smtp: smtp === null ? null : `${smtp.host}:${smtp.port}`,
      slack: after.hasSlack,
      slack_channel: slackChannel === "" ? null : slackChannel,
    });
    return after;
  });
}

/** Creates NOTIFICATIONS_NOT_CONFIGURED. `lacks` says what is missing and who sets it. */
export const notConfigured = (lacks: string): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.NOTIFICATIONS_NOT_CONFIGURED, lacks);
