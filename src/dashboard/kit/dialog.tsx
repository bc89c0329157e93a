import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";

/** Properties of a dialogue. */
export interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly isWide?: boolean;
  /** What else than its button closes it: a form is not lost by a click beside it, a secret not even by Escape. */
  readonly closesBy?: "click" | "escape" | "button";
}

const prevent = (event: Event): void => event.preventDefault();

/** A dialogue over the screen. It keeps the focus, closes by Escape, and gives the focus back. */
export function Dialog({ title, isOpen, onClose, children, isWide = false, closesBy = "click" }: DialogProps) {
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="overlay" />
        <Radix.Content
          className={isWide ? "dialog is-wide" : "dialog"}
          aria-describedby={undefined}
          {...(closesBy !== "click" && { onInteractOutside: prevent })}
          {...(closesBy === "button" && { onEscapeKeyDown: prevent })}
        >
          <Radix.Title>{title}</Radix.Title>
          {children}
          <Radix.Close className="icon-button dialog-close" data-action="close">
            <span aria-hidden>×</span>
            <span className="visually-hidden">Close</span>
          </Radix.Close>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
