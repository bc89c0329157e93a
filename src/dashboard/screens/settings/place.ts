import type { ScreenPlace } from "../../kit/screen.tsx";

/** The screen above those of webhooks, keys, people, approver groups and workspaces. */
export const SETTINGS: ScreenPlace = { title: "Settings", href: "/settings" };
