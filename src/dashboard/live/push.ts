const WORKER = "/service-worker.js";

/** True in a browser that can be told by Web Push. On phones of Apple the page has to be installed first. */
export const canPush = (): boolean =>
  "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

/** Subscription of this browser in the form that the service takes. */
export interface BrowserSubscription {
  readonly endpoint: string;
  readonly p256dh: string;
  readonly auth: string;
}

/** Returns the subscription of this browser; undefined without one. */
export async function currentSubscription(): Promise<PushSubscription | undefined> {
  if (!canPush()) return undefined;
  const registration = await navigator.serviceWorker.getRegistration("/");
  return (await registration?.pushManager.getSubscription()) ?? undefined;
}

/** Subscribes this browser, and asks its person first. Rejects with an error for people. */
export async function subscribe(publicKey: string): Promise<BrowserSubscription> {
  if (!canPush()) {
    throw new Error("this browser takes no messages; on an iPhone or iPad add the page to the home screen first");
  }
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("this browser does not allow messages of this page; allow them in its settings");
  }
  await navigator.serviceWorker.register(WORKER, { scope: "/" });
  const { pushManager } = await navigator.serviceWorker.ready;
  const known = await pushManager.getSubscription();
  // A subscription for another key, as of another workspace, cannot be used with this one.
  if (known !== null && keyOf(known) !== publicKey) await known.unsubscribe();
  const options = { userVisibleOnly: true, applicationServerKey: publicKey };
  const { endpoint, keys = {} } = (await pushManager.subscribe(options)).toJSON();
  return { endpoint: endpoint ?? "", p256dh: keys.p256dh ?? "", auth: keys.auth ?? "" };
}

function keyOf({ options: { applicationServerKey } }: PushSubscription): string {
  const bytes = new Uint8Array(applicationServerKey ?? new ArrayBuffer(0));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** Shows the number of escalations that wait on the icon of the installed page. */
export function showBadge(pending: number): void {
  const badge: Pick<Navigator, "setAppBadge" | "clearAppBadge"> | undefined =
    "setAppBadge" in navigator ? navigator : undefined;
  const shown = pending === 0 ? badge?.clearAppBadge() : badge?.setAppBadge(pending);
  shown?.catch(() => undefined);
}

/** Closes the messages about escalations that no longer wait. */
export async function closeAnswered(pending: ReadonlySet<string>): Promise<void> {
  if (!canPush()) return;
  const registration = await navigator.serviceWorker.getRegistration("/");
  for (const shown of (await registration?.getNotifications()) ?? []) {
    if (shown.tag.startsWith("esc_") && !pending.has(shown.tag)) shown.close();
  }
}
