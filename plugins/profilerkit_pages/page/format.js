// Numbers as profilerkit/piping/quantity.py writes them.

const UPWARD = { si: [1000, ["", "k", "M", "G", "T", "P", "E"]], iec: [1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]] };
const DOWNWARD = [[1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const ROUNDS_UP = 1 - 5e-5;

function factorOf(value, scale) {
  const size = Math.abs(value);
  if (scale === "none" || size === 0 || !Number.isFinite(size)) return [1, ""];
  if (scale === "time") return DOWNWARD.find(([step]) => size >= step * ROUNDS_UP) ?? DOWNWARD[3];
  const [base, prefixes] = UPWARD[scale];
  let power = 0;
  while (power < prefixes.length - 1 && size >= base ** (power + 1) * ROUNDS_UP) power += 1;
  return [base ** power, prefixes[power]];
}

/** A number with so many digits behind the point; what lies in the middle of two goes to the even one, as in Python. */
function toEven(number, behind) {
  const text = number.toFixed(behind);
  const rest = (Math.abs(number) * 10 ** behind) % 1;
  if (Math.abs(rest - 0.5) > 0.01) return text; // all digits, which take long to write, are not needed
  const [, exactly = ""] = number.toFixed(behind + 60).split("."); // nothing behind the point of 1e21 and more
  const isMiddle = /^50*$/.test(exactly.slice(behind));
  if (!isMiddle || Number(text.at(-1)) % 2 === 0) return text;
  return (Number(text) - Math.sign(number) * 10 ** -behind).toFixed(behind);
}

function formatNumber(number, digits = 4) {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  const size = Math.abs(number);
  if (size && (size < 1e-4 || size >= 1e15)) {
    const [mantissa, power] = number.toExponential(digits - 1).split("e");
    const exponent = power.slice(1).padStart(2, "0");
    return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${power[0]}${exponent}`;
  }
  if (Number.isInteger(number)) return size >= 10000 ? grouped(number) : String(number);
  const behind = Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(size))), 12);
  const text = toEven(number, behind);
  if (size >= 10000) {
    const [whole, fraction] = text.split(".");
    return [grouped(Number(whole)), ...(fraction ? [fraction] : [])].join(".");
  }
  return digits === 4 && text.includes(".") ? text.replace(/\.?0+$/, "") : text; // among more digits zeros stay: they align
}

/** A value in base units with the prefix that reads best. */
function quantity(value, unit = "", scale = "none", digits = 4) {
  const [factor, prefix] = factorOf(value, scale);
  return `${formatNumber(value / factor, digits)} ${prefix}${unit}`.trimEnd();
}

/** How these values are written beside each other: in four digits, or in more where two that differ would look alike. */
function writerOf(values, unit, scale) {
  const different = new Set(values);
  const writer = (digits) => (value) => quantity(value, unit, scale, digits);
  const tellsApart = (digits) => new Set([...different].map(writer(digits))).size === different.size;
  let digits = 4;
  while (digits < 16 && !tellsApart(digits)) digits += 1;
  return writer(digits);
}

/** A share as text, whose firm space keeps number and sign on one line. */
function percent(share) {
  if (!Number.isFinite(share)) return "";
  return `${share >= 0.0005 || share === 0 ? toEven(100 * share, 1) : "<0.1"}\u00a0%`;
}

const grouped = (number) => number.toLocaleString("en-US");
const counted = (number, word) => `${grouped(number)} ${word}${number === 1 ? "" : "s"}`;

/** A text as long as a label may be. */
const cut = (text, longest = 34) => (text.length > longest ? `${text.slice(0, longest - 1)}…` : text);
