import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { type AroundNavHandler, Router } from "wouter";
import { Button } from "./kit/button.tsx";
import { Dialog } from "./kit/dialog.tsx";

/** Drafts with changes that are not saved. */
type Drafts = Set<object>;

const DraftsContext = createContext<Drafts | undefined>(undefined);

const keepOpen = (event: BeforeUnloadEvent): void => event.preventDefault();

/**
 * Guards a draft: while it is unsaved, the page asks before it is left. Returns the function that ends the guard at once, for a
 * change that saves the draft and leaves it.
 */
export function useUnsaved(isUnsaved: boolean): () => void {
  const drafts = useContext(DraftsContext);
  const [draft] = useState(() => ({}));
  const release = useCallback(() => {
    drafts?.delete(draft);
    window.removeEventListener("beforeunload", keepOpen);
  }, [drafts, draft]);
  useEffect(() => {
    if (!isUnsaved) return;
    drafts?.add(draft);
    window.addEventListener("beforeunload", keepOpen);
    return release;
  }, [isUnsaved, drafts, draft, release]);
  return release;
}

/** Returns whether the page holds an unsaved draft now. */
export function useHasUnsaved(): () => boolean {
  const drafts = useContext(DraftsContext);
  return useCallback(() => drafts !== undefined && drafts.size > 0, [drafts]);
}

const pathOf = (address: string): string => new URL(address, window.location.href).pathname;

/** Asks before a link, Back or Forward leaves an unsaved draft. */
export function UnsavedGuard({ children }: { readonly children: ReactNode }) {
  const [drafts] = useState<Drafts>(() => new Set());
  const [leave, setLeave] = useState<(() => void) | undefined>(undefined);
  const here = useRef(window.location.href);
  const ask = useCallback(
    (go: () => void): void =>
      setLeave(() => () => {
        drafts.clear();
        go();
      }),
    [drafts],
  );
  const aroundNav = useCallback<AroundNavHandler>(
    (navigate, to, options) => {
      if (drafts.size === 0 || pathOf(to) === window.location.pathname) navigate(to, options);
      else ask(() => navigate(to, options));
    },
    [drafts, ask],
  );
  // Before the router listens, which it does after the layout effects: Chromium calls the window's listeners in their order.
  useLayoutEffect(() => {
    const move = (): void => {
      here.current = window.location.href;
    };
    const pop = (event: PopStateEvent): void => {
      const from = here.current;
      if (drafts.size === 0 || pathOf(from) === window.location.pathname) {
        move();
        return;
      }
      // The browser has left the entry of the draft already: the router must not see it, and the draft gets an entry again.
      event.stopImmediatePropagation();
      window.history.pushState(null, "", from);
      ask(() => window.history.back());
    };
    // The router tells of its own changes of the address by the other events.
    window.addEventListener("popstate", pop, { capture: true });
    for (const event of ["pushState", "replaceState"]) window.addEventListener(event, move);
    return () => {
      window.removeEventListener("popstate", pop, { capture: true });
      for (const event of ["pushState", "replaceState"]) window.removeEventListener(event, move);
    };
  }, [drafts, ask]);
  const stay = (): void => setLeave(undefined);
  return (
    <DraftsContext value={drafts}>
      <Router aroundNav={aroundNav}>
        {children}
        <Dialog title="Leave without publishing?" isOpen={leave !== undefined} onClose={stay}>
          <p>The text has changes that are not published. They are lost if you leave.</p>
          <div className="dialog-actions">
            <Button action="stay" tone="primary" onClick={stay}>
              Stay
            </Button>
            <Button
              action="leave"
              tone="danger"
              onClick={() => {
                stay();
                leave?.();
              }}
            >
              Leave
            </Button>
          </div>
        </Dialog>
      </Router>
    </DraftsContext>
  );
}
