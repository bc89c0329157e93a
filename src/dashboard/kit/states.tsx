import { ConnectError } from "@connectrpc/connect";
import type { ReactNode } from "react";
import { requestErrorFrom } from "../../client/request-error.ts";
import { Button } from "./button.tsx";
import { Message } from "./message.tsx";

/** Properties of the place of something that is loading. */
export interface LoadingProps {
  /** Name of it, as in "Loading the agents …", for screen readers. */
  readonly what: string;
  /** Lines that it takes about. Default: 3. */
  readonly lines?: number;
  /** Height of a row, pixels, if it is a list. */
  readonly rowHeight?: number | undefined;
}

const LINES = 3;

/** Keeps the place of something that is loading, with grey lines where its text will be. */
export function Loading({ what, lines = LINES, rowHeight }: LoadingProps) {
  return (
    <div className={rowHeight === undefined ? "loading" : "loading is-list"} role="status">
      <span className="visually-hidden">Loading {what} …</span>
      {Array.from({ length: lines }, (_, line) => (
        <span
          key={line}
          className="skeleton"
          style={rowHeight === undefined ? undefined : { height: rowHeight }}
          aria-hidden
        />
      ))}
    </div>
  );
}

/** Shows that a list is empty, and how to fill it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      <p>{children}</p>
    </div>
  );
}

/** Returns the message of an error for people. */
export function faultText(error: unknown): string {
  if (error instanceof ConnectError) return requestErrorFrom(error).message;
  return error instanceof Error ? error.message : String(error);
}

/** Shows an error with the fields that it names, and a button to try again. */
export function Fault({ error, onRetry }: { readonly error: unknown; readonly onRetry?: (() => void) | undefined }) {
  const violations = error instanceof ConnectError ? requestErrorFrom(error).violations : [];
  return (
    <div className="fault" role="alert">
      <p>
        <Message text={faultText(error)} />
      </p>
      {violations.length > 0 && (
        <ul>
          {violations.slice(0, 20).map(({ field, description }) => (
            <li key={`${field} ${description}`}>
              <code>{field}</code> <Message text={description} />
            </li>
          ))}
        </ul>
      )}
      {onRetry === undefined ? null : (
        <Button action="retry" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
