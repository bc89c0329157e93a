import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
import { Link } from "wouter";

/** A short message that disappears by itself. */
export interface Announcement {
  readonly tone: "good" | "bad" | "plain";
  readonly text: string;
  /** Leads to what it is about. */
  readonly link?: { readonly href: string; readonly label: string } | undefined;
}

const SHOWN_MS = 6_000;
const MAX_SHOWN = 4;

const AnnounceContext = createContext<(announcement: Announcement) => void>(() => undefined);

/** Returns the function that shows a toast. */
export const useAnnounce = (): ((announcement: Announcement) => void) => useContext(AnnounceContext);

/** Shows toasts above the screens and announces them to screen readers. */
export function Announcements({ children }: { readonly children: ReactNode }) {
  const [shown, setShown] = useState<readonly (Announcement & { readonly id: number })[]>([]);
  const lastId = useRef(0);
  const announce = useCallback((announcement: Announcement) => {
    lastId.current++;
    const id = lastId.current;
    setShown((before) => [...before.slice(1 - MAX_SHOWN), { ...announcement, id }]);
    setTimeout(() => setShown((before) => before.filter((each) => each.id !== id)), SHOWN_MS);
  }, []);
  return (
    <AnnounceContext value={announce}>
      {children}
      <div className="announcements" role="status" aria-live="polite">
        {shown.map(({ id, tone, text, link }) => (
          <p key={id} className={`announcement is-${tone}`}>
            {text}
            {link === undefined ? null : (
              <>
                {" "}
                <Link href={link.href}>{link.label}</Link>
              </>
            )}
          </p>
        ))}
      </div>
    </AnnounceContext>
  );
}
