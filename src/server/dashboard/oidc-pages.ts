import type { ServerResponse } from "node:http";
import { escaped } from "../html.ts";
import { type PlainPage, sendPlainPage } from "../plain-page.ts";
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
  ended: {
    status: 403,
    title: "The sign-in service no longer vouches for you",
    text: `Your access there has ended. ${AGAIN}`,
  },
  deactivated: {
    status: 403,
    title: "Your access has ended",
    text: "An administrator has deactivated your account here, so nobody was signed in. To use another account, sign out at the sign-in service first.",
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

/** Sends a page of the sign-in. Its address holds a code; under `no-referrer` its form would have no origin. */
function sendPage(response: ServerResponse, page: Omit<PlainPage, "referrerPolicy">): void {
  sendPlainPage(response, { ...page, referrerPolicy: "same-origin" });
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
