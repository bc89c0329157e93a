/*
 * Keeps the compiled code of modules on disk, for mocha's processes and for the programs that tests start. Mocha requires this
 * file first.
 */
import { enableCompileCache } from "node:module";
import { join } from "node:path";

const DIRECTORY = join(import.meta.dirname, "..", "..", ".generated", "compile-cache");

process.env.NODE_COMPILE_CACHE ??= DIRECTORY;
enableCompileCache(process.env.NODE_COMPILE_CACHE);
