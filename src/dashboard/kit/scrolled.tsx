import type { ReactNode } from "react";

/** Properties of a box that scrolls. */
export interface ScrolledProps {
  /** Names its content for a screen reader. */
  readonly label: string;
  /** Class, whose style limits its height. */
  readonly className?: string;
  readonly children: ReactNode;
}

/** A box of limited height for a long text; the keyboard scrolls it as well. */
export function Scrolled({ label, className = "scrolled", children }: ScrolledProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard
    <section className={className} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
