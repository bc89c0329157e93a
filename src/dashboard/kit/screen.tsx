import { type ReactNode, useEffect } from "react";
import { Link } from "wouter";
import { usePendingCount } from "../live/use-escalations.tsx";

/** A screen above another one. */
export interface ScreenPlace {
  readonly title: string;
  readonly href: string;
}

/** Properties of a screen's frame. */
export interface ScreenFrameProps {
  /** Its name, for tests: `data-screen`. */
  readonly name: string;
  readonly title: string;
  /** Title of the browser's page, where it says more than the heading. Default: the heading. */
  readonly pageTitle?: string | undefined;
  /** Screen that it belongs to, which the title of the page names after it. */
  readonly within?: ScreenPlace | undefined;
  readonly actions?: ReactNode;
  /** True if the screen fills the page and its parts scroll in place of the page. */
  readonly isFull?: boolean;
  readonly children: ReactNode;
}

/** The frame of a screen: its title, its actions and its content. */
export function ScreenFrame({
  name,
  title,
  pageTitle = title,
  within,
  actions,
  isFull = false,
  children,
}: ScreenFrameProps) {
  const waiting = usePendingCount();
  const place = within?.title;
  useEffect(() => {
    const names = [pageTitle, ...(place === undefined ? [] : [place]), "Agent Control Plane"];
    document.title = `${waiting === 0 ? "" : `(${waiting}) `}${names.join(" · ")}`;
  }, [pageTitle, place, waiting]);
  return (
    <section className={isFull ? "screen is-full" : "screen"} data-screen={name} aria-labelledby="screen-title">
      <div className="screen-head">
        <div className="screen-title">
          {within === undefined ? null : (
            <Link href={within.href} className="screen-within">
              {within.title}
            </Link>
          )}
          <h1 id="screen-title">{title}</h1>
        </div>
        {actions === undefined ? null : <div className="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}
