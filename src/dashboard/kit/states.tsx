import { ConnectError } from "@connectrpc/connect";
import type { ReactNode } from "react";
import { requestErrorFrom } from "../../client/request-error.ts";
import { Button } from "./button.tsx";
import { Message } from "./message.tsx";

/** Shows that something is loading. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <p className="loading" role="status">
      Loading {what} …
    </p>
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
