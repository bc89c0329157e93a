import type { ComponentProps } from "react";

/** Properties of a button. `action` names what it does, for tests and shortcuts. */
export interface ButtonProps extends Omit<ComponentProps<"button">, "className"> {
  readonly action: string;
  readonly tone?: "primary" | "danger" | "plain" | "quiet";
  readonly isBusy?: boolean;
  /** The key that presses it, as a hint. */
  readonly shortcut?: string | undefined;
}

/** A button. While it is busy it cannot be pressed again. */
export function Button({ action, tone = "plain", isBusy = false, shortcut, children, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button is-${tone}`}
      data-action={action}
      disabled={disabled === true || isBusy}
      aria-busy={isBusy || undefined}
      aria-keyshortcuts={shortcut}
    >
      {children}
      {shortcut === undefined ? null : <kbd aria-hidden>{shortcut}</kbd>}
    </button>
  );
}
