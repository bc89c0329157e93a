// Found here, openapi-typescript gets the TypeScript with a compiler API that it needs; that of the project has none.
export { astToString, default as typesFromOpenApi } from "openapi-typescript";
