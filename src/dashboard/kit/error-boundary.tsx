import { Component, type ReactNode } from "react";
import { Fault } from "./states.tsx";

/** Shows the error of a screen in its place, so that the others stay usable. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state: { readonly error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <Fault error={error} onRetry={() => this.setState({ error: undefined })} />;
  }
}
