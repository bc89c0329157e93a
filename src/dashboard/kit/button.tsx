import type { ComponentProps } from "react";

/** Properties of a button. `action` names its purpose for tests and shortcuts. */
export interface ButtonProps extends Omit<ComponentProps<"button">, "className"> {
  readonly action: string;
  readonly tone?: "primary" | "danger" | "plain" | "quiet";
  readonly isBusy?: boolean;
  /** Shortcut key. Its hint has its room in the button even while the key is off, so that no button moves. */
  readonly shortcut?: string | undefined;
  /** True while the shortcut key acts on this button. Default: true. */
  readonly isShortcutOn?: boolean;
}

/** A button. It cannot be pressed while it is busy. */
export function Button(props: ButtonProps) {
  const {
    action,
    tone = "plain",
    isBusy = false,
    shortcut,
    isShortcutOn = true,
    children,
    disabled,
    onClick,
    ...rest
  } = props;
  return (
    <button
      type="button"
      {...rest}
      onClick={(event) => {
        // Safari focuses no button on a press, and a shortcut key presses without a focus: a dialog gives it back here.
        event.currentTarget.focus({ preventScroll: true });
        onClick?.(event);
      }}
      className={`button is-${tone}`}
      data-action={action}
      disabled={disabled === true || isBusy}
      aria-busy={isBusy || undefined}
      aria-keyshortcuts={isShortcutOn ? shortcut : undefined}
    >
      {children}
      {shortcut === undefined ? null : (
        <kbd aria-hidden className={isShortcutOn ? undefined : "is-off"}>
          {shortcut}
        </kbd>
      )}
    </button>
  );
}
