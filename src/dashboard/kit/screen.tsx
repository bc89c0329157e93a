import { type ReactNode, useEffect } from "react";

import { usePendingCount } from "../live/use-escalations.tsx";

/** Properties of a screen's frame. */
export interface ScreenFrameProps {
  /** Its name, for tests: `data-screen`. */
  readonly name: string;
  readonly title: string;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** The frame of a screen: its title, its actions and its content. */
export function ScreenFrame({ name, title, actions, children }: ScreenFrameProps) {
  const waiting = usePendingCount();
  useEffect(() => {
    document.title = `${waiting === 0 ? "" : `(${waiting}) `}${title} · Agent Control Plane`;
  }, [title, waiting]);
  return (
    <section className="screen" data-screen={name} aria-labelledby="screen-title">
      <div className="screen-head">
        <h1 id="screen-title">{title}</h1>
        {actions === undefined ? null : <div className="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}
