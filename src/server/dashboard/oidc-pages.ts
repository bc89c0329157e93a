import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import { sendText } from "../http-reply.ts";
import type { Membership, Person } from "./oidc-person.ts";
import type { OidcFault, OidcRefusal } from "./oidc-refusal.ts";

interface FaultPage {
  readonly status: number;
  readonly title: string;
  readonly text: string;
}

const AGAIN = "Start the sign-in again.";
const FAULTS: Readonly<Record<OidcFault, FaultPage>> = {
  unreachable: {
    status: 503,
    title: "The sign-in service does not answer",
    text: "Nobody was signed in. Try again in a moment, or sign in with a key.",
  },
  busy: {
    status: 503,
    title: "Many people are signing in",
    text: "Nobody was signed in. Try again in a moment.",
  },
  expired: {
    status: 400,
    title: "This sign-in is over",
    text: `It took longer than 10 minutes, was used already, or began in another browser. ${AGAIN}`,
  },
  "wrong-state": {
    status: 400,
    title: "This answer belongs to another sign-in",
    text: `It does not belong to the sign-in that this browser began last, so it was not used. ${AGAIN}`,
  },
  denied: {
    status: 400,
    title: "The sign-in service refused",
    text: "Nobody was signed in. If this happens again, ask the operator of the sign-in service.",
  },
  unproven: {
    status: 400,
    title: "The sign-in could not be verified",
    text: `The answer of the sign-in service is not valid, or was used already, so nobody was signed in. ${AGAIN}`,
  },
  "no-name": {
    status: 403,
    title: "Your account cannot be told from others",
    text: "The sign-in service gave no subject for it, or one that no subject can be. Ask an administrator.",
  },
  "no-group": {
    status: 403,
    title: "Your account has no access",
    text: "You are signed in at the sign-in service, but none of your groups has a role here. Ask an administrator to add one of your groups to ACP_OIDC_GROUP_MAP. To use another account, sign out there first.",
  },
  "no-workspace": {
    status: 403,
    title: "Your workspace does not exist",
    text: "Your groups have roles only in workspaces that do not exist. Ask an administrator to create them or to correct ACP_OIDC_GROUP_MAP.",
  },
  "wrong-return": {
    status: 400,
    title: "This link leads nowhere",
    text: "`return_to` must be the path of a screen of the dashboard, such as /escalations. Nobody was signed in.",
  },
  "wrong-choice": {
    status: 400,
    title: "This workspace was not offered",
    text: `Choose a workspace that the page offers. ${AGAIN}`,
  },
};

/** Status of the page about a fault. */
export const statusOf = (fault: OidcFault): number => FAULTS[fault].status;

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: #f6f7f9; color: #1a2230; }
main { box-sizing: border-box; width: min(28rem, calc(100vw - 2rem)); margin: 1rem; padding: 1.5rem; background: #fff;
  border: 1px solid #d5dae1; border-radius: 8px; overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: 1.3rem; line-height: 1.3; }
p { margin: 0 0 1rem; }
.code { color: #55606f; font-size: .9rem; }
ul { list-style: none; margin: 0; padding: 0; display: grid; gap: .5rem; }
a, button { font: inherit; }
a.button, button { box-sizing: border-box; display: block; width: 100%; padding: .6rem .9rem; border: 1px solid #7d8794;
  border-radius: 6px; background: #fff; color: #2450b5; text-align: start; text-decoration: none; cursor: pointer; }
.role { color: #55606f; }
:focus-visible { outline: 3px solid #2450b5; outline-offset: 2px; }
@media (prefers-color-scheme: dark) {
  body { background: #10141b; color: #e7ecf3; }
  main { background: #181e28; border-color: #303a4a; }
  a.button, button { background: #202836; color: #8fb2ff; border-color: #7c8798; }
  .code, .role { color: #a5b0c0; }
  :focus-visible { outline-color: #8fb2ff; }
}`;

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ESCAPES[character] ?? character);

interface Page {
  readonly status: number;
  readonly title: string;
  readonly body: string;
  readonly head?: string;
  readonly cookies?: readonly string[];
}

/** Sends a page without script. */
function sendPage(response: ServerResponse, { status, title, body, head = "", cookies = [] }: Page): void {
  const nonce = randomBytes(16).toString("base64");
  const policy = `default-src 'none'; style-src 'nonce-${nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8">${head}
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${escaped(title)} – Agent Control Plane</title>
<style nonce="${nonce}">${STYLE}</style></head><body><main><h1>${escaped(title)}</h1>
${body}
</main></body></html>
`;
  if (cookies.length > 0) response.setHeader("set-cookie", [...cookies]);
  sendText(response, status, "text/html; charset=utf-8", html, {
    "content-security-policy": policy,
    // The address holds a code. Under `no-referrer` a form of the page would have no origin.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
  });
}

/** Sends the page about a sign-in that failed. */
export function sendFault(response: ServerResponse, { fault, code }: OidcRefusal, cookies: readonly string[]): void {
  const { status, title, text } = FAULTS[fault];
  const body = `<p data-fault="${fault}">${escaped(text)}</p>
${code === undefined ? "" : `<p class="code">Code: ${escaped(code)}</p>`}
<ul><li><a class="button" href="/dashboard/oidc/start">Start again</a></li><li><a class="button" href="/overview">Sign in with a key</a></li></ul>`;
  sendPage(response, { status, title, body, cookies });
}

/**
 * Sends the last page of a sign-in. It sets the cookies and redirects from this site, because the cookie is `SameSite=Strict`.
 */
export function sendSignedIn(response: ServerResponse, returnTo: string, cookies: readonly string[]): void {
  const href = escaped(returnTo);
  sendPage(response, {
    status: 200,
    title: "You are signed in",
    cookies,
    head: `<meta http-equiv="refresh" content="0; url=${href}">`,
    body: `<p><a class="button" href="${href}">Continue to the dashboard</a></p>`,
  });
}

/** Sends the page on which a person chooses a workspace. `roleWord` names a role. */
export function sendChoice(
  response: ServerResponse,
  { name, labels }: Person,
  memberships: readonly Membership[],
  roleWord: (role: Membership["role"]) => string,
  cookies: readonly string[],
): void {
  const items = memberships.map(
    ({ workspaceId, role }) =>
      `<li><button name="workspace" value="${escaped(workspaceId)}">${escaped(workspaceId)} <span class="role">as ${roleWord(role)}</span></button></li>`,
  );
  const label = labels.email ?? labels.displayName ?? name;
  const body = `<p>You are <bdi title="${escaped(name)}">${escaped(label)}</bdi>.</p><form method="post" action="/dashboard/oidc/choose"><ul>${items.join("")}</ul></form>`;
  sendPage(response, { status: 200, title: "Choose a workspace", body, cookies });
}
