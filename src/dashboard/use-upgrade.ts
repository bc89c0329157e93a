import { useEffect } from "react";
import { LOAD_ERROR } from "./kit/part.tsx";
import { useHasUnsaved } from "./unsaved.tsx";

const KEY = "acp-reloaded-builds";

/** Loads the page anew when a file of it is gone, as after an upgrade of the service; not while it holds an unsaved draft. */
export function useUpgrade(): void {
  const hasUnsaved = useHasUnsaved();
  useEffect(() => {
    const onFault = ({ payload }: VitePreloadErrorEvent): void => {
      payload.name = LOAD_ERROR;
      if (!hasUnsaved()) void reloadOnce(hasUnsaved);
    };
    window.addEventListener("vite:preloadError", onFault);
    return () => window.removeEventListener("vite:preloadError", onFault);
  }, [hasUnsaved]);
}

/** Loads the page anew at its address, once for each build, if the service answers. */
async function reloadOnce(hasUnsaved: () => boolean): Promise<void> {
  const answer = await fetch(window.location.href, { method: "HEAD", cache: "no-store" }).catch(() => undefined);
  if (answer?.ok === true && !hasUnsaved() && noteReload()) window.location.reload();
}

/**
 * Notes that the build of this page is loaded anew. Returns false if it was before, or if the browser keeps no notes. Every build
 * counts, so that replicas of two builds cannot make a page go back and forth between them.
 */
function noteReload(): boolean {
  const build = document.querySelector<HTMLScriptElement>("script[type=module][src]")?.src ?? "";
  try {
    const builds = (sessionStorage.getItem(KEY) ?? "").split(" ");
    if (builds.includes(build)) return false;
    sessionStorage.setItem(KEY, [...builds, build].join(" "));
    return true;
  } catch {
    return false;
  }
}
