export { astToString, default as typesFromOpenApi } from "openapi-typescript";
