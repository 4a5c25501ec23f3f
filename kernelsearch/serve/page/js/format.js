// Numbers as people read them.

/** A score with as many digits as it needs: 12.3, 0.412, 0.0031. */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size >= 1) return value.toFixed(Math.max(0, digits - String(Math.floor(size)).length));
  return String(Number(value.toPrecision(Math.min(digits, size < 0.001 ? 2 : digits))));
}

/** A setting: as short as it can be. */
export const setting = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : String(value));

/** With its sign, and a true minus. */
export function signed(value, digits = 3) {
  const text = number(Math.abs(value), digits);
  if (text === "0") return "0";
  return (value < 0 ? "−" : "+") + text;
}

/** A measure such as AP, always with three decimals. */
export const measure = (value) => (Number.isFinite(value) ? value.toFixed(3) : "–");

/** A likeness or a share of one, in a column of such. */
export const likeness = (value) => value.toFixed(3).replace("-", "−");

/** A change of a measure. */
export const difference = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);

export const shortened = (text, length) => (text.length <= length ? text : text.slice(0, length - 1) + "…");

export const plural = (count, singular, many = `${singular}s`) => `${count.toLocaleString("en")} ${count === 1 ? singular : many}`;
