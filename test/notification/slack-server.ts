import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createWatched, type Watched } from "./watched.ts";

/** A call of the Web API. */
export interface SlackCall {
  readonly method: string;
  readonly token: string;
  readonly body: SlackBody;
  /** The body as it came. */
  readonly raw: string;
  /** Time of the message that the call made. */
  readonly ts: string;
}

/** Body of a call, as far as tests read it. */
export interface SlackBody {
  readonly channel?: string;
  readonly ts?: string;
  readonly client_msg_id?: string;
  readonly user?: string;
  readonly text?: string;
  readonly blocks?: readonly { readonly type: string; readonly elements?: readonly Record<string, unknown>[] }[];
}

/** A press or command, as tests give it. */
export interface SlackPress {
  readonly user: string;
  readonly team?: string;
  readonly escalationId: string;
  readonly action?: "acp_approve" | "acp_reject";
  readonly channel: string;
  readonly ts: string;
}

/** A request of Slack before it is sent. */
export interface SignedRequest {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Slack as an app sees it: its Web API, and requests that it signs. */
export interface SlackServer {
  readonly url: string;
  readonly token: string;
  readonly secret: string;
  readonly calls: Watched<SlackCall>;
  /** Error of answers; undefined: the call succeeds. */
  refuses: string | undefined;
  /** Signs the body of a request as Slack does. */
  sign(body: string, at?: number, secret?: string): SignedRequest;
  /** Form of a press of a button. */
  press(press: SlackPress): string;
  /** Form of a command. */
  command(user: string, text: string): string;
  close(): Promise<void>;
}

export const TEAM = "T0TEST";

/** Starts the Web API. */
export async function startSlackServer(): Promise<SlackServer> {
  const calls = createWatched<SlackCall>();
  let count = 0;
  const listener = createServer(async (request, response) => {
    const raw = await text(request);
    const body = JSON.parse(raw) as SlackBody;
    count += 1;
    const ts = body.ts ?? `1700000000.${String(count).padStart(6, "0")}`;
    const token = (request.headers.authorization ?? "").replace("Bearer ", "");
    // A message to a person stands in a conversation of its own.
    const channel = body.channel?.replace(/^U/, "D") ?? "";
    const isOk = slack.refuses === undefined && token === slack.token;
    const answer = isOk ? { ok: true, channel, ts } : { ok: false, error: slack.refuses ?? "invalid_auth" };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    calls.add({ method: (request.url ?? "").split("/").at(-1) ?? "", token, body, raw, ts });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address() as AddressInfo;
  const slack: SlackServer = {
    url: `http://127.0.0.1:${port}/api`,
    token: "xoxb-1-2-test",
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    calls,
    refuses: undefined,
    sign(body, at = Math.floor(Date.now() / 1000), secret = slack.secret) {
      const signature = createHmac("sha256", secret).update(`v0:${at}:${body}`).digest("hex");
      const headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": String(at),
        "x-slack-signature": `v0=${signature}`,
      };
      return { body, headers };
    },
    press({ user, team = TEAM, escalationId, action = "acp_approve", channel, ts }) {
      const payload = {
        type: "block_actions",
        team: { id: team },
        user: { id: user },
        channel: { id: channel },
        container: { type: "message", message_ts: ts, channel_id: channel },
        actions: [{ type: "button", action_id: action, value: escalationId, action_ts: String(Math.random()) }],
      };
      return new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
    },
    command: (user, given) =>
      new URLSearchParams({ command: "/acp-link", text: given, user_id: user, team_id: TEAM }).toString(),
    async close() {
      listener.closeAllConnections();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
  return slack;
}
