// Which options are shown first, what they are called, and how far sliders reach where an option's own bounds are too wide to drag.

const GREEK = { alpha: "α", beta: "β", gamma: "γ", epsilon: "ε", eta: "η", kappa: "κ", lambda: "λ", mu: "μ" };

/** Where the sliders of options begin that the method chooses by itself unless they are set. */
export const START = { "klsa.z": 20, "klsa.lambda": 0.5 };

// What options mean to a searcher; the symbol of the paper or the flag follows in parentheses.
const MEANINGS = {
  "klsa.z": "neighbours (z)",
  "klsa.lambda": "share of the latent score (λ)",
  "klsa.retrieve": "documents to add",
  "mslm.mix": "share of this method",
  "mslm.eta": "share of the collection (η)",
  "mslm.semantic": "reach of related words",
  "pert.alpha": "share of added words (α)",
  "pert.kappa": "weight of the risk (κ)",
  "pert.terms": "words to add",
  "rbm25.prior": "weight of BM25",
  "rbm25.click-weight": "weight of shared clicks",
  "prcl.alpha": "share of the classifiers (α)",
  "prcl.r": "documents taken as relevant",
  "prcl.n": "documents taken as not relevant",
  "auto.depth": "documents to fuse",
  "fusion.depth": "documents to fuse",
  k1: "repeated words (k1)",
  b: "length of texts (b)",
};

const FIRST = {
  klsa: ["z", "lambda", "retrieve"],
  mslm: ["mix", "eta", "semantic"],
  pert: ["alpha", "kappa", "terms"],
  rbm25: ["prior", "click-weight", "min-similarity"],
  fusion: ["depth"],
  auto: ["depth"],
};

// [least, most, logarithmic?]; chosen to span what docs/ call useful.
const REACH = {
  z: [1, 200, true],
  retrieve: [0, 200, false],
  kappa: [0, 0.1, false],
  gamma: [0, 3, false],
  prior: [0, 10, false],
  "click-weight": [0, 3, false],
  "min-similarity": [0, 1, false],
  eta: [0.001, 1, true],
  k1: [0, 4, false],
  mu: [10, 5000, true],
  "rbm25.lambda": [0.01, 100, true],
  depth: [10, 1000, true],
  temperature: [0.1, 50, true],
  terms: [1, 100, false],
  docs: [1, 50, false],
};

/** What an option is called on the page. */
export const optionName = (option) => MEANINGS[option.parameter] ?? GREEK[option.name] ?? option.name.replaceAll("-", " ");

/** The names of a method's options that are shown first. */
export const primary = (method, options) => FIRST[method] ?? options.filter((option) => option.type === "number").slice(0, 3).map((option) => option.name);

/** { least, most, step, log } of a numeric option's slider, always within the option's own bounds. */
export function reach(option) {
  const [low, high] = [option.low ?? 0, option.high ?? Infinity];
  let [least, most, log] = REACH[option.parameter] ?? REACH[option.name] ?? [low, guess(option, high), false];
  [least, most] = [Math.max(least, low), Math.min(most, high)];
  if (log) least = Math.max(least, option.type === "integer" ? 1 : 1e-6);
  const step = option.type === "integer" ? 1 : (most - least) / 100;
  return { least, most, step, log };
}

const guess = (option, high) => (high <= 100 ? high : Math.min(high, Math.max(4 * Math.abs(option.default ?? 1), option.type === "integer" ? 50 : 1)));
