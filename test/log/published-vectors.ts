/**
 * The tree of eight leaves that implementations of RFC 6962 test against: Certificate Transparency's C++ and Java code
 * first, Trillian and its successors since.
 */
import { leafHash } from "../../src/tree/merkle.ts";

const INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];

/** The hashes of the leaves. */
export const LEAVES = INPUTS.map((text) => leafHash(Buffer.from(text, "hex").toString("latin1")));

/** The roots of the trees of 1 to 8 leaves. */
export const ROOTS = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

// The nodes that proofs are made of, by the leaves below them.
const L0 = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
const L1 = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const L2 = "0298d122906dcfc10892cb53a73992fc5b9f493ea4c9badb27b791b4127a7fe7";
const L3 = "07506a85fd9dd2f120eb694f86011e5bb4662e5c415a62917033d4a9624487e7";
const L4 = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const L6 = "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f";
const L01 = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125";
const L23 = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const L45 = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const L67 = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";
const L0123 = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7";
const L456 = "837dbb152e9b079010717e84e865da4ebc0fa198a806d59d31bf15accef22d0e";
const L4567 = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";

/** Audit paths: index, size of the tree, path. */
export const PUBLISHED_INCLUSION: readonly (readonly [number, number, readonly string[]])[] = [
  [0, 1, []],
  [0, 8, [L1, L23, L4567]],
  [2, 8, [L3, L01, L4567]],
  [5, 8, [L4, L67, L0123]],
  [2, 3, [L01]],
  [1, 5, [L0, L23, L4]],
  [5, 7, [L4, L6, L0123]],
];

/** Consistency proofs: sizes of the trees, path. */
export const PUBLISHED_CONSISTENCY: readonly (readonly [number, number, readonly string[]])[] = [
  [1, 1, []],
  [1, 8, [L1, L23, L4567]],
  [6, 8, [L45, L67, L0123]],
  [2, 5, [L23, L4]],
  [3, 7, [L2, L3, L01, L456]],
  [4, 8, [L4567]],
];
