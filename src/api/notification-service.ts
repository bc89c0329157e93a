import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  NotificationChannelKind,
  type NotificationChannelSchema,
  NotificationFilter,
  type NotificationPreferences,
  type NotificationPreferencesSchema,
  NotificationService,
  type NotificationSettingsSchema,
  type SmtpServer as SmtpMessage,
  SmtpSecurity,
} from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { invalidField } from "../errors.ts";
import { type Channel, LINK_COMMAND, type Notifications } from "../notification/notifications.ts";
import type { Preferences } from "../notification/preferences.ts";
import { minuteFrom, textFromMinute } from "../notification/quiet-hours.ts";
import type { PublicSettings, SmtpServer } from "../notification/settings.ts";
import { optionalTimestamp } from "./field-values.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that NotificationService needs. */
export interface NotificationServiceOptions {
  readonly notifications: Notifications;
}

const SECURITY = { starttls: SmtpSecurity.STARTTLS, tls: SmtpSecurity.TLS, none: SmtpSecurity.NONE } as const;
const KINDS = {
  email: NotificationChannelKind.EMAIL,
  push: NotificationChannelKind.PUSH,
  slack: NotificationChannelKind.SLACK,
} as const;

function smtpFrom({ host, port, security, user, from }: SmtpMessage): SmtpServer {
  const word = security === SmtpSecurity.TLS ? "tls" : security === SmtpSecurity.NONE ? "none" : "starttls";
  return { host, port, security: word, user, from };
}

function settingsMessageFrom(
  { notifyArguments, smtp, hasSmtpPassword, hasSlack, slackChannel }: PublicSettings,
  slackRequestUrl: string | undefined,
): MessageInitShape<typeof NotificationSettingsSchema> {
  const server = smtp === null ? {} : { smtp: { ...smtp, security: SECURITY[smtp.security] } };
  const url = slackRequestUrl === undefined ? {} : { slackRequestUrl };
  return { notifyArguments, ...server, smtpHasPassword: hasSmtpPassword, hasSlack, slackChannel, ...url };
}

function preferencesMessageFrom({
  about,
  groups,
  quiet,
}: Preferences): MessageInitShape<typeof NotificationPreferencesSchema> {
  const hours =
    quiet === null
      ? {}
      : { quietHours: { from: textFromMinute(quiet.from), to: textFromMinute(quiet.to), timeZone: quiet.timeZone } };
  return { about: about === "mine" ? NotificationFilter.MINE : NotificationFilter.ALL, groups: [...groups], ...hours };
}

function preferencesFrom({ about, groups, quietHours }: NotificationPreferences): Preferences {
  const quiet =
    quietHours === undefined
      ? null
      : { from: minuteFrom(quietHours.from), to: minuteFrom(quietHours.to), timeZone: quietHours.timeZone };
  return { about: about === NotificationFilter.MINE ? "mine" : "all", groups, quiet };
}

function channelMessageFrom(channel: Channel): MessageInitShape<typeof NotificationChannelSchema> {
  const { kind, createdAtMs, nextAttemptAtMs, error, ...rest } = channel;
  return {
    ...rest,
    kind: KINDS[kind],
    createdAt: timestampFromMs(createdAtMs),
    nextAttemptAt: optionalTimestamp(nextAttemptAtMs),
    error: error ?? undefined,
  };
}

/** Creates the functions of NotificationService. */
export function createNotificationService({ notifications }: NotificationServiceOptions): ServiceDefinition {
  return defineService(NotificationService, {
    async getNotificationSettings(_request, { caller: { workspaceId } }) {
      const url = notifications.slackRequestUrl(workspaceId);
      return { settings: settingsMessageFrom(await notifications.settings(workspaceId), url) };
    },

    async updateNotificationSettings(request, { caller }) {
      const { notifyArguments, smtp, removeSmtp, smtpPassword, removeSlack, ...slack } = request;
      if (smtp !== undefined && removeSmtp) throw invalidField("remove_smtp", "must not be sent with `smtp`");
      const { slackBotToken, slackSigningSecret, slackChannel } = slack;
      const server = removeSmtp ? null : smtp === undefined ? undefined : smtpFrom(smtp);
      const update = { notifyArguments, smtp: server, smtpPassword, slackBotToken, slackSigningSecret, slackChannel };
      const after = await notifications.updateSettings(caller, { ...update, removesSlack: removeSlack });
      return { settings: settingsMessageFrom(after, notifications.slackRequestUrl(caller.workspaceId)) };
    },

    async getNotificationPreferences(_request, { caller }) {
      const channels = await notifications.channels(caller);
      return {
        preferences: preferencesMessageFrom(await notifications.preferences(caller)),
        channels: channels.map(channelMessageFrom),
        pushPublicKey: await notifications.pushPublicKey(caller),
      };
    },

    async updateNotificationPreferences({ preferences }, { caller }) {
      if (preferences === undefined) throw invalidField("preferences", "is required");
      const wanted = preferencesFrom(preferences);
      await notifications.setPreferences(caller, wanted);
      return { preferences: preferencesMessageFrom(wanted) };
    },

    async addNotificationChannel({ email, push, label }, { caller }) {
      if ((email === undefined) === (push === undefined)) {
        throw invalidField("email", "must be sent, or `push`, and not both");
      }
      const draft =
        push === undefined ? { kind: "email" as const, email: email ?? "" } : { kind: "push" as const, push, label };
      return { channel: channelMessageFrom(await notifications.add(caller, draft)) };
    },

    async removeNotificationChannel({ channelId }, { caller }) {
      return { channel: channelMessageFrom(await notifications.remove(caller, channelId)) };
    },

    async testNotificationChannel({ channelId }, { caller, signal }) {
      const error = await notifications.test(caller, channelId, signal);
      return error === null ? { delivered: true } : { delivered: false, error };
    },

    async linkSlackAccount(_request, { caller }) {
      const { code, expiresAtMs } = await notifications.linkSlack(caller);
      return { code, command: `${LINK_COMMAND} ${code}`, expiresAt: timestampFromMs(expiresAtMs) };
    },
  });
}
