// Found from here, openapi-typescript gets a TypeScript with the compiler API that it needs; that of the project has none.
export { astToString, default } from "openapi-typescript";
