import type { ReactNode } from "react";

/** Properties of a box that scrolls. */
export interface ScrolledProps {
  /** Label of its content for screen readers. */
  readonly label: string;
  /** Class; its style limits the height. */
  readonly className?: string;
  readonly children: ReactNode;
}

/** A box of limited height for a long text. It can be scrolled by keyboard. */
export function Scrolled({ label, className = "scrolled", children }: ScrolledProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard
    <section className={className} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
