import type { ComponentProps } from "react";

/** Properties of a button. `action` names its purpose for tests and shortcuts. */
export interface ButtonProps extends Omit<ComponentProps<"button">, "className"> {
  readonly action: string;
  readonly tone?: "primary" | "danger" | "plain" | "quiet";
  readonly isBusy?: boolean;
  /** Shortcut key, shown as a hint. */
  readonly shortcut?: string | undefined;
}

/** A button. It cannot be pressed while it is busy. */
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
