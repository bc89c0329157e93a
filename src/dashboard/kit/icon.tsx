/** Lines of the icons in a square of 20 units. */
const PATHS = {
  overview: "M3 3h6v6H3zM11 3h6v4h-6zM11 9h6v8h-6zM3 11h6v6H3z",
  escalations: "M10 3a5 5 0 0 1 5 5c0 4 2 5 2 6H3c0-1 2-2 2-6a5 5 0 0 1 5-5zM8.5 17h3",
  decisions: "M3 5.5l1.5 1.5L7 4.5M3 13.5L4.5 15 7 12.5M10 6h7M10 14h7",
  outcomes:
    "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM7.8 7.9a2.2 2.2 0 1 1 3.3 1.9c-.8.5-1.1.9-1.1 1.7M10 14h.01",
  limits: "M3.5 15a7.5 7.5 0 1 1 13 0M10 11.5l3.5-4M10 13a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6z",
  agents: "M4 7.5h12v8.5H4zM10 7.5V4M10 4a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM7.5 11v1.5M12.5 11v1.5M2 10.5v3M18 10.5v3",
  tools: "M12.5 3.2a4 4 0 0 0-4.6 5.5L3 13.6 6.4 17l4.9-4.9a4 4 0 0 0 5.5-4.6L14.3 10 10 5.7z",
  servers: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01M9 6.5h5M9 13.5h5",
  mandates: "M5 2.5h7l3.5 3.5v11.5H5zM12 2.5V6h3.5M7.5 9.5h5M7.5 12h5M7.5 14.5h3",
  lists: "M3 5h.01M3 10h.01M3 15h.01M6.5 5H17M6.5 10H17M6.5 15H17",
  proposals: "M5 2.5h7l3.5 3.5v5M12 2.5V6h3.5M5 2.5v15h4M7.5 8.5h5M7.5 11h2.5M11.5 15l1.8 2 4-4.5",
  vault: "M10 2.5l6.5 2.5v4.5c0 4-2.7 6.7-6.5 8-3.8-1.3-6.5-4-6.5-8V5zM7.3 10l2 2 3.5-3.8",
  evidence: "M3 3.5h14v4H3zM4.5 7.5v9h11v-9M8 10.5h4",
  settings: "M3 6h7M14 6h3M3 14h3M10 14h7M12 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM8 16a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  webhooks: "M3 10h8M8 6.5L11.5 10 8 13.5M11 3.5h5.5v13H11",
  notifications: "M3 4h14v9H9l-4 3.5V13H3zM6.5 7h7M6.5 10h4.5",
  redaction: "M3 5h14M3 15h8M3 8.5h5v3H3zM10.5 8.5H17v3h-6.5z",
  keys: "M7 13.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM11 9.5h6.5M17 9.5V13M14 9.5v2.5",
  people:
    "M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 16.5c0-3 2.4-4.7 5.5-4.7s5.5 1.7 5.5 4.7M13 9.3a2.6 2.6 0 1 0-.6-5.1M14.8 12.1c1.9.6 3.2 2.1 3.2 4.4",
  approvers:
    "M7.5 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 16.5c0-3 2.4-4.7 5.5-4.7 1.4 0 2.7.3 3.7 1M11.5 14.8l2.2 2.2 4.3-4.8",
  workspaces: "M10 2.5l7.5 4L10 10.5 2.5 6.5zM3 10l7 3.8L17 10M3 13.5l7 3.8 7-3.8",
  docs: "M10 5.5C8.5 4 6 3.5 2.5 3.5v12c3.5 0 6 .5 7.5 2 1.5-1.5 4-2 7.5-2v-12c-3.5 0-6 .5-7.5 2zM10 5.5v12",
  find: "M8.5 14a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM12.5 12.5L17 17",
  done: "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM6.8 10.2l2.2 2.3 4.3-4.8",
  menu: "M3 5.5h14M3 10h14M3 14.5h14",
  action: "M11 2.5L4.5 11.5H10l-1 6 6.5-9H10z",
} as const;

/** Name of an icon. */
export type IconName = keyof typeof PATHS;

/** A small picture beside a word that says the same; screen readers pass over it. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg
      className="icon"
      viewBox="0 0 20 20"
      width="20"
      height="20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
