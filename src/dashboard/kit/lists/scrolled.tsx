import type { ReactNode } from "react";

/** Properties of a box that scrolls. */
export interface ScrolledProps {
  /** What is in it, for who cannot see it. */
  readonly label: string;
  readonly isMono?: boolean;
  readonly children: ReactNode;
}

/** A box of limited height for a long text; the keyboard scrolls it as well. */
export function Scrolled({ label, isMono = false, children }: ScrolledProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard
    <section className={isMono ? "scrolled mono" : "scrolled"} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
