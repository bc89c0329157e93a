import { randomUUID } from "node:crypto";
import { ConnectError } from "@connectrpc/connect";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { NotificationService, SmtpSecurity } from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import type { ControlPlane } from "../../src/client/index.ts";
import type { ShareSizes } from "../../src/control-plane.ts";
import { actionRule } from "../support/harness.ts";
import { connect, startService, type TestService } from "../support/service.ts";
import { type PushServer, startPushServer } from "./push-server.ts";
import { type SlackServer, startSlackServer } from "./slack-server.ts";
import { type SmtpServer, startSmtpServer } from "./smtp-server.ts";

/** Where browsers would reach the service. */
export const PUBLIC_URL = "https://acp.example.com";
/** Text of arguments, which no message may carry unless the workspace shows them. */
export const SECRET_ARGUMENT = "Jane-Roe-555-0100";
export const SECRET_CONTENT = "pay-the-ransom-now";

/** A person with a key of their own. */
export interface Person {
  readonly keyId: string;
  readonly secret: string;
  readonly plane: ControlPlane;
}

/** A service whose action `pay` escalates, with servers of all channels. */
export interface NotificationTest {
  readonly service: TestService;
  readonly smtp: SmtpServer;
  readonly push: PushServer;
  readonly slack: SlackServer;
  readonly agentId: string;
  /** Creates a key of a role. */
  person(role?: Role): Promise<Person>;
  /** Sets the mail server and the Slack app. */
  configure(): Promise<void>;
  showArguments(isShown: boolean): Promise<void>;
  /** Escalates an action of an agent; gives the escalation's id. */
  escalate(agentId?: string, actionType?: string): Promise<string>;
  /** Links a Slack user to a person. */
  link(person: Person, user: string): Promise<void>;
  /** Sends a request of Slack to the service; gives status and body. */
  fromSlack(body: string, at?: number, secret?: string): Promise<{ readonly status: number; readonly text: string }>;
  close(): Promise<void>;
}

/** Starts the service and the servers. */
export async function openNotifications(
  env: Readonly<Record<string, string>> = {},
  shares: ShareSizes = {},
): Promise<NotificationTest> {
  const [smtp, push, slack] = await Promise.all([startSmtpServer(), startPushServer(), startSlackServer()]);
  const service = await startService({
    env: {
      ACP_LOG_LEVEL: "warn",
      ACP_PUBLIC_URL: PUBLIC_URL,
      ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
      ACP_PUSH_HOSTS: push.host,
      ACP_SLACK_URL: slack.url,
      ...env,
    },
    rules: [actionRule(Decision.ESCALATE, "pay*")],
    shares,
  });
  const agentId = await service.agent("payer");
  const { admin } = service;
  const planes: ControlPlane[] = [];
  const test: NotificationTest = {
    service,
    smtp,
    push,
    slack,
    agentId,
    async person(role = Role.OPERATOR) {
      const { key, secret } = await admin.client(AdminService).createApiKey({ name: `p ${randomUUID()}`, role });
      const plane = connect({ http: service.http, grpc: service.grpc, adminKey: secret });
      planes.push(plane);
      return { keyId: key?.keyId ?? "", secret, plane };
    },
    async configure() {
      await admin.client(NotificationService).updateNotificationSettings({
        smtp: { host: "127.0.0.1", port: smtp.port, security: SmtpSecurity.NONE, user: "", from: "acp@example.com" },
        slackBotToken: slack.token,
        slackSigningSecret: slack.secret,
      });
    },
    async showArguments(notifyArguments) {
      await admin.client(NotificationService).updateNotificationSettings({ notifyArguments });
    },
    async escalate(by = agentId, actionType = "pay") {
      const { escalationId } = await admin.client(EnforcementService).intercept({
        agentId: by,
        actionType,
        actionContent: `${SECRET_CONTENT} ${randomUUID()}`,
        metadata: { arguments: { to: SECRET_ARGUMENT } },
      });
      return escalationId ?? "";
    },
    async link({ plane }, user) {
      const { code } = await plane.client(NotificationService).linkSlackAccount({});
      const { status, text } = await test.fromSlack(slack.command(user, code));
      if (status !== 200 || !text.includes("is linked")) throw new Error(`not linked: ${status} ${text}`);
    },
    async fromSlack(body, at, secret) {
      const request = slack.sign(body, at, secret);
      const response = await fetch(`${service.http}/slack/default`, { method: "POST", ...request });
      return { status: response.status, text: await response.text() };
    },
    async close() {
      for (const plane of planes) plane.close();
      await service.stop();
      await Promise.all([smtp.close(), push.close(), slack.close()]);
    },
  };
  return test;
}

/** Returns the reason of a refused call: `NOTIFICATIONS_NOT_CONFIGURED`. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema);
    return info?.reason ?? String(error);
  }
  throw new Error("the call was not refused");
}
