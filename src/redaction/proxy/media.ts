import { fold } from "../../text/fold.ts";
import { isMap, type Json, type JsonMap } from "./protocol.ts";

/**
 * Images, audio and files in requests and answers, which no detector reads. Names are compared without case and signs:
 * `Image_URL`, `imageUrl` and `image-url` are one.
 */

/** Types of message parts with media. */
const PART_TYPES = new Set([
  "imageurl",
  "inputimage",
  "outputimage",
  "inputaudio",
  "outputaudio",
  "audio",
  "image",
  "videourl",
  "video",
  "file",
  "inputfile",
  "computerscreenshot",
  "imagegenerationcall",
  "imagefile",
  "inputvideo",
  "document",
]);
/** Members whose text is media, alone or in a list. */
const TEXT_NAMES = new Set([
  "b64json",
  "filedata",
  "partialimageb64",
  "imageurl",
  "imageurls",
  "image",
  "images",
  "imagedata",
  "imagebase64",
  "inlinedata",
  "videourl",
  "audiourl",
  "audiodata",
]);
/** Members whose object is media if it has a member of `CARRIERS`: a schema may have a property of such a name. */
const PART_NAMES = new Set([
  ...TEXT_NAMES,
  "audio",
  "inputaudio",
  "inputimage",
  "inputvideo",
  "inputfile",
  "video",
  "videos",
  "file",
  "files",
  "document",
  "documents",
  "media",
]);
const CARRIERS = new Set([
  "data",
  "url",
  "uri",
  "fileuri",
  "fileid",
  "filedata",
  "b64json",
  "base64",
  "bytes",
  "voice",
]);
/** Members that tell the media type of what is beside them, and the types of media. */
const TYPE_NAMES = new Set(["mimetype", "mediatype", "contenttype"]);
const MEDIA_TYPE = /^\s*(?:image|audio|video|font)\/|^\s*application\/(?:pdf|octet-stream|zip)\b/i;
/** Types of `source`, a member that also names where a text comes from. */
const SOURCE_TYPES = new Set(["base64", "url", "file"]);

const nameOf = (name: string): string => fold(name).replace(/[^a-z0-9]/g, "");
const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== "";

const hasText = (value: JsonMap, names: ReadonlySet<string>): boolean =>
  Object.entries(value).some(([name, inner]) => isText(inner) && names.has(nameOf(name)));

/** True for an object with the bytes or the address of media beside their media type. */
const isTypedMedia = (value: JsonMap): boolean =>
  Object.entries(value).some(
    ([name, inner]) => isText(inner) && TYPE_NAMES.has(nameOf(name)) && MEDIA_TYPE.test(inner),
  ) && hasText(value, CARRIERS);

const isSource = ({ type, data }: JsonMap): boolean =>
  isText(data) || (typeof type === "string" && SOURCE_TYPES.has(nameOf(type)));

/** True if a value is a message part with an image, audio or a file. */
export function isMedia(value: JsonMap): boolean {
  return (typeof value.type === "string" && PART_TYPES.has(nameOf(value.type))) || isTypedMedia(value);
}

/** True if a member is media by name and value. */
export function isMediaMember(name: string, value: Json): boolean {
  if (value === null || typeof value === "number" || typeof value === "boolean") return false;
  const plain = nameOf(name);
  if (plain === "source") return isMap(value) && isSource(value);
  if (!PART_NAMES.has(plain)) return false;
  const isMediaItem = (item: Json): boolean =>
    isMap(item) ? hasText(item, CARRIERS) : isText(item) && TEXT_NAMES.has(plain);
  return Array.isArray(value) ? value.some(isMediaItem) : isMediaItem(value);
}

/** Media as a `data:` URL. */
const MEDIA_URL =
  /^data:(?:image|audio|video|font|application\/(?:pdf|octet-stream|zip))[/\w.+;=-]*;base64,[\w+/=\s-]*$/i;
/** Media without a URL: base64, longer than any personal value. */
const MEDIA_BYTES = /^[\w+/=-]{64,}$/;
const DATA_URL = /^data:([^,]*),(.*)$/is;

/** True for a `data:` URL of media. */
export const isMediaUrl = (text: string): boolean => MEDIA_URL.test(text);

/** True if the text of a media member is media, which no detector reads. */
export const isMediaText = (text: string): boolean => isMediaUrl(text) || MEDIA_BYTES.test(text);

/** Beginning of a `data:` URL with a media type, or without one. */
const DATA_URL_START = /^\s*data:(?:[\w.+-]+\/[\w.+-]+|(?=[;,]))(?:;[^,;\s]*)*,/i;
/** Characters of the base64 that is media wherever it stands; keys, digests and names are shorter. */
const LONG_BASE64 = 256;
const BASE64 = /^\s*[A-Za-z0-9+/_-]+={0,2}\s*$/;
/** Base64 in lines, as in mail. */
const BASE64_LINES = /^\s*(?:[A-Za-z0-9+/_-]{60,}\r?\n)+[A-Za-z0-9+/_-]*={0,2}\s*$/;

/** True if a text is media by itself, whatever its member is called: a `data:` URL, or long base64. */
export function isMediaAlone(text: string): boolean {
  if (DATA_URL_START.test(text)) return true;
  return text.length >= LONG_BASE64 && (BASE64.test(text) || BASE64_LINES.test(text));
}

/** Returns the text in a `data:` URL; undefined for any other text. */
export function textOfDataUrl(url: string): string | undefined {
  const [, parameters = "", data] = DATA_URL.exec(url.trim()) ?? [];
  if (data === undefined) return undefined;
  if (/;base64$/i.test(parameters)) return Buffer.from(data, "base64").toString("utf8");
  try {
    return decodeURIComponent(data);
  } catch {
    return data;
  }
}
