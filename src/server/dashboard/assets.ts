import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { LRUCache } from "lru-cache";
import { methodNotAllowed } from "../errors.ts";
import type { HttpRoute } from "../http.ts";
import { headerOf, PERMISSIONS_POLICY, sendError, sendText } from "../http-reply.ts";

/** Screens of the dashboard, by the first part of their paths. */
const SCREENS = [
  "overview",
  "escalations",
  "decisions",
  "incident",
  "outcomes",
  "agents",
  "sessions",
  "tools",
  "mandates",
  "lists",
  "proposals",
  "backtests",
  "limits",
  "settings",
  "webhooks",
  "notifications",
  "vault",
  "evidence",
  "keys",
  "people",
  "approver-groups",
  "servers",
  "workspaces",
  "sign-in",
  "invite",
];
const SCREEN_PATH = new RegExp(`^/(?:(?:${SCREENS.join("|")})(?:/.*)?)?$`);

/** True for the path of a screen, or of the page itself. */
export const isScreenPath = (path: string): boolean => SCREEN_PATH.test(path);

/** Path of a built file, which is named after its content. */
const ASSET_PATH = /^\/assets\/[\w-]+(?:\.[\w-]+)*\.(?:js|css|svg|woff2)$/;
/** Files whose names stay when their content changes: browsers ask for them again each time. */
const FIXED_PATHS: ReadonlySet<string> = new Set([
  "/icon.svg",
  // Rasters of the icon, for what takes no SVG: home screens and notifications.
  "/icon-192.png",
  "/icon-512.png",
  "/icon-maskable-192.png",
  "/icon-maskable-512.png",
  "/apple-touch-icon.png",
  "/manifest.webmanifest",
  "/service-worker.js",
]);
const TYPES: Readonly<Record<string, string>> = {
  ".webmanifest": "application/manifest+json",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".woff2": "font/woff2",
};
/** Placeholder in the page for the nonce of its styles. */
const NONCE_MARK = "__CSP_NONCE__";
const MAX_FILES = 200;

const NOT_BUILT = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Agent Control Plane</title>
<p>The dashboard is not built. Run <code>npm run build:dashboard</code>, or start with <code>npm start</code>.</p></html>`;

/**
 * Content security policy of the page: nothing from another host, no inline script, and only styles of the page's own scripts.
 */
function securityPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "connect-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "manifest-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
}

interface Asset {
  readonly plain: Buffer;
  readonly zipped: Buffer;
}

/** Serves the built dashboard in `folder`: its page at `/` and at the path of every screen, and its files. */
export function dashboardPages(folder: string): HttpRoute {
  const assets = new LRUCache<string, Asset>({ max: MAX_FILES });
  return {
    prefix: "/",
    async handle(request, response) {
      const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
      const isPage = SCREEN_PATH.test(path) && (path !== "/" || acceptsHtml(request));
      if (!isPage && !ASSET_PATH.test(path) && !FIXED_PATHS.has(path)) return false;
      request.resume();
      if (request.method !== "GET" && request.method !== "HEAD") {
        sendError(response, methodNotAllowed(request.method ?? "", "GET, HEAD"));
        return true;
      }
      if (isPage) await sendPage(response, folder);
      else return sendAsset(request, response, folder, path, assets);
      return true;
    },
  };
}

const acceptsHtml = (request: IncomingMessage): boolean =>
  /\btext\/html\b|\*\/\*/.test(headerOf(request, "accept") ?? "*/*");

async function sendPage(response: ServerResponse, folder: string): Promise<void> {
  const text = await readFile(join(folder, "index.html"), "utf8").catch(() => undefined);
  const nonce = randomBytes(16).toString("base64");
  const headers = {
    "content-security-policy": securityPolicy(nonce),
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": PERMISSIONS_POLICY,
  };
  const html = text?.replaceAll(NONCE_MARK, nonce) ?? NOT_BUILT;
  sendText(response, text === undefined ? 503 : 200, "text/html; charset=utf-8", html, headers);
}

async function sendAsset(
  request: IncomingMessage,
  response: ServerResponse,
  folder: string,
  path: string,
  assets: LRUCache<string, Asset>,
): Promise<boolean> {
  const asset = assets.get(path) ?? (await loadAsset(join(folder, path)));
  if (asset === undefined) return false;
  assets.set(path, asset);
  const isZipped = /\bgzip\b/.test(headerOf(request, "accept-encoding") ?? "");
  const headers = {
    "cache-control": FIXED_PATHS.has(path) ? "no-cache" : "public, max-age=31536000, immutable",
    vary: "accept-encoding",
    ...(isZipped && { "content-encoding": "gzip" }),
  };
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  sendText(response, 200, type, isZipped ? asset.zipped : asset.plain, headers);
  return true;
}

async function loadAsset(file: string): Promise<Asset | undefined> {
  const plain = await readFile(file).catch(() => undefined);
  return plain === undefined ? undefined : { plain, zipped: await promisify(gzip)(plain, { level: 9 }) };
}
