// Shows messages of Web Push about actions that wait for an answer, and opens the one that is pressed. It caches nothing.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show(event.data?.json() ?? {})));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.path));
});

/** Paths of screens; anything else that a message might name is left alone. */
const PATH = /^\/(?:escalations(?:\/esc_[a-z2-7]+)?|notifications)$/;

async function show({ title, body, tag, path, pending }) {
  // Browsers withdraw the subscription of a worker that shows nothing for a message.
  await self.registration.showNotification(typeof title === "string" ? title : "An action waits for an answer", {
    body: typeof body === "string" ? body : "",
    tag: typeof tag === "string" ? tag : "",
    icon: "/icon-192.png",
    data: { path },
  });
  if (Number.isInteger(pending) && pending > 0) await navigator.setAppBadge?.(pending).catch(() => undefined);
}

async function open(given) {
  const path = PATH.test(given) ? given : "/escalations";
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const shown = windows.find(({ url }) => new URL(url).pathname === path);
  await (shown === undefined ? self.clients.openWindow(path) : shown.focus());
}
