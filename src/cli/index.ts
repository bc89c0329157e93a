export { startNotice } from "./start-notice.ts";
