import { Dialog as Radix } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Button, type ButtonProps } from "./button.tsx";
import { useFocusReturn } from "./focus-return.tsx";

/** Properties of a dialog. */
export interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly isWide?: boolean | undefined;
  /** Class beside those of every dialog. */
  readonly className?: string;
  /** Ways to close it beside its button: a click beside it must not lose a form, and Escape must not lose a secret. */
  readonly closesBy?: "click" | "escape" | "button";
}

const prevent = (event: Event): void => event.preventDefault();

/** A dialog over the screen. It traps the focus, closes on Escape, and returns the focus afterwards. */
export function Dialog({
  title,
  isOpen,
  onClose,
  children,
  isWide = false,
  className,
  closesBy = "click",
}: DialogProps) {
  const focus = useFocusReturn();
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="overlay" />
        <Radix.Content
          className={["dialog", isWide && "is-wide", className].filter(Boolean).join(" ")}
          aria-describedby={undefined}
          onOpenAutoFocus={focus.onOpen}
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            focus.onClose();
          }}
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

/** Properties of a button that opens a dialog. */
export interface DialogButtonProps extends Omit<ButtonProps, "children" | "onClick"> {
  readonly label: string;
  /** Renders the dialog while it is open. */
  readonly children: (close: () => void) => ReactNode;
}

/** A button that opens a dialog. */
export function DialogButton({ label, children, ...button }: DialogButtonProps) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button {...button} onClick={() => setIsOpen(true)}>
        {label}
      </Button>
      {isOpen ? children(() => setIsOpen(false)) : null}
    </>
  );
}
