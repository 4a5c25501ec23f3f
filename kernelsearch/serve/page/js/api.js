// The HTTP API of the service (docs/http-api.md); no other file depends on its URLs and answers.

/** A request that failed: `kind` is offline, busy, slow, locked, refused or broken; the message is for people. */
export class Failure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

let key = ""; // the API key, where the server requires one; stored in this page only
export const useKey = (value) => {
  key = value;
};

async function request(path, { signal, body } = {}) {
  const headers = key ? { "x-api-key": key } : {};
  let response;
  try {
    response = await fetch(path, body === undefined ? { signal, headers } : {
      signal, method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body),
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Failure("offline", "The server can't be reached.");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

const call = async (path, settings) => (await request(path, settings)).json();

async function failure(response) {
  let detail = "";
  try {
    detail = String((await response.json()).error ?? "");
  } catch {
    // an answer that is not JSON has nothing to add to its status
  }
  if (response.status === 401) return new Failure("locked", "The server requires an API key.");
  if (response.status === 503) return new Failure("busy", "The server is busy with other requests. Try again later.");
  if (response.status === 504) return new Failure("slow", "This took longer than the server allows.");
  if (response.status < 500) return new Failure("refused", detail || `The request was refused (${response.status}).`);
  return new Failure("broken", detail || `The server failed (${response.status}).`);
}

const at = (index, ...rest) => ["v1", index, ...rest].map(encodeURIComponent).join("/");

/** The request of one list: the first stage, or a method on it. */
function ranking(state, column) {
  const params = new URLSearchParams({ query: state.query });
  if (state.topic) params.set("topic", state.topic);
  for (const [name, value] of Object.entries(state.first)) params.set(name, String(value));
  if (column) {
    params.set("rerank", column.method);
    for (const [name, value] of Object.entries(column.options)) params.set(`${column.method}.${name}`, String(value));
  }
  return params;
}

export function searchAddress(state, column) {
  const params = ranking(state, column);
  params.set("hits", String(state.hits));
  params.set("highlight", "true");
  return `${at(state.index, "search")}?${params}`;
}

export function explainAddress(state, column, docid) {
  const params = ranking(state, column);
  params.set("docid", docid);
  return `${at(state.index, "explain")}?${params}`;
}

/** The service's own picture of an explanation, as an address that an image takes. */
export async function plot(state, column, docid, signal) {
  const params = ranking(state, column);
  params.set("docid", docid);
  const text = await (await request(`${at(state.index, "explain", "plot.svg")}?${params}`, { signal })).text();
  return `data:image/svg+xml,${encodeURIComponent(text)}`;
}

/** A list: { hits, words, fallback, measures, impression }; `fallback` is the reason why a method left it unchanged. */
export async function search(address, signal) {
  const answer = await call(address, { signal });
  return {
    hits: answer.candidates.map((item) => ({ ...item, ...readable(item.doc) })),
    words: new Set(answer.highlight ?? []),
    fallback: answer.fallback,
    measures: answer.measures,
    impression: answer.impression ?? null,
  };
}

/** A document's title and text, whatever its form. */
export function readable(doc) {
  if (doc === null || doc === undefined) return { title: "", text: "" };
  if (typeof doc !== "object") return { title: "", text: String(doc) };
  const title = typeof doc.title === "string" ? doc.title : "";
  const text = ["contents", "text", "body", "abstract"].map((name) => doc[name]).find((value) => typeof value === "string");
  const rest = Object.entries(doc).filter(([name]) => !["id", "_id", "docid", "title", "contents", "text", "body", "abstract"].includes(name));
  return { title, text: text ?? "", fields: rest };
}

export const explain = (address, signal) => call(address, { signal });
export const indexes = async () => (await call("v1/indexes")).indexes;
export const methods = () => call("v1/methods");
export const topics = async (index, signal) => (await call(at(index, "topics"), { signal })).topics;
export const document = async (index, docid, signal) => ({ docid, ...readable((await call(at(index, "doc", docid), { signal })).doc) });
export const click = (index, record) => call(at(index, "click"), { body: record });

export async function suggestions(index, prefix, signal) {
  const params = new URLSearchParams({ prefix, limit: "8" });
  return (await call(`${at(index, "suggest")}?${params}`, { signal })).suggestions;
}

/** Documents similar to a document; with `other`, an explanation of that one's similarity. */
export async function similar(index, docid, other, signal) {
  const params = new URLSearchParams({ hits: "10" });
  if (other) params.set("other", other);
  const answer = await call(`${at(index, "similar", docid)}?${params}`, { signal });
  return { explanation: answer.explanation, hits: answer.candidates.map((item) => ({ ...item, ...readable(item.doc) })) };
}
