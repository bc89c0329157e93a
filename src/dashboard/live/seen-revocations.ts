import { useSyncExternalStore } from "react";

const KEY = "acp-seen-revocations";
/** Ids that the browser keeps, the newest: more than a week has revocations to look at. */
const MAX_KEPT = 500;
/** Told within this page; the browser tells other pages by `storage`. */
const CHANGED = "acp-seen-revocations";

const text = (): string => localStorage.getItem(KEY) ?? "";

function subscribe(listener: () => void): () => void {
  window.addEventListener("storage", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("storage", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

/** Returns the ids of the revocations whose certificate was opened in this browser, or that were marked as seen. */
export function useSeenRevocations(): ReadonlySet<string> {
  return new Set(useSyncExternalStore(subscribe, text).split(" "));
}

/** Marks a revocation as seen in this browser. */
export function markRevocationSeen(revocationId: string): void {
  const seen = text().split(" ").filter(Boolean);
  if (seen.includes(revocationId)) return;
  try {
    localStorage.setItem(KEY, [...seen, revocationId].slice(-MAX_KEPT).join(" "));
  } catch {
    // Without storage the incident stays open in this browser.
  }
  window.dispatchEvent(new Event(CHANGED));
}
