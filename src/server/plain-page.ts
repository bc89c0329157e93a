import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import { escaped } from "./html.ts";
import { PERMISSIONS_POLICY, sendText } from "./http-reply.ts";

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

/** A page without script, which needs no file beside it. */
export interface PlainPage {
  readonly status: number;
  readonly title: string;
  /** HTML below the title. */
  readonly body: string;
  /** HTML of the head. */
  readonly head?: string;
  readonly cookies?: readonly string[];
  /** Default: `no-referrer`. */
  readonly referrerPolicy?: string;
}

/** Sends a page without script. */
export function sendPlainPage(response: ServerResponse, page: PlainPage): void {
  const { status, title, body, head = "", cookies = [], referrerPolicy = "no-referrer" } = page;
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
    "referrer-policy": referrerPolicy,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": PERMISSIONS_POLICY,
  });
}
