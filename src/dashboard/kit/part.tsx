import { Component, type ReactNode, Suspense } from "react";
import { Button } from "./button.tsx";
import { Fault, Loading } from "./states.tsx";

/** Name of the error of a file of the page that could not be loaded. */
export const LOAD_ERROR = "LoadError";

/** Lines that stand for a screen. */
const LINES = 8;

/** Properties of a part. */
export interface PartProps {
  /** Name of the part, as in "Loading the screen …". */
  readonly what: string;
  /** Identifies its content: another one is tried even after a fault. */
  readonly content?: string;
  /** Stands in its place while it loads. Default: says that it loads. */
  readonly fallback?: ReactNode;
  readonly children: ReactNode;
}

/** A part of the page that loads on first use. A fault is shown in its place, so that the rest of the page stays usable. */
export function Part({ what, content, fallback = <Loading what={what} lines={LINES} />, children }: PartProps) {
  return (
    <ErrorBoundary content={content}>
      <Suspense fallback={fallback}>{children}</Suspense>
    </ErrorBoundary>
  );
}

interface BoundaryProps {
  readonly content: string | undefined;
  readonly children: ReactNode;
}

class ErrorBoundary extends Component<BoundaryProps, { readonly error: unknown }> {
  override state: { readonly error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error };
  }

  override componentDidUpdate({ content }: BoundaryProps): void {
    if (content !== this.props.content && this.state.error !== undefined) this.setState({ error: undefined });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    // A file that failed to load fails again until the page is loaded anew.
    if (error instanceof Error && error.name === LOAD_ERROR) return <LoadFault />;
    return <Fault error={error} onRetry={() => this.setState({ error: undefined })} />;
  }
}

function LoadFault() {
  return (
    <div className="fault" role="alert">
      <p>
        This part of the dashboard could not be loaded. After an upgrade of the service, the page has to be loaded anew.
      </p>
      <Button action="reload" onClick={() => window.location.reload()}>
        Load the page anew
      </Button>
    </div>
  );
}
